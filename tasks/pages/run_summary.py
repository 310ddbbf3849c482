"""Summary of a run, gathered from its ledger, as data, tables and sentences."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

from tasks.comparing.verdict import verdict
from tasks.errors import InputError
from tasks.judging.results import (
    SHOWN,
    ControlRate,
    Failure,
    LowSample,
    OutcomeTally,
    control_rates,
    red_words,
    results_of,
)
from tasks.ledger.evaluations import read_evaluation, unmeasured_words
from tasks.ledger.side_records import OtherCall
from tasks.presentation.tables import LONGEST_NAME, Grid
from tasks.presentation.wording import Scored
from tasks.protocols import display_of
from tasks.protocols.display import Display, Terms
from tasks.records import OVERALL, BudgetStop, Judgment, RunEnd, RunStart, is_all_ok, known_cost
from tasks.spending.prices import in_currency, place
from tasks.statistics.rates import Measure, RateRow
from tasks.text import bounded, counted, money, number_words, one_line

SAVED_BY = ("reuse", "service tier", "cache")


@dataclass
class JudgmentTally:
    """Sums over the judgments of a run. Attempts count as calls; for the statuses only the last one counts.

    Controls count only in calls, tokens and price.
    """

    calls: int = 0
    reused: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    tokens_written: int = 0
    tokens_reasoning: int = 0
    price: float | None = 0.0
    """Sum of the prices, those of the run's first questions included; None: one is unknown."""
    first_questions: float | None = 0.0
    """Part of `price` that is of first questions."""
    estimated: float | None = 0.0
    """Possible additional cost of calls that timed out; None: unknown."""
    saved: dict[str, float] = field(default_factory=lambda: dict.fromkeys(SAVED_BY, 0.0))
    """Item of `SAVED_BY` -> known amount that it saved; below 0: it cost more."""
    places: set[str] = field(default_factory=set[str])
    ok: int = 0
    not_ok: dict[tuple[object, ...], Failure] = field(default_factory=dict[tuple[object, ...], Failure])

    def add(self, row: Judgment) -> None:
        """Add the next row of the ledger."""
        self.calls += not row.reused_from
        self.reused += bool(row.reused_from)
        self._pay(row, row.saved_by_reuse)
        if row.control:
            return
        call = (row.sample_id, row.candidate, row.dimension, row.order, row.vote)
        self.not_ok.pop(call, None)
        if row.status == "ok":
            self.ok += 1
        else:
            words = one_line(row.error or row.finish_reason)
            self.not_ok[call] = Failure(row.sample_id, row.candidate, row.dimension, row.status, words)

    def add_first_question(self, row: OtherCall) -> None:
        """Add a question that asked whether the judge is there."""
        self.calls += 1
        self._pay(row, 0.0)
        self.first_questions = with_price(self.first_questions, row)

    def _pay(self, row: Judgment | OtherCall, saved_by_reuse: float | None) -> None:
        """Add the tokens and the cost of a call."""
        self.tokens_in += row.tokens_in
        self.tokens_out += row.tokens_out
        self.tokens_cached += row.tokens_cached
        self.tokens_written += row.tokens_written
        self.tokens_reasoning += row.tokens_reasoning
        self.price = with_price(self.price, row)
        if self.estimated is not None:
            self.estimated = None if row.estimated is None else self.estimated + row.estimated
        saved = saved_by_reuse, row.saved_by_service_tier, row.saved_by_cache
        for what, amount in zip(SAVED_BY, saved, strict=True):
            self.saved[what] += amount or 0.0
        if row.price is not None:
            self.places.add(place(row.price_source))

    def statuses(self) -> Counter[str]:
        """Return status -> number of judgments that count."""
        return Counter({"ok": self.ok}) + Counter(failure.status for failure in self.not_ok.values())


def with_price(known: float | None, row: Judgment | OtherCall) -> float | None:
    """Add the cost of a call to a known one; None: a part of it is unknown."""
    amount, is_unknown = known_cost(row.status, row.price)
    return None if known is None or is_unknown else known + amount


class Summary(NamedTuple):
    """Data shown about a run."""

    store: Path
    start: RunStart
    end: RunEnd | None
    """None: the run is unfinished."""
    scores: Sequence[Scored]
    """Scores of every candidate, dimension or tag, and group of samples."""
    outcomes: OutcomeTally
    judgments: JudgmentTally
    lowest: list[LowSample]
    """Samples with the lowest scores, with the judge's reasons."""
    controls: list[ControlRate]
    """Rates of the controls; empty: the run had none."""
    rates: list[RateRow]
    """Rates of the judge's agreement with itself, and of the verdicts that outcomes depend on."""
    unmeasured: str
    """Sentence on a finished run that measured nothing, or stopped at its budget; else empty."""

    @property
    def stopped(self) -> BudgetStop | None:
        """Stop at the budget; None: the run did not stop."""
        return self.end.stopped if self.end else None

    @property
    def display(self) -> Display[Any]:
        """Display of this kind of judging."""
        return display_of(self.start.flow)

    @property
    def terms(self) -> Terms:
        """Terms for reading the scores."""
        return Terms(self.start.flow, self.start.endpoint, self.outcomes.good_from)

    @property
    def all_ok(self) -> bool:
        """True if everything was judged; see `is_all_ok`."""
        return is_all_ok(self.judgments.statuses(), self.outcomes.statuses, self.stopped)


def summarize(store: Path, run_id: str) -> Summary:
    """Summarize a run from its ledger, finished or not, or the finished shards of an evaluation from theirs.

    Raises:
        InputError: the store has neither; a row is damaged or was written by a newer version; with file and line.
    """
    evaluation = read_evaluation(store, run_id)
    start, end, runs = evaluation
    results = results_of(start, runs)
    judgments, lowest = JudgmentTally(), [LowSample(outcome, {}) for outcome in results.outcomes.lowest]
    for row in evaluation.judgments():
        judgments.add(row)
        for sample in lowest:
            sample.note_reason(row)
    for question in evaluation.first_questions(store):
        judgments.add_first_question(question)
    return Summary(
        store=store,
        start=start,
        end=end,
        scores=results.scores,
        outcomes=results.outcomes,
        judgments=judgments,
        lowest=lowest,
        controls=control_rates(results.controls),
        rates=results.rates,
        unmeasured=_unmeasured(store, end) if end else "",
    )


def _unmeasured(store: Path, end: RunEnd) -> str:
    """Return the sentence about a run that stopped at its budget, or measured nothing according to the history."""
    if end.stopped or not end.reused:
        return end.stopped.sentence if end.stopped else ""
    from tasks.history.queries import query  # DuckDB, which is not needed before the end of a run

    sql = "SELECT replies, anew FROM evaluations WHERE run_id = $1 AND NOT measured"
    with suppress(InputError):  # landing has reported that the history lacks the run
        found = query(store, sql, values=(end.run_id,)).rows
        return "".join(unmeasured_words(*row, calls=end.calls) for row in found)
    return ""


def verdict_of(summary: Summary) -> str:
    """Return the verdict on the candidates of a run."""
    return verdict(summary.display, summary.scores, bool(red_words(summary.controls)))


def sentence(summary: Summary) -> str:
    """Describe the run in few words: the verdict, warnings that it is no result, and counts if not all was judged."""
    judgments, outcomes = counted(summary.judgments.statuses()), counted(summary.outcomes.statuses)
    counts = "" if summary.all_ok else f"Judgments: {judgments}. Outcomes: {outcomes}."
    return " ".join(filter(None, [f"{verdict_of(summary)}.", red_words(summary.controls), summary.unmeasured, counts]))


def cost_lines(summary: Summary) -> list[str]:
    """Return lines on calls, tokens and price."""
    asked = summary.judgments
    written = f", {asked.tokens_written:,} written to a cache" if asked.tokens_written else ""
    cached = f"{asked.tokens_cached:,} of them cached{written}"
    reasoned = f" ({asked.tokens_reasoning:,} of them reasoning)" if asked.tokens_reasoning else ""
    return [
        f"{asked.calls:,} calls made, {asked.reused:,} replies taken from earlier runs",
        f"{asked.tokens_in:,} tokens in ({cached}), {asked.tokens_out:,} out{reasoned}",
        *price_lines(summary),
    ]


def price_lines(summary: Summary) -> list[str]:
    """Return the price, possible further costs, and savings; the first line alone if there are no others."""
    asked = summary.judgments
    lines = [f"price: {in_currency(asked.price, asked.places)}"]
    if asked.first_questions:
        lines[0] += f", {money(asked.first_questions)} of it for asking whether the judge is there"
    if asked.estimated != 0:
        lines.append(
            f"calls that timed out may have cost, besides: {money(asked.estimated)}"
            + (", an estimate" if asked.estimated else "")
        )
    saved = [f"{money(amount)} by {what}" for what, amount in asked.saved.items() if round(amount, 4)]
    return [*lines, f"saved: {', '.join(saved)}"] if saved else lines


def defect_lines(summary: Summary) -> list[str]:
    """Count the injected defects that the judge caught, in all and by kind; empty if the samples have none."""
    counts = summary.outcomes.defects()
    defective = [count for count in counts if not count.clean]
    clean = [count for count in counts if count.clean]
    lines: list[str] = []
    if defective:
        missing = sum(count.unjudged for count in defective)
        known, caught = sum(count.known for count in defective), sum(count.caught for count in defective)
        lines.append(f"caught {caught} of {known} injected defects" + (f", {missing} not judged" if missing else ""))
        lines += [f"  {one_line(count.kind, LONGEST_NAME)} {count.caught}/{count.known}" for count in defective]
    if clean:
        judged = sum(count.known - count.unjudged for count in clean)
        false = judged - sum(count.caught for count in clean)
        lines.append(f"{summary.display.false_findings}: {false} of {judged}")
    return lines


def layout_lines(protocol: Mapping[str, str], run_id: str) -> list[str]:
    """Return the line shown beside scores in another layout than the published one; empty for the published one."""
    command = f"`jury compare RUN {run_id} --across layout`, RUN in the published layout, measures the difference"
    return [f"layout shared, not the published one: {command}"] if "layout" in protocol else []


def failure_lines(summary: Summary) -> list[str]:
    """Count judgments that are not ok and outcomes that are not complete, and show the first of each; empty if none.

    Pictures missing in the dataset are only counted: the run's warnings name them.
    """
    judgments, outcomes = summary.judgments, summary.outcomes
    lines: list[str] = []
    if judgments.not_ok:
        first = [_failure_line(summary, failure) for failure in islice(judgments.not_ok.values(), SHOWN)]
        lines += [f"judgments: {counted(judgments.statuses())}", *_indented(first, len(judgments.not_ok))]
    if total := outcomes.statuses.total() - outcomes.statuses["complete"]:
        first = [_failure_line(summary, failure) for failure in outcomes.not_complete]
        lines += [f"outcomes: {counted(outcomes.statuses)}", *_indented(first, total - outcomes.told_before)]
    return lines


def _failure_line(summary: Summary, failure: Failure) -> str:
    candidate = f" of {one_line(failure.candidate, LONGEST_NAME)}" if len(summary.start.candidates) > 1 else ""
    dimension = f", {failure.dimension}" if failure.dimension else ""
    status = failure.status.replace("_", " ")
    return f"{one_line(failure.sample_id, LONGEST_NAME)}{candidate}{dimension}: {status}: {failure.words}"


def _indented(first: Sequence[str], total: int) -> list[str]:
    return [f"  {line}" for line in bounded(first, total)]


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
    "repeat_difference": ("votes apart", "mean distance, of 10, of two scores that one image got."),
    "pivotal": ("pivotal", "outcomes that another verdict there, alone, would have changed; overall: any would."),
}
"""Measure -> head of its column, and its meaning."""


def rate_words(row: RateRow, places: int = 1) -> str:
    """Format a rate with its interval, `37.2% [33.0, 41.5]`, or with n if it has none."""
    scale, unit, decimals = (1, "", places + 1) if row.measure == "repeat_difference" else (100, "%", places)
    value, *ends = (
        number_words(None if each is None else each * scale, decimals) for each in (row.value, row.ci_low, row.ci_high)
    )
    return f"{value}{unit} " + (f"(n = {row.n})" if row.ci_low is None else f"[{', '.join(ends)}]")


def rate_grid(rows: Sequence[RateRow]) -> Grid:
    """Tabulate rates by dimension or tag, one candidate beneath the other; a measure without values has no column."""
    columns: list[Measure] = [measure for measure in MEASURES if any(row.measure == measure for row in rows)]
    lines: list[list[str]] = []
    for candidate, rates in _by_candidate(rows):
        cells = {(row.dimension, row.measure): rate_words(row, 0) for row in rates}
        lines.append([candidate])
        found = dict.fromkeys(row.dimension for row in rates if row.measure in MEASURES)
        for dimension in sorted(found, key=lambda dimension: dimension == OVERALL):
            lines.append([dimension, *(cells.get((dimension, measure), "") for measure in columns)])
    return Grid(["", *(MEASURES[measure][0] for measure in columns)], lines)


def rate_notes(rows: Sequence[RateRow]) -> list[str]:
    """Return the rate of each candidate's outcomes that the table lacks, and notes on reading it."""
    lines = [
        f"{one_line(candidate, LONGEST_NAME)}: tier 1 decided {rate_words(row)} of the outcomes"
        for candidate, rates in _by_candidate(rows)
        for row in rates
        if row.measure == "tier_1"
    ]
    known = {row.measure for row in rows}
    told = (head_and_words for measure, head_and_words in MEASURES.items() if measure in known)
    return [*lines, *(f"{head.capitalize()}: {words}" for head, words in told)]


def _by_candidate(rows: Sequence[RateRow]) -> list[tuple[str, list[RateRow]]]:
    in_order = sorted(rows, key=lambda row: row.candidate)
    return [(candidate, list(its)) for candidate, its in groupby(in_order, key=lambda row: row.candidate)]
