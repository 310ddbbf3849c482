"""Two raters of the same samples: `jury labels agreement` of judges or people, `jury judge bridge` of two judges."""

from contextlib import suppress
from itertools import groupby
from pathlib import Path

import click

from flows.commands.console import Command, left_to_sync, printable_json, say, warn
from flows.commands.options import json_option, store_option
from tasks.comparing.bridge import bridge, bridge_grid, confusion_grid, sentences
from tasks.errors import InputError
from tasks.history.queries import find, shared_replies
from tasks.labels.agreement import Agreed, Agreement, agreement
from tasks.ledger.evaluations import read_evaluation
from tasks.ledger.remote import local_cache, remote_of
from tasks.ledger.side_records import BRIDGES, BridgeRow
from tasks.presentation.tables import Grid, console, grid_table
from tasks.protocols import label_rules_of
from tasks.records import OVERALL, OVERALL_SCORE
from tasks.statistics.intervals import CANNOT_TELL, OFFSET_MARGIN
from tasks.text import one_line, printable

OK, CANNOT = 0, 3
MOST_ANSWERS = 11
"""Most different answers that a table of pairs has room for: scores of checklists may have 101."""


@click.command(cls=Command)
@click.argument("a", metavar="A", help="Beginning of a run's id, or the name of labels.")
@click.argument("b", metavar="B", help="The other one, likewise.")
@json_option("Print everything as JSON.")
@store_option
def compare_raters(a: str, b: str, as_json: bool, store: str) -> int:
    """Print the agreement of two raters: names, a table, notes on missing pairs, and tables of the overall answers."""
    folder = local_cache(store)
    found = agreement(folder, a, b)
    if as_json:
        print(printable_json(found.model_dump(mode="json")))
    else:
        _print_agreement(found)
        both_judged = found.a.kind == found.b.kind == "evaluation"
        if both_judged and (shared := shared_replies(folder, found.a.name, found.b.name)):
            say(shared)
    return 0


def _print_agreement(found: Agreement) -> None:
    out = console()
    for side, rater in (("A", found.a), ("B", found.b)):
        whose = f"{side}: {one_line(rater.name)}, {rater.kind} of {rater.flow}: {one_line(rater.about)}"
        out.print(whose, soft_wrap=True)
    out.print()
    out.print(grid_table(_agreement_grid(found), []))
    for line in [*label_rules_of(found.a.flow).agreement_notes, *_notes(found)]:
        out.print(printable(line), soft_wrap=True)
    for each in found.questions:
        is_whole = each.question in (OVERALL, OVERALL_SCORE, label_rules_of(found.a.flow).pooled)
        if is_whole and 0 < len(each.categories) <= MOST_ANSWERS:
            out.print(f"\n{_name(each)}, A in rows and B in columns (--json has the other questions):\n")
            out.print(grid_table(_answers_grid(each), []))


def _agreement_grid(found: Agreement) -> Grid:
    """Return a table with a line per question; questions about images are listed under the tag of their prompts."""
    lines: list[list[str]] = []
    tag = ""
    for each in found.questions:
        if each.tag != tag:
            lines.append([each.tag])
            tag = each.tag
        numbers = [each.agreement.share_words(each.n), each.kappa.words, each.tau.words]
        lines.append([each.question, str(each.n), *numbers])
    return Grid(["", "n", "equal", "kappa", "tau-b"], lines)


def _answers_grid(each: Agreed) -> Grid:
    """Return a table that counts pairs of answers: A's answer in rows, B's in columns."""
    lines = [[category, *(str(n) for n in row)] for category, row in zip(each.categories, each.confusion, strict=True)]
    return Grid(["", *(category.replace("Both are ", "both\n") for category in each.categories)], lines)


def _notes(found: Agreement) -> list[str]:
    """Return each reason for unpaired answers or missing numbers once, with the questions that it applies to."""
    reasons: dict[str, list[str]] = {}
    other = "of other pictures or checks" if label_rules_of(found.a.flow).pooled else "of other pictures"
    for each in found.questions:
        kinds = {"answered by A alone": each.only_a, "by B alone": each.only_b, other: each.other_picture}
        if words := [f"{n:,} {kind}" for kind, n in kinds.items() if n]:
            reasons.setdefault(f"not paired, {', '.join(words)}", []).append(_name(each))
        named = {"equal": each.agreement, "kappa": each.kappa, "tau-b": each.tau}
        for why in dict.fromkeys(found.why for found in named.values() if found.why and each.n):
            undefined = ", ".join(name for name, found in named.items() if found.why == why)
            reasons.setdefault(f"{undefined} {why}", []).append(_name(each))
    return [f"{reason}: {', '.join(names)}" for reason, names in reasons.items()]


def _name(each: Agreed) -> str:
    return f"{each.tag} {each.question}".strip()


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
    first, second = (read_evaluation(folder, find(folder, run).run_id) for run in (old, new))
    rows, left_out = bridge(first, second, margin)
    if left_out:
        warn(f"samples left out: {left_out}")
    _keep(folder, rows, store)
    if as_json:
        print(printable_json([row.model_dump(mode="json") for row in rows]))
    else:
        _print_bridge(folder, rows)
    headlines = [next(its) for _, its in groupby(rows, key=lambda row: row.candidate)]
    return CANNOT if all(row.decision == CANNOT_TELL for row in headlines) else OK


def _keep(folder: Path, rows: list[BridgeRow], store: str) -> None:
    """Store a bridge in ledgers, history and bucket."""
    from tasks.history.landing import land  # DuckDB, not needed before the end

    BRIDGES.keep(folder, rows)
    with left_to_sync():
        land(folder)
    with left_to_sync():
        if remote := remote_of(store):
            remote.send_folder(BRIDGES.folder)


def _print_bridge(folder: Path, rows: list[BridgeRow]) -> None:
    out, first = console(), rows[0]
    for name, model, run in (("old", first.old_judge, first.old_run), ("new", first.new_judge, first.new_run)):
        say(f"{name}  {model}, run {run}")
    for _, found in groupby(rows, key=lambda row: row.candidate):
        its = [*found]
        say(f"\n{sentences(its[0])}\n")
        out.print(grid_table(bridge_grid(its), []))
        confusion = confusion_grid(its[0])
        if 0 < len(confusion.lines) <= MOST_ANSWERS:
            out.print(f"\n{its[0].dimension}, the old judge in rows and the new one in columns:\n")
            out.print(grid_table(confusion, []))
    with suppress(InputError):  # `_keep` has warned already
        if shared := shared_replies(folder, first.old_run, first.new_run):
            say(shared)
    out.print(f"kept as bridge {first.bridge_id}: `jury query bridges`", soft_wrap=True)
