"""Scores of a checklist run: the share of right answers by prompt, and by group of checks."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from math import exp, inf, log
from statistics import fmean
from typing import Any, ClassVar

from tasks.protocols.checklist.parameters import SOFT
from tasks.records import AspectScore, Outcome
from tasks.statistics.intervals import Bounded, Interval, interval, whole
from tasks.statistics.scores import HIGHEST, GradeRow, level, of_prompts
from tasks.statistics.series import Part

GEOMETRIC = "geometric_mean"
"""Measure of soft checks: the geometric mean of those of a picture. Of hard ones it would equal all right."""
Checks = Sequence[AspectScore | Part]


class CheckRow(GradeRow):
    """Share of right answers of one candidate by one instrument, over all checks or in one group of them."""

    decimals: ClassVar[int] = 1
    """Decimals of the score, where it is shown."""

    @property
    def inapplicable(self) -> bool:
        """Return False: every check applies, and a group without an answer lacks its score."""
        return False


def share(checks: Checks) -> Bounded:
    """Return the weighted share of right answers among the scored checks, 0-100, and what the others allow."""
    right, scored, weight = _weights(checks, lambda score: score)
    ends = _part(right, weight), _part(right + weight - scored, weight)
    return Bounded(_part(right, scored) if scored else None, *ends, scored / weight, weight)


def _part(right: float, whole: float) -> float:
    """Return a part of a weight, 0-100; rounded sums of weights may be slightly larger than the whole."""
    return min(HIGHEST, HIGHEST * right / whole)


def geometric_mean(checks: Checks) -> Bounded:
    """Return the weighted geometric mean of the scored checks, 0-100, and what the others allow."""
    logarithm, scored, weight = _weights(checks, lambda score: log(score) if score else -inf)
    value = HIGHEST * exp(logarithm / scored) if scored else None
    lowest = value if value is not None and scored == weight else 0.0
    return Bounded(value, lowest, HIGHEST * exp(logarithm / weight), scored / weight, weight)


def _weights(checks: Checks, worth: Callable[[float], float]) -> tuple[float, float, float]:
    """Return the weighted worth of the scored checks, their weight, and that of all; a score is a share from 0 to 1."""
    known = [(each.score / HIGHEST, each.weight) for each in checks if each.score is not None]
    total = sum(worth(score) * weight for score, weight in known)
    return total, sum(weight for _, weight in known), sum(each.weight for each in checks) or 1.0


class CheckTally:
    """Scores of a checklist run while its outcomes are read."""

    def __init__(self) -> None:
        self._found: defaultdict[tuple[str, str], dict[tuple[str, str], list[Bounded]]] = defaultdict(dict)
        """Candidate and instrument -> measure and group of checks (empty: all) -> values of the pictures."""

    def add(self, outcome: Outcome) -> None:
        """Add the outcome of a real picture."""
        measures = self._found[outcome.candidate, outcome.tag]
        for name, value in _values(outcome):
            measures.setdefault(name, []).append(value._replace(unit=outcome.prompt_id))

    def rows(self) -> list[CheckRow]:
        """Return the rows of every candidate: over all checks, of pictures with all right, and by group."""
        return [
            CheckRow(
                candidate=candidate,
                dimension=tag,
                measure=measure,
                grouping="aspect" if group else "all",
                group_name=group,
                **_columns(values, 1.0 if measure == "satisfied" else HIGHEST, bool(group)),
            )
            for (candidate, tag), measures in self._found.items()
            for (measure, group), values in measures.items()
        ]


def _values(outcome: Outcome) -> Iterator[tuple[tuple[str, str], Bounded]]:
    yield ("score", ""), share(outcome.aspects)
    all_right = outcome.satisfied
    yield ("satisfied", ""), Bounded(None, 0.0, 1.0, 0.0) if all_right is None else whole(float(all_right))
    if outcome.tag == SOFT:
        yield (GEOMETRIC, ""), geometric_mean(outcome.aspects)
    for group in dict.fromkeys(each.group for each in outcome.aspects if each.group):
        yield ("score", group), share([each for each in outcome.aspects if each.group == group])


def _columns(values: Sequence[Bounded], highest: float, is_group: bool) -> dict[str, Any]:
    """Return the figures of a row: the mean over prompts of the means over pictures; of a group its pooled share."""
    known = [each for each in values if each.value is not None]
    weight = sum(each.weight for each in values)
    coverage = sum(each.scored for each in values) / weight
    means = [(each.unit, each.value or 0.0) for each in known]
    found = _pooled(known) if is_group else interval(of_prompts(means), high=highest)

    def mean(end: Callable[[Bounded], float]) -> float:
        if is_group:
            return min(highest, sum(end(each) * each.weight for each in values) / weight)
        return fmean(of_prompts((each.unit, end(each)) for each in values))

    return {
        "n": len(values),
        "scored": len(known),
        "prompts": len({each.unit for each in known}),
        **level(found, (mean(lambda each: each.low), mean(lambda each: each.high)), coverage, highest),
        "image_mean": found.value if is_group else fmean(value for _, value in means) if means else None,
        "coverage": coverage,
    }


def _pooled(known: Sequence[Bounded]) -> Interval:
    """Return right answers by all answers of a group, with an interval over prompts.

    The interval is that of the mean of the linearized ratio: the pooled share, plus each prompt's part of the error.
    """
    if not known:
        return interval([])
    scored = sum(each.scored for each in known)
    pooled = min(HIGHEST, sum((each.value or 0.0) * each.scored for each in known) / scored)
    errors = of_prompts(((each.unit, ((each.value or 0.0) - pooled) * each.scored) for each in known), sum)
    values = [pooled + error * len(errors) / scored for error in errors]
    wide = interval(values, min(0.0, *values), max(HIGHEST, *values))
    low, high = (None if end is None else min(HIGHEST, max(0.0, end)) for end in (wide.ci_low, wide.ci_high))
    return Interval(pooled, low, high, wide.method)
