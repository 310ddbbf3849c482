"""Facts of a run's page: chips on judge, coverage and cost, and the main fact of each section of numbers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tasks.comparing.verdict import LONGEST_NAME
from tasks.judging.results import TRUST, ControlRate, judge_status
from tasks.pages.run_summary import MEASURES, rate_words
from tasks.presentation.wording import Scored, score_words, worst_case_words
from tasks.protocols.display import Display
from tasks.records import OVERALL
from tasks.records.judge import EMBEDDED
from tasks.statistics.rates import RateRow
from tasks.statistics.scores import ScoreRow
from tasks.text import counted, duration, money, number_of, one_line


class Chip(NamedTuple):
    """Fact in a few words, with the status of the judge that colors it; empty: it has none."""

    words: str
    status: str = ""


def chips(
    display: Display[Any],
    scores: Sequence[Scored],
    controls: Sequence[ControlRate],
    about: Mapping[str, Any],
    cost: Sequence[Mapping[str, Any]],
) -> Iterator[Chip]:
    """Yield the facts that tell a reader whether to trust the verdict, and its price."""
    found = display.headline(scores)
    rows = [row for _, row in found]
    yield _judge(controls)
    # A run without an end has rows for the samples that it reached only.
    samples = about["samples"] if about["seconds"] is None else sum(row.n for row in rows)
    yield Chip(f"{sum(row.scored for row in rows):,} of {samples:,} {display.counted} scored")
    for name, row in found:
        if words := worst_case_words(row):
            yield Chip(f"{one_line(name, LONGEST_NAME)} worst case {words}")
    if missing := sum(row.forfeits for row in rows if isinstance(row, ScoreRow)):
        yield Chip(f"{number_of(missing, 'missing output')}, each scored 0")
    prices = [row["price"] for row in cost]
    yield Chip(f"Cost {price_words(None if None in prices else sum(prices), about)}")
    calls = number_of(sum(row["calls"] for row in cost), "call")
    yield Chip(calls if about["seconds"] is None else f"{calls} in {duration(about['seconds'])}")


def _judge(controls: Sequence[ControlRate]) -> Chip:
    if not controls:
        return Chip("Judge unchecked: no controls asked", "AMBER")
    status = judge_status(controls).rpartition(" ")[2]
    missed, asked = sum(each.failed_samples for each in controls), sum(each.samples for each in controls)
    worst = next((each for each in controls if each.status == "red"), None)
    which = f" ({worst.measure}: {worst.failed_samples} of {worst.samples})" if worst else ""
    few = ", too few to be sure" if status == "AMBER" and not missed else ""
    return Chip(f"Judge {status}, {TRUST[status]}: {missed} of {asked} missed{which}{few}", status)


def price_words(price: float | None, about: Mapping[str, Any]) -> str:
    """Return a price with its currency: tables and files are in US dollars, a judge's own prices in any currency."""
    if about["endpoint"] == EMBEDDED:
        return "free"
    if not price:
        return "unknown" if price is None else "nothing"
    return f"{money(price)} {'(prices given)' if about['own_prices'] else 'USD'}"


# Main facts of the folded sections


def dimension_words(display: Display[Any], scores: Sequence[Scored]) -> str:
    """Return the scores of the best candidate on each dimension, or tag and aspect."""
    best = next((each.score.candidate for each in display.headline(scores)), "")
    of_all = [row for row in scores if row.measure == "score" and row.grouping in ("all", "aspect")]
    its = [row for row in of_all if row.candidate == best]
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
    its = [row for row in rates if row.measure in wanted and row.dimension == OVERALL][: len(wanted)]
    names = {row.candidate for row in rates}
    whose = {name: f"{one_line(name, LONGEST_NAME)} " if len(names) > 1 else "" for name in names}
    return ", ".join(f"{whose[row.candidate]}{MEASURES[row.measure][0]} {rate_words(row)}" for row in its)


def call_lines(cost: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield calls, tokens and price of each judge, and what was saved or may have to be paid besides."""
    for row in cost:
        calls = f"{row['calls']:,} calls made, {row['reused']:,} replies reused, {duration(row['seconds'])} in all"
        tokens = f"{row['tokens_in']:,} tokens in ({row['tokens_cached']:,} cached), {row['tokens_out']:,} out"
        besides = {"saved": row["saved"], "calls that timed out may have cost besides": row["estimated"]}
        more = [f"{name} {money(amount)}" for name, amount in besides.items() if amount != 0]
        yield "; ".join([f"{row['judge']}: {calls}", tokens, f"price {money(row['price'])}", *more])


def status_words(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the number of judgments and samples by status, from the rows of the query `statuses`."""
    kinds = dict.fromkeys(row["kind"] for row in rows)
    counts = {kind: {row["status"]: row["n"] for row in rows if row["kind"] == kind} for kind in kinds}
    return "; ".join(f"{kind}: {counted(its)}" for kind, its in counts.items())


def unscored_notice(scores: Sequence[Scored], statuses: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence on an evaluation in which no sample has a score; none if any has."""
    if any(row.score is not None for row in scores):
        return []
    return [f"No sample has a score ({status_words(statuses)}). The same command asks again where no reply was usable."]
