"""What a run came to, gathered from its ledger for a person to read.

Rows are read one at a time and let go: what stays is numbers, a few of them a sample (intervals are drawn from those),
and a few chosen rows. How it is shown is for `tables`, `charts` and `report`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeVar

from tasks.controls.status import ControlRate, control_rates, run_controls
from tasks.ledger.evaluations import read_evaluation
from tasks.ledger.reading import read_judgments, read_outcomes
from tasks.parameters import T2I
from tasks.records import MIXED, Judgment, Outcome, RunEnd, RunStart
from tasks.statistics.image_scores import GradeRow, grade_rows, threshold
from tasks.statistics.rates import RateRow, RateTally, repeated
from tasks.statistics.scores import ScoreRow, published_rows, score_rows
from tasks.synthetic.defects import CLEAN, FORFEIT
from tasks.synthetic.scene_defects import CLEAN_SCENE
from tasks.text import one_line

T = TypeVar("T")

PULL_APART = 2.0
"""Difference of the overall score from the aspects' mean that is worth a look."""
SHOWN = 5
"""Failures of a kind that are named; the others are counted."""


class Failure(NamedTuple):
    """A judgment that is not ok after its last attempt, or an outcome that is not complete."""

    sample_id: str
    candidate: str
    dimension: str
    """Empty for an outcome."""
    status: str
    words: str


class Catch(NamedTuple):
    """How many samples with one injected defect there are, and in how many of them the judge saw it."""

    kind: str
    known: int
    caught: int
    unjudged: int

    @property
    def clean(self) -> bool:
        """Nothing is wrong with these samples: to catch them means to prefer neither figure, to mark no image down."""
        return self.kind in CLEAN or self.kind == CLEAN_SCENE


class Telling(NamedTuple):
    """A sample worth looking at, and of a figure the judge's first reasoning for the verdict of each dimension."""

    why: str
    outcome: Outcome
    reasons: dict[str, str]


@dataclass
class JudgmentTally:
    """The judgments of a run, summed up. Attempts count as calls; for the statuses only the last one counts.

    Controls count in calls, tokens and price alone: they are paid for, and how they ended says nothing of the samples.
    """

    calls: int = 0
    reused: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    price: float | None = 0.0
    """None: no price is known."""
    ok: int = 0
    not_ok: dict[tuple[object, ...], Failure] = field(default_factory=dict[tuple[object, ...], Failure])

    def add(self, row: Judgment) -> None:
        """Take in the next row of the ledger."""
        self.calls += not row.reused_from
        self.reused += bool(row.reused_from)
        self.tokens_in += row.tokens_in
        self.tokens_out += row.tokens_out
        self.tokens_cached += row.tokens_cached
        self.price = None if self.price is None or row.price is None else self.price + row.price
        if row.control:
            return
        call = (row.sample_id, row.candidate, row.dimension, row.order, row.vote)
        self.not_ok.pop(call, None)
        if row.status == "ok":
            self.ok += 1
        else:
            words = one_line(row.error or row.finish_reason)
            self.not_ok[call] = Failure(row.sample_id, row.candidate, row.dimension, row.status, words)

    def statuses(self) -> Counter[str]:
        """Status -> judgments that count."""
        return Counter({"ok": self.ok}) + Counter(failure.status for failure in self.not_ok.values())


@dataclass
class OutcomeTally:
    """The outcomes of a run, summed up but for their scores."""

    good_from: float = 0.0
    """Score from which a generated image counts as good."""
    statuses: Counter[str] = field(default_factory=Counter[str])
    not_complete: list[Failure] = field(default_factory=list[Failure])
    """The first of them."""
    known: Counter[str] = field(default_factory=Counter[str])
    caught: Counter[str] = field(default_factory=Counter[str])
    unjudged: Counter[str] = field(default_factory=Counter[str])
    telling: dict[str, Outcome] = field(default_factory=dict[str, Outcome])

    def passing(self, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
        """Hand the outcomes on to whoever scores them, taking in each."""
        for outcome in outcomes:
            self.add(outcome)
            yield outcome

    def add(self, outcome: Outcome) -> None:
        """Take in the next row of the ledger."""
        self.statuses[outcome.status] += 1
        if outcome.status != "complete" and len(self.not_complete) < SHOWN:
            words = one_line(outcome.problem or outcome.path)
            self.not_complete.append(Failure(outcome.sample_id, outcome.candidate, "", outcome.status, words))
        if outcome.injected and outcome.injected not in FORFEIT:
            self.known[outcome.injected] += 1
            self.caught[outcome.injected] += outcome.caught is True
            self.unjudged[outcome.injected] += outcome.caught is None
        reasons = _reasons_to_look_at_an_image(outcome, self.good_from) if outcome.tag else _reasons_to_look(outcome)
        vacant = next((why for why in reasons if why not in self.telling), None)
        if vacant:
            self.telling[vacant] = outcome

    def catches(self) -> list[Catch]:
        """What became of the injected defects, by kind."""
        return [Catch(kind, n, self.caught[kind], self.unjudged[kind]) for kind, n in sorted(self.known.items())]


def _reasons_to_look(outcome: Outcome) -> Iterator[str]:
    verdicts = {each.verdict for each in outcome.dimensions}
    if outcome.status != "complete":
        yield "Not complete"
    if outcome.overall == "Model":
        yield "Won"
    if outcome.overall == "Human" and outcome.tier == "tier 1":
        yield "Lost in tier 1"
    if {"Model", "Human"} <= verdicts or MIXED in verdicts:
        yield "Verdicts pull apart"


def _reasons_to_look_at_an_image(outcome: Outcome, good_from: float) -> Iterator[str]:
    if outcome.score is None:
        yield "Not scored"
        return
    good = outcome.score >= good_from
    if outcome.satisfied is not None and outcome.satisfied != good:
        yield "Good, but not what was asked" if good else "What was asked, but not good"
    if outcome.aspect_mean is not None and abs(outcome.score - outcome.aspect_mean) >= PULL_APART:
        yield "Overall and aspects pull apart"
    yield "Good" if good else "Not good"


class Summary(NamedTuple):
    """All that is told about a run."""

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
    telling: list[Telling]
    controls: list[ControlRate]
    """What controls say of the judge; empty: the run had none."""
    rates: list[RateRow]
    """How far the judge agrees with itself, and what outcomes hang on."""
    published: list[ScoreRow]
    """Of a pairwise run that repeats orders or votes: what the published protocol alone comes to."""

    @property
    def all_ok(self) -> bool:
        """Every judgment is ok, every Human picture that is there can be read, and every image is there."""
        return not self.judgments.not_ok and not self.outcomes.statuses["bad_picture"]


def summarize(store: Path, run_id: str) -> Summary:
    """Sum a run up from its ledger, finished or not, or the finished shards of an evaluation from theirs.

    Raises:
        FileNotFoundError: the store has neither.
        InputError: a row that is damaged or was written by a newer version, with file and line.
    """
    start, end, runs = read_evaluation(store, run_id)
    images = start.flow in T2I
    outcomes, judgments = OutcomeTally(threshold(start) if images else 0.0), JudgmentTally()
    rates, again = RateTally(), repeated(start)
    passing = rates.passing(outcomes.passing(_rows(read_outcomes, runs)))
    rows = [] if images else score_rows(passing)
    grades = grade_rows(passing, outcomes.good_from) if images else []
    telling = [Telling(why, outcome, {}) for why, outcome in outcomes.telling.items()]
    for row in _rows(read_judgments, runs):
        judgments.add(row)
        if again:
            rates.hear(row)
        _note_reason(telling, row)
    found = control_rates(list(_rows(run_controls, runs)))
    published = published_rows(_rows(read_outcomes, runs)) if again and not images else []
    tallies = outcomes, judgments
    return Summary(store, start, end, rows, grades, *tallies, telling, found, rates.rows(), published)


def _rows(read: Callable[[Path], Iterable[T]], runs: Iterable[Path]) -> Iterator[T]:
    return chain.from_iterable(map(read, runs))


def _note_reason(telling: Iterable[Telling], row: Judgment) -> None:
    for each in telling:
        outcome = each.outcome
        verdicts = {found.dimension: found.verdict for found in outcome.dimensions}
        same = (outcome.sample_id, outcome.candidate, "") == (row.sample_id, row.candidate, row.control)
        if same and row.status == "ok" and verdicts.get(row.dimension) in (row.verdict, MIXED):
            each.reasons.setdefault(row.dimension, row.reasoning)
