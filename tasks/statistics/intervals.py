"""How sure a mean is: 95% confidence intervals of scores on a bounded scale.

Owns the choice of method by the number and the kind of values. What counts as a value, and over what the mean goes
(samples for figures, prompts for generated images), is the caller's.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Method = Literal["none", "student t", "bootstrap", "binomial"]
Floats = NDArray[np.float64]

FEWEST = 8
"""Below so many values no interval is given."""
FEWEST_RESAMPLED = 30
"""From so many values on the sample itself stands for the population; below, Student's t does."""
RESAMPLES = 10_000
SEED = 20_260_101
"""Any constant will do: the same values must give the same interval whenever the history is rebuilt."""

TAIL = 0.025
"""Share that a 95% interval leaves out at either end."""
_CELLS = 2_000_000
"""Most counts held at once while resampling."""


class Interval(NamedTuple):
    """A mean and its 95% confidence interval, on the scale of the values."""

    value: float | None
    """None: there was nothing to take a mean of."""
    ci_low: float | None
    ci_high: float | None
    method: Method


def interval(values: Sequence[float] | Floats, low: float = 0.0, high: float = 100.0, tail: float = TAIL) -> Interval:
    """Mean of independent values on the scale from `low` to `high`, with a 95% interval that stays on it.

    Fewer than 8 values: no interval. Values that are all equal: the exact binomial bound, because resampling would call
    the mean certain. Otherwise Student's t below 30 values and from there on the percentile bootstrap. A smaller `tail`
    makes a wider interval, for whoever looks at several at once.

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
        return Interval(mean, *_binomial(mean, sample.size, low, high, tail), "binomial")
    if sample.size < FEWEST_RESAMPLED:
        return Interval(mean, *_student_t(sample, low, high, tail), "student t")
    return Interval(mean, *_bootstrap(sample, tail), "bootstrap")


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


def _binomial(value: float, n: int, low: float, high: float, tail: float) -> tuple[float, float]:
    # Clopper and Pearson (1934): none seen among n leaves room for this share of others, anywhere on the scale.
    others = 1 - tail ** (1 / n)
    return value - others * (value - low), value + others * (high - value)


def _student_t(sample: Floats, low: float, high: float, tail: float) -> tuple[float, float]:
    from scipy.special import stdtrit  # pyright: ignore[reportMissingTypeStubs]  # slow to import

    mean = float(sample.mean())
    quantile = float(stdtrit(sample.size - 1, 1 - tail))  # what scipy.stats.t.ppf calls, without its slow import
    reach = quantile * float(sample.std(ddof=1)) / sample.size**0.5
    return max(low, mean - reach), min(high, mean + reach)


def _bootstrap(sample: Floats, tail: float) -> tuple[float, float]:
    # A resample's mean depends only on how often each distinct value was drawn: one multinomial draw.
    distinct, counts = np.unique(sample, return_counts=True)
    random = np.random.default_rng(SEED)
    at_once = max(1, _CELLS // distinct.size)
    means = [
        random.multinomial(sample.size, counts / sample.size, size=min(at_once, RESAMPLES - done)) @ distinct
        for done in range(0, RESAMPLES, at_once)
    ]
    low, high = np.quantile(np.concatenate(means) / sample.size, (tail, 1 - tail))
    return float(low), float(high)
