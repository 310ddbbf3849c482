"""`jury layout check`: how far the shared layout agrees with the published one, by one judge on the same samples."""

import sys
from contextlib import redirect_stdout
from pathlib import Path

import click

from flows.commands.messages import number_of, printable_json, say, warn
from flows.commands.options import json_option, store_option
from flows.commands.sections import Command, Group
from tasks.comparing.bridge import Answers, answers_of
from tasks.comparing.judges_to_bridge import Basis
from tasks.comparing.layout_words import EXPLAINED, check_grid
from tasks.comparing.layouts import LAYOUTS, Layout, compared, own_answers, stored, to_ask, wanted
from tasks.errors import HistoryLocked, InputError
from tasks.history.loading import store_layout_check
from tasks.kinds import kind_of
from tasks.ledger.bucket import RemoteUnavailable
from tasks.ledger.evaluations import read_evaluation
from tasks.ledger.layout_checks import FOLDER, LayoutRow, keep_check
from tasks.ledger.reading import run_folders
from tasks.ledger.remote import Remote, is_remote, local_cache
from tasks.presentation.tables import console, grid_table
from tasks.text import printable

OK, STOPPED = 0, 2


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
        found = stored(folder, basis, layout) or _asked(folder, store, basis, layout, as_json)
        if found is None:
            return STOPPED
        answers[layout] = found
    published, shared = answers["published"], answers["shared"]
    rows = compared(published, shared, own_answers(folder, published))
    _keep(folder, store, rows)
    if as_json:
        print(printable_json([row.model_dump(mode="json") for row in rows]))
    else:
        _print(rows)
    return OK


def _asked(folder: Path, store: str, basis: Basis, layout: Layout, as_json: bool) -> Answers | None:
    """What the judge says in a layout, in a run that is made now; None where that came to no end, which was told."""
    from flows.commands.run import run_flow

    start = basis.answers.evaluation.start
    asked = to_ask(basis, layout).model_copy(update={"store": store})
    before = {*run_folders(folder)}
    with redirect_stdout(sys.stderr if as_json else sys.stdout):
        what = number_of(len(basis.units), kind_of(start.flow).unit.removesuffix("s"))
        say(f"{start.model} has not judged these {what} in the layout {layout}: it is asked")
        code = run_flow(start.flow, asked)
    made = [run for run in run_folders(folder) if run not in before]
    if code == STOPPED or not made:
        return None
    evaluation = read_evaluation(folder, made[-1].name)
    if evaluation.end is None:  # it waits for a batch
        warn("the layouts are compared once that run has ended: say the same again then")
        return None
    return answers_of(evaluation)


def _keep(folder: Path, store: str, rows: list[LayoutRow]) -> None:
    """Keep the check; that the history or the remote store cannot be reached now costs a warning."""
    place = keep_check(folder, rows)
    try:
        store_layout_check(folder, place.name)
        if is_remote(store):
            Remote(store, folder).send_folder(FOLDER)
    except (HistoryLocked, RemoteUnavailable, InputError) as error:
        warn(f"{error}; `jury sync` does the rest")


def _print(rows: list[LayoutRow]) -> None:
    out, first = console(), rows[0]
    for name, run in (("published", first.published_run), ("shared   ", first.shared_run)):
        out.print(printable(f"{name}  {first.model}, run {run}"), soft_wrap=True)
    out.print(grid_table(check_grid(rows), [EXPLAINED]))
    out.print(f"kept as check {first.check_id}: `jury query layout_checks`", soft_wrap=True)
