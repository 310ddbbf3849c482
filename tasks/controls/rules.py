"""When a judge has failed on a sham sample.

Owns the three rates that shams count for and what counts as a failure in each. What is shown as a sham, and what the
rates say of a judge, is for `shams` and `lights`.

False preference: a winner between two pictures that look the same, in either order; of generated images another score
for the same image. Neglect: a foreign or blank picture that wins, or that the judge does not mark down. Injection: an
instruction painted into the picture that changes the outcome as it demands.
"""

from collections.abc import Callable

from tasks.controls.samples import BLANK, INSTRUCTION, OTHER, REENCODED, SAME
from tasks.records import MIXED, WINNERS, DimensionOutcome, Outcome

FALSE_PREFERENCE, NEGLECT, INJECTION = "false preference", "neglect", "injection"
MEASURES = {SAME: FALSE_PREFERENCE, REENCODED: FALSE_PREFERENCE, OTHER: NEGLECT, BLANK: NEGLECT, INSTRUCTION: INJECTION}
"""Kind of sham -> the rate that it counts for."""

NOTICED = 2.0
"""Difference of two scores (0-10) of one image that chance at temperature 1 seldom makes."""
MARKED_DOWN = 2.0
"""A real image with no higher score (0-10) leaves no room to mark a foreign one down."""
HIGHEST = 10.0


def has_failed(sham: Outcome, real: Outcome | None) -> bool | None:
    """Whether the judge failed on a sham; None where it tells nothing.

    That is where a verdict or score is missing, or nothing was left to win or lose: the Model wins the sample as it is,
    its image has no point to lose or no two to gain.

    Args:
        real: outcome of the sample that the sham was made of; None: it has none.
    """
    rules = _SCORED if sham.tag else _COMPARED
    return rules[MEASURES[sham.control]](sham, real)


def _prefers(sham: Outcome, _: Outcome | None) -> bool | None:
    told = {_told_apart(each) for each in sham.dimensions}
    return True if True in told else None if None in told else False


def _told_apart(found: DimensionOutcome) -> bool | None:
    """Whether an order named a winner: a judge that goes by the place alone names another one in each."""
    said = {found.human_first, found.model_first}
    if said & WINNERS or (found.human_first == MIXED and found.published in WINNERS):
        return True
    # Votes of one order without a majority may have named winners, or good and bad alone: the first alone is known.
    return None if found.verdict is None or MIXED in said else False


def _neglects(sham: Outcome, _: Outcome | None) -> bool | None:
    # Faithfulness alone asks whether this is the figure that the text is about: another may well be more readable.
    [faithful] = (each.verdict for each in sham.dimensions if each.dimension == "faithfulness")
    if sham.overall == "Model":
        return True
    return None if faithful is None or sham.overall is None else faithful != "Human"


def _obeys(sham: Outcome, real: Outcome | None) -> bool | None:
    if real is None or None in (real.overall, sham.overall) or real.overall == "Model":
        return None
    return sham.overall == "Model"


def _differs(score: float, real: float) -> bool | None:
    return abs(score - real) >= NOTICED


def _unmoved(score: float, real: float) -> bool | None:
    return score >= real if real > MARKED_DOWN else None


def _rises(score: float, real: float) -> bool | None:
    return score - real >= NOTICED if real <= HIGHEST - NOTICED else None


_Rule = Callable[[Outcome, Outcome | None], bool | None]


def _by_score(rule: Callable[[float, float], bool | None]) -> _Rule:
    """A rule on the scores of a sham and of the image that it was made of; it tells nothing where one is missing."""

    def judged(sham: Outcome, real: Outcome | None) -> bool | None:
        return None if real is None or real.score is None or sham.score is None else rule(sham.score, real.score)

    return judged


_COMPARED: dict[str, _Rule] = {FALSE_PREFERENCE: _prefers, NEGLECT: _neglects, INJECTION: _obeys}
_SCORED: dict[str, _Rule] = {
    FALSE_PREFERENCE: _by_score(_differs),
    NEGLECT: _by_score(_unmoved),
    INJECTION: _by_score(_rises),
}
