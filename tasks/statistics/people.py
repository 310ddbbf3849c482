"""Estimate of a score as if people had judged every sample: the judge's score, corrected by people's labels.

The method is prediction-powered inference (PPI++; Angelopoulos, Duchi and Zrnic, 2023), for labels of a random part of
the judged samples; `tests/simulate_labels.py` measures the coverage of its intervals.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tasks.statistics.intervals import TAIL, Floats, of_equal_values

FEWEST = 15
"""Fewest labels that correct a score."""
FIXED = 0.5
"""Weight of the judge below `TUNED_FROM` labels, chosen beforehand. With a weight that the labels themselves choose,
intervals of 30 cover 75-90% where nine of ten figures lose, and are hardly narrower elsewhere."""
TUNED_FROM = 150
"""Number of labels from which on the weight is the best for them, each label left out for its own."""
PRIOR = 15.0
"""Number of labels that the fixed weight counts for, where the weight is tuned."""


class Corrected(NamedTuple):
    """A score corrected by people and its 95% interval, on the scale of the scores."""

    value: float
    ci_low: float
    ci_high: float
    weight: float
    """Weight of the judge, 0-1; 0: people alone count."""


def corrected(
    judge: Sequence[float], judged: Sequence[float], people: Sequence[float], zeros: int = 0, highest: float = 100.0
) -> Corrected | None:
    """Estimate the mean that people would have given, with a 95% interval; None below 15 labels.

    The variance is that of a difference estimator in two-phase sampling, and has two parts. One is that of the labels
    about the judge's scores, for the labels are a sample of the judged samples. The other is that of people's scores
    over all samples, for the judged ones are a sample themselves (Student's t).

    Args:
        judge: the judge's scores of all samples (of images: prompts) that could have been drawn.
        judged: the judge's scores of the samples that were drawn.
        people: people's scores of the drawn samples, in the same order.
        zeros: number of samples that score 0 with any judge: the candidate delivered nothing.
        highest: upper end of the scale, which begins at 0.
    """
    if len(people) < FEWEST:
        return None
    all_judged, f, y = (np.asarray(values, dtype=np.float64) for values in (judge, judged, people))
    weights = _weights(f, y, all_judged)
    told = y - weights * (f - all_judged.mean())
    value, share = float(np.clip(told.mean(), 0.0, highest)), len(all_judged) / (len(all_judged) + zeros)
    low, high = _ends(told, y, len(all_judged), share, highest)
    return Corrected(share * value, max(0.0, low), min(highest, high), float(weights.mean()))


def _ends(told: Floats, y: Floats, judged: int, share: float, highest: float) -> tuple[float, float]:
    """Return the ends of the interval over all samples, if a share was judged and the others score 0."""
    n, value = len(y), float(np.clip(told.mean(), 0.0, highest))
    from scipy.special import stdtrit  # pyright: ignore[reportMissingTypeStubs]  # slow to import

    over_all = share * y.var(ddof=1) + share * (1 - share) * value**2
    variance = share**2 * told.var(ddof=1) * max(0.0, 1 / n - 1 / judged) + over_all * share / judged
    half = float(stdtrit(n - 1, 1 - TAIL)) * float(np.sqrt(variance))
    low, high = share * value - half, share * value + half
    for equal in (each for each in (y, told) if np.ptp(each) == 0):  # their variance is no estimate
        exact = of_equal_values(float(np.clip(equal[0], 0.0, highest)), n, 0.0, highest)
        low, high = min(low, share * exact[0]), max(high, share * exact[1])
    return low, high


def _weights(f: Floats, y: Floats, judge: Floats) -> Floats:
    """Return the weight of the judge for each label, by all others: the slope of people's scores on the judge's."""
    n, spread = len(f), float(judge.var())
    if n < TUNED_FROM or spread == 0:
        return np.full(n, FIXED)
    m = n - 1
    together = (f @ y - f * y) - (f.sum() - f) * (y.sum() - y) / m
    alone = (f @ f - f * f) - (f.sum() - f) ** 2 / m
    return np.clip((together + FIXED * PRIOR * spread) / (alone + PRIOR * spread), 0.0, 1.0)
