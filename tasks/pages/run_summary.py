"""What a run came to, gathered from its ledger for a person to read.

Rows are read one at a time and let go: what stays is numbers, a few of them a sample (intervals are drawn from those),
and a few chosen rows. How it is shown is for `summary_texts`, `rate_tables` and `artifact`.
"""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from tasks.controls.status import ControlRate, control_rates
from tasks.judging.results import results_of
from tasks.judging.tallies import JudgmentTally, NotableSample, OutcomeTally
from tasks.kinds import kind_of, terms_of
from tasks.kinds.display import Display, Terms
from tasks.ledger.anew import replies_anew
from tasks.ledger.evaluations import read_evaluation
from tasks.ledger.reading import read_judgments
from tasks.presentation.wording import Scored
from tasks.records import BudgetStop, RunEnd, RunStart
from tasks.statistics.rates import RateRow
from tasks.statistics.scores import ScoreRow


class Summary(NamedTuple):
    """All that is shown of a run."""

    store: Path
    start: RunStart
    end: RunEnd | None
    """None: the run is unfinished."""
    scores: Sequence[Scored]
    """Of every candidate, dimension or tag, and group of samples."""
    outcomes: OutcomeTally
    judgments: JudgmentTally
    notable: list[NotableSample]
    """Samples worth looking at, with the judge's reasons."""
    controls: list[ControlRate]
    """What controls say of the judge; empty: the run had none."""
    rates: list[RateRow]
    """How far the judge agrees with itself, and which verdicts outcomes depend on."""
    unmeasured: str
    """A sentence where a finished run measured nothing, or stopped at its budget; else nothing."""

    @property
    def stopped(self) -> BudgetStop | None:
        """Where it stopped at its budget; None: it did not."""
        return self.end.stopped if self.end else None

    @property
    def uncompared(self) -> str:
        """Why it is compared with no other run; empty where it may be."""
        if self.stopped:
            return "The run stopped at its budget"
        return "Nothing was measured" if self.unmeasured else ""

    @property
    def display(self) -> Display[Any]:
        """How what was judged is shown."""
        return kind_of(self.start.flow).display

    @property
    def terms(self) -> Terms:
        """What the scores are read by."""
        return terms_of(self.start.flow, self.start.endpoint, self.start.parameters)

    @property
    def published(self) -> list[ScoreRow]:
        """What the published protocol alone comes to, where a run asked for more."""
        return [row for row in self.scores if isinstance(row, ScoreRow) and row.measure == "published"]

    @property
    def all_ok(self) -> bool:
        """All samples were judged, every judgment is ok, every picture can be read, and every image is there."""
        statuses = self.outcomes.statuses
        not_ok = self.judgments.not_ok or statuses["bad_picture"] or statuses["incomplete"]
        return not (self.stopped or not_ok)


def summarize(store: Path, run_id: str) -> Summary:
    """Sum a run up from its ledger, finished or not, or the finished shards of an evaluation from theirs.

    Raises:
        FileNotFoundError: the store has neither.
        InputError: a row that is damaged or was written by a newer version, with file and line.
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
