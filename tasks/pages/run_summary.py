"""What a run came to, gathered from its ledger for a person to read.

Rows are read one at a time and let go: what stays is numbers, a few of them a sample (intervals are drawn from those),
and a few chosen rows. How it is shown is for `summary_texts`, `rate_tables` and `artifact`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from tasks.controls.status import ControlRate, control_rates, control_rows
from tasks.ledger.evaluations import read_evaluation
from tasks.ledger.reading import read_controls, read_judgments, read_outcomes
from tasks.pages.run_tallies import JudgmentTally, OutcomeTally
from tasks.parameters import T2I
from tasks.records import Judgment, Outcome, RunEnd, RunStart
from tasks.statistics.image_scores import GradeRow, GradeTally, threshold
from tasks.statistics.rates import RateRow, RateTally, repeated
from tasks.statistics.scores import PublishedScoreTally, ScoreRow, ScoreTally


class Summary(NamedTuple):
    """All that is shown of a run."""

    store: Path
    start: RunStart
    end: RunEnd | None
    """None: the run is unfinished."""
    rows: list[ScoreRow]
    """Scores of a pairwise run."""
    grades: list[GradeRow]
    """Scores of a text-to-image run."""
    outcomes: OutcomeTally
    judgments: JudgmentTally
    controls: list[ControlRate]
    """What controls say of the judge; empty: the run had none."""
    rates: list[RateRow]
    """How far the judge agrees with itself, and which verdicts outcomes depend on."""
    published: list[ScoreRow]
    """Of a pairwise run that repeats orders or votes: what the published protocol alone comes to."""

    @property
    def all_ok(self) -> bool:
        """Every judgment is ok, every Human picture that is there can be read, and every image is there."""
        return not self.judgments.not_ok and not self.outcomes.statuses["bad_picture"]


class SummaryTally:
    """A summary while the rows of a run are read once: first all outcomes, then all judgments."""

    def __init__(self, start: RunStart, controls: Sequence[Outcome]) -> None:
        self._start = start
        self._repeated = repeated(start)
        images = start.flow in T2I
        good_from = threshold(start) if images else 0.0
        self._outcomes, self._judgments = OutcomeTally(good_from), JudgmentTally()
        self._scores, self._grades, self._published = ScoreTally(), GradeTally(good_from), PublishedScoreTally()
        self._rates = RateTally()
        pairwise: list[_Adds] = [self._scores, *[self._published] * self._repeated]
        self._adding: list[_Adds] = [self._outcomes, *([self._grades] if images else pairwise)]
        self._controls = controls
        self._controlled = {_place(control) for control in controls}
        self._originals: list[Outcome] = []

    def add_outcome(self, outcome: Outcome) -> None:
        """Take in the outcome of the next real sample."""
        for tally in self._adding:
            tally.add(outcome)
        self._rates.decide(outcome)
        if _place(outcome) in self._controlled:
            self._originals.append(outcome)

    def add_judgment(self, row: Judgment) -> None:
        """Take in the next judgment, a control's or a real sample's, once all outcomes are known."""
        self._judgments.add(row)
        if self._repeated:
            self._rates.hear(row)
        for sample in self._outcomes.notable:
            sample.note_reason(row)

    def summary(self, store: Path, end: RunEnd | None) -> Summary:
        """What all these rows come to."""
        return Summary(
            store=store,
            start=self._start,
            end=end,
            rows=self._scores.rows(),
            grades=self._grades.rows(),
            outcomes=self._outcomes,
            judgments=self._judgments,
            controls=control_rates(control_rows(self._controls, self._originals)),
            rates=self._rates.rows(),
            published=self._published.rows(),
        )


class _Adds(Protocol):
    def add(self, outcome: Outcome, /) -> None: ...


def summarize(store: Path, run_id: str) -> Summary:
    """Sum a run up from its ledger, finished or not, or the finished shards of an evaluation from theirs.

    Raises:
        FileNotFoundError: the store has neither.
        InputError: a row that is damaged or was written by a newer version, with file and line.
    """
    start, end, runs = read_evaluation(store, run_id)
    tally = SummaryTally(start, [control for run in runs for control in read_controls(run)])
    for run in runs:
        for outcome in read_outcomes(run):
            tally.add_outcome(outcome)
    for run in runs:
        for row in read_judgments(run):
            tally.add_judgment(row)
    return tally.summary(store, end)


def _place(outcome: Outcome) -> tuple[str, str]:
    return outcome.candidate, outcome.sample_id
