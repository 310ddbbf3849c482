"""`jury batch`: progress of runs that wait for their batches, results of those that ended, and cancellation."""

import asyncio
from pathlib import Path

import click

from flows.commands.console import Command, say, warn
from flows.commands.options import json_option, store_option
from flows.commands.run import NOT_ALL_OK, OK, STOPPED, show_run, worst
from flows.process import run_here
from flows.server.server import find_prefect, prepare_prefect, secret_block
from tasks.batches.log import check_folder, locked, waiting_runs
from tasks.errors import InputError
from tasks.ledger.remote import local_cache
from tasks.ledger.run_files import END
from tasks.ledger.run_files import folder as ledger_folder
from tasks.records.parameters import Collect


@click.command(cls=Command)
@click.argument("run", default="", metavar="[RUN]", help="Beginning of its id; empty: all runs that wait.")
@json_option("Print scores and rates of the runs that ended as JSON, an array for each run.")
@store_option
def collect_runs(run: str, as_json: bool, store: str) -> int:
    """Take in the replies that have arrived, for all runs or for one.

    Returns:
        0 if no run waits any more and all is ok; 3 if a run waits, or is not ok; 2 if a run was stopped or could not be
        checked.
    """
    folder = _folder(store)
    found = _waiting(folder, run)
    if not found:
        (warn if as_json else say)("nothing waits")
        return OK
    return _collect(folder, run, found, as_json)


@click.command(cls=Command)
@click.argument("run", metavar="RUN", help="Beginning of its id.")
@json_option("Print scores and rates of the run as JSON, if it ended.")
@store_option
def cancel_run(run: str, as_json: bool, store: str) -> int:
    """Cancel the batches of one run, and take in the replies that have arrived; return codes as `collect_runs` does."""
    folder = _folder(store)
    found = _waiting(folder, run)
    if not run or len(found) != 1:
        raise InputError(
            f"name one run that waits, by its id or the beginning of it: {run!r} fits {len(found)}; `jury status` "
            "lists them"
        )
    find_prefect(folder)  # a key may be kept there, as a Secret block
    asyncio.run(_cancel(folder, found[0]))
    return _collect(folder, found[0], found, as_json)


def _folder(store: str) -> Path:
    """Return the folder of a store in which runs may wait."""
    check_folder(store)
    return local_cache(store).absolute()


def _waiting(folder: Path, run: str) -> list[str]:
    """Return the ids of waiting runs with this beginning; InputError if there is none and a run was named."""
    found = [each for each in waiting_runs(folder) if each.startswith(run)]
    if run and not found:
        raise InputError(f"no run that waits is called {run!r}: `jury status` lists those that do")
    return found


def _collect(folder: Path, run: str, found: list[str], as_json: bool) -> int:
    """Take in the replies of these runs, whose ids begin with `run`; return the exit code."""
    prepare_prefect(folder)
    codes = [OK]
    try:
        result = run_here("collect", Collect(store=str(folder), run=run))
    except InputError as error:
        warn(str(error))
        codes.append(STOPPED)
    else:
        for words in result["warnings"]:
            warn(words)
        for words in result["waits"]:
            codes.append(NOT_ALL_OK)
            (warn if as_json else say)(words)
    ended = [run_id for run_id in found if (ledger_folder(folder, run_id) / END).exists()]
    codes += [show_run(folder, run_id, as_json) for run_id in ended]
    return worst(codes)


async def _cancel(store: Path, run_id: str) -> None:
    from tasks.batches.results import asking, cancel

    with locked(store, run_id) as log:
        if log is None:
            raise InputError(f"another process is at work on run {run_id}: try again once it has ended")
        async with asking(log, secret_block) as batches:
            await cancel(log, batches)
