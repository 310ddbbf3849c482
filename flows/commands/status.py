"""`jury status`: server, current and coming runs, last runs and their cost, and problems that need a person."""

import os
import shlex
import stat
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import click

from flows.commands.connection import answered, use_running
from flows.commands.messages import number_of, say
from flows.commands.options import store_option
from flows.commands.sections import Command
from flows.runtime.server import Server
from tasks.batches.log import progress_of, waiting_runs
from tasks.comparing.alarms import alarms, newest_places
from tasks.comparing.attribution import moved_judges
from tasks.errors import InputError
from tasks.history.asking import held_open
from tasks.history.landing import missing
from tasks.history.month import DAYS, MonthSpent, month_spent
from tasks.ledger.reading import is_waiting, read_end, read_start, run_folders
from tasks.ledger.remote import local_cache
from tasks.ledger.removed import UNFINISHED
from tasks.pages.page_names import INDEX, folder_of, where
from tasks.records import RunStart
from tasks.spending.money import money
from tasks.spending.month import VARIABLE, Month, month_budget, month_of
from tasks.text import counted, one_line

LAST = 5
"""Number of the store's runs that are shown."""
LONGEST = 300


@click.command(cls=Command)
@store_option
def command(store: str) -> int:
    """Print the status of server, store, money, alarms and history.

    Returns:
        0 if history and ledgers are in step; 3 if not, if there is no store, or if a removal is unfinished.
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
    for run in run_folders(folder)[: -LAST - 1 : -1]:
        say(f"  {_told(run, read_start(run))}")
    for line in _month_lines(folder):
        say(line)
    _show_waiting(folder)
    _show_alarms(folder)
    return max(_show_forgetting(folder, store), _show_history(folder))


def _server_words(server: Server | None, api: str | None) -> str:
    if server:
        return server.ui
    return f"the server of PREFECT_API_URL, {api}" if api else "down; `jury up` starts it"


def _pages_words(store: Path) -> str:
    index = folder_of(store) / INDEX
    if not index.is_file():
        return "none; a run, `jury sync` or `jury pages` makes them"
    return f"{where(index)} (made {datetime.fromtimestamp(index.stat().st_mtime, UTC):%Y-%m-%d %H:%M} UTC)"


def _open_words(store: Path) -> str:
    """Return what to do about a store that other users of the machine may enter."""
    is_open = store.is_dir() and store.stat().st_mode & stat.S_IRWXO
    return f" (other users of this machine may enter it: chmod 700 {shlex.quote(str(store))})" if is_open else ""


def _told(run: Path, start: RunStart) -> str:
    end = read_end(run)
    what = f"{start.flow}, {one_line(' + '.join(start.candidates), 40)}, {number_of(start.samples, 'sample')}"
    came = f"{counted(end.outcomes)}, {end.seconds:,.0f} s" if end else _without_end(run, start)
    forgotten = "; rows were forgotten at a request" if start.revision else ""
    return f"{start.run_id}  {what}: {came}{forgotten}"


def _without_end(run: Path, start: RunStart) -> str:
    if is_waiting(run):
        return "waits for its batches"
    return "a quote" if start.parameters.get("quote") else "unfinished"


def _month_lines(folder: Path) -> list[str]:
    """Return lines about the month's money; none if nothing was spent and nothing is limited."""
    now = datetime.now(UTC)
    if not folder.is_dir():
        return []
    try:
        spent = month_spent(folder, now)
    except InputError:  # the last line of the status reports it
        spent = None
    try:
        amount = month_budget()
        return _of_budget(folder, now, amount, spent) if amount else _without_budget(now, spent)
    except (InputError, OSError) as error:
        return [f"budget     {error}"]


def _of_budget(folder: Path, now: datetime, amount: float, spent: MonthSpent | None) -> list[str]:
    found = Month(folder, month_of(now), amount).sum()
    unspent = sum(each.unspent for each in found.open.values())
    runs = number_of(len(found.open), "run")
    may_be = f", {money(unspent)} may be by {runs} at work or waiting" if found.open else ""
    left = money(max(amount - found.spent - unspent, 0.0))
    line = (
        f"budget     {month_of(now)}: {money(found.spent)} of {money(amount)} spent{may_be}, {left} left ({VARIABLE})"
    )
    return [line, *_more(spent and spent.at_its_end, found.unknown)]


def _without_budget(now: datetime, spent: MonthSpent | None) -> list[str]:
    if not spent or not (spent.amount or spent.unknown):
        return []
    line = f"spent      {month_of(now)}: {money(spent.amount)}; {VARIABLE} is not set, so that nothing limits it"
    return [line, *_more(spent.at_its_end, spent.unknown)]


def _more(at_its_end: float | None, unknown: int) -> list[str]:
    expected = f"about {money(at_its_end)} at its end, if scheduled runs go on as in the last {DAYS} days"
    uncounted = f"without {number_of(unknown, 'call')} whose price is unknown"
    return [f"           {words}" for words in (expected if at_its_end else "", uncounted if unknown else "") if words]


def _show_waiting(store: Path) -> None:
    for run_id in waiting_runs(store):
        progress = progress_of(store / "batches" / run_id)
        last = (
            f"{progress.words}, as of {progress.asked_at[:16].replace('T', ' ')} UTC" if progress else "not handed in"
        )
        say(f"waiting    {run_id}: {last}; `jury collect` asks again")


def _show_alarms(store: Path) -> None:
    """Print open alarms and the baselines of scheduled runs; the last line of the status reports a faulty history."""
    with suppress(InputError), held_open(store):
        found = [each for each in alarms(store) if each.is_open]
        for alarm in found:
            say(f"alarm      {alarm.flow}: {alarm.short}; last measured {alarm.last_at:%Y-%m-%d}")
        for moved in moved_judges(store):
            say(f"alarm      {moved.flow}: {moved.short}; last measured {moved.last_at:%Y-%m-%d}; {moved.cure}")
        for flow, place in newest_places(store):
            say(f"baseline   {flow}, {place.words(flow)}")


def _show_forgetting(folder: Path, store: str) -> int:
    """Print a line if a removal is unfinished, after a kill or another machine's request; return 3 if so, else 0."""
    begun = (folder / UNFINISHED).exists()
    if begun:
        say(f"forgetting begun and not finished: `jury sync --store {shlex.quote(store)}` does the rest")
    return 3 if begun else 0


def _show_history(store: Path) -> int:
    if not store.is_dir():
        print("history    there is no store: the first run makes it")
        return 3
    try:
        lacking = missing(store)
    except InputError as error:
        say(f"history    {error}")
        return 3
    if lacking:
        print(f"history    lacks {number_of(len(lacking), 'finished run')}: the next run or `jury sync` loads them")
        return 3
    print("history    in step with the ledgers")
    return 0


def _at_work() -> list[str]:
    try:
        with answered():
            from flows.runtime.at_work import at_work

            return at_work()
    except InputError as error:
        return [one_line(str(error), LONGEST)]
