"""Scores of a checklist run: the share of right answers by prompt, and by group of checks."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import exp, inf, log
from statistics import fmean
from typing import Any, ClassVar, NamedTuple

from tasks.protocols.checklist.parameters import SOFT
from tasks.records import AspectScore, Outcome
from tasks.statistics.intervals import Bounded, Interval, interval, worst_case
from tasks.statistics.scores import HIGHEST, GradeRow
from tasks.statistics.series import Part

GEOMETRIC = "geometric_mean"
"""Measure of soft checks: the geometric mean of those of a picture. Of hard ones it would equal all right."""
Checks = Sequence[AspectScore | Part]
NOTHING = Bounded(None, 0.0, HIGHEST, 0.0)


class CheckRow(GradeRow):
    """Share of right answers of one candidate by one instrument, over all checks or in one group of them."""

    decimals: ClassVar[int] = 1
    """Decimals of the score, where it is shown."""


def share(checks: Checks) -> Bounded:
    """Return the weighted share of right answers among the scored checks, 0-100, and what the others allow."""
    return _share(checks).bounded if checks else NOTHING


def geometric_mean(checks: Checks) -> Bounded:
    """Return the weighted geometric mean of the scored checks, 0-100, and what the others allow."""
    return _geometric_mean(checks).bounded if checks else NOTHING


class _Value(NamedTuple):
    """Value of the checks of one picture."""

    value: float
    """Value of the scored checks; 0 if there are none."""
    lowest: float
    """Value if every missing answer were wrong."""
    highest: float
    """Value if every missing answer were right."""
    scored: float
    """Weight of the scored checks."""
    weight: float
    """Weight of all checks."""
    prompt_id: str = ""

    @property
    def bounded(self) -> Bounded:
        return Bounded(self.value if self.scored else None, self.lowest, self.highest, self.scored / self.weight)


def _share(checks: Checks) -> _Value:
    right, scored, weight = _weights(checks, lambda score: score)
    ends = _part(right, weight), _part(right + weight - scored, weight)
    return _Value(_part(right, scored) if scored else 0.0, *ends, scored, weight)


def _part(right: float, whole: float) -> float:
    """Return a part of a weight, 0-100; rounded sums of weights may be slightly larger than the whole."""
    return min(HIGHEST, HIGHEST * right / whole)


def _geometric_mean(checks: Checks) -> _Value:
    logarithm, scored, weight = _weights(checks, lambda score: log(score) if score else -inf)
    value = HIGHEST * exp(logarithm / scored) if scored else 0.0
    return _Value(value, value if scored == weight else 0.0, HIGHEST * exp(logarithm / weight), scored, weight)


def _all_right(satisfied: bool | None) -> _Value:
    """Return 1 if all answers are right, 0 if one is wrong."""
    return _Value(
        float(satisfied or 0), float(satisfied or 0), float(satisfied is not False), satisfied is not None, 1.0
    )


def _weights(checks: Checks, worth: Callable[[float], float]) -> tuple[float, float, float]:
    """Return the weighted worth of the scored checks, their weight, and that of all; a score is a share from 0 to 1."""
    known = [(each.score / HIGHEST, each.weight) for each in checks if each.score is not None]
    total = sum(worth(score) * weight for score, weight in known)
    return total, sum(weight for _, weight in known), sum(each.weight for each in checks)


class CheckTally:
    """Scores of a checklist run while its outcomes are read."""

    def __init__(self) -> None:
        self._found: defaultdict[tuple[str, str], dict[tuple[str, str], list[_Value]]] = defaultdict(dict)
        """Candidate and instrument -> measure and group of checks (empty: all) -> values of the pictures."""

    def add(self, outcome: Outcome) -> None:
        """Add the outcome of a real picture."""
        measures = self._found[outcome.candidate, outcome.tag]
        for name, value in _values(outcome):
            measures.setdefault(name, []).append(value._replace(prompt_id=outcome.prompt_id))

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


def _values(outcome: Outcome) -> Iterator[tuple[tuple[str, str], _Value]]:
    yield ("score", ""), _share(outcome.aspects)
    yield ("satisfied", ""), _all_right(outcome.satisfied)
    if outcome.tag == SOFT:
        yield (GEOMETRIC, ""), _geometric_mean(outcome.aspects)
    for group in dict.fromkeys(each.group for each in outcome.aspects if each.group):
        yield ("score", group), _share([each for each in outcome.aspects if each.group == group])


def _columns(values: Sequence[_Value], highest: float, is_group: bool) -> dict[str, Any]:
    """Return the figures of a row: the mean over prompts of the means over pictures; of a group its pooled share."""
    known = [each for each in values if each.scored]
    weight = sum(each.weight for each in values)
    coverage = sum(each.scored for each in values) / weight
    found = _pooled(known) if is_group else interval(_by_prompt(known, lambda each: each.value), high=highest)

    def mean(end: Callable[[_Value], float]) -> float:
        if is_group:
            return min(highest, sum(end(each) * each.weight for each in values) / weight)
        return fmean(_by_prompt(values, end))

    ends = mean(lambda each: each.lowest), mean(lambda each: each.highest)
    return {
        "n": len(values),
        "scored": len(known),
        "prompts": len({each.prompt_id for each in known}),
        "score": found.value,
        "image_mean": found.value if is_group else fmean(each.value for each in known) if known else None,
        "ci_low": found.ci_low,
        "ci_high": found.ci_high,
        "method": found.method,
        **worst_case(found, ends, coverage, highest)._asdict(),
        "coverage": coverage,
    }


def _pooled(known: Sequence[_Value]) -> Interval:
    """Return right answers by all answers of a group, with an interval over prompts.

    The interval is that of the mean of the linearized ratio: the pooled share, plus each prompt's part of the error.
    """
    if not known:
        return interval([])
    scored = sum(each.scored for each in known)
    pooled = min(HIGHEST, sum(each.value * each.scored for each in known) / scored)
    errors = _by_prompt(known, lambda each: (each.value - pooled) * each.scored, sum)
    values = [pooled + error * len(errors) / scored for error in errors]
    wide = interval(values, min(0.0, *values), max(HIGHEST, *values))
    low, high = (None if end is None else min(HIGHEST, max(0.0, end)) for end in (wide.ci_low, wide.ci_high))
    return Interval(pooled, low, high, wide.method)


def _by_prompt(
    values: Iterable[_Value], of: Callable[[_Value], float], together: Callable[[Sequence[float]], float] = fmean
) -> list[float]:
    """Return a figure of each prompt, from those of its pictures."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for each in values:
        found[each.prompt_id].append(of(each))
    return [together(its) for its in found.values()]
