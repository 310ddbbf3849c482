"""`jury layout check`: how far the shared layout agrees with the published one, by one judge on the same samples."""

import click

from flows.commands.asking_anew import OK, STOPPED, asked_anew, keep
from flows.commands.messages import printable_json
from flows.commands.options import json_option, store_option
from flows.commands.sections import Command, Group
from tasks.comparing.bridge import Answers
from tasks.comparing.judges_to_bridge import Basis
from tasks.comparing.layout_words import EXPLAINED, check_grid
from tasks.comparing.layouts import LAYOUTS, Layout, compared, own_answers, stored, to_ask, wanted
from tasks.history.loading import store_layout_check
from tasks.ledger.layout_checks import LAYOUT_CHECKS, LayoutRow
from tasks.ledger.remote import local_cache
from tasks.presentation.tables import console, grid_table
from tasks.text import printable


@click.group(cls=Group, options_metavar="", subcommand_metavar="check RUN|FLOW [OPTIONS]")
def command() -> None:
    """The layouts of questions."""


@command.command(
    "check",
    cls=Command,
    help="Let the judge of a run judge its samples in the other layout, too, and measure how far the verdicts agree.",
)
@click.argument("target", metavar="RUN|FLOW", help="A run, by the beginning of its id, or a flow: its newest one.")
@click.option(
    "-n",
    "samples",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Compare the layouts on so many of its samples, always the same ones; 0: on all.",
)
@json_option("Print the rows of the check as JSON.")
@store_option
def check(target: str, samples: int, as_json: bool, store: str) -> int:
    """Print how far the layouts agree, and keep it.

    Returns:
        0; 2 where a run was stopped, or has not ended.

    Raises:
        InputError: there is no such run, or it cannot be repeated.
    """
    folder = local_cache(store)
    basis = wanted(folder, target, samples)
    answers: dict[Layout, Answers] = {}
    for layout in LAYOUTS:
        found = stored(folder, basis, layout) or _asked(store, basis, layout, as_json)
        if found is None:
            return STOPPED
        answers[layout] = found
    published, shared = answers["published"], answers["shared"]
    rows = compared(published, shared, own_answers(folder, published))
    keep(LAYOUT_CHECKS, rows, store_layout_check, store)
    if as_json:
        print(printable_json([row.model_dump(mode="json") for row in rows]))
    else:
        _print(rows)
    return OK


def _asked(store: str, basis: Basis, layout: Layout, as_json: bool) -> Answers | None:
    """What the judge says in a layout, in a run that is made now; None where that came to no end, which was told."""
    wanted_run = to_ask(basis, layout).model_copy(update={"store": store})
    return asked_anew(basis, wanted_run, f" in the layout {layout}", "layout check", as_json)


def _print(rows: list[LayoutRow]) -> None:
    out, first = console(), rows[0]
    for name, run in (("published", first.published_run), ("shared   ", first.shared_run)):
        out.print(printable(f"{name}  {first.model}, run {run}"), soft_wrap=True)
    out.print(grid_table(check_grid(rows), [EXPLAINED]))
    out.print(f"kept as check {first.check_id}: `jury query layout_checks`", soft_wrap=True)
