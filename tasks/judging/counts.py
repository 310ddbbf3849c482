"""Counts of a run so far, and the warnings that follow; their size does not grow with the number of samples."""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from tasks.datasets.dataset import in_samples
from tasks.endpoint.replies import InputTokens
from tasks.judging.case import Call, Case, planned_calls
from tasks.pictures.preparation import Comparability
from tasks.records import Judgment, Outcome, Sample
from tasks.records.judge import Judge
from tasks.records.parameters import Parameters
from tasks.rubrics.rubric import Rubric
from tasks.spending.prices import BATCH
from tasks.text import counted, cut, well_formed

RATE_OVER = 200
"""Number of the last ended calls whose rate gives the time left."""


@dataclass
class CallCounts:
    """Calls and samples of a run while it judges, for its progress."""

    samples: int = 0
    """Samples in all, without controls and anchors."""
    samples_done: int = 0
    calls: int = 0
    """Calls to the judge in all, those about controls among them and reused answers not: they shrink as these come."""
    done: int = 0
    """Calls that have ended, each after its last attempt."""
    reused: int = 0
    """Answers reused from earlier runs."""
    not_ok: Counter[str] = field(default_factory=Counter[str])
    """Status -> ended calls with it, except ok."""
    _times: deque[float] = field(default_factory=lambda: deque[float](maxlen=RATE_OVER))
    """Time at which the first call began, then that of each ended call; the last ones only."""

    def plan(self, samples: Sequence[Sample], rubric: Rubric, parameters: Parameters) -> None:
        """Set the samples of the run, with the calls that these take if their pictures can be read."""
        self.samples = sum(not sample.control for sample in samples)
        self.calls = sum(planned_calls(sample, rubric, parameters).total() for sample in samples)

    def begin(self, case: Case, planned: int, reused: int) -> None:
        """Begin with a sample that has been read, whose calls may be fewer than planned."""
        self.calls += len(case.calls) - reused - planned
        self.reused += reused

    def answer(self, case: Case, call: Call) -> None:
        """Count a reply, unless the call is made again."""
        row = case.attempts(call)[-1]
        if not self._times:
            self._times.append(monotonic() - row.seconds)
        if not case.is_open(call):
            self._end(row.status)

    def end(self, case: Case) -> None:
        """Count a sample once its calls have ended; those still open are made no more."""
        if case.ended:
            return
        case.ended = True
        for call in case.calls:
            rows = case.attempts(call)
            if not rows or case.is_open(call):
                self._end(rows[-1].status if rows else "ok")  # needless, or put down for a batch
        self.samples_done += not case.sample.control

    def _end(self, status: str) -> None:
        self.done += 1
        self._times.append(monotonic())
        if status != "ok":
            self.not_ok[status] += 1

    @property
    def share(self) -> float:
        """Share of the calls that have ended; of the samples, if no call is made."""
        done, total = (self.done, self.calls) if self.calls else (self.samples_done, self.samples)
        return done / total if total else 0.0

    def seconds_left(self) -> float:
        """Return the expected time until the last call ends, by the rate of the last ones; 0: none is left or known."""
        if len(self._times) < 2:
            return 0.0
        return (self.calls - self.done) * (self._times[-1] - self._times[0]) / (len(self._times) - 1)


@dataclass
class RunCounts:
    """Counts of the run so far; their size does not grow with the number of samples."""

    calls: int = 0
    control_calls: int = 0
    reused: int = 0
    judgments: Counter[str] = field(default_factory=Counter[str])
    outcomes: Counter[str] = field(default_factory=Counter[str])
    models: set[str] = field(default_factory=set[str])
    rungs: set[str] = field(default_factory=set[str])
    not_sent: set[str] = field(default_factory=set[str])
    tiers: Counter[str] = field(default_factory=Counter[str])
    """Tier as billed, empty if not reported -> calls of this run that a model answered."""
    comparability: Comparability = field(default_factory=Comparability)
    unread: defaultdict[str, dict[str, str]] = field(default_factory=lambda: defaultdict[str, dict[str, str]](dict))
    """Kind of problem -> sample -> the sample with its file and its problem: samples decided by a picture that was
    present when the dataset was loaded, but could not be read later."""
    input_tokens: InputTokens = field(default_factory=InputTokens)

    def add(self, case: Case, counting: Iterable[Judgment], outcome: Outcome) -> None:
        """Count a decided sample; of a control only its calls, because it is no result of a candidate."""
        for row in case.judgments:
            self.calls += not row.reused_from
            self.control_calls += bool(row.control and not row.reused_from)
            self.reused += bool(row.reused_from)
            if row.judge_answered and not row.reused_from:
                self.tiers[row.service_tier] += 1
        if outcome.control:
            return
        for row in counting:
            self.judgments[row.status] += 1
            if row.judge_answered:
                self.models.add(row.judge_answered)
                self.rungs.add(row.rung)
                self.not_sent.update(row.not_sent)
        self.outcomes[outcome.status] += 1
        self.comparability.add(outcome)
        self._note_unread(case, outcome)

    def _note_unread(self, case: Case, outcome: Outcome) -> None:
        sample, problem = case.sample, outcome.problem
        role = next((role for role in sample.pictures if role not in case.pictures), "")
        if not problem or not role or sample.pictures[role].problem:
            return
        of_candidate = f"of candidate {sample.candidate}"
        whose = {"human": "Human picture", "model": f"Model picture {of_candidate}"}.get(role, f"image {of_candidate}")
        came = "a forfeit" if outcome.status == "forfeit" else "not scored"
        place = sample.pictures[role].place
        file = Path(place.path).name if place else ""
        words = problem if file in problem else f"{file}: {problem}"
        self.unread[f"unreadable {whose}: {came}"][sample.sample_id] = f"{sample.sample_id} ({words})"

    def warnings(self, judge: Judge) -> list[str]:
        """Return sentences for the reader about the replies of a judge and the pictures that it was shown."""
        left = sum(self.judgments[status] for status in ("unavailable", "invalid"))
        words = f"The batch left {left:,} calls without a reply that can be used: the same command asks for them"
        left_by_batch = [words] if left and judge.service_tier == BATCH else []
        return [
            *self.input_tokens.warnings(judge.base_url),
            *self.billed_otherwise(judge.service_tier),
            *left_by_batch,
            *(cut(well_formed(in_samples(what, where))) for what, where in self.unread.items()),
            *self.comparability.warnings(),
        ]

    def billed_otherwise(self, tier: str) -> list[str]:
        """Return warnings about replies billed in another tier than asked for, or without a tier."""
        others = {name: n for name, n in self.tiers.items() if name not in ("", tier)}
        untold = self.tiers[""] if tier != "standard" else 0
        bill = "only the provider's bill says whether they were, and they are priced here as standard"
        found = {
            f"were billed otherwise ({counted(others)})": sum(others.values()),
            f"do not say what they were bought as, {bill}": untold,
        }
        total = self.tiers.total()
        return [f"{n:,} of {total:,} replies {words}: judge.service_tier is {tier}" for words, n in found.items() if n]
