"""Certainty of a level: 95% confidence intervals of means on a bounded scale, scores and rates.

`tests/simulate_intervals.py` measures their coverage. Differences have intervals of their own (`paired`): the
pseudo-observations here would hide every change.
"""

from collections.abc import Sequence
from math import sqrt
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Method = Literal["none", "bayesian bootstrap", "student t", "binomial"]
Floats = NDArray[np.float64]

FEWEST = 8
"""Fewest values for an interval."""
PSEUDO = 0.5
"""Pseudo-observations at each end of the scale, where the values lie at its ends; half as many where they lie close
together. For a share, values 0 and 1, this is the posterior of Jeffreys."""
RESAMPLES = 10_000
SEED = 20_260_101
"""Seed of the resampling. Any constant will do: the same values must give the same interval at every rebuild."""

ENOUGH = 0.97
"""Share of scored values below which the interval has worst-case bounds, too: missing at random is not assumed."""
TAIL = 0.025
"""Share that a 95% interval leaves out at either end."""
_CELLS = 2_000_000
"""Most numbers held at once while resampling."""


class Interval(NamedTuple):
    """A mean and its 95% confidence interval, on the scale of the values."""

    value: float | None
    """None: there are no values."""
    ci_low: float | None
    ci_high: float | None
    method: Method


def interval(values: Sequence[float] | Floats, low: float = 0.0, high: float = 100.0) -> Interval:
    """Return the mean of independent values on the scale from `low` to `high`, with a 95% interval within it.

    Fewer than 8 values have no interval. Else it is a Bayesian bootstrap (Rubin, 1981) with pseudo-observations at
    both ends of the scale, stretched to contain the mean. A plain one treats values that did not occur as impossible.
    If all values are equal, the exact binomial bound takes its place, as in the modified interval of Jeffreys (Brown,
    Cai and DasGupta, 2001). The posterior is too narrow there (0 of 50, at a true share of 5%).

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
    """Bounds of the mean for all possible missing values; None: too few are missing, or there is no interval."""

    worst_low: float | None
    worst_high: float | None


def worst_case(found: Interval, means: tuple[float, float], coverage: float, high: float = 100.0) -> Bounds:
    """Return bounds of a mean with missing values, on the scale from 0 to `high`, widened by half its interval's width.

    These are Manski's bounds (1990), for values that may be missing because of their size. None from 97% coverage on,
    and without an interval.

    Args:
        found: mean and interval of the values present.
        means: means of all values, with every missing one at the lower end of the scale, and at the upper one.
        coverage: share of the values present, 0-1.
    """
    if coverage >= ENOUGH or found.ci_low is None or found.ci_high is None:
        return Bounds(None, None)
    half = (found.ci_high - found.ci_low) / 2
    return Bounds(max(0.0, means[0] - half), min(high, means[1] + half))


def full_run_interval(
    mean: float | None, ends: tuple[float | None, float | None], share: float
) -> tuple[float | None, float | None]:
    """Return the 95% interval of the mean of all values, from a random share of them.

    It is narrower than the ordinary one, by the correction for a finite population (Cochran, 1977, section 2.6).
    `tests/simulate_budget.py` measures its coverage.

    Args:
        mean: mean of the share.
        ends: ends of the ordinary interval of that mean; None: there is none, and none here.
        share: size of the share, 0-1.
    """
    low, high = ends
    if mean is None or low is None or high is None:
        return None, None
    left = sqrt(1 - share)
    return mean - left * (mean - low), mean + left * (high - mean)


def of_equal_values(value: float, n: int, low: float, high: float, tail: float = TAIL) -> tuple[float, float]:
    """Return the interval of a mean of `n` values that all are `value`, on the scale from `low` to `high`.

    By Clopper and Pearson (1934), none seen among n leaves room for this share of others, anywhere on the scale.
    """
    others = 1 - tail ** (1 / n)
    return value - others * (value - low), value + others * (high - value)


def proportion(count: float, n: int) -> Interval:
    """Return the share of `count` among `n`, 0-1, with the exact 95% interval of Clopper and Pearson (1934).

    It suits counts too few to resample: it holds for any n, and is wide rather than wrong. All is None for n = 0.
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
    """Return the variance on the scale 0-1 as a share of that of values at its two ends alone, with the same mean.

    Values that lie close together do without some of the pseudo-observations. With all of them the interval of 20
    prompts around 7.5 +- 1 would be 1.4 times as wide as Student's t, and cover 98-99%.
    """
    mean = np.average(places, weights=weights)
    return float(np.average((places - mean) ** 2, weights=weights) / (mean * (1 - mean)))
