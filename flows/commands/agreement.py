"""`jury labels agreement`: agreement of two judges, or of a judge and people, on the same samples."""

import click

from flows.commands.console import Command, printable_json, say
from flows.commands.options import json_option, store_option
from tasks.history.queries import shared_replies
from tasks.labels.agreement import Agreed, Agreement, agreement
from tasks.ledger.remote import local_cache
from tasks.presentation import tables
from tasks.presentation.tables import Grid, grid_table
from tasks.protocols import label_rules_of
from tasks.records import OVERALL, OVERALL_SCORE
from tasks.text import one_line, printable


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
    console = tables.console()
    for side, rater in (("A", found.a), ("B", found.b)):
        whose = f"{side}: {one_line(rater.name)}, {rater.kind} of {rater.flow}: {one_line(rater.about)}"
        console.print(whose, soft_wrap=True)
    console.print()
    console.print(grid_table(agreement_grid(found), []))
    for line in [*label_rules_of(found.a.flow).agreement_notes, *_notes(found)]:
        console.print(printable(line), soft_wrap=True)
    for each in found.questions:
        if each.question in (OVERALL, OVERALL_SCORE, label_rules_of(found.a.flow).pooled) and each.n:
            console.print(f"\n{_name(each)}, A in rows and B in columns (--json has the other questions):\n")
            console.print(grid_table(confusion_grid(each), []))


def agreement_grid(found: Agreement) -> Grid:
    """Return a table with a line per question; questions about images are listed under the tag of their prompts."""
    lines: list[list[str]] = []
    tag = ""
    for each in found.questions:
        if each.tag != tag:
            lines.append([each.tag])
            tag = each.tag
        numbers = [each.equal_words, each.kappa_words, each.tau_words]
        lines.append([each.question, str(each.n), *numbers])
    return Grid(["", "n", "equal", "kappa", "tau-b"], lines)


def confusion_grid(each: Agreed) -> Grid:
    """Return a table that counts pairs of answers: A's answer in rows, B's in columns."""
    lines = [[category, *(str(n) for n in row)] for category, row in zip(each.categories, each.confusion, strict=True)]
    return Grid(["", *(category.replace("Both are ", "both\n") for category in each.categories)], lines)


def _notes(found: Agreement) -> list[str]:
    """Return each reason for unpaired answers or missing numbers once, with the questions that it applies to."""
    reasons: dict[str, list[str]] = {}
    for each in found.questions:
        for reason in [*_unpaired(each), *_undefined(each)]:
            reasons.setdefault(reason, []).append(_name(each))
    return [f"{reason}: {', '.join(names)}" for reason, names in reasons.items()]


def _unpaired(each: Agreed) -> list[str]:
    counts = {"answered by A alone": each.only_a, "by B alone": each.only_b, "of other pictures": each.other_picture}
    words = [f"{n:,} {kind}" for kind, n in counts.items() if n]
    return [f"not paired, {', '.join(words)}"] if words else []


def _undefined(each: Agreed) -> list[str]:
    named = {"equal": each.agreement, "kappa": each.kappa, "tau-b": each.tau}
    whys = dict.fromkeys(found.why for found in named.values() if found.why and each.n)
    return [f"{', '.join(name for name, found in named.items() if found.why == why)} {why}" for why in whys]


def _name(each: Agreed) -> str:
    return f"{each.tag} {each.question}".strip()
