"""`jury status`: server, current and coming runs, last runs and their cost, and problems that need a person."""

import os
import shlex
import stat
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from flows.commands.alarms import alarm_lines
from flows.commands.console import Command, aligned, say
from flows.commands.options import store_option
from flows.server.server import answered, noted, use_running
from tasks.errors import InputError
from tasks.history.landing import missing
from tasks.history.queries import month_lines
from tasks.ledger.remote import is_remote, local_cache
from tasks.ledger.removals import UNFINISHED
from tasks.ledger.run_files import read_end, read_start, run_folders
from tasks.pages.page_names import INDEX, folder_of, where
from tasks.pages.unfinished import of_run, unfinished
from tasks.records import INCOMPLETE
from tasks.text import counted, number_of, one_line

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun
    from prefect.client.schemas.responses import DeploymentResponse

LAST = 5
"""Number of the store's runs that are shown, besides recent ones without an end."""
LONGEST = 300
NEXT, RUNNING, FAILED = 6, 20, 5
"""Most runs shown of each sort; of each schedule the next one."""
LOOKED_AT = 200
"""Most coming runs that are looked at: the server makes some ahead for each schedule."""
RECENT = timedelta(days=7)
"""Time for which a failed run is shown."""
LONGEST_MESSAGE = 200
"""Most characters of a run's last message."""


@click.command(cls=Command)
@store_option
def status(store: str) -> int:
    """Print the status of server, store, money, alarms and history.

    Returns:
        0 if history and ledgers are in step; 3 if not, if there is no store, or if a removal is unfinished.
    """
    folder = local_cache(store)
    server = use_running(folder)
    api = os.environ.get("PREFECT_API_URL")
    if server:
        at = server.ui
    elif api:
        at = f"the server of PREFECT_API_URL, {api}"
    else:
        at = f"up on {other.machine}" if (other := noted(folder)) else "down; `jury up` starts it"
    print(f"Prefect    {at}")
    if api or server:
        for line in _at_work():
            say(f"  {line}")
    of_bucket = f"{store}; its copy here is " if is_remote(store) else ""
    print(f"store      {of_bucket}{folder.absolute()}{_open_words(folder)}")
    say(f"pages      {_pages_words(folder)}")
    open_ones = {folder / "ledger" / one.start.run_id for one in unfinished(folder)}
    shown = sorted({*run_folders(folder)[-LAST:], *open_ones}, reverse=True)
    for line in aligned([("", *_told(run)) for run in shown]):
        say(line)
    for line in month_lines(folder, datetime.now(UTC)):
        say(line)
    for line in alarm_lines(folder):
        say(line)
    if begun := (folder / UNFINISHED).exists():  # a kill, or another machine's request
        say(f"forgetting begun and not finished: `jury store sync --store {shlex.quote(store)}` does the rest")
    return max(3 * begun, _show_history(folder, bool(of_bucket)))


def _pages_words(store: Path) -> str:
    index = folder_of(store) / INDEX
    if not index.is_file():
        return "none; a run, `jury store sync` or `jury store pages` makes them"
    return f"{where(index)} (made {datetime.fromtimestamp(index.stat().st_mtime, UTC):%Y-%m-%d %H:%M} UTC)"


def _open_words(store: Path) -> str:
    """Return what to do about a store that other users of the machine may enter."""
    is_open = store.is_dir() and store.stat().st_mode & stat.S_IRWXO
    return f" (other users of this machine may enter it: chmod 700 {shlex.quote(str(store))})" if is_open else ""


def _told(run: Path) -> tuple[str, str]:
    """Return the id of a run, and a line about it."""
    try:
        start, end = read_start(run), read_end(run)
    except InputError as error:
        return run.name, str(error)
    what = f"{start.flow}, {one_line(' + '.join(start.candidates), 40)}, {number_of(start.samples, 'sample')}"
    judged = counted(end.outcomes) if end and end.outcomes else "nothing judged"
    came = f"{judged}, {end.seconds:,.0f} s" if end else of_run(run.parents[1], start).words
    incomplete = "INCOMPLETE, " if end and not end.all_ok else ""
    forgotten = "; rows were forgotten at a request" if start.revision else ""
    return start.run_id, f"{what}: {incomplete}{came}{forgotten}"


def _show_history(store: Path, of_bucket: bool) -> int:
    if not store.is_dir():
        fetched = "nothing of the bucket is here yet: `jury store sync` fetches all, the first run what it needs"
        print(f"history    {fetched if of_bucket else 'there is no store: the first run makes it'}")
        return 3
    try:
        lacking = missing(store)
    except InputError as error:
        say(f"history    {error}")
        return 3
    if lacking:
        print(
            f"history    lacks {number_of(len(lacking), 'finished run')}: the next run or `jury store sync` loads them"
        )
        return 3
    others = "; `jury store sync` fetches those of other machines" if of_bucket else ""
    print(f"history    in step with the ledgers{others}")
    return 0


def _at_work() -> list[str]:
    try:
        with answered():
            return _server_lines()
    except InputError as error:
        return [one_line(str(error), LONGEST)]


def _server_lines() -> list[str]:
    """Return lines about the runs of the server, each with its kind first, such as `running`."""
    from prefect import get_client  # Prefect takes a second to import, and without a server nobody needs it
    from prefect.client.schemas.filters import FlowFilter, FlowRunFilter
    from prefect.client.schemas.sorting import FlowRunSort

    with get_client(sync_client=True) as client:
        deployments, now = client.read_deployments(), datetime.now(UTC)

        def runs(states: str, sort: FlowRunSort, most: int, kind: str = "type", **moments: Any) -> "list[FlowRun]":
            wanted = FlowRunFilter.model_validate({"state": {kind: {"any_": states.split()}}, **moments})
            return client.read_flow_runs(flow_run_filter=wanted, sort=sort, limit=most)

        running = runs("RUNNING PENDING PAUSED CANCELLING", FlowRunSort.START_TIME_DESC, RUNNING)
        failed = runs("FAILED CRASHED", FlowRunSort.END_TIME_DESC, FAILED, end_time={"after_": now - RECENT})
        partly = runs(INCOMPLETE, FlowRunSort.END_TIME_DESC, FAILED, "name", end_time={"after_": now - RECENT})
        due = runs("SCHEDULED", FlowRunSort.EXPECTED_START_TIME_ASC, LOOKED_AT, expected_start_time={"after_": now})
        first = {(run.deployment_id, run.created_by and run.created_by.id): run for run in reversed(due)}
        coming = sorted(first.values(), key=lambda run: str(run.expected_start_time))[:NEXT]
        # Their flows alone: of all flows, the server returns at most 200.
        theirs = {"id": {"any_": [run.flow_id for run in (*running, *failed, *partly, *coming)]}}
        flows = client.read_flows(flow_filter=FlowFilter.model_validate(theirs))
        names = {each.id: each.name for each in (*flows, *deployments)}
        return [
            *(f"running  {_named(run, names)}, {(run.state_name or '').lower()}{_since(run)}" for run in running),
            *(f"failed   {_named(run, names)}, {_when(run.end_time)}: {_message(run)}" for run in failed),
            *(f"partly   {_named(run, names)}, {_when(run.end_time)}: {_message(run)}" for run in partly),
            *(f"paused   {words}" for words in _paused(deployments)),
            *(f"next     {_when(run.expected_start_time)}  {_whose(run, names)}" for run in coming),
        ]


def _paused(deployments: "list[DeploymentResponse]") -> Iterator[str]:
    """Yield deployments that are paused as a whole, and single schedules that are off."""
    for each in sorted(deployments, key=lambda deployment: deployment.name):
        if each.paused:
            yield f"{each.name}, as a whole"
        else:
            off = [schedule.slug or "without a name" for schedule in each.schedules if not schedule.active]
            yield from (f"{each.name}, its schedule {slug}" for slug in off)


def _named(run: "FlowRun", names: dict[UUID, str]) -> str:
    return f"{_whose(run, names)}  {one_line(run.name, LONGEST_MESSAGE)}"


def _whose(run: "FlowRun", names: dict[UUID, str]) -> str:
    """Return the name of a run's deployment, or else of its flow."""
    return names.get(run.deployment_id or run.flow_id, names[run.flow_id])


def _message(run: "FlowRun") -> str:
    words = (run.state and run.state.message) or (run.state_name or "").lower()
    return one_line(words, LONGEST_MESSAGE)


def _since(run: "FlowRun") -> str:
    return f" since {_when(run.start_time)}" if run.start_time else ""


def _when(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC" if moment else ""
