"""How far the judge agreed with itself, and which verdicts the outcomes depend on, for a person to read.

Lines for a terminal, a table and notes for the Prefect UI; the numbers are made in `rates`.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby

from tasks.comparing.wording import signed
from tasks.pages.run_summary import Summary
from tasks.presentation.tables import LONGEST_NAME, Grid
from tasks.presentation.wording import score_words
from tasks.records import OVERALL
from tasks.statistics.rates import Measure, RateRow, repeated
from tasks.statistics.scores import ScoreRow
from tasks.text import number_words, one_line

COLUMNS: dict[Measure, str] = {
    "order_flip": "orders differ",
    "reversal": "reversed",
    "first_position": "first named",
    "repeat_agreement": "votes agree",
    "chance_agreement": "by chance",
    "repeat_difference": "votes apart",
    "chance_difference": "apart by chance",
    "pivotal": "pivotal",
}
EXPLAINED: dict[Measure, str] = {
    "order_flip": "Orders differ: Human first and Model first come to different verdicts.",
    "reversal": "Reversed: one order says Model, the other Human.",
    "first_position": "First named: share of the verdicts Model or Human for the figure shown first; 50% is no bias.",
    "repeat_agreement": "Votes agree: share of the pairs of votes on one question, in one order, that are the same.",
    "chance_agreement": "By chance: how often votes would agree if each were drawn from all votes on that dimension.",
    "repeat_difference": "Votes apart: mean distance, of 10, of two scores that one image got.",
    "chance_difference": "Apart by chance: how far two scores would be apart if each were drawn from all on that tag.",
    "pivotal": "Pivotal: outcomes that another verdict there, alone, would have changed; overall: any would.",
}


_OF_TEN: tuple[Measure, ...] = ("repeat_difference", "chance_difference")
_CERTAIN: tuple[Measure, ...] = ("chance_agreement", "chance_difference")
"""What follows from the votes that there are: no interval."""


def rate_words(row: RateRow, places: int = 1) -> str:
    """A rate with its interval, `37.2% [33.0, 41.5]`, or with n where there is none."""
    scale, unit, decimals = (1, "", places + 1) if row.measure in _OF_TEN else (100, "%", places)
    value, *ends = (
        number_words(None if each is None else each * scale, decimals) for each in (row.value, row.ci_low, row.ci_high)
    )
    if row.measure in _CERTAIN:
        return f"{value}{unit}"
    return f"{value}{unit} " + (f"(n = {row.n})" if row.ci_low is None else f"[{', '.join(ends)}]")


def repeat_lines(summary: Summary) -> list[str]:
    """A few lines a candidate on both orders and several votes, of at most 80 columns; else none."""
    if not repeated(summary.start):
        return []
    several = len({row.candidate for row in summary.rates}) > 1
    lines: list[str] = []
    for candidate, rates in _by_candidate(summary.rates):
        rest = [*_of_orders(rates), *_of_votes(rates), *_published(summary, candidate, "published protocol")]
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


def published_words(row: ScoreRow) -> str:
    """The published protocol's score, and how it differs from the score of the same samples: `39.0, −2.7 [−5.9, +0.5]
    against the score`."""
    if row.shift is None:
        return score_words(row)
    if row.shift_low is None or row.shift_high is None:
        reach = "(no interval: too few differ)"
    else:
        reach = f"[{signed(row.shift_low, row.decimals)}, {signed(row.shift_high, row.decimals)}]"
    return f"{score_words(row)}, {signed(row.shift, row.decimals)} {reach} against the score"


def rate_grid(rows: Sequence[RateRow]) -> Grid:
    """Rates by dimension or tag, one candidate beneath the other; what nothing is known of has no column."""
    columns: list[Measure] = [measure for measure in COLUMNS if any(row.measure == measure for row in rows)]
    lines: list[list[str]] = []
    for candidate, rates in _by_candidate(rows):
        cells = {(row.dimension, row.measure): rate_words(row, 0) for row in rates}
        lines.append([candidate])
        for dimension in _dimensions(rates):
            lines.append([dimension, *(cells.get((dimension, measure), "") for measure in columns)])
    return Grid(["", *(COLUMNS[measure] for measure in columns)], lines)


def rate_notes(summary: Summary) -> list[str]:
    """What the table does not say of each candidate's outcomes, and what must be known to read it."""
    lines: list[str] = []
    for candidate, rates in _by_candidate(summary.rates):
        found = [*_of_outcomes(rates, repeated(summary.start))]
        found += _published(summary, candidate, "published protocol (Human first, first vote)")
        lines += [f"{one_line(candidate, LONGEST_NAME)}: {line}" for line in found]
    known = {row.measure for row in summary.rates}
    return [*lines, *(words for measure, words in EXPLAINED.items() if measure in known)]


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
    found = dict.fromkeys(row.dimension for row in rates if row.measure in COLUMNS)
    return sorted(found, key=lambda dimension: dimension == OVERALL)


def _published(summary: Summary, candidate: str, name: str) -> list[str]:
    return [
        f"{name}: {published_words(row)}"
        for row in summary.published
        if (row.candidate, row.dimension) == (candidate, OVERALL)
    ]
