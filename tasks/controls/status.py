"""Rates of a judge's failures on control samples, each green, amber or red, with the reasons for the thresholds.

Each question counts by the share of its answers on which the judge failed, so that orders and votes do not matter.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import Literal

from tasks.protocols import control_rules_of
from tasks.protocols.controls import Heard, Original
from tasks.records import (
    CONTROL_MEASURES,
    FALSE_PREFERENCE,
    INJECTION,
    NEGLECT,
    DimensionOutcome,
    HistoryRecord,
    Outcome,
    OutcomeStatus,
    Record,
)
from tasks.statistics.intervals import Interval, proportion

Colour = Literal["green", "amber", "red"]

TOLERABLE = 0.1
"""Tolerable share of failures: temperature alone makes a good judge err this often. Red needs proof of more: the whole
95% interval lies above it (2 of 2, 3 of 6, 5 of 12, 7 of 24). It hardly ever accuses a good judge. The same must hold
for the share of samples with a failure, because the four answers on one pair may well be alike."""
UNPROVEN = 0.5
"""Share of failures that green must exclude: the whole interval lies below it (0 of 6, 1 of 12). With fewer controls, a
judge that fails every other time would pass."""


MEASURES = tuple(dict.fromkeys(CONTROL_MEASURES.values()))


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
    questions: int
    """Questions of the control: one a dimension for false preference between figures, else one."""
    answered: int
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
    if not rows:
        return []
    return [_rate_of(measure, [row for row in rows if row.measure == measure]) for measure in MEASURES]


def _rate_of(measure: str, rows: Sequence[ControlRow]) -> ControlRate:
    told = [row.failed for row in rows]
    answered = sum(row.answered for row in rows)
    return control_rate(
        measure,
        n=answered,
        failed=sum(row.failures for row in rows),
        unusable=sum(row.questions for row in rows) - answered,
        samples=told.count(True) + told.count(False),
        failed_samples=told.count(True),
    )


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
    return f"{found.failed:.1f}".removesuffix(".0") + f" of {found.n}"


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
