"""Scores of a checklist run: the share of right answers by prompt, and by group of checks."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import exp, inf, log
from statistics import fmean
from typing import Any, ClassVar, NamedTuple

from tasks.records import AspectScore, Outcome
from tasks.records.parameters import SOFT
from tasks.statistics.intervals import Bounds, Interval, interval, worst_case
from tasks.statistics.scores import HIGHEST, GradeRow
from tasks.statistics.series import Part

GEOMETRIC = "geometric_mean"
"""Measure of soft checks: the geometric mean of those of a picture. Of hard ones it would equal all right."""


class CheckRow(GradeRow):
    """Share of right answers of one candidate by one instrument, over all checks or in one group of them."""

    decimals: ClassVar[int] = 1
    """Decimals of the score, where it is shown."""


class _Share(NamedTuple):
    """Weights of the checks of one picture."""

    prompt_id: str
    right: float
    scored: float
    weight: float

    @property
    def value(self) -> float:
        """Share of right answers among the scored checks, 0-100."""
        return HIGHEST * self.right / self.scored

    @property
    def lowest(self) -> float:
        """Share if every missing answer were wrong."""
        return HIGHEST * self.right / self.weight

    @property
    def highest(self) -> float:
        """Share if every missing answer were right."""
        return HIGHEST * (self.right + self.weight - self.scored) / self.weight


class _Logarithms(_Share):
    """Weights of the checks of one picture for their geometric mean: `right` is the sum of logarithms."""

    @property
    def value(self) -> float:
        """Geometric mean of the scored checks, 0-100."""
        return HIGHEST * exp(self.right / self.scored)

    @property
    def lowest(self) -> float:
        """Geometric mean if every missing answer were wrong."""
        return self.value if self.scored == self.weight else 0.0

    @property
    def highest(self) -> float:
        """Geometric mean if every missing answer were right."""
        return HIGHEST * exp(self.right / self.weight)


def geometric_mean(checks: Iterable[AspectScore | Part]) -> float | None:
    """Return the weighted geometric mean of the scored checks, 0-100; None if there are none."""
    found = _logarithms("", checks)
    return found.value if found.scored else None


class CheckTally:
    """Scores of a checklist run while its outcomes are read."""

    def __init__(self) -> None:
        self._found: defaultdict[tuple[str, str], list[Outcome]] = defaultdict(list)

    def add(self, outcome: Outcome) -> None:
        """Add the outcome of a real picture."""
        self._found[outcome.candidate, outcome.tag].append(outcome)

    def rows(self) -> list[CheckRow]:
        """Return the rows of every candidate: over all checks, of pictures with all right, and by group."""
        return [row for place, outcomes in self._found.items() for row in _rows(*place, outcomes)]


def _rows(candidate: str, tag: str, outcomes: Sequence[Outcome]) -> Iterator[CheckRow]:
    place: dict[str, Any] = {"candidate": candidate, "dimension": tag, "n": len(outcomes)}
    whole = [_share(outcome.prompt_id, outcome.aspects) for outcome in outcomes]
    yield CheckRow(**place, measure="score", **_by_prompt(whole))
    yield CheckRow(**place, measure="satisfied", **_all_right(outcomes))
    if tag == SOFT:
        logarithms = [_logarithms(outcome.prompt_id, outcome.aspects) for outcome in outcomes]
        yield CheckRow(**place, measure=GEOMETRIC, **_by_prompt(logarithms))
    for group in dict.fromkeys(each.group for outcome in outcomes for each in outcome.aspects if each.group):
        shares = [
            _share(outcome.prompt_id, [each for each in outcome.aspects if each.group == group]) for outcome in outcomes
        ]
        asked = [share for share in shares if share.weight]
        yield CheckRow(
            **{**place, "n": len(asked)}, measure="score", grouping="aspect", group_name=group, **_pooled(asked)
        )


def _share(prompt_id: str, checks: Iterable[AspectScore]) -> _Share:
    return _Share(prompt_id, *_weights(checks, lambda score: score))


def _logarithms(prompt_id: str, checks: Iterable[AspectScore | Part]) -> _Logarithms:
    return _Logarithms(prompt_id, *_weights(checks, lambda score: log(score) if score else -inf))


def _weights(checks: Iterable[AspectScore | Part], worth: Callable[[float], float]) -> tuple[float, float, float]:
    """Return the weighted worth of the scored checks, their weight, and that of all; a score is a share from 0 to 1."""
    asked = list(checks)
    known = [(each.score / HIGHEST, each.weight) for each in asked if each.score is not None]
    total = sum(worth(score) * weight for score, weight in known)
    return total, sum(weight for _, weight in known), sum(each.weight for each in asked)


def _by_prompt(shares: Sequence[_Share]) -> dict[str, Any]:
    """Return the mean over prompts of the means over their pictures, with its interval over prompts."""
    known = [share for share in shares if share.scored]
    found = interval(_prompts(known, lambda share: share.value))
    ends = _mean(_prompts(shares, lambda share: share.lowest)), _mean(_prompts(shares, lambda share: share.highest))
    return _fields(shares, found, ends, fmean(share.value for share in known) if known else None)


def _pooled(shares: Sequence[_Share]) -> dict[str, Any]:
    """Return right answers by all answers of a group, with an interval over prompts.

    The interval is that of the mean of the linearized ratio: the pooled share, plus each prompt's part of the error.
    """
    known = [share for share in shares if share.scored]
    scored, weight = sum(share.scored for share in known), sum(share.weight for share in shares)
    if not known:
        return _fields(shares, interval([]), (0.0, HIGHEST), None)
    right = sum(share.right for share in known)
    pooled = HIGHEST * right / scored
    prompts = len({share.prompt_id for share in known})
    errors = _prompts(known, lambda share: HIGHEST * share.right - pooled * share.scored, sum)
    values = [pooled + error * prompts / scored for error in errors]
    wide = interval(values, min(0.0, *values), max(HIGHEST, *values))
    low, high = (None if end is None else min(HIGHEST, max(0.0, end)) for end in (wide.ci_low, wide.ci_high))
    found = Interval(pooled, low, high, wide.method)
    missing = weight - scored
    return _fields(shares, found, (HIGHEST * right / weight, HIGHEST * (right + missing) / weight), pooled)


def _all_right(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the share of pictures with all answers right, 0-1: the mean over prompts of those with a known answer."""
    known = [(outcome.prompt_id, outcome.satisfied) for outcome in outcomes if outcome.satisfied is not None]
    found = interval(_means(known), high=1.0)
    low, high = (
        _mean(_means((each.prompt_id, end if each.satisfied is None else each.satisfied) for each in outcomes))
        for end in (False, True)
    )
    share = len(known) / len(outcomes)
    return {
        "scored": len(known),
        "prompts": len({prompt_id for prompt_id, _ in known}),
        "score": found.value,
        "image_mean": fmean(right for _, right in known) if known else None,
        **_certainty(found, worst_case(found, (low, high), share, 1.0), share),
    }


def _fields(shares: Sequence[_Share], found: Interval, ends: tuple[float, float], mean: float | None) -> dict[str, Any]:
    known, weight = [share for share in shares if share.scored], sum(share.weight for share in shares)
    coverage = sum(share.scored for share in shares) / weight if weight else 0.0
    return {
        "scored": len(known),
        "prompts": len({share.prompt_id for share in known}),
        "score": found.value,
        "image_mean": mean,
        **_certainty(found, worst_case(found, ends, coverage), coverage),
    }


def _certainty(found: Interval, bounds: Bounds, coverage: float) -> dict[str, Any]:
    ends = {"ci_low": found.ci_low, "ci_high": found.ci_high, "method": found.method}
    return {**ends, **bounds._asdict(), "coverage": coverage}


def _prompts(
    shares: Iterable[_Share], value: Callable[[_Share], float], together: Callable[[Sequence[float]], float] = fmean
) -> list[float]:
    """Return the value of each prompt, from those of its pictures."""
    return _means(((share.prompt_id, value(share)) for share in shares), together)


def _means(values: Iterable[tuple[str, float]], together: Callable[[Sequence[float]], float] = fmean) -> list[float]:
    found: defaultdict[str, list[float]] = defaultdict(list)
    for prompt_id, value in values:
        found[prompt_id].append(float(value))
    return [together(its) for its in found.values()]


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0
