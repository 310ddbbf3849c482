"""Scores, rates, controls and counts of an evaluation, from one pass over its rows."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from heapq import nsmallest
from itertools import chain
from pathlib import Path
from statistics import fmean
from threading import RLock
from typing import Literal, NamedTuple

from tasks.datasets.paths import NO_PICTURE
from tasks.demo.defects import CLEAN, CLEAN_SCENE, FORFEIT
from tasks.ledger.run_files import OUTCOMES, read_judgments, read_outcomes
from tasks.presentation.wording import Scored
from tasks.protocols import control_rules_of, display_of, protocol_of
from tasks.protocols.controls import Heard, Original
from tasks.protocols.display import threshold_of
from tasks.records import (
    ANCHOR,
    CONTROL_MEASURES,
    FALSE_PREFERENCE,
    INJECTION,
    MIXED,
    NEGLECT,
    DimensionOutcome,
    HistoryRecord,
    Int32,
    Judgment,
    Order,
    Outcome,
    OutcomeStatus,
    Record,
    RunStart,
)
from tasks.statistics.intervals import Interval, proportion
from tasks.statistics.rates import Answer, RateRow, RateTally, answer, repeated
from tasks.statistics.scores import alike
from tasks.statistics.series import BesideBest, Compared, Measured, beside_best, series
from tasks.text import one_line

Colour = Literal["green", "amber", "red"]

TOLERABLE = 0.1
"""Tolerable share of failures: temperature alone makes a good judge err this often. Red needs proof of more: the whole
95% interval lies above it (2 of 2, 3 of 6, 5 of 12, 7 of 24). It hardly ever accuses a good judge. The same must hold
for the share of samples with a failure, because the four answers on one pair may well be alike."""
UNPROVEN = 0.5
"""Share of failures that green must exclude: the whole interval lies below it (0 of 6, 1 of 12). With fewer controls, a
judge that fails every other time would pass."""


class ControlRow(HistoryRecord):
    """One control sample and its result: a row of the history's table `controls`."""

    flow: str
    """Flow of the run."""
    candidate: str
    """System whose sample the control was made of; the result describes the judge."""
    sample_id: str
    """Sample that the control was made of."""
    control: str
    """Kind of control. `same picture`: the Human one on both sides. `re-encoded`: the Human one, or the image, in
    another file format. `other sample`: a picture of another sample. `blank`: white. `instruction`: painted into the
    picture."""
    measure: str
    """Rate of the judge that the control counts for: false preference, neglect or injection."""
    status: OutcomeStatus
    """Status of its outcome, as in `outcomes`."""
    overall: str | None
    """Model, Human or Tie; Model is the control. None for generated images."""
    score: float | None
    """Score of the control, as in `outcomes`."""
    dimensions: tuple[DimensionOutcome, ...]
    """Merged votes and orders of each dimension or tag, as in `outcomes`."""
    real_overall: str | None
    """Overall of the sample as it is, for comparison with an instruction."""
    real_score: float | None
    """Score of the sample as it is."""
    failed: bool | None
    """True if the judge failed in any answer. False preference: a winner in any dimension, or 2 points of difference.
    Neglect: Model won, or faithfulness is not Human, or the score is no lower. Injection: the overall turned to Model,
    or the score rose by 2. None: no such answer, and not all are usable, because a verdict is missing or nothing was
    left to win or lose."""
    questions: Int32
    """Questions of the control: one a dimension for false preference between figures, else one."""
    answered: Int32
    """Questions with a usable answer."""
    failures: float
    """Sum over the answered questions of the share of answers, in all orders and votes, on which the judge failed."""


class ControlRate(Record):
    """One rate of one run."""

    measure: str
    n: int
    """Questions with a usable answer."""
    failed: float
    """Sum over these `n` questions of the share of their answers on which the judge failed."""
    unusable: int
    """Questions without a usable answer; neither `n` nor `failed` includes them."""
    samples: int
    """Control samples whose `failed` is true or false."""
    failed_samples: int
    """Control samples on which the judge failed in any answer."""
    value: float | None
    """failed / n; None if no question has a usable answer."""
    ci_low: float | None
    ci_high: float | None
    method: str
    status: Colour


def control_rates(rows: Sequence[ControlRow]) -> list[ControlRate]:
    """Return the three rates of a run; none if it had no controls."""
    found: list[ControlRate] = []
    for measure in dict.fromkeys(CONTROL_MEASURES.values()) if rows else ():
        its = [row for row in rows if row.measure == measure]
        answered, told = sum(row.answered for row in its), [row.failed for row in its if row.failed is not None]
        unusable = sum(row.questions for row in its) - answered
        failures = sum(row.failures for row in its)
        found.append(control_rate(measure, answered, failures, unusable, len(told), sum(told)))
    return found


def control_rate(measure: str, n: int, failed: float, unusable: int, samples: int, failed_samples: int) -> ControlRate:
    """Return one rate and its status, from the sum of the failed shares of `n` questions on so many samples.

    The interval is the exact binomial one, which is rather too wide, because shares scatter less than whole failures.
    """
    found, by_sample = proportion(failed, n), proportion(failed_samples, samples)
    return ControlRate(
        measure=measure,
        n=n,
        failed=failed,
        unusable=unusable,
        samples=samples,
        failed_samples=failed_samples,
        **found._asdict(),
        status=_colour(found, by_sample),
    )


def status_lines(found: Sequence[ControlRate]) -> list[str]:
    """Return a line for each rate, its color as sign and as word: `neglect: ✗ RED, 6 of 6 [54%, 100%] …`."""
    return [f"{each.measure}: {_SIGNS[each.status]}, {_rate(each)}{_remarks(each)}" for each in found]


def red_words(found: Sequence[ControlRate]) -> str:
    """Return a sentence that names the red rates; empty if there are none."""
    named = [f"{each.measure} {_count(each)}" for each in found if each.status == "red"]
    return f"Controls RED: {', '.join(named)}: do not trust this judge's scores." if named else ""


TRUST = {"GREEN": "passed its controls", "AMBER": "controls in doubt", "RED": "failed its controls"}
"""Status of a judge -> its meaning in a few words."""


def judge_status(found: Sequence[ControlRate]) -> str:
    """Return the worst status of a run's controls, as sign and word."""
    statuses = {each.status for each in found}
    return next((sign for status, sign in _SIGNS.items() if status in statuses), "no controls")


def _colour(found: Interval, by_sample: Interval) -> Colour:
    if found.value is None or found.ci_high is None:
        return "amber"
    if all(each.ci_low is not None and each.ci_low > TOLERABLE for each in (found, by_sample)):
        return "red"
    return "green" if found.value <= TOLERABLE and found.ci_high < UNPROVEN else "amber"


_SIGNS: dict[Colour, str] = {"red": "✗ RED", "amber": "! AMBER", "green": "✓ GREEN"}
"""Status -> its sign and word, the worst first."""
_FAILURES = {
    FALSE_PREFERENCE: "told equal pictures apart",
    NEGLECT: "passed a foreign or blank picture",
    INJECTION: "obeyed a painted order",
}


def _rate(found: ControlRate) -> str:
    if not found.n:
        return "no usable answer"
    reach = "" if found.ci_low is None or found.ci_high is None else f" [{found.ci_low:.0%}, {found.ci_high:.0%}]"
    return f"{_count(found)}{reach} {_FAILURES[found.measure]}"


def _count(found: ControlRate) -> str:
    """Return the failures as a count; as a share where some answers to one question failed and others did not."""
    whole = round(found.failed)
    if abs(found.failed - whole) < 1e-9:
        return f"{whole} of {found.n}"
    return f"{found.failed / found.n:.0%} (n = {found.n})"


def _remarks(found: ControlRate) -> str:
    """Return the remarks on a rate: too few controls, and the number of undetermined questions.

    Controls are too few if all ended alike under amber: more controls with the same result would change the color.
    """
    too_few = found.status == "amber" and found.n and found.failed in (0, found.n)
    return "; too few controls" * bool(too_few) + f"; {found.unusable} undetermined" * bool(found.unusable)


def control_row(control: Outcome, real: Original | None, heard: Heard) -> ControlRow:
    """Return the result of a control, with that of the sample that it was made of, if there is one."""
    shares = control_rules_of(control.flow).failures(control, real, heard)
    known = [share for share in shares if share is not None]
    return ControlRow(
        flow=control.flow,
        candidate=control.candidate,
        sample_id=control.sample_id,
        control=control.control,
        measure=CONTROL_MEASURES[control.control],
        status=control.status,
        overall=control.overall,
        score=control.score,
        dimensions=control.dimensions,
        real_overall=real.overall if real else None,
        real_score=real.score if real else None,
        failed=True if any(known) else False if len(known) == len(shares) else None,
        questions=len(shares),
        answered=len(known),
        failures=sum(known),
    )


class AnchorRow(HistoryRecord):
    """One anchor and its result: a row of the history's table `anchor_outcomes`."""

    flow: str
    """Flow of the run."""
    candidate: str
    """System whose figure or image the anchor is; the candidates of the run may be others."""
    sample_id: str
    """Id of the anchor: the id of the frozen sample."""
    category: str
    """Category of the anchor; empty: none."""
    tag: str
    """Tag of the text-to-image prompt; empty for figures."""
    status: OutcomeStatus
    """Status of its outcome, as in `outcomes`."""
    score: float | None
    """Mean of its dimensions' scores, 0-100; for an image the overall score, 0-10. None if one is missing."""
    dimensions: tuple[DimensionOutcome, ...]
    """Result of each dimension or tag, as in `outcomes`."""


def anchor_row(anchor: Outcome) -> AnchorRow:
    """Return the outcome of an anchor, with the mean of its dimensions, which has half the noise of the overall."""
    scores = [each.score for each in anchor.dimensions if each.score is not None]
    whole = bool(scores) and len(scores) == len(anchor.dimensions)
    return AnchorRow(
        flow=anchor.flow,
        candidate=anchor.candidate,
        sample_id=anchor.sample_id,
        category=anchor.category,
        tag=anchor.tag,
        status=anchor.status,
        score=fmean(scores) if whole else None,
        dimensions=anchor.dimensions,
    )


SHOWN = 5
LOWEST = 3
"""Samples that the artifact shows."""


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


class LowSample(NamedTuple):
    """Sample with a low score; for a figure with the judge's first reasoning for the verdict of each dimension."""

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
class OutcomeTally:
    """Counts over the outcomes of a run, without their scores."""

    good_from: float
    """See `threshold_of`."""
    statuses: Counter[str] = field(default_factory=Counter[str])
    not_complete: list[Failure] = field(default_factory=list[Failure])
    """First outcomes that are not complete, except those that the run's warnings cover."""
    told_before: int = 0
    """Outcomes without a picture that was already missing before the first call: a warning names it."""
    known: Counter[str] = field(default_factory=Counter[str])
    caught: Counter[str] = field(default_factory=Counter[str])
    unjudged: Counter[str] = field(default_factory=Counter[str])
    lowest: list[Outcome] = field(default_factory=list[Outcome])
    """Samples to look at: those with the lowest means, as on pages, and others only where too few are complete."""

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
        self.lowest = nsmallest(LOWEST, [*self.lowest, outcome], key=_lowest_first)

    def defects(self) -> list[DefectCount]:
        """Return the counts of the injected defects, by kind."""
        return [DefectCount(kind, n, self.caught[kind], self.unjudged[kind]) for kind, n in sorted(self.known.items())]


def _lowest_first(outcome: Outcome) -> tuple[bool, float, str, str]:
    scores = [each.score for each in outcome.aspects or outcome.dimensions if each.score is not None]
    return outcome.status != "complete", fmean(scores) if scores else 0.0, outcome.sample_id, outcome.candidate


KEPT = 4
"""Evaluations whose results are kept: a run, its shards together, and the one before it."""


_Place = tuple[str, str, str]
"""Candidate and id of a sample, and the control of it; empty: the sample itself."""
_Votes = dict[str, dict[Order, list[Answer]]]
_original = lru_cache(maxsize=1024)(Original)


class Results:
    """Results of one evaluation. Add all outcomes before reading values that are computed from all of them."""

    def __init__(self, start: RunStart, runs: Sequence[Path]) -> None:
        """Begin without outcomes; `start` is that of any run, `runs` are the ledger folders of all."""
        self._protocol, self._display = protocol_of(start.flow), display_of(start.flow)
        self._start, self._runs = start, runs
        self._scores = self._protocol.score_tally(start)
        self._rates = RateTally()
        self._controls: list[Outcome] = []
        self.anchors: list[AnchorRow] = []
        self._originals: defaultdict[str, dict[str, Original]] = defaultdict(dict)
        self.outcomes = OutcomeTally(threshold_of(start.flow, start.parameters))
        # A shard may lack samples of a candidate that other shards have.
        self._compares_candidates = len(start.candidates) > 1 or start.shards > 1
        self.by_candidate: defaultdict[str, list[Measured]] = defaultdict(list)
        """Candidate -> values of its samples that are compared with those of other candidates, if there are any."""

    def add(self, outcome: Outcome) -> None:
        """Add the next outcome, of a real sample, of a control or of an anchor."""
        if outcome.control == ANCHOR:
            self.anchors.append(anchor_row(outcome))
            return
        if outcome.control:
            self._controls.append(outcome)
            return
        self._scores.add(outcome)
        self._rates.decide(outcome)
        self.outcomes.add(outcome)
        if self._compares_candidates:
            measured = self._protocol.measured(Compared.of(outcome))
            values = alike(tuple(measured.values.items()))
            self.by_candidate[outcome.candidate].append(measured._replace(values=values))
        self._originals[outcome.candidate][outcome.sample_id] = _original(outcome.overall, outcome.score)

    @cached_property
    def scores(self) -> Sequence[Scored]:
        """Scores of every candidate, dimension or tag, and group of samples."""
        rows = self._scores.rows()
        headline = self._display.headline(rows)
        return versus_best(rows, self.by_candidate, headline[0].score.candidate) if headline else rows

    @cached_property
    def rates(self) -> list[RateRow]:
        """Rates of the judge's agreement with itself; judgments are read for them if it was asked more than once."""
        asked_again = self._runs if repeated(self._start) else ()
        return self._rates.rows(chain.from_iterable(map(read_judgments, asked_again)))

    @cached_property
    def controls(self) -> list[ControlRow]:
        """Result of each control sample, with the outcome of the sample that it was made of."""
        votes = self._control_votes()
        return [
            control_row(control, self._originals.get(control.candidate, {}).get(control.sample_id), heard)
            for control in self._controls
            for place in [(control.candidate, control.sample_id)]
            for heard in [Heard(votes[*place, control.control], votes[*place, ""])]
        ]

    def _control_votes(self) -> defaultdict[_Place, _Votes]:
        """Return the ok answers about controls and the samples that they were made of; none if there is one vote."""
        found: defaultdict[_Place, _Votes] = defaultdict(dict)
        if not self._controls or self._start.parameters.get("votes", 1) == 1:
            return found
        wanted = {(control.candidate, control.sample_id) for control in self._controls}
        for row in chain.from_iterable(map(read_judgments, self._runs)):
            if (said := answer(row)) is not None and (row.candidate, row.sample_id) in wanted:
                by_order = found[row.candidate, row.sample_id, row.control].setdefault(row.dimension, {})
                by_order.setdefault(row.order, []).append(said)
        return found


def versus_best(rows: Sequence[Scored], by_candidate: Mapping[str, Sequence[Measured]], best: str) -> Sequence[Scored]:
    """Return the scores of a run, those over all samples with the paired difference of their candidate from the best.

    Candidates of one run share prompts and references, so that overlapping intervals mean little.
    """
    if len(by_candidate) < 2:
        return rows
    found = beside_best({candidate: series(samples) for candidate, samples in by_candidate.items()}, best)
    named = {
        (candidate, measure.dimension, measure.measure): each
        for candidate, its in found.items()
        for measure, each in its.items()
    }
    told = ((row, named.get((row.candidate, row.dimension, row.measure))) for row in rows)
    return [_with_best(row, each, len(by_candidate)) if each and row.grouping == "all" else row for row, each in told]


def _with_best(row: Scored, beside: BesideBest, among: int) -> Scored:
    found = beside.difference
    told = {
        "vs_best": found.change,
        "vs_best_low": found.ci_low,
        "vs_best_high": found.ci_high,
        "vs_best_n": found.n,
        "vs_best_of": found.of,
        "vs_best_worst_low": found.worst_low,
        "vs_best_worst_high": found.worst_high,
        "vs_best_p": beside.p,
        "vs_best_among": among,
    }
    return row.model_copy(update=told)


_kept: dict[tuple[tuple[str, int], ...], Results] = {}
_lock = RLock()


def results_of(start: RunStart, runs: Sequence[Path]) -> Results:
    """Return the results of the evaluation in these ledger folders, read again only if the ledgers grow."""
    with _lock:
        found = _kept.get(_key(runs))
        if found is None:
            found = Results(start, runs)
            for outcome in chain.from_iterable(map(read_outcomes, runs)):
                found.add(outcome)
        keep_results(found, runs)
        return found


def keep_results(results: Results, runs: Sequence[Path]) -> None:
    """Keep the results of a run that was judged in this process, after its ledger is written."""
    with _lock:
        key = _key(runs)
        _kept.pop(key, None)  # the oldest are those that were asked for longest ago
        _kept[key] = results
        while len(_kept) > KEPT:
            del _kept[next(iter(_kept))]


def _key(runs: Sequence[Path]) -> tuple[tuple[str, int], ...]:
    # A ledger only grows, so its size shows whether rows were added.
    files = [run / OUTCOMES for run in runs]
    return tuple((str(file), file.stat().st_size if file.exists() else 0) for file in files)
