"""What a run came to, gathered from its ledger for a person to read.

One pass over the outcomes and one over the judgments, keeping numbers and a few chosen rows: a run of 10,000 samples
takes no more memory than one of 100. How it is shown is for `tables`, `charts` and `report`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tasks.drawings.defects import CLEAN, FORFEIT
from tasks.ledger import folder, read_end, read_judgments, read_outcomes, read_start
from tasks.records import MIXED, Judgment, Outcome, RunEnd, RunStart
from tasks.scores import OVERALL, ScoreRow, score_rows
from tasks.wording import bounded, counted, coverage_words, one_line, score_with_interval

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
        """Nothing is wrong with these pairs: to catch them means to prefer neither figure."""
        return self.kind in CLEAN


class Telling(NamedTuple):
    """A sample worth looking at, and the judge's first reasoning for the verdict of each dimension."""

    why: str
    outcome: Outcome
    reasons: dict[str, str]


@dataclass
class JudgmentTally:
    """The judgments of a run, summed up. Attempts count as calls; for the statuses only the last one counts."""

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
        vacant = next((why for why in _reasons_to_look(outcome) if why not in self.telling), None)
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


class Summary(NamedTuple):
    """All that is told about a run."""

    store: Path
    start: RunStart
    end: RunEnd | None
    """None: the run is unfinished."""
    rows: list[ScoreRow]
    outcomes: OutcomeTally
    judgments: JudgmentTally
    telling: list[Telling]

    @property
    def all_ok(self) -> bool:
        """Every judgment is ok and every Human picture that is there can be read."""
        return not self.judgments.not_ok and not self.outcomes.statuses["bad_picture"]

    @property
    def sentence(self) -> str:
        """The run in one sentence: overall scores, coverage and the counts by status."""
        ranked = ranking(self.rows)
        scores = bounded([f"{one_line(row.candidate, 40)} {overall_words(row)}" for row in ranked[:3]], len(ranked))
        counts = f"Judgments: {counted(self.judgments.statuses())}. Outcomes: {counted(self.outcomes.statuses)}."
        return f"{'; '.join(scores)}. {counts}"


def ranking(rows: Iterable[ScoreRow]) -> list[ScoreRow]:
    """The overall row of each candidate over all samples, the best first and those without a score last."""
    overall = [row for row in rows if row.dimension == OVERALL and row.grouping == "all"]
    return sorted(overall, key=lambda row: -1.0 if row.score is None else row.score, reverse=True)


def overall_words(row: ScoreRow) -> str:
    """Score, interval and coverage of a candidate."""
    return f"{score_with_interval(row)}, {coverage_words(row)} samples scored"


def summarize(store: Path, run_id: str) -> Summary:
    """Sum a run up from its ledger, finished or not.

    Raises:
        FileNotFoundError: the store has no such run.
        ValueError: a row that is damaged or was written by a newer version, with file and line.
    """
    run = folder(store, run_id)
    outcomes, judgments = OutcomeTally(), JudgmentTally()
    rows = score_rows(outcomes.passing(read_outcomes(run)))
    telling = [Telling(why, outcome, {}) for why, outcome in outcomes.telling.items()]
    for row in read_judgments(run):
        judgments.add(row)
        _note_reason(telling, row)
    return Summary(store, read_start(run), read_end(run), rows, outcomes, judgments, telling)


def _note_reason(telling: Iterable[Telling], row: Judgment) -> None:
    for each in telling:
        outcome = each.outcome
        verdicts = {found.dimension: found.verdict for found in outcome.dimensions}
        same = (outcome.sample_id, outcome.candidate) == (row.sample_id, row.candidate)
        if same and row.status == "ok" and verdicts.get(row.dimension) in (row.verdict, MIXED):
            each.reasons.setdefault(row.dimension, row.reasoning)
