"""`jury judge bridge`: decision whether another judge may continue a history, and the offset between both judges."""

from contextlib import suppress
from itertools import groupby
from pathlib import Path

import click

from flows.commands.console import Command, left_to_sync, printable_json, say
from flows.commands.options import json_option, store_option
from tasks.comparing.bridge import answers_of, bridge, bridge_grid, confusion_grid, sentences
from tasks.errors import InputError
from tasks.history.queries import find, shared_replies
from tasks.ledger.evaluations import read_evaluation
from tasks.ledger.remote import local_cache, remote_of
from tasks.ledger.side_records import BRIDGES, BridgeRow
from tasks.presentation.tables import console, grid_table
from tasks.statistics.intervals import CANNOT_TELL, OFFSET_MARGIN

OK, CANNOT = 0, 3


@click.command(cls=Command)
@click.argument("old", metavar="RUN_OLD", help="Run by the judge of the history, by the beginning of its id.")
@click.argument("new", metavar="RUN_NEW", help="Run by the judge to go on with, on the same samples, likewise.")
@click.option(
    "--margin",
    type=click.FloatRange(0, 50, min_open=True),
    default=OFFSET_MARGIN,
    show_default=True,
    metavar="POINTS",
    help="Points of a scale of 100 that the history may be off by.",
)
@json_option("Print the bridge's rows as JSON.")
@store_option
def bridge_judges(old: str, new: str, margin: float, as_json: bool, store: str) -> int:
    """Compare two judges on the samples that both judged; store and print the result.

    Returns:
        0; 3 if it is undecided for every candidate whether the history may be continued.
    """
    folder = local_cache(store)
    sides = [answers_of(read_evaluation(folder, find(folder, run).run_id)) for run in (old, new)]
    rows = bridge(sides[0], sides[1], margin)
    _keep(folder, rows, store)
    if as_json:
        print(printable_json([row.model_dump(mode="json") for row in rows]))
    else:
        _print(folder, rows)
    return CANNOT if all(row.decision == CANNOT_TELL for row in headlines(rows)) else OK


def headlines(rows: list[BridgeRow]) -> list[BridgeRow]:
    """Return the first row of each candidate."""
    return [next(its) for _, its in groupby(rows, key=lambda row: row.candidate)]


def _keep(folder: Path, rows: list[BridgeRow], store: str) -> None:
    """Store a bridge in ledgers, history and bucket."""
    from tasks.history.landing import land  # DuckDB, not needed before the end

    BRIDGES.keep(folder, rows)
    with left_to_sync():
        land(folder)
    with left_to_sync():
        if remote := remote_of(store):
            remote.send_folder(BRIDGES.folder)


def _print(folder: Path, rows: list[BridgeRow]) -> None:
    out, first = console(), rows[0]
    for name, model, run in (("old", first.old_judge, first.old_run), ("new", first.new_judge, first.new_run)):
        say(f"{name}  {model}, run {run}")
    for _, found in groupby(rows, key=lambda row: row.candidate):
        its = [*found]
        say(f"\n{sentences(its[0])}\n")
        out.print(grid_table(bridge_grid(its), []))
        if its[0].confusion:
            out.print(f"\n{its[0].dimension}, the old judge in rows and the new one in columns:\n")
            out.print(grid_table(confusion_grid(its[0]), []))
    with suppress(InputError):  # `_keep` has warned already
        if shared := shared_replies(folder, first.old_run, first.new_run):
            say(shared)
    out.print(f"kept as bridge {first.bridge_id}: `jury query bridges`", soft_wrap=True)
