"""Summary of a run, gathered from its ledger, as data and in sentences.

Rows are read one at a time. Only a few chosen rows are kept, and a few numbers a sample for the intervals.
"""

from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from tasks.comparing.layout_words import layout_lines
from tasks.controls.status import ControlRate, control_rates, red_words
from tasks.judging.results import results_of
from tasks.judging.tallies import SHOWN, Failure, JudgmentTally, NotableSample, OutcomeTally
from tasks.ledger.anew import replies_anew
from tasks.ledger.evaluations import read_evaluation
from tasks.ledger.reading import read_judgments
from tasks.presentation.tables import LONGEST_NAME
from tasks.presentation.wording import Scored
from tasks.protocols import display_of
from tasks.protocols.display import Display, Terms
from tasks.records import BudgetStop, RunEnd, RunStart
from tasks.spending.money import in_currency, money
from tasks.statistics.rates import RateRow
from tasks.statistics.scores import ScoreRow
from tasks.text import bounded, counted, one_line


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
    notable: list[NotableSample]
    """Samples worth looking at, with the judge's reasons."""
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
    def uncompared(self) -> str:
        """Reason not to compare it with other runs; empty: there is none."""
        if self.stopped:
            return "The run stopped at its budget"
        return "Nothing was measured" if self.unmeasured else ""

    @property
    def display(self) -> Display[Any]:
        """Display of this kind of judging."""
        return display_of(self.start.flow)

    @property
    def terms(self) -> Terms:
        """Terms for reading the scores."""
        return self.display.terms(self.start.flow, self.start.endpoint, self.start.parameters)

    @property
    def published(self) -> list[ScoreRow]:
        """Scores by the published protocol alone, where a run asked for more."""
        return [row for row in self.scores if isinstance(row, ScoreRow) and row.measure == "published"]

    @property
    def all_ok(self) -> bool:
        """True if all samples were judged, every judgment is ok, every picture can be read, and every image exists."""
        statuses = self.outcomes.statuses
        not_ok = self.judgments.not_ok or statuses["bad_picture"] or statuses["incomplete"]
        return not (self.stopped or not_ok)


def summarize(store: Path, run_id: str) -> Summary:
    """Summarize a run from its ledger, finished or not, or the finished shards of an evaluation from theirs.

    Raises:
        FileNotFoundError: the store has neither.
        InputError: a row is damaged or was written by a newer version; with file and line.
    """
    evaluation = read_evaluation(store, run_id)
    start, end, runs = evaluation
    results = results_of(start, runs)
    judgments, notable = JudgmentTally(), results.outcomes.notable_samples()
    for row in chain.from_iterable(map(read_judgments, runs)):
        judgments.add(row)
        for sample in notable:
            sample.note_reason(row)
    return Summary(
        store=store,
        start=start,
        end=end,
        scores=results.scores,
        outcomes=results.outcomes,
        judgments=judgments,
        notable=notable,
        controls=control_rates(results.controls),
        rates=results.rates,
        unmeasured=replies_anew(store, evaluation).words if end else "",
    )


def sentence(summary: Summary) -> str:
    """Describe the run in one sentence: warnings that it is no result, scores, coverage, and counts by status."""
    found = summary.display.in_words(summary.scores)
    scores = bounded([f"{one_line(candidate, 40)} {words}" for candidate, words in found[:3]], len(found))
    before = [red_words(summary.controls), summary.unmeasured]
    counts = f"Judgments: {counted(summary.judgments.statuses())}. Outcomes: {counted(summary.outcomes.statuses)}."
    return " ".join(filter(None, [*before, f"{'; '.join(scores)}. {counts}"]))


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
    if asked.estimated != 0:
        lines.append(
            f"calls that timed out may have cost, besides: {money(asked.estimated)}"
            + (", an estimate" if asked.estimated else "")
        )
    saved = [f"{money(amount)} by {what}" for what, amount in asked.saved.items() if round(amount, 4)]
    return [*lines, f"saved: {', '.join(saved)}"] if saved else lines


def beside_layout(summary: Summary) -> list[str]:
    """Return lines on another layout than the published one: share of input from a cache, and command to compare.

    They are empty for other runs.
    """
    end, asked = summary.end, summary.judgments
    if end is None:
        return []
    return layout_lines(end.protocol, end.run_id, asked.tokens_in, asked.tokens_cached)


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
