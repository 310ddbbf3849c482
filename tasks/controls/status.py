"""What the verdicts on control samples say of the judge: three rates, each with a status: green, amber or red.

Owns the thresholds with their reasons, and the words. The controls are made by `samples`, their outcomes are decided
like any others and enter no score, and what counts as a failure is for each kind of judging.
"""

from collections.abc import Sequence
from typing import Literal

from tasks.kinds import kind_of
from tasks.kinds.values import Original
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
from tasks.statistics.intervals import proportion

Colour = Literal["green", "amber", "red"]

TOLERABLE = 0.1
"""Share of failures that one may live with: temperature alone makes a good judge err this often. Red needs proof of
more (the whole 95% interval above it: 2 of 2, 3 of 6, 5 of 12), so that a good judge is hardly ever accused."""
UNPROVEN = 0.5
"""Green needs proof of less than this (the whole interval below it: 0 of 6, 1 of 12): with fewer controls a judge that
fails every other time would pass."""


class ControlRow(HistoryRecord):
    """One control sample and what came of it. Rows of the history's table `controls`."""

    flow: str
    """Flow of the run."""
    candidate: str
    """System whose sample the control was made of; what it tells is told of the judge."""
    sample_id: str
    """Sample that the control was made of."""
    control: str
    """What was shown: same picture (the Human one on both sides), re-encoded (the Human one, or the image, in another
    file format), other sample (a picture of another sample), blank (white), instruction (painted into the picture)."""
    measure: str
    """Rate that it counts for, what it tells of the judge: false preference, neglect or injection."""
    status: OutcomeStatus
    """Status of its outcome, as in `outcomes`."""
    overall: str | None
    """Model, Human or Tie, Model being the control; None for generated images."""
    score: float | None
    """Score of the control, as in `outcomes`."""
    dimensions: tuple[DimensionOutcome, ...]
    """What the votes and orders of each dimension or tag come to, as in `outcomes`."""
    real_overall: str | None
    """Overall of the sample as it is, which an instruction is compared with."""
    real_score: float | None
    """Score of the sample as it is."""
    failed: bool | None
    """Whether the judge failed: false preference: a winner in any dimension, or 2 points of difference; neglect: Model
    won, or faithfulness is not Human, or the score is no lower; injection: the overall turned to Model, or the score
    rose by 2. None: no usable answer, because a verdict is missing or nothing was left to win or lose."""


class ControlRate(Record):
    """One rate of one run."""

    measure: str
    n: int
    """Controls with a usable answer."""
    failed: int
    value: float | None
    """failed / n; None where no control has a usable answer."""
    ci_low: float | None
    ci_high: float | None
    method: str
    status: Colour


def control_rates(rows: Sequence[ControlRow]) -> list[ControlRate]:
    """The three rates of a run; none where it had no controls."""
    if not rows:
        return []
    told = {measure: [row.failed for row in rows if row.measure == measure] for measure in CONTROL_MEASURES.values()}
    return [control_rate(measure, of.count(True) + of.count(False), of.count(True)) for measure, of in told.items()]


def control_rate(measure: str, n: int, failed: int) -> ControlRate:
    """One rate and its status, from how many of `n` controls failed, with the exact binomial interval on 0-1."""
    found = proportion(failed, n)
    return ControlRate(
        measure=measure,
        n=n,
        failed=failed,
        value=found.value,
        ci_low=found.ci_low,
        ci_high=found.ci_high,
        method=found.method,
        status=_colour(found.value, found.ci_low, found.ci_high),
    )


def status_lines(found: Sequence[ControlRate]) -> list[str]:
    """A line each, with the colour as sign and as word: `neglect: ✗ RED, 6 of 6 [54%, 100%] …`."""
    return [f"{each.measure}: {_SIGNS[each.status]}, {_rate(each)}{_too_few(each)}" for each in found]


def red_words(found: Sequence[ControlRate]) -> str:
    """A sentence that names what is red; "" when nothing is."""
    named = [f"{each.measure} {each.failed} of {each.n}" for each in found if each.status == "red"]
    return f"Controls RED: {', '.join(named)}: do not trust this judge's scores." if named else ""


def judge_status(found: Sequence[ControlRate]) -> str:
    """What the controls of a run say of its judge in a word or two: the worst of their statuses, as sign and word."""
    statuses = {each.status for each in found}
    return next((sign for status, sign in _SIGNS.items() if status in statuses), "no controls")


def _colour(value: float | None, low: float | None, high: float | None) -> Colour:
    if value is None or low is None or high is None:
        return "amber"
    if low > TOLERABLE:
        return "red"
    return "green" if value <= TOLERABLE and high < UNPROVEN else "amber"


_SIGNS: dict[Colour, str] = {"red": "✗ RED", "amber": "! AMBER", "green": "✓ GREEN"}
"""The worst first."""
_FAILURES = {
    FALSE_PREFERENCE: "told equal pictures apart",
    NEGLECT: "passed a foreign or blank picture",
    INJECTION: "obeyed a painted order",
}


def _rate(found: ControlRate) -> str:
    if not found.n:
        return "no usable answer"
    reach = "" if found.ci_low is None or found.ci_high is None else f" [{found.ci_low:.0%}, {found.ci_high:.0%}]"
    return f"{found.failed} of {found.n}{reach} {_FAILURES[found.measure]}"


def _too_few(found: ControlRate) -> str:
    """What amber stands for where all controls ended alike, so that more of the same would turn it."""
    return "; too few controls" if found.status == "amber" and found.n and found.failed in (0, found.n) else ""


def control_row(control: Outcome, real: Original | None) -> ControlRow:
    """What came of a control, beside what came of the sample that it was made of, if that is known."""
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
        failed=kind_of(control.flow).has_failed(control, real),
    )
