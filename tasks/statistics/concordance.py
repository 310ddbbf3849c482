"""Agreement of two raters: raw agreement, Cohen's kappa and Kendall's tau-b, with 95% intervals from 50 samples on.

All three are computed from the counts of distinct pairs of answers, so that ten thousand resamples are a few matrix
products. A rater with one answer agrees by habit: kappa and tau would be 0 or 0/0 for any other rater, and are None.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from tasks.records import Record
from tasks.statistics.intervals import DECIMALS, RESAMPLES, SEED, TAIL, Floats, interval
from tasks.text import number_words

FEWEST = 50
"""Fewest figures or prompts for an interval: tau-b's covers 73-92% at 8 to 20, and 92-97% from here on."""
DEFINED = 0.95
"""Least share of resamples with a value for an interval."""

_CELLS = 2_000_000
"""Most numbers held at once while resampling."""

Measure = Callable[[Floats], Floats]
"""Function from counts of the distinct pairs, a row a resample, to a value a row, NaN where it is undefined."""


class Statistic(Record):
    """One measure of agreement and its 95% interval."""

    value: float | None
    ci_low: float | None = None
    ci_high: float | None = None
    why: str = ""
    """Reason why there is no value, or no interval; empty when there are both."""

    @property
    def words(self) -> str:
        """The value with its interval, as far as they exist."""
        if self.ci_low is None or self.ci_high is None:
            return number_words(self.value)
        return f"{self.value:.2f} [{self.ci_low:.2f}, {self.ci_high:.2f}]"

    def share_words(self, n: int) -> str:
        """Format a share of `n` answers with its interval; without one, the counts that it is made of."""
        if self.value is None:
            return "–"
        if self.ci_low is None or self.ci_high is None:
            return f"{round(self.value * n):,} of {n:,}"
        return f"{self.value:.0%} [{100 * self.ci_low:.0f}, {100 * self.ci_high:.0f}]"


class Concordance(NamedTuple):
    """Agreement of two raters on one question."""

    agreement: Statistic
    """Share of answers that are equal, or as good as equal."""
    kappa: Statistic
    tau: Statistic


class Pairs(NamedTuple):
    """The answers of two raters to the same questions."""

    first: Floats
    """The first rater's answer of each distinct pair, as a number."""
    second: Floats
    counts: Floats
    """Count of each distinct pair (column) in each independent sample (row)."""


def paired(first: Sequence[float], second: Sequence[float], samples: Sequence[str]) -> Pairs:
    """Count the distinct pairs of answers in each sample. Answers to questions of one sample are resampled together."""
    answers = np.column_stack([np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)])
    distinct, column = np.unique(answers, axis=0, return_inverse=True)
    names, row = np.unique(np.asarray(samples, dtype=np.str_), return_inverse=True)
    counts = np.zeros((len(names), len(distinct)))
    np.add.at(counts, (row, column.reshape(-1)), 1)
    return Pairs(distinct[:, 0], distinct[:, 1], counts)


def raw_agreement(pairs: Pairs, within: float = 0.0) -> Statistic:
    """Compute the share of pairs whose answers are at most `within` apart, 0-1."""
    close = (np.abs(pairs.first - pairs.second).round(DECIMALS) <= within).astype(np.float64)

    def measure(counts: Floats) -> Floats:
        return counts @ close / counts.sum(axis=1)

    found = _estimated(measure, pairs)
    if found.value in (0.0, 1.0) and len(pairs.counts) >= FEWEST:
        exact = interval([found.value] * len(pairs.counts), 0, 1)
        return Statistic(value=found.value, ci_low=exact.ci_low, ci_high=exact.ci_high)
    return found


def kappa(pairs: Pairs) -> Statistic:
    """Compute Cohen's kappa of categories, -1 to 1 (Cohen, 1960): all answers that differ count the same."""
    cost = pairs.first[:, None] != pairs.second
    return _chance_corrected(pairs, cost.astype(np.float64))


def quadratic_kappa(pairs: Pairs) -> Statistic:
    """Compute kappa of scores, -1 to 1, weighted by their squared distance (Cohen, 1968); decimals are allowed.

    As a function of means and variances it is Lin's coefficient of concordance: no grid of categories is needed.
    """
    return _chance_corrected(pairs, (pairs.first[:, None] - pairs.second) ** 2)


def tau_b(pairs: Pairs) -> Statistic:
    """Compute Kendall's tau-b, -1 to 1: agreement on the better of two samples, corrected for ties (Kendall, 1945)."""
    ahead = np.sign(pairs.first[:, None] - pairs.first)
    behind = np.sign(pairs.second[:, None] - pairs.second)

    def measure(counts: Floats) -> Floats:
        untied = np.sqrt(_sum(counts, ahead**2) * _sum(counts, behind**2))
        return _ratio(_sum(counts, ahead * behind), untied)

    return _varied(measure, pairs)


def _chance_corrected(pairs: Pairs, cost: Floats) -> Statistic:
    """Compute kappa, if an answer `i` of the first rater against `j` of the second costs `cost[i, j]`."""
    one, other = ((values[:, None] != values).astype(np.float64) for values in (pairs.first, pairs.second))

    def measure(counts: Floats) -> Floats:
        found = counts @ np.diag(cost) * counts.sum(axis=1)
        both_vary = (_sum(counts, one) > 0) & (_sum(counts, other) > 0)
        return np.where(both_vary, 1 - _ratio(found, _sum(counts, cost)), np.nan)

    return _varied(measure, pairs)


def _sum(counts: Floats, matrix: Floats) -> Floats:
    """Sum the matrix over all pairs of pairs, for each row of counts."""
    return ((counts @ matrix) * counts).sum(axis=1)


def _ratio(above: Floats, below: Floats) -> Floats:
    return np.divide(above, below, out=np.full_like(above, np.nan), where=below != 0)


def _varied(measure: Measure, pairs: Pairs) -> Statistic:
    """Estimate a measure that is undefined if a rater has one answer for everything."""
    sides = [side for side, values in (("A", pairs.first), ("B", pairs.second)) if len(set(values)) == 1]
    if sides:
        return Statistic(value=None, why=f"undefined: {' and '.join(sides)} always the same")
    return _estimated(measure, pairs)


def _estimated(measure: Measure, pairs: Pairs) -> Statistic:
    if not pairs.counts.size:
        return Statistic(value=None, why="nothing paired")
    value = float(measure(pairs.counts.sum(axis=0, keepdims=True))[0])
    if len(pairs.counts) < FEWEST:
        return Statistic(value=value, why=f"no interval below {FEWEST} figures or prompts")
    values = np.concatenate([measure(counts) for counts in _resamples(pairs.counts)])
    values = values[~np.isnan(values)]
    if values.size < DEFINED * RESAMPLES:
        return Statistic(value=value, why="no interval: too few different answers")
    if np.ptp(values) == 0:
        return Statistic(value=value, why="no interval: resampling cannot tell how sure this is")
    low, high = np.quantile(values, (TAIL, 1 - TAIL))
    return Statistic(value=value, ci_low=float(low), ci_high=float(high))


def _resamples(counts: Floats) -> Iterator[Floats]:
    """Yield counts of the distinct pairs in samples drawn with replacement, some resamples at a time."""
    alike, times = np.unique(counts, axis=0, return_counts=True)
    draw = partial(np.random.default_rng(SEED).multinomial, len(counts), times / len(counts))
    at_once = max(1, _CELLS // max(alike.shape))
    for done in range(0, RESAMPLES, at_once):
        yield draw(size=min(at_once, RESAMPLES - done)).astype(np.float64) @ alike
