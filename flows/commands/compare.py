"""`jury compare` and `jury gate`: changes between two runs or candidates, and whether a candidate may pass."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from flows.commands.console import Command, printable_json, say, warn
from flows.commands.options import json_option, store_option
from tasks.comparing.candidate_gate import least_score, markdown, no_worse
from tasks.comparing.comparison import Comparison, compare
from tasks.comparing.verdict import difference_grid, notes, outcome_words, side_words
from tasks.errors import InputError
from tasks.history.queries import find, held_together, last_comparable, newest, runs_of_candidates
from tasks.ledger.remote import local_cache
from tasks.pages.page_names import where
from tasks.presentation.tables import console, grid_table
from tasks.records.parameters import FLOWS
from tasks.text import printable


@click.command(cls=Command)
@click.argument(
    "runs",
    nargs=-1,
    metavar="[RUN|CANDIDATE]...",
    help="Two candidates, compared in each flow that has both; or two runs by the beginnings of their ids, the earlier "
    "one first; or one, by default the newest: with the last comparable run before it, or with --candidate twice.",
)
@click.option(
    "--across",
    multiple=True,
    metavar="NAME",
    help="A difference that is meant: dataset, or an item of the protocol, such as model; repeatable.",
)
@click.option("--candidate", multiple=True, metavar="NAME", help="Candidate of both runs; given twice, one of each.")
@click.option("--flow", type=click.Choice(FLOWS), metavar="FLOW", help="Flow of the newest run, or of the candidates.")
@json_option("Print everything as JSON; of two candidates an array.")
@store_option
def compare_runs(
    runs: Sequence[str],
    across: Sequence[str],
    candidate: Sequence[str],
    flow: str | None,
    as_json: bool,
    store: str,
) -> int:
    """Print the comparison of two runs, of two candidates, or of a run with the one before it."""
    folder = local_cache(store)
    if len(candidate) > 2:
        raise InputError(f"--candidate is given {len(candidate)} times; allowed are one (for both runs) and two")
    names = (candidate[0], candidate[-1]) if candidate else ("", "")
    by_name = len(runs) == 2 and not candidate
    pairs = runs_of_candidates(folder, runs[0], runs[1], flow or "") if by_name else []
    names = (runs[0], runs[1]) if pairs else names
    meant = pairs or [_meant(folder, runs, names, flow or "")]
    with held_together(folder):
        found = [compare(folder, before, after, names, across) for before, after in meant]
        if as_json:
            shown = [each.model_dump(mode="json") for each in found]
            print(printable_json(shown if pairs else shown[0]))
        for each in found:
            if len(found) > 1 and not as_json:
                print(f"\n{each.before.flow}\n")
            if not as_json:
                _print(each)
            _write_page(folder, each)
    return 0


def _write_page(store: Path, found: Comparison) -> None:
    """Write the comparison as a page, and print its place; a failure costs a warning."""
    from tasks.pages.comparison_page import write_comparison  # Jinja, which the table does not need

    try:
        print(f"page {printable(where(write_comparison(store, found)))}", file=sys.stderr)
    except (InputError, OSError) as error:
        warn(f"{error}; the comparison is no page beside the store's others")


def _meant(store: Path, runs: Sequence[str], names: tuple[str, str], flow: str) -> tuple[str, str]:
    """Return ids, or beginnings of ids, of the runs before and after."""
    if len(runs) > 2:
        raise InputError(
            "name two candidates (jury compare A B), two runs (jury compare RUN_A RUN_B), or one run (jury compare RUN)"
        )
    if len(runs) == 2:
        return runs[0], runs[1]
    candidate = names[1]
    after = find(store, runs[0]).run_id if runs else newest(store, flow, candidate, measured=True)
    if names[0] != names[1]:
        return after, after
    before, _ = last_comparable(store, after, candidate)
    if not before:
        raise InputError(
            f"no earlier run compares with {after}: none judged one of its candidates on its dataset, by its protocol "
            "and with new replies; name two runs, and compare prints what differs"
        )
    return before, after


def _print(found: Comparison) -> None:
    out = console()
    for name, side in (("before", found.before), ("after ", found.after)):
        out.print(printable(f"{name}  {side_words(side)}"), soft_wrap=True)
    out.print(printable(f"\n{outcome_words(found)}\n"), soft_wrap=True)
    out.print(grid_table(difference_grid(found.rows, found.before.flow), []))
    for line in notes(found):
        out.print(printable(line), soft_wrap=True)


CODES = {"passes": 0, "fails": 4, "cannot tell": 5}
"""Exit codes of `jury gate`; 2 remains the code of mistakes in the input."""


@click.command(cls=Command)
@click.option(
    "--flow", type=click.Choice(FLOWS), metavar="FLOW", required=True, help="Flow whose newest runs are compared."
)
@click.option("--candidate", required=True, metavar="NAME", help="Candidate to decide on, by its newest finished run.")
@click.option("--against", default="", metavar="NAME", help="Candidate to compare with; the same name: its run before.")
@click.option(
    "--margin",
    type=click.FloatRange(0),
    metavar="POINTS",
    help="Most points that it may lose: it passes if the whole interval is above that, and fails if all is below.",
)
@click.option("--min", "least", type=float, metavar="SCORE", help="The least score, in place of --against.")
@click.option(
    "--across",
    multiple=True,
    metavar="NAME",
    help="A difference between the two runs that is meant, as for jury compare; repeatable.",
)
@json_option("Print everything as JSON.")
@store_option
def gate(
    flow: str,
    candidate: str,
    against: str,
    margin: float | None,
    least: float | None,
    across: Sequence[str],
    as_json: bool,
    store: str,
) -> int:
    """Print the decision as Markdown or JSON, and return its exit code."""
    folder = local_cache(store)
    if against and margin is not None and least is None:
        found = no_worse(folder, flow, candidate, against, margin, across)
    elif least is not None and not against and margin is None and not across:
        found = least_score(folder, flow, candidate, least)
    else:
        raise InputError("a gate takes --against NAME with --margin POINTS, or --min SCORE alone")
    if as_json:
        print(printable_json(found.model_dump(mode="json")))
    else:
        say(markdown(found))
    return CODES[found.decision]
