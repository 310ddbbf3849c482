"""`jury bridge`: whether a history may be continued with another judge, and with what offset."""

from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from flows.commands.asking_anew import OK, STOPPED, asked_anew, keep
from flows.commands.messages import printable_json
from flows.commands.options import STORE, model_options, parse_options
from flows.commands.renewing import renew_pages
from flows.commands.sections import Command, Option
from tasks.comparing.bridge import Answers, bridge
from tasks.comparing.bridge_words import bridge_grid, confusion_grid, sentences
from tasks.comparing.judges_to_bridge import Basis, basis, stored, to_ask
from tasks.errors import HistoryLocked, InputError
from tasks.history.evaluations import shared_replies
from tasks.history.loading import store_bridge
from tasks.ledger.bridges import BRIDGES, BridgeRow
from tasks.ledger.remote import local_cache
from tasks.parameters import FLOWS, Probe
from tasks.presentation.tables import console, grid_table
from tasks.statistics.offsets import CANNOT_TELL, MARGIN
from tasks.text import printable

CANNOT = 3
_JUDGE = {"judge__model"}
"""Options of the judge that `--new` stands for."""


def command_options() -> list[click.Parameter]:
    """The options of the command: its own, and the settings of a judge that is to be asked."""
    own: list[click.Parameter] = [
        Option(["--old"], required=True, metavar="JUDGE", help="The judge of the history: its model, or a run by it."),
        Option(["--new"], required=True, metavar="JUDGE", help="The judge to go on with: its model, or a run by it."),
        Option(["--flow"], type=click.Choice(FLOWS), required=True, help="Flow whose history it is."),
        Option(
            ["-n", "samples"],
            type=click.IntRange(0),
            default=0,
            metavar="N",
            help="Compare them on so many samples (prompts), always the same ones; 0: on all of the newest run.",
        ),
        Option(
            ["--margin"],
            type=click.FloatRange(0, 50, min_open=True),
            default=MARGIN,
            show_default=True,
            metavar="POINTS",
            help="Points of a scale of 100 that the history may be off by.",
        ),
        Option(["--json", "as_json"], is_flag=True, help="Print the bridge's rows as JSON."),
        Option(["--store"], **STORE),
    ]
    return [*own, *(each for each in model_options(Probe) if each.name not in _JUDGE)]


def make(old: str, new: str, flow: str, samples: int, margin: float, as_json: bool, store: str, **judge: Any) -> int:
    """Compare two judges on the same samples, asking one that has not judged them; keep and print what came of it.

    Returns:
        0; 3 where it cannot be told of any candidate whether the history may be continued; 2 where a run was stopped.

    Raises:
        InputError: there is nothing to compare, or it does not compare.
    """
    folder, settings = local_cache(store), _settings(judge, new)
    wanted = basis(folder, flow, old, new, samples)
    sides: list[Answers] = []
    for name, own in ((old, {}), (new, settings)):
        answers = stored(folder, name, wanted, own) or _asked(folder, store, name, wanted, own, as_json)
        if answers is None:
            return STOPPED
        sides.append(answers)
    rows = bridge(sides[0], sides[1], margin)
    if keep(BRIDGES, rows, store_bridge, store):
        renew_pages(store, [row.new_run for row in rows])
    if as_json:
        print(printable_json([row.model_dump(mode="json") for row in rows]))
    else:
        _print(folder, rows)
    return CANNOT if all(row.decision == CANNOT_TELL for row in headlines(rows)) else OK


command = Command("bridge", params=command_options(), callback=make)


def _settings(given: dict[str, Any], model: str) -> dict[str, Any]:
    """The settings of the new judge that were given, checked."""
    named = {**given, "judge__model": model} if given.get("judge__base_url") else given
    judge = parse_options(named, Probe).judge
    return {name: getattr(judge, name) for name in judge.model_fields_set - {"model"}}


def headlines(rows: list[BridgeRow]) -> list[BridgeRow]:
    """The first row of each candidate."""
    return [next(its) for _, its in groupby(rows, key=lambda row: row.candidate)]


def _asked(
    folder: Path, store: str, model: str, wanted: Basis, settings: dict[str, Any], as_json: bool
) -> Answers | None:
    """What a judge says of the samples in a run that is made now; None where that came to no end, which was told."""
    asked = to_ask(folder, model, wanted, settings).model_copy(update={"store": store})
    found = asked_anew(wanted, asked, "", "bridge", as_json)
    return found and found.of(wanted.units)


def _print(folder: Path, rows: list[BridgeRow]) -> None:
    out, first = console(), rows[0]
    for name, model, run in (("old", first.old_model, first.old_run), ("new", first.new_model, first.new_run)):
        out.print(printable(f"{name}  {model}, run {run}"), soft_wrap=True)
    for _, found in groupby(rows, key=lambda row: row.candidate):
        its = [*found]
        out.print(printable(f"\n{sentences(its[0])}\n"), soft_wrap=True)
        out.print(grid_table(bridge_grid(its), []))
        if its[0].confusion:
            out.print(f"\n{its[0].dimension}, the old judge in rows and the new one in columns:\n")
            out.print(grid_table(confusion_grid(its[0]), []))
    with suppress(HistoryLocked, InputError):  # of which `keep` has told
        if shared := shared_replies(folder, first.old_run, first.new_run):
            out.print(printable(shared), soft_wrap=True)
    out.print(f"kept as bridge {first.bridge_id}: `jury query bridges`", soft_wrap=True)
