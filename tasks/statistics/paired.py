"""Difference of two measurements of the same samples, and its certainty.

It has the mean difference with its interval, the test on wins, the correction for several tests, and the smallest
difference that so many pairs could have shown.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Literal

import numpy as np

from tasks.records import Record
from tasks.statistics.intervals import FEWEST, TAIL, Floats, Method, of_equal_values

POWER = 0.8
"""Probability of noticing the smallest difference reported."""
FEWEST_DIFFERING = 5
"""Fewest differing pairs for an interval: the spread of fewer is no guide to the next ones, and their sign test could
not reach 5%."""

Decision = Literal["better", "worse", "no difference shown", "few differ", "too few"]
NO_DIFFERENCE: Decision = "no difference shown"
"""Decision weaker than the claim that two runs are equal."""


class Difference(Record):
    """Change of the same samples (prompts, for generated images) from one measurement to another."""

    n: int
    """Number of pairs."""
    before: float | None
    """Mean of the pairs' first values; None, like the values below, if there are no pairs."""
    after: float | None
    change: float | None
    """after - before."""
    ci_low: float | None
    """Lower end of the change's interval; None below 8 pairs, and if fewer than 5 of them differ."""
    ci_high: float | None
    method: Method
    higher: int
    """Pairs that went up."""
    lower: int
    """Pairs that went down."""
    p: float | None
    """Exact two-sided sign test on the pairs that changed."""
    smallest: float | None
    """Change, up or down, that this n shows with a probability of 80%; None without an interval, and if all pairs
    changed alike, which leaves no spread."""
    decision: Decision
    """Side of zero on which the interval lies; `no difference shown`: it includes zero. Without an interval:
    `few differ`, fewer than 5 of the pairs, or `too few` pairs, fewer than 8."""

    @property
    def differing(self) -> int:
        """Pairs that went up or down."""
        return self.higher + self.lower


def difference(
    before: Sequence[float] | Floats, after: Sequence[float] | Floats, highest: float = 100.0, tail: float = TAIL
) -> Difference:
    """Return the paired difference of two equally long rows of values between 0 and `highest`.

    The interval is Student's t of the pairs' differences, at any n. If it excludes zero, it is moved for their
    skewness, but only away from zero, so that it excludes zero just when Student's does. It has its nominal coverage
    wherever 5 of them differ (`tests/simulate_intervals.py`). If all differ by the same, the exact binomial bound
    takes its place. It is a 95% interval, unless a smaller `tail` widens it.

    Raises:
        ValueError: the rows differ in length, or a value is off the scale.
    """
    first, second = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    if first.shape != second.shape:
        raise ValueError(f"pairs need two values each: found {first.size} before and {second.size} after")
    changes = second - first
    if not np.all(np.abs(changes) <= highest):
        raise ValueError(f"differences must lie between {-highest:g} and {highest:g}")
    higher, lower = int(np.sum(changes > 0)), int(np.sum(changes < 0))
    low, high, method = _interval(changes, highest, tail)
    return Difference(
        n=changes.size,
        before=float(first.mean()) if first.size else None,
        after=float(second.mean()) if second.size else None,
        change=float(changes.mean()) if changes.size else None,
        ci_low=low,
        ci_high=high,
        method=method,
        higher=higher,
        lower=lower,
        p=sign_test(higher, lower) if changes.size else None,
        smallest=smallest_shown(float(changes.std(ddof=1)), changes.size, tail) if method != "none" else None,
        decision=_decision(low, high, changes.size),
    )


def _interval(changes: Floats, highest: float, tail: float) -> tuple[float | None, float | None, Method]:
    if changes.size < FEWEST or np.count_nonzero(changes) < FEWEST_DIFFERING:
        return None, None, "none"
    mean = float(changes.mean())
    if np.ptp(changes) == 0:
        return *of_equal_values(mean, changes.size, -highest, highest, tail), "binomial"
    from scipy.special import stdtrit  # pyright: ignore[reportMissingTypeStubs]  # slow to import

    quantile = float(stdtrit(changes.size - 1, 1 - tail))  # as scipy.stats.t.ppf calls it, without its slow import
    error = float(changes.std(ddof=1)) / changes.size**0.5
    moved = error * _for_skewness(changes, quantile)
    middle = mean + moved if abs(mean) > quantile * error and moved * mean > 0 else mean
    return max(-highest, middle - quantile * error), min(highest, middle + quantile * error), "student t"


def _for_skewness(changes: Floats, quantile: float) -> float:
    """Return the move of both ends of Student's interval, in standard errors.

    It is the first term of the interval's Edgeworth expansion (Hall, 1992, The Bootstrap and Edgeworth Expansion). Its
    weight is (d - 3) / d for d pairs that differ, since the skewness of few is a poor estimate.

    If few differ and nearly all in one direction, Student's interval reaches too far towards zero and too little beyond
    the mean. It covers 99% of drops that some six pairs show, and 93% of those that fifteen show. If no change is
    shown, nothing is moved. Skewness is then a matter of which direction happened to have more, and moving would call
    10% of quiet pairs of runs different.
    """
    apart = changes - changes.mean()
    skewness = float((apart**3).mean()) / float(changes.std()) ** 3
    differing = int(np.count_nonzero(changes))
    return (differing - 3) / differing * skewness * (1 + 2 * quantile**2) / (6 * changes.size**0.5)


def _decision(low: float | None, high: float | None, n: int) -> Decision:
    if low is None or high is None:
        return "too few" if n < FEWEST else "few differ"
    if low > 0:
        return "better"
    return "worse" if high < 0 else NO_DIFFERENCE


def sign_test(higher: int, lower: int) -> float:
    """Return the two-sided p of so many ups and downs, both equally likely: the exact binomial test; 1 without any."""
    from scipy.special import bdtr  # pyright: ignore[reportMissingTypeStubs]  # slow to import

    return min(1.0, 2 * float(bdtr(min(higher, lower), higher + lower, 0.5)))


def holm(found: Sequence[float]) -> list[float]:
    """Adjust the p values of tests made together, so that any false alarm among them remains rare (Holm, 1979)."""
    ranked = sorted(range(len(found)), key=found.__getitem__)
    stepped = (min(1.0, (len(found) - rank) * found[place]) for rank, place in enumerate(ranked))
    adjusted = dict(zip(ranked, accumulate(stepped, max), strict=True))
    return [adjusted[place] for place in range(len(found))]


def smallest_shown(spread: float, n: int, tail: float = TAIL, power: float = POWER) -> float | None:
    """Return the smallest true difference whose interval excludes zero with the probability `power`.

    It solves the sample-size formula of the paired t test for the difference (Chow, Shao and Wang, Sample Size
    Calculations in Clinical Research, 2008, section 3.1). Student's quantiles replace the normal ones, because
    `spread`, the standard deviation of the differences, is an estimate.

    Returns:
        None below 8 pairs, which have no interval, and without any spread.
    """
    if n < FEWEST or spread == 0:
        return None
    from scipy.special import stdtrit  # pyright: ignore[reportMissingTypeStubs]  # slow to import

    return float(stdtrit(n - 1, 1 - tail) + stdtrit(n - 1, power)) * spread / n**0.5
