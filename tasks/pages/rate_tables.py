"""Tables and sentences on the judge's agreement with itself, and on the verdicts that the outcomes depend on."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from tasks.pages.run_summary import Summary
from tasks.presentation.tables import LONGEST_NAME, Grid
from tasks.presentation.wording import change_words, score_words
from tasks.records import OVERALL
from tasks.statistics.rates import Measure, RateRow, repeated
from tasks.statistics.scores import ScoreRow
from tasks.text import number_words, one_line

MEASURES: dict[Measure, tuple[str, str]] = {
    "order_flip": ("orders differ", "Human first and Model first come to different verdicts."),
    "reversal": ("reversed", "one order says Model, the other Human."),
    "first_position": (
        "first named",
        "share of the verdicts Model or Human for the figure shown first; 50% is no bias.",
    ),
    "repeat_agreement": (
        "votes agree",
        "share of the pairs of votes on one question, in one order, that are the same.",
    ),
    "chance_agreement": (
        "by chance",
        "how often votes would agree if each were drawn from all votes on that dimension.",
    ),
    "repeat_difference": ("votes apart", "mean distance, of 10, of two scores that one image got."),
    "chance_difference": (
        "apart by chance",
        "how far two scores would be apart if each were drawn from all on that tag.",
    ),
    "pivotal": ("pivotal", "outcomes that another verdict there, alone, would have changed; overall: any would."),
}
"""Measure -> head of its column, and its meaning."""

_OF_TEN: tuple[Measure, ...] = ("repeat_difference", "chance_difference")
_CERTAIN: tuple[Measure, ...] = ("chance_agreement", "chance_difference")
"""Measures that follow from the given votes without an error, and so have no interval."""


def rate_words(row: RateRow, places: int = 1) -> str:
    """Format a rate with its interval, `37.2% [33.0, 41.5]`, or with n if it has none."""
    scale, unit, decimals = (1, "", places + 1) if row.measure in _OF_TEN else (100, "%", places)
    value, *ends = (
        number_words(None if each is None else each * scale, decimals) for each in (row.value, row.ci_low, row.ci_high)
    )
    if row.measure in _CERTAIN:
        return f"{value}{unit}"
    return f"{value}{unit} " + (f"(n = {row.n})" if row.ci_low is None else f"[{', '.join(ends)}]")


def repeat_lines(summary: Summary) -> list[str]:
    """Return a few lines a candidate on both orders and several votes, of at most 80 columns; empty without either."""
    if not repeated(summary.start):
        return []
    several = len({row.candidate for row in summary.rates}) > 1
    lines: list[str] = []
    for candidate, rates in _by_candidate(summary.rates):
        rest = [*_of_orders(rates), *_of_votes(rates), *_published(summary.published, candidate, "published protocol")]
        lines += [f"{one_line(candidate, LONGEST_NAME)}:"] * several
        lines += [f"  {line}" if several else line for line in rest]
    return lines


def _of_orders(rates: Sequence[RateRow]) -> Iterator[str]:
    found = _overall(rates)
    words = {"differ": found.get("order_flip"), "first shown named": found.get("first_position")}
    if known := [f"{name} {rate}" for name, rate in words.items() if rate]:
        yield f"orders: {', '.join(known)}"


def _of_votes(rates: Sequence[RateRow]) -> Iterator[str]:
    by_chance = {row.dimension: rate_words(row) for row in rates if row.measure == "chance_difference"}
    for row in rates:
        if row.measure == "repeat_difference":
            yield f"votes on {row.dimension}: {rate_words(row)} apart, of 10; by chance {by_chance[row.dimension]}"
    found = _overall(rates)
    if agree := found.get("repeat_agreement"):
        yield f"votes: agree {agree}, by chance {found['chance_agreement']}"


def rate_grid(rows: Sequence[RateRow]) -> Grid:
    """Tabulate rates by dimension or tag, one candidate beneath the other; a measure without values has no column."""
    columns: list[Measure] = [measure for measure in MEASURES if any(row.measure == measure for row in rows)]
    lines: list[list[str]] = []
    for candidate, rates in _by_candidate(rows):
        cells = {(row.dimension, row.measure): rate_words(row, 0) for row in rates}
        lines.append([candidate])
        for dimension in _dimensions(rates):
            lines.append([dimension, *(cells.get((dimension, measure), "") for measure in columns)])
    return Grid(["", *(MEASURES[measure][0] for measure in columns)], lines)


def rate_notes(rows: Sequence[RateRow], published: Sequence[ScoreRow]) -> list[str]:
    """Return rates of each candidate's outcomes that the table lacks, and notes on reading it.

    Args:
        published: scores by the published protocol alone; none where everything was asked once.
    """
    lines: list[str] = []
    for candidate, rates in _by_candidate(rows):
        found = [*_of_outcomes(rates, again=bool(published))]
        found += _published(published, candidate, "published protocol (Human first, first vote)")
        lines += [f"{one_line(candidate, LONGEST_NAME)}: {line}" for line in found]
    known = {row.measure for row in rows}
    told = (head_and_words for measure, head_and_words in MEASURES.items() if measure in known)
    return [*lines, *(f"{head.capitalize()}: {words}" for head, words in told)]


def _of_outcomes(rates: Sequence[RateRow], again: bool) -> Iterator[str]:
    found = _overall(rates)
    if "tier_1" in found:
        yield f"tier 1 decided {found['tier_1']} of the outcomes"
    if again and "p_model" in found:
        yield f"chances by all votes: Model {found['p_model']}, Tie {found['p_tie']}, Human {found['p_human']}"


def _overall(rates: Sequence[RateRow]) -> dict[Measure, str]:
    return {row.measure: rate_words(row) for row in rates if row.dimension == OVERALL}


def _by_candidate(rows: Sequence[RateRow]) -> list[tuple[str, list[RateRow]]]:
    in_order = sorted(rows, key=lambda row: row.candidate)
    return [(candidate, list(its)) for candidate, its in groupby(in_order, key=lambda row: row.candidate)]


def _dimensions(rates: Sequence[RateRow]) -> list[str]:
    found = dict.fromkeys(row.dimension for row in rates if row.measure in MEASURES)
    return sorted(found, key=lambda dimension: dimension == OVERALL)


def _published(rows: Sequence[ScoreRow], candidate: str, name: str) -> list[str]:
    """Return the published protocol's score, and its difference from the score of the same samples."""
    its = [row for row in rows if (row.candidate, row.dimension) == (candidate, OVERALL)]
    return [f"{name}: {score_words(row)}{_shift_words(row)}" for row in its]


def _shift_words(row: ScoreRow) -> str:
    if row.shift is None:
        return ""
    few = "(no interval: too few differ)"
    return f", {change_words(row.shift, row.shift_low, row.shift_high, row.decimals, few)} against the score"
