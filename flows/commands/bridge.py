"""`jury judge bridge`: decision whether another judge may continue a history, and the offset between both judges."""

import sys
from contextlib import redirect_stdout, suppress
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from flows.commands.console import Command, left_to_sync, printable_json, say, warn
from flows.commands.options import json_option, model_options, parse_options, store_option
from flows.commands.sharing import renew_pages
from tasks.comparing.bridge import (
    Answers,
    Basis,
    answers_of,
    basis,
    bridge,
    bridge_grid,
    confusion_grid,
    sentences,
    stored,
    to_ask,
)
from tasks.errors import InputError
from tasks.history.queries import shared_replies
from tasks.ledger.evaluations import made_since
from tasks.ledger.remote import remote_of, writable_folder
from tasks.ledger.side_records import BRIDGES, BridgeRow
from tasks.presentation.tables import console, grid_table
from tasks.records.parameters import FLOWS, Probe
from tasks.statistics.intervals import CANNOT_TELL, OFFSET_MARGIN

OK, STOPPED, CANNOT = 0, 2, 3
_JUDGE = {"judge__model"}
"""Options of the judge that `--new` replaces."""


@click.command(cls=Command)
@click.option("--old", required=True, metavar="JUDGE", help="The judge of the history: its model, or a run by it.")
@click.option("--new", required=True, metavar="JUDGE", help="The judge to go on with: its model, or a run by it.")
@click.option("--flow", type=click.Choice(FLOWS), required=True, help="Flow whose history it is.")
@click.option(
    "-n",
    "samples",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Compare them on so many samples (prompts), always the same ones; 0: on all of the newest run.",
)
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
def bridge_judges(
    old: str, new: str, flow: str, samples: int, margin: float, as_json: bool, store: str, **judge: Any
) -> int:
    """Compare two judges on the same samples, and ask a judge that has not judged them; store and print the result.

    Returns:
        0; 3 if it is undecided for every candidate whether the history may be continued; 2 if a run was stopped.
    """
    folder, settings = writable_folder(store), _settings(judge, new)
    wanted = basis(folder, flow, old, new, samples)
    sides: list[Answers] = []
    for name, own in ((old, {}), (new, settings)):
        answers = stored(folder, name, wanted, own) or _asked(folder, store, name, wanted, own, as_json)
        if answers is None:
            return STOPPED
        sides.append(answers)
    rows = bridge(sides[0], sides[1], margin)
    _keep(folder, rows, store)
    if as_json:
        print(printable_json([row.model_dump(mode="json") for row in rows]))
    else:
        _print(folder, rows)
    return CANNOT if all(row.decision == CANNOT_TELL for row in headlines(rows)) else OK


bridge_judges.params += [each for each in model_options(Probe) if each.name not in _JUDGE]


def _settings(given: dict[str, Any], model: str) -> dict[str, Any]:
    named = {**given, "judge__model": model} if given.get("judge__base_url") else given
    judge = parse_options(named, Probe).judge
    return {name: getattr(judge, name) for name in judge.model_fields_set - {"model"}}


def headlines(rows: list[BridgeRow]) -> list[BridgeRow]:
    """Return the first row of each candidate."""
    return [next(its) for _, its in groupby(rows, key=lambda row: row.candidate)]


def _asked(
    folder: Path, store: str, model: str, wanted: Basis, settings: dict[str, Any], as_json: bool
) -> Answers | None:
    """Let a judge judge the samples in an ordinary run; return None if the run was stopped or has not ended."""
    from flows.commands.run import run_flow
    from flows.run import runs_made_for

    flow = wanted.answers.evaluation.start.flow
    asked = to_ask(folder, model, wanted, settings).model_copy(update={"store": store})
    began = datetime.now(UTC)
    with redirect_stdout(sys.stderr if as_json else sys.stdout), runs_made_for("bridge"):
        say(f"{asked.judge.model} has not judged these {wanted.words}: it is asked")
        code = run_flow(flow, asked)
    evaluation = made_since(folder, asked.judge.model, began)
    if code == STOPPED or not evaluation:
        return None
    if evaluation.end is None:  # it waits for a batch
        warn("the judges are compared once that run has ended: say the same again then")
        return None
    return answers_of(evaluation).of(wanted.units)


def _keep(folder: Path, rows: list[BridgeRow], store: str) -> None:
    """Store a bridge in ledgers, history, bucket and pages."""
    from tasks.history.landing import land  # DuckDB, not needed before the end

    BRIDGES.keep(folder, rows)
    with left_to_sync():
        land(folder)
        renew_pages(store, [row.new_run for row in rows])
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
