"""First lines of a run's page: its verdict, chips on judge, coverage and cost, and the main facts of its sections."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from tasks.judging.results import ControlRate, judge_status
from tasks.pages.run_summary import MEASURES, rate_words
from tasks.presentation.wording import Scored, change_words, score_with_interval, score_words, worst_case_words
from tasks.protocols.display import Display
from tasks.records import OVERALL
from tasks.records.judge import EMBEDDED
from tasks.spending.prices import in_currency, place
from tasks.statistics.rates import RateRow
from tasks.statistics.scores import ScoreRow
from tasks.text import counted, duration, listed, number_of, one_line

LONGEST_NAME = 40
MOST_NAMES = 4
"""Most candidates that the sentence names on either side."""
DISTRUST = "Do not trust this score"


class Chip(NamedTuple):
    """Fact in a few words, with the status of the judge that colors it; empty: it has none."""

    words: str
    status: str = ""


def verdict(display: Display[Any], scores: Sequence[Scored], red: bool) -> str:
    """Return the verdict in one sentence: the score of one candidate, or which of several is better.

    Args:
        red: whether the controls show that the judge does not look.
    """
    rows = [each.score for each in display.headline(scores)]
    by_dimension = [list(its) for _, its in groupby(sorted(rows, key=_dimension), key=_dimension)]
    found = "; ".join(_sentence(display, its, len(by_dimension) > 1) for its in by_dimension)
    return f"{DISTRUST}: {found}" if red else found or "Nothing was judged"


def _dimension(row: Scored) -> str:
    return row.dimension


def _sentence(display: Display[Any], rows: Sequence[Scored], several: bool) -> str:
    on = f" on {rows[0].dimension}" if several else ""
    scored = sorted((row for row in rows if row.score is not None), key=lambda row: row.score or 0.0, reverse=True)
    if not scored:
        return f"No score{on}: none of {sum(row.n for row in rows):,} {display.counted} could be scored"
    if len(scored) == 1:
        [row] = scored
        scale = display.scale.partition(";")[0]
        return f"{_name(row)} scores {score_with_interval(row)} {scale}{on}{_beside_level(display, row)}"
    return _compared(scored, display.scale.partition(";")[0]) + on


def _beside_level(display: Display[Any], row: Scored) -> str:
    if not display.level or row.ci_low is None or row.ci_high is None:
        return ""
    figures = f"the {display.level.name} figures"
    if row.ci_low <= display.level.score <= row.ci_high:
        return f": no difference from {figures} shown (at n = {row.scored})"
    return f", {'below' if row.ci_high < display.level.score else 'above'} {figures} ({display.level.score:g})"


def _compared(rows: Sequence[Scored], scale: str) -> str:
    """Compare the best of several candidates with the others, by the paired differences of the scores' rows."""
    best, *others = sorted(rows, key=lambda row: row.vs_best is not None)
    worse = [row for row in others if row.vs_best_high is not None and row.vs_best_high < 0]
    alike = [row for row in others if row not in worse]
    n = min((row.vs_best_n or 0 for row in others), default=0)
    if len(others) == 1:
        [other] = others
        value, high, low = (
            None if each is None else -each for each in (other.vs_best, other.vs_best_low, other.vs_best_high)
        )
        change = change_words(value, low, high, best.decimals)
        means = f"{score_words(best)} against {score_words(other)} {scale}, difference {change}"
        if worse:
            return f"{_name(best)} scores higher than {_name(other)}: {means}"
        return f"No difference shown between {_name(best)} and {_name(other)} (at n = {n}): {means}"
    if not worse:
        return f"No difference shown between {_names(rows)} (at n = {n})"
    rest = f"; no difference shown from {_names(alike)} (at n = {n})" if alike else ""
    return f"{_name(best)} ({score_words(best)}) scores higher than {_names(worse)}{rest}"


def _names(rows: Sequence[Scored]) -> str:
    return listed((f"{_name(row)} ({score_words(row)})" for row in rows), MOST_NAMES)


def _name(row: Scored) -> str:
    return one_line(row.candidate, LONGEST_NAME)


def chips(
    display: Display[Any],
    scores: Sequence[Scored],
    controls: Sequence[ControlRate],
    about: Mapping[str, Any],
    cost: Sequence[Mapping[str, Any]],
) -> Iterator[Chip]:
    """Yield the facts that tell a reader whether to trust the verdict, and its price."""
    rows = [each.score for each in display.headline(scores)]
    yield _judge(controls)
    yield Chip(f"{sum(row.scored for row in rows):,} of {sum(row.n for row in rows):,} {display.counted} scored")
    for row in rows:
        if words := worst_case_words(row):
            yield Chip(f"{_name(row)} worst case {words}")
    if missing := sum(row.forfeits for row in rows if isinstance(row, ScoreRow)):
        yield Chip(f"{number_of(missing, 'missing output')}, each scored 0")
    yield Chip(_cost(about, cost))
    yield Chip(f"{number_of(sum(row['calls'] for row in cost), 'call')} in {duration(about['seconds'])}")


def _judge(controls: Sequence[ControlRate]) -> Chip:
    if not controls:
        return Chip("Judge unchecked: no controls asked", "AMBER")
    status = judge_status(controls).rpartition(" ")[2]
    missed, asked = sum(each.failed_samples for each in controls), sum(each.samples for each in controls)
    worst = next((each for each in controls if each.status == "red"), None)
    which = f" ({worst.measure}: {worst.failed_samples} of {worst.samples})" if worst else ""
    few = ", too few to be sure" if status == "AMBER" and not missed else ""
    return Chip(f"Judge {status}: {missed} of {number_of(asked, 'control')} missed{which}{few}", status)


def _cost(about: Mapping[str, Any], cost: Sequence[Mapping[str, Any]]) -> str:
    if about["endpoint"] == EMBEDDED:
        return "Cost: free, embedded judge"
    prices = [row["price"] for row in cost]
    if None in prices:
        return "Cost unknown"
    places = {place(source) for row in cost for source in row["sources"] or ()}
    return f"Cost {in_currency(sum(prices), places)}"


# Main facts of the folded sections

_WHOLE = ("all", "aspect")
"""Groupings of the scores of all samples."""


def dimension_words(display: Display[Any], scores: Sequence[Scored]) -> str:
    """Return the scores of the best candidate on each dimension, or tag and aspect."""
    best = next((candidate for candidate, _ in display.in_words(scores)), "")
    its = [row for row in scores if row.candidate == best and row.measure == "score" and row.grouping in _WHOLE]
    shown = [f"{row.group_name or row.dimension} {score_words(row)}" for row in its if row.dimension != OVERALL]
    return f"{one_line(best, LONGEST_NAME)}: {', '.join(shown)}" if shown else ""


def group_words(scores: Sequence[Scored], grouping: str) -> str:
    """Return the group with the lowest score."""
    its = [row for row in scores if row.grouping == grouping and row.score is not None]
    if not its:
        return ""
    lowest = min(its, key=lambda row: row.score or 0.0)
    return f"lowest: {one_line(lowest.group_name, LONGEST_NAME)} {score_words(lowest)} (n = {lowest.scored})"


def rate_facts(rates: Sequence[RateRow]) -> str:
    """Return the rates of the outcomes: orders that differ, votes that agree, and pivotal ones."""
    wanted = ("order_flip", "repeat_agreement", "repeat_difference", "pivotal")
    its = [row for row in rates if row.measure in wanted and row.dimension == OVERALL]
    return ", ".join(f"{MEASURES[row.measure][0]} {rate_words(row)}" for row in its[: len(wanted)])


def status_words(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the number of judgments and samples by status, from the rows of the query `statuses`."""
    kinds = dict.fromkeys(row["kind"] for row in rows)
    counts = {kind: {row["status"]: row["n"] for row in rows if row["kind"] == kind} for kind in kinds}
    return "; ".join(f"{kind}: {counted(its)}" for kind, its in counts.items())
