"""`jury status`: server, current and coming runs, last runs and their cost, and problems that need a person."""

import os
import shlex
import stat
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import click

from flows.commands.alarms import alarm_lines
from flows.commands.console import Command, say
from flows.commands.options import store_option
from flows.server.server import answered, use_running
from tasks.batches.log import progress_of, waiting_runs
from tasks.errors import InputError
from tasks.history.landing import missing
from tasks.history.queries import month_lines
from tasks.ledger.remote import local_cache
from tasks.ledger.removals import UNFINISHED
from tasks.ledger.run_files import is_waiting, is_written, read_end, read_start, run_folders
from tasks.pages.page_names import INDEX, folder_of, where
from tasks.records import RunEnd
from tasks.text import counted, number_of, one_line

LAST = 5
"""Number of the store's runs that are shown."""
LONGEST = 300


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
    print(f"Prefect    {_server_words(server.ui if server else '', api)}")
    if api or server:
        for line in _at_work():
            say(f"  {line}")
    print(f"store      {folder.absolute()}{_open_words(folder)}")
    say(f"pages      {_pages_words(folder)}")
    for run in run_folders(folder)[: -LAST - 1 : -1]:
        say(f"  {_told(run)}")
    for line in month_lines(folder, datetime.now(UTC)):
        say(line)
    _show_waiting(folder)
    for line in alarm_lines(folder):
        say(line)
    return max(_show_forgetting(folder, store), _show_history(folder))


def _server_words(ui: str, api: str | None) -> str:
    if ui:
        return ui
    return f"the server of PREFECT_API_URL, {api}" if api else "down; `jury up` starts it"


def _pages_words(store: Path) -> str:
    index = folder_of(store) / INDEX
    if not index.is_file():
        return "none; a run, `jury store sync` or `jury store pages` makes them"
    return f"{where(index)} (made {datetime.fromtimestamp(index.stat().st_mtime, UTC):%Y-%m-%d %H:%M} UTC)"


def _open_words(store: Path) -> str:
    """Return what to do about a store that other users of the machine may enter."""
    is_open = store.is_dir() and store.stat().st_mode & stat.S_IRWXO
    return f" (other users of this machine may enter it: chmod 700 {shlex.quote(str(store))})" if is_open else ""


def _told(run: Path) -> str:
    try:
        start, end = read_start(run), read_end(run)
    except InputError as error:
        return f"{run.name}  {error}"
    what = f"{start.flow}, {one_line(' + '.join(start.candidates), 40)}, {number_of(start.samples, 'sample')}"
    came = _with_end(end) if end else _without_end(run, start.parameters)
    forgotten = "; rows were forgotten at a request" if start.revision else ""
    return f"{start.run_id}  {what}: {came}{forgotten}"


def _with_end(end: RunEnd) -> str:
    return f"{'' if end.all_ok else 'INCOMPLETE, '}{counted(end.outcomes)}, {end.seconds:,.0f} s"


def _without_end(run: Path, parameters: Mapping[str, object]) -> str:
    if is_waiting(run):
        return "waits for its batches"
    if is_written(run):
        return "at work"
    if parameters.get("quote"):
        return "a quote"
    judge = cast("dict[str, Any]", parameters.get("judge") or {})
    calls = number_of(int(judge.get("concurrency", 0)), "call")
    return f"unfinished; up to {calls} in flight at its end may be billed as well"


def _show_waiting(store: Path) -> None:
    for run_id in waiting_runs(store):
        progress = progress_of(store / "batches" / run_id)
        last = (
            f"{progress.words}, as of {progress.asked_at[:16].replace('T', ' ')} UTC" if progress else "not handed in"
        )
        say(f"waiting    {run_id}: {last}; `jury batch collect` asks again")


def _show_forgetting(folder: Path, store: str) -> int:
    """Print a line if a removal is unfinished, after a kill or another machine's request; return 3 if so, else 0."""
    begun = (folder / UNFINISHED).exists()
    if begun:
        say(f"forgetting begun and not finished: `jury store sync --store {shlex.quote(store)}` does the rest")
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
        print(
            f"history    lacks {number_of(len(lacking), 'finished run')}: the next run or `jury store sync` loads them"
        )
        return 3
    print("history    in step with the ledgers")
    return 0


def _at_work() -> list[str]:
    try:
        with answered():
            from flows.server.activity import at_work

            return at_work()
    except InputError as error:
        return [one_line(str(error), LONGEST)]
