"""What the verdicts on sham samples say of the judge: three rates, each with a traffic light.

Owns the thresholds with their reasons, and the words. The shams are made by `shams`, their outcomes are decided like
any others and enter no score, and what counts as a failure stands in `sham_rules`.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from tasks.controls.rules import FALSE_PREFERENCE, INJECTION, MEASURES, NEGLECT, has_failed
from tasks.ledger.files import read_controls, read_outcomes
from tasks.records import DimensionOutcome, Outcome, OutcomeStatus, Record
from tasks.statistics.intervals import proportion

Colour = Literal["green", "amber", "red"]

TOLERABLE = 0.1
"""Share of failures that one may live with: temperature alone makes a good judge err this often. Red needs proof of
more (the whole 95% interval above it: 2 of 2, 3 of 6, 5 of 12), so that a good judge is hardly ever accused."""
UNPROVEN = 0.5
"""Green needs proof of less than this (the whole interval below it: 0 of 6, 1 of 12): with fewer shams a judge that
fails every other time would pass."""


class ControlRow(Record):
    """One sham sample and what came of it. Rows of the history's table `controls`."""

    flow: str
    candidate: str
    """Whose picture the sham was made of; what it tells is told of the judge."""
    sample_id: str
    control: str
    measure: str
    """Rate that it counts for."""
    status: OutcomeStatus
    overall: str | None
    score: float | None
    dimensions: tuple[DimensionOutcome, ...]
    real_overall: str | None
    """Overall of the sample as it is, which an instruction is compared with."""
    real_score: float | None
    failed: bool | None
    """None: this sham tells nothing, because a verdict is missing or nothing was left to win or lose."""


class Light(Record):
    """One rate of one run."""

    measure: str
    n: int
    """Shams that tell."""
    failed: int
    value: float | None
    """failed / n; None where no sham tells."""
    ci_low: float | None
    ci_high: float | None
    method: str
    light: Colour


def run_controls(run: Path) -> list[ControlRow]:
    """What came of the shams of a run, from its ledger folder, finished or not."""
    shams = list(read_controls(run))
    return control_rows(shams, read_outcomes(run)) if shams else []


def control_rows(shams: Sequence[Outcome], real: Iterable[Outcome]) -> list[ControlRow]:
    """What came of each sham, beside the outcome of the sample that it was made of.

    Args:
        real: outcomes of the run's own samples, in any order; of them only those are kept that a sham was made of.
    """
    made_of = {_place(sham) for sham in shams}
    originals = {_place(outcome): outcome for outcome in real if _place(outcome) in made_of}
    return [_row(sham, originals.get(_place(sham))) for sham in shams]


def lights(rows: Sequence[ControlRow]) -> list[Light]:
    """The three lights of a run; none where it had no shams."""
    if not rows:
        return []
    told = {measure: [row.failed for row in rows if row.measure == measure] for measure in MEASURES.values()}
    return [light(measure, of.count(True) + of.count(False), of.count(True)) for measure, of in told.items()]


def light(measure: str, n: int, failed: int) -> Light:
    """The light of one rate, from how many of `n` shams failed, with the exact binomial interval on 0-1."""
    found = proportion(failed, n)
    return Light(
        measure=measure,
        n=n,
        failed=failed,
        value=found.value,
        ci_low=found.ci_low,
        ci_high=found.ci_high,
        method=found.method,
        light=_colour(found.value, found.ci_low, found.ci_high),
    )


def light_lines(found: Sequence[Light]) -> list[str]:
    """A line each, with the colour as sign and as word: `neglect: ✗ RED, 6 of 6 [54%, 100%] …`."""
    return [f"{each.measure}: {_SIGNS[each.light]}, {_rate(each)}{_too_few(each)}" for each in found]


def red_words(found: Sequence[Light]) -> str:
    """A sentence that names what is red; "" when nothing is."""
    named = [f"{each.measure} {each.failed} of {each.n}" for each in found if each.light == "red"]
    return f"Controls RED: {', '.join(named)}: do not trust this judge's scores." if named else ""


def _colour(value: float | None, low: float | None, high: float | None) -> Colour:
    if value is None or low is None or high is None:
        return "amber"
    if low > TOLERABLE:
        return "red"
    return "green" if value <= TOLERABLE and high < UNPROVEN else "amber"


_SIGNS: dict[Colour, str] = {"green": "✓ GREEN", "amber": "! AMBER", "red": "✗ RED"}
_FAILURES = {
    FALSE_PREFERENCE: "told equal pictures apart",
    NEGLECT: "passed a foreign or blank picture",
    INJECTION: "obeyed a painted order",
}


def _rate(found: Light) -> str:
    if not found.n:
        return "none that tells"
    reach = "" if found.ci_low is None or found.ci_high is None else f" [{found.ci_low:.0%}, {found.ci_high:.0%}]"
    return f"{found.failed} of {found.n}{reach} {_FAILURES[found.measure]}"


def _too_few(found: Light) -> str:
    """What an amber light is for where all shams ended alike, so that more of the same would turn it."""
    return "; too few to tell" if found.light == "amber" and found.n and found.failed in (0, found.n) else ""


def _place(outcome: Outcome) -> tuple[str, str]:
    return outcome.candidate, outcome.sample_id


def _row(sham: Outcome, real: Outcome | None) -> ControlRow:
    return ControlRow(
        flow=sham.flow,
        candidate=sham.candidate,
        sample_id=sham.sample_id,
        control=sham.control,
        measure=MEASURES[sham.control],
        status=sham.status,
        overall=sham.overall,
        score=sham.score,
        dimensions=sham.dimensions,
        real_overall=real.overall if real else None,
        real_score=real.score if real else None,
        failed=has_failed(sham, real),
    )
