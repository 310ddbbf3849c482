"""Counts over the judgments and outcomes of a run, row by row; scores and rates are computed elsewhere."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tasks.datasets.folders import NO_PICTURE
from tasks.demo.labels import CLEAN, CLEAN_SCENE, FORFEIT
from tasks.protocols.display import Display
from tasks.records import MIXED, Judgment, Outcome
from tasks.spending.money import place
from tasks.text import one_line

SAVED_BY = ("reuse", "service tier", "cache")
SHOWN = 5


class Failure(NamedTuple):
    """Judgment that is not ok after its last attempt, or outcome that is not complete."""

    sample_id: str
    candidate: str
    dimension: str
    """Empty for an outcome."""
    status: str
    words: str


class DefectCount(NamedTuple):
    """Number of samples with one injected defect, and of those in which the judge noticed it."""

    kind: str
    known: int
    caught: int
    unjudged: int

    @property
    def clean(self) -> bool:
        """Return whether these samples have no defect: the judge catches them if it reports none."""
        return self.kind in CLEAN or self.kind == CLEAN_SCENE


class NotableSample(NamedTuple):
    """Sample worth looking at; for a figure with the judge's first reasoning for the verdict of each dimension."""

    why: str
    outcome: Outcome
    reasons: dict[str, str]

    def note_reason(self, row: Judgment) -> None:
        """Keep the reasoning of a judgment if it is the first that led to a verdict of this sample."""
        outcome = self.outcome
        verdicts = {found.dimension: found.verdict for found in outcome.dimensions}
        same = (outcome.sample_id, outcome.candidate, "") == (row.sample_id, row.candidate, row.control)
        if same and row.status == "ok" and verdicts.get(row.dimension) in (row.verdict, MIXED):
            self.reasons.setdefault(row.dimension, row.reasoning)


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
    """Sum of the prices; None: one is unknown."""
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
        self.tokens_in += row.tokens_in
        self.tokens_out += row.tokens_out
        self.tokens_cached += row.tokens_cached
        self.tokens_written += row.tokens_written
        self.tokens_reasoning += row.tokens_reasoning
        self.price = _sum(self.price, row.price)
        self.estimated = _sum(self.estimated, row.estimated)
        for what, amount in zip(
            SAVED_BY, (row.saved_by_reuse, row.saved_by_service_tier, row.saved_by_cache), strict=True
        ):
            self.saved[what] += amount or 0.0
        if row.price is not None:
            self.places.add(place(row.price_source))
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
        """Return status -> number of judgments that count."""
        return Counter({"ok": self.ok}) + Counter(failure.status for failure in self.not_ok.values())


def _sum(known: float | None, more: float | None) -> float | None:
    return None if known is None or more is None else known + more


@dataclass
class OutcomeTally:
    """Counts over the outcomes of a run, without their scores."""

    display: Display[Any]
    good_from: float
    """Score from which a sample counts as good, if the kind has such a threshold."""
    statuses: Counter[str] = field(default_factory=Counter[str])
    not_complete: list[Failure] = field(default_factory=list[Failure])
    """First outcomes that are not complete, except those that the run's warnings cover."""
    told_before: int = 0
    """Outcomes without a picture that was already missing before the first call: a warning names it."""
    known: Counter[str] = field(default_factory=Counter[str])
    caught: Counter[str] = field(default_factory=Counter[str])
    unjudged: Counter[str] = field(default_factory=Counter[str])
    notable: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    """Reason to look at a sample -> first outcome with it."""

    def add(self, outcome: Outcome) -> None:
        """Add the next row of the ledger."""
        self.statuses[outcome.status] += 1
        if outcome.problem.startswith(NO_PICTURE):
            self.told_before += 1
        elif outcome.status != "complete" and len(self.not_complete) < SHOWN:
            words = one_line(outcome.problem or outcome.tier_path)
            self.not_complete.append(Failure(outcome.sample_id, outcome.candidate, "", outcome.status, words))
        if outcome.injected and outcome.injected not in FORFEIT:
            self.known[outcome.injected] += 1
            self.caught[outcome.injected] += outcome.caught is True
            self.unjudged[outcome.injected] += outcome.caught is None
        reasons = self.display.notable(outcome, self.good_from)
        if new := next((why for why in reasons if why not in self.notable), ""):
            self.notable[new] = outcome

    def notable_samples(self) -> list[NotableSample]:
        """Return the samples worth looking at, so far without reasons."""
        return [NotableSample(why, outcome, {}) for why, outcome in self.notable.items()]

    def defects(self) -> list[DefectCount]:
        """Return the counts of the injected defects, by kind."""
        return [DefectCount(kind, n, self.caught[kind], self.unjudged[kind]) for kind, n in sorted(self.known.items())]
