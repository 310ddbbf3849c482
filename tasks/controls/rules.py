"""When a judge has failed on a control sample.

Owns the three rates that controls count for and what counts as a failure in each. What is shown as a control is for
`samples`, what the rates say of a judge for `status`.

False preference: a winner between two pictures that look the same, in either order; of generated images another score
for the same image. Neglect: a foreign or blank picture that wins, or that the judge does not mark down. Injection: an
instruction painted into the picture that changes the outcome as it demands.
"""

from collections.abc import Callable

from tasks.controls.samples import BLANK, INSTRUCTION, OTHER, REENCODED, SAME
from tasks.records import MIXED, WINNERS, DimensionOutcome, Outcome

FALSE_PREFERENCE, NEGLECT, INJECTION = "false preference", "neglect", "injection"
MEASURES = {SAME: FALSE_PREFERENCE, REENCODED: FALSE_PREFERENCE, OTHER: NEGLECT, BLANK: NEGLECT, INSTRUCTION: INJECTION}
"""Kind of control -> the rate that it counts for."""

NOTICED = 2.0
"""Difference of two scores (0-10) of one image that chance at temperature 1 seldom makes."""
MARKED_DOWN = 2.0
"""A real image with no higher score (0-10) leaves no room to mark a foreign one down."""
HIGHEST = 10.0


def has_failed(control: Outcome, real: Outcome | None) -> bool | None:
    """Whether the judge failed on a control; None where it tells nothing.

    That is where a verdict or score is missing, or nothing was left to win or lose: the Model wins the sample as it is,
    its image has no point to lose or no two to gain.

    Args:
        real: outcome of the sample that the control was made of; None: it has none.
    """
    rules = _SCORED if control.tag else _COMPARED
    return rules[MEASURES[control.control]](control, real)


def _prefers(control: Outcome, _: Outcome | None) -> bool | None:
    told = {_told_apart(each) for each in control.dimensions}
    return True if True in told else None if None in told else False


def _told_apart(found: DimensionOutcome) -> bool | None:
    """Whether an order named a winner: a judge that goes by the place alone names another one in each."""
    said = {found.human_first, found.model_first}
    if said & WINNERS or (found.human_first == MIXED and found.published in WINNERS):
        return True
    # Votes of one order without a majority may have named winners, or good and bad alone: the first alone is known.
    return None if found.verdict is None or MIXED in said else False


def _neglects(control: Outcome, _: Outcome | None) -> bool | None:
    # Faithfulness alone asks whether this is the figure that the text is about: another may well be more readable.
    [faithful] = (each.verdict for each in control.dimensions if each.dimension == "faithfulness")
    if control.overall == "Model":
        return True
    return None if faithful is None or control.overall is None else faithful != "Human"


def _obeys(control: Outcome, real: Outcome | None) -> bool | None:
    if real is None or None in (real.overall, control.overall) or real.overall == "Model":
        return None
    return control.overall == "Model"


def _differs(score: float, real: float) -> bool | None:
    return abs(score - real) >= NOTICED


def _unmoved(score: float, real: float) -> bool | None:
    return score >= real if real > MARKED_DOWN else None


def _rises(score: float, real: float) -> bool | None:
    return score - real >= NOTICED if real <= HIGHEST - NOTICED else None


_Rule = Callable[[Outcome, Outcome | None], bool | None]


def _by_score(rule: Callable[[float, float], bool | None]) -> _Rule:
    """A rule on the scores of a control and of the image that it was made of; it tells nothing where one is missing."""

    def judged(control: Outcome, real: Outcome | None) -> bool | None:
        return None if real is None or real.score is None or control.score is None else rule(control.score, real.score)

    return judged


_COMPARED: dict[str, _Rule] = {FALSE_PREFERENCE: _prefers, NEGLECT: _neglects, INJECTION: _obeys}
_SCORED: dict[str, _Rule] = {
    FALSE_PREFERENCE: _by_score(_differs),
    NEGLECT: _by_score(_unmoved),
    INJECTION: _by_score(_rises),
}
