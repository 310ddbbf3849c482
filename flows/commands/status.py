"""`jury status`: what is up, what runs, failed, is paused and comes next, what ran last, which judges end soon or are
untested, what the month has cost, which alarms are open, what is still to be forgotten, and whether the history is in
step with the ledgers.
"""

import os
import shlex
import stat
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from flows.commands.connection import answered, use_running
from flows.commands.messages import number_of, say
from flows.commands.month import month_lines
from flows.commands.options import store_option
from flows.commands.sections import Command
from flows.runtime.server import Server
from tasks.batches.log import waiting_runs
from tasks.batches.progress import progress_of
from tasks.comparing.alarms import alarms, newest_places
from tasks.comparing.moved_judges import moved_judges
from tasks.endpoint.models import ending, today
from tasks.errors import HistoryLocked, InputError
from tasks.forgetting.store import is_begun
from tasks.history.asking import held_open
from tasks.history.loading import pending
from tasks.ledger.forgotten import forgotten_rows
from tasks.ledger.reading import is_waiting, read_end, read_start, run_folders
from tasks.ledger.remote import local_cache
from tasks.pages.page_names import INDEX, folder_of, where
from tasks.parameters import Judge
from tasks.passport.wording import warning
from tasks.records import RunStart
from tasks.text import counted, one_line

LAST = 5
"""Runs of the store shown."""
LOOKED_AT = 50
"""Runs in which the judges of the flows are looked for."""
LONGEST = 300


@click.command(cls=Command)
@store_option
def command(store: str) -> int:
    """Print it all; 0 when history and ledgers are in step, 3 when not, when there is no store, or when something that
    was to be forgotten may still be in it.
    """
    folder = local_cache(store)
    server = use_running(folder)
    api = os.environ.get("PREFECT_API_URL")
    print(f"Prefect    {_server_words(server, api)}")
    if api or server:
        for line in _at_work():
            say(f"  {line}")
    print(f"store      {folder.absolute()}{_open_words(folder)}")
    say(f"pages      {_pages_words(folder)}")
    last = [(run, read_start(run)) for run in run_folders(folder)[: -LAST - 1 : -1]]
    for run, start in last:
        say(f"  {_told(run, start)}")
    for words in _endings(start for _, start in last):
        say(f"  ending   {words}")
    for words in _untested(folder, store):
        say(f"passport   {words}")
    for line in month_lines(store):
        say(line)
    _show_waiting(folder)
    _show_alarms(folder)
    return max(_show_forgetting(folder, store), _show_history(folder))


def _server_words(server: Server | None, api: str | None) -> str:
    if server:
        return server.ui
    return f"the server of PREFECT_API_URL, {api}" if api else "down; `jury up` starts it"


def _pages_words(store: Path) -> str:
    """Where the store's pages are, and of when."""
    index = folder_of(store) / INDEX
    if not index.is_file():
        return "none; a run, `jury sync` or `jury pages` makes them"
    return f"{where(index)} (made {datetime.fromtimestamp(index.stat().st_mtime, UTC):%Y-%m-%d %H:%M} UTC)"


def _open_words(store: Path) -> str:
    """What to do about a store from before stores were private."""
    is_open = store.is_dir() and store.stat().st_mode & stat.S_IRWXO
    return f" (other users of this machine may enter it: chmod 700 {shlex.quote(str(store))})" if is_open else ""


def _endings(starts: Iterable[RunStart]) -> list[str]:
    """A line for each judge of these runs that ends soon, or has ended."""
    day = today()
    judges = dict.fromkeys((start.model, start.endpoint) for start in starts)
    found = [each for model, endpoint in judges if (each := ending(model, endpoint, day))]
    return [f"{each.words(day)} ({each.source})" for each in found]


def _untested(folder: Path, store: str) -> list[str]:
    """Why it is not known that the judges that the flows had last see what these need, and what to do, a line each."""
    flows: defaultdict[str, list[str]] = defaultdict(list)
    for start in _newest_of_flows(folder):
        with suppress(ValidationError):  # a ledger may hold what is no judge
            judge = Judge.model_validate({"model": start.model, "base_url": start.endpoint, **_key_name(start)})
            flows[warning(folder, start.flow, judge, store)].append(start.flow)
    return [f"{', '.join(sorted(named))}: {words}" for words, named in flows.items() if words]


def _key_name(start: RunStart) -> dict[str, Any]:
    """Where the judge's key was from, for the command that is named."""
    given: Any = start.parameters.get("judge")
    return {name: given[name] for name in ("api_key_env",) if isinstance(given, dict) and name in given}


def _newest_of_flows(folder: Path) -> Iterable[RunStart]:
    """The newest run of each flow among the last of the store."""
    starts = [read_start(run) for run in run_folders(folder)[-LOOKED_AT:]]
    return {start.flow: start for start in starts}.values()


def _told(run: Path, start: RunStart) -> str:
    end = read_end(run)
    what = f"{start.flow}, {one_line(' + '.join(start.candidates), 40)}, {number_of(start.samples, 'sample')}"
    came = f"{counted(end.outcomes)}, {end.seconds:,.0f} s" if end else _without_end(run, start)
    gone = sum(each.samples for each in forgotten_rows(run))
    forgotten = f"; {number_of(gone, 'sample')} forgotten at a request" if gone else ""
    return f"{start.run_id}  {what}: {came}{forgotten}"


def _without_end(run: Path, start: RunStart) -> str:
    if is_waiting(run):
        return "waits for its batches"
    return "a quote" if start.parameters.get("quote") else "unfinished"


def _show_waiting(store: Path) -> None:
    """The runs that wait for their batches, with what their endpoints last said."""
    for run_id in waiting_runs(store):
        progress = progress_of(store / "batches" / run_id)
        last = (
            f"{progress.words}, as of {progress.asked_at[:16].replace('T', ' ')} UTC" if progress else "not handed in"
        )
        say(f"waiting    {run_id}: {last}; `jury collect` asks again")


def _show_alarms(store: Path) -> None:
    """The alarms that are open, and where scheduled runs stand; what the history is for that, the last line tells."""
    with suppress(HistoryLocked, InputError), held_open(store):
        found = [each for each in alarms(store) if each.is_open]
        for alarm in found:
            say(f"alarm      {alarm.flow}: {alarm.short}; last measured {alarm.last_at:%Y-%m-%d}")
        for moved in moved_judges(store):
            say(f"alarm      {moved.flow}: {moved.short}; last measured {moved.last_at:%Y-%m-%d}; {moved.cure}")
        for flow, place in newest_places(store):
            say(f"baseline   {flow}, {place.words(flow)}")


def _show_forgetting(folder: Path, store: str) -> int:
    """Whether something that was to be forgotten may still be there; a kill, or another machine's wish, leaves that."""
    try:
        begun = is_begun(folder)
    except InputError as error:
        say(f"forgetting {error}")
        return 3
    if begun:
        say(f"forgetting begun and not finished: `jury sync --store {shlex.quote(store)}` does the rest")
    return 3 if begun else 0


def _show_history(store: Path) -> int:
    if not store.is_dir():
        print("history    there is no store: the first run makes it")
        return 3
    try:
        behind = pending(store, wait_seconds=5)
    except HistoryLocked as error:
        say(f"history    {error}")
        return 3
    if behind:
        print(f"history    behind the ledgers by {number_of(len(behind), 'finished run')}: `jury sync` loads them")
        return 3
    print("history    in step with the ledgers")
    return 0


def _at_work() -> list[str]:
    """What the server is doing, or why that cannot be told."""
    try:
        with answered():
            from flows.runtime.at_work import at_work

            return at_work()
    except InputError as error:
        return [one_line(str(error), LONGEST)]
