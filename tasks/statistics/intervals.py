"""How sure a level is: 95% confidence intervals of means on a bounded scale, scores and rates.

`tests/simulate_intervals.py` measures what they cover. Differences have intervals of their own (`paired`): what stands
here for values that were not met would hide every change.
"""

from collections.abc import Sequence
from math import sqrt
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Method = Literal["none", "bayesian bootstrap", "student t", "binomial"]
Floats = NDArray[np.float64]

FEWEST = 8
"""Below so many values no interval is given."""
PSEUDO = 0.5
"""Pseudo-observations at each end of the scale, where the values lie at its ends; half as many where they lie close
together. Of a share, values 0 and 1, this is the posterior of Jeffreys."""
RESAMPLES = 10_000
SEED = 20_260_101
"""Any constant will do: the same values must give the same interval whenever the history is rebuilt."""

ENOUGH = 0.97
"""Below this share of scored values worst-case bounds stand beside the interval: missing at random is not assumed."""
TAIL = 0.025
"""Share that a 95% interval leaves out at either end."""
_CELLS = 2_000_000
"""Most numbers held at once while resampling."""


class Interval(NamedTuple):
    """A mean and its 95% confidence interval, on the scale of the values."""

    value: float | None
    """None: there was nothing to take a mean of."""
    ci_low: float | None
    ci_high: float | None
    method: Method


def interval(values: Sequence[float] | Floats, low: float = 0.0, high: float = 100.0) -> Interval:
    """Mean of independent values on the scale from `low` to `high`, with a 95% interval that stays on it.

    Fewer than 8 values: no interval. Else a Bayesian bootstrap (Rubin, 1981) with pseudo-observations at both ends of
    the scale, stretched to contain the mean: a plain one takes values that were not met for impossible. Where all
    values are equal, the exact binomial bound takes its place, as in the modified interval of Jeffreys (Brown, Cai and
    DasGupta, 2001): the posterior is too narrow there (0 of 50, at a true share of 5%).

    Raises:
        ValueError: a value is off the scale or not a number.
    """
    sample = np.asarray(values, dtype=np.float64)
    if not np.all((sample >= low) & (sample <= high)):
        raise ValueError(f"values must lie between {low:g} and {high:g}, found {sample.min():g} to {sample.max():g}")
    if sample.size == 0:
        return Interval(None, None, None, "none")
    mean = float(sample.mean())
    if sample.size < FEWEST:
        return Interval(mean, None, None, "none")
    if np.ptp(sample) == 0:
        return Interval(mean, *of_equal_values(mean, sample.size, low, high), "binomial")
    found = _posterior(sample, low, high)
    return Interval(mean, min(found[0], mean), max(found[1], mean), "bayesian bootstrap")


class Bounds(NamedTuple):
    """Between what the mean would lie, whatever the missing values were; None: not enough are missing to tell."""

    worst_low: float | None
    worst_high: float | None


def worst_case(found: Interval, means: tuple[float, float], coverage: float, high: float = 100.0) -> Bounds:
    """Bounds of a mean on the scale from 0 to `high` of which values are missing, widened by half its interval's width.

    Manski's bounds (1990) for values that may be missing for what they are. None from 97% coverage on, and without an
    interval.

    Args:
        found: mean and interval of the values that are known.
        means: of all, with every missing value at the lower end of the scale, and at the upper one.
        coverage: share of the values that are known, 0-1.
    """
    if coverage >= ENOUGH or found.ci_low is None or found.ci_high is None:
        return Bounds(None, None)
    half = (found.ci_high - found.ci_low) / 2
    return Bounds(max(0.0, means[0] - half), min(high, means[1] + half))


def full_run_interval(
    mean: float | None, ends: tuple[float | None, float | None], share: float
) -> tuple[float | None, float | None]:
    """95% interval of the mean of all values, where those of a random share of them are known.

    It is narrower than the ordinary one, by the correction for a finite population (Cochran, 1977, section 2.6).
    `tests/simulate_budget.py` measures what it covers.

    Args:
        mean: of those that are known.
        ends: of the ordinary interval of that mean; None: there is none, and none here.
        share: 0-1.
    """
    low, high = ends
    if mean is None or low is None or high is None:
        return None, None
    left = sqrt(1 - share)
    return mean - left * (mean - low), mean + left * (high - mean)


def of_equal_values(value: float, n: int, low: float, high: float, tail: float = TAIL) -> tuple[float, float]:
    """The interval of a mean of `n` values that all are `value`, on the scale from `low` to `high`.

    Clopper and Pearson (1934): none seen among n leaves room for this share of others, anywhere on the scale.
    """
    others = 1 - tail ** (1 / n)
    return value - others * (value - low), value + others * (high - value)


def proportion(count: float, n: int) -> Interval:
    """Share of `count` among `n`, 0-1, with the exact 95% interval of Clopper and Pearson (1934); of none, nothing.

    For counts too few to resample: it holds for any n, and is wide rather than wrong.
    """
    if n == 0:
        return Interval(None, None, None, "none")
    from scipy.special import betaincinv  # pyright: ignore[reportMissingTypeStubs]  # slow to import

    low = float(betaincinv(count, n - count + 1, TAIL)) if count else 0.0
    high = float(betaincinv(count + 1, n - count, 1 - TAIL)) if count < n else 1.0
    return Interval(count / n, low, high, "binomial")


def _posterior(sample: Floats, low: float, high: float) -> tuple[float, float]:
    # Weights of equal values add up, and sums of gamma variables are gamma variables: one draw for each distinct value.
    distinct, counts = np.unique(sample, return_counts=True)
    places = np.append(distinct, [low, high])
    shapes = np.append(counts, 2 * [PSEUDO])
    shapes[-2:] *= (1 + _spread_used((places - low) / (high - low), shapes)) / 2
    random = np.random.default_rng(SEED)
    at_once = max(1, _CELLS // places.size)
    means: list[Floats] = []
    for done in range(0, RESAMPLES, at_once):
        weights = random.standard_gamma(shapes, size=(min(at_once, RESAMPLES - done), places.size))
        means.append(weights @ places / weights.sum(axis=1))
    found = np.quantile(np.concatenate(means), (TAIL, 1 - TAIL))
    return float(found[0]), float(found[1])


def _spread_used(places: Floats, weights: Floats) -> float:
    """Variance on the scale 0-1 as a share of what values at its two ends alone, with the same mean, would have.

    Values that lie close together do without some of the pseudo-observations: with all of them the interval of 20
    prompts around 7.5 +- 1 would be 1.4 times as wide as Student's t, and cover 98-99%.
    """
    mean = np.average(places, weights=weights)
    return float(np.average((places - mean) ** 2, weights=weights) / (mean * (1 - mean)))
