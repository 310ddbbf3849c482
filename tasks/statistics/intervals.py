"""Certainty of levels and of differences: 95% intervals, corrections by people's labels, and offsets between judges."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from math import ceil, floor, log10
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.records import Decision as OffsetDecision
from tasks.records import Offset, Record

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
DECIMALS = 9
"""Decimals that count. Means of decimals that are equal may differ in their last bits: 7.6 - 7.1 is not 5.7 - 5.2."""
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
    if np.ptp(sample.round(DECIMALS)) == 0:
        return Interval(mean, *of_equal_values(mean, sample.size, low, high), "binomial")
    found = _posterior(sample, low, high)
    return Interval(mean, min(found[0], mean), max(found[1], mean), "bayesian bootstrap")


class Bounds(NamedTuple):
    """Bounds of the mean for all possible missing values; None: too few are missing, or there is no interval."""

    worst_low: float | None
    worst_high: float | None


def worst_case(
    found: "Interval | Difference", means: tuple[float, float], coverage: float, high: float = 100.0, low: float = 0.0
) -> Bounds:
    """Return bounds of a mean with missing values, from `low` to `high`, widened by its interval.

    Each end is moved by half the interval's width, or by the interval's part on that side where it is the longer one.
    These are Manski's bounds (1990), for values that may be missing because of their size. None from 97% coverage on,
    and without an interval.

    Args:
        found: mean and interval of the values present.
        means: means of all values, with every missing one at the lower end of the scale, and at the upper one.
        coverage: share of the values present, 0-1.
    """
    value = found.value if isinstance(found, Interval) else found.change
    if coverage >= ENOUGH or value is None or found.ci_low is None or found.ci_high is None:
        return Bounds(None, None)
    half = (found.ci_high - found.ci_low) / 2
    below, above = max(half, value - found.ci_low), max(half, found.ci_high - value)
    return Bounds(max(low, means[0] - below), min(high, means[1] + above))


def of_equal_values(value: float, n: int, low: float, high: float, tail: float = TAIL) -> tuple[float, float]:
    """Return the interval of a mean of `n` values that all are `value`, on the scale from `low` to `high`.

    By Clopper and Pearson (1934), none seen among n leaves room for this share of others, anywhere on the scale.
    """
    others = 1 - tail ** (1 / n)
    return value - others * (value - low), value + others * (high - value)


@lru_cache(maxsize=4096)  # an index asks for a thousand evaluations, most of which have the same counts
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


FEWEST_LABELS = 15
"""Fewest labels that correct a score."""
FIXED = 0.5
"""Weight of the judge below `TUNED_FROM` labels, chosen beforehand. With a weight that the labels themselves choose,
intervals of 30 cover 75-90% where nine of ten figures lose, and are hardly narrower elsewhere."""
MOST_SKIPPED = 0.2
"""Share of the samples shown to people above which a score has bounds alone: skipped ones are not like the others."""
FEWEST_SHARED = 20
"""Samples that two people share from which on they must agree better than by chance."""
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
    if len(people) < FEWEST_LABELS:
        return None
    all_judged, f, y = (np.asarray(values, dtype=np.float64) for values in (judge, judged, people))
    weights = _weights(f, y, all_judged)
    told = y - weights * (f - all_judged.mean())
    value, share = float(np.clip(told.mean(), 0.0, highest)), len(all_judged) / (len(all_judged) + zeros)
    low, high = _ends(told, y, len(all_judged), share, highest)
    return Corrected(share * value, max(0.0, low), min(highest, high), float(weights.mean()))


def bounded_by_skipped(
    found: Corrected, lowest: Corrected, best: Corrected, highest: float = 100.0
) -> tuple[float, float]:
    """Return the bounds of a corrected score whatever people would have said of the samples that they skipped.

    These are Manski's bounds (1990), widened by the interval of the answered samples: skipping is no matter of chance,
    since people skip what is hard to tell. `tests/simulate_labels.py` measures their coverage.

    Args:
        found: the score corrected by the answered samples.
        lowest: the score corrected by all that were shown, where each skipped one has the lowest score.
        best: the same where each has the highest.
        highest: upper end of the scale, which begins at 0.
    """
    low, high = lowest.value - (found.value - found.ci_low), best.value + (found.ci_high - found.value)
    return max(0.0, min(found.ci_low, low)), min(highest, max(found.ci_high, high))


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
    """Change, up or down, that this n shows with a probability of 80%; None without an interval, with bounds for
    missing scores, and if all pairs changed alike, which leaves no spread."""
    of: int | None = None
    """Pairs that there would be if every sample that both sides judged had a score on both; None: not counted."""
    worst_low: float | None = None
    """Lower end of the interval if the missing scores were as bad for the change as the scale allows; None from 97% of
    these pairs on, and without an interval."""
    worst_high: float | None = None
    """Upper end of the interval if they were as good."""
    decision: Decision
    """Side of zero on which the interval lies, or the bounds where scores are missing; `no difference shown`: they
    include zero. Without an interval: `few differ`, fewer than 5 of the pairs, or `too few` pairs, fewer than 8."""

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
    changes = (second - first).round(DECIMALS)
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


class Bounded(NamedTuple):
    """A value that may lack a part."""

    value: float | None
    """Value of the part that is there; None: all is missing."""
    low: float
    """Value if all that is missing were the lowest."""
    high: float
    """Value if it were the highest."""
    share: float
    """Share that is there, 0-1."""
    weight: float = 1.0
    """Weight of the whole where values are pooled."""
    unit: str = ""
    """Unit whose mean it enters; empty: the caller knows it."""

    @property
    def scored(self) -> float:
        """Weight of the part that is there."""
        return self.share * self.weight


def whole(value: float) -> Bounded:
    """Return a value that lacks nothing."""
    return Bounded(value, value, value, 1.0)


Gaps = Sequence[tuple[Bounded, Bounded]]
"""Values before and after of samples that both sides judged, and that lack something on either side."""


def with_missing(found: Difference, gaps: Gaps, highest: float = 100.0) -> Difference:
    """Return a difference with the bounds that its missing scores allow, as `worst_case` does for a mean."""
    changes = [
        after.value - before.value for before, after in gaps if before.value is not None and after.value is not None
    ]
    of = found.n + len(gaps) - len(changes)
    if found.change is None:
        return found.model_copy(update={"of": of})
    total = found.change * found.n - sum(changes)
    lowest = total + sum(after.low - before.high for before, after in gaps)
    best = total + sum(after.high - before.low for before, after in gaps)
    coverage = 1 - sum(1 - min(before.share, after.share) for before, after in gaps) / of
    bounds = worst_case(found, (lowest / of, best / of), coverage, highest, -highest)
    decided = {"decision": _decision(*bounds, found.n), "smallest": None} if bounds.worst_low is not None else {}
    return found.model_copy(update={"of": of, **bounds._asdict(), **decided})


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


def smallest_shown(spread: float, n: int, tail: float = TAIL) -> float | None:
    """Return the smallest true difference whose interval excludes zero with the probability `POWER`.

    It solves the sample-size formula of the paired t test for the difference (Chow, Shao and Wang, Sample Size
    Calculations in Clinical Research, 2008, section 3.1). Student's quantiles replace the normal ones, because
    `spread`, the standard deviation of the differences, is an estimate.

    Returns:
        None below 8 pairs, which have no interval, and without any spread.
    """
    if n < FEWEST or spread == 0:
        return None
    from scipy.special import stdtrit  # pyright: ignore[reportMissingTypeStubs]  # slow to import

    return float(stdtrit(n - 1, 1 - tail) + stdtrit(n - 1, POWER)) * spread / n**0.5


OFFSET_MARGIN = 3.0
"""Points of a scale of 100 by which a history may be off if another judge continues it."""
OFFSET_TAIL = 0.02
"""Share that an interval leaves out at either end. An offset remains in a history, so its interval must hold 95% with
any judges: set to 96%, it holds 94-97% with all simulated ones (`tests/simulate_bridge.py`)."""
CONTINUED, WITH_OFFSET, CANNOT_TELL = "may be continued", "with an offset", "cannot tell"


def offset(
    old: Sequence[float], new: Sequence[float], highest: float = 100.0, margin: float = OFFSET_MARGIN, gaps: Gaps = ()
) -> Offset:
    """Compare two judges by equally long rows of their scores of the same samples, between 0 and `highest`.

    The interval is that of `difference`. If too few pairs differ for one, it is that of a level on the scale of
    differences, which is wider. The bounds for missing scores take its place.

    Args:
        margin: points of a scale of 100.

    Raises:
        ValueError: the rows differ in length, or a score is off the scale.
    """
    found = difference(old, new, highest, OFFSET_TAIL)
    low, high = found.ci_low, found.ci_high
    if low is None or high is None:
        changes = [after - before for before, after in zip(old, new, strict=True)]
        _, low, high, *_ = interval(changes, -highest, highest)
    allowed = margin * highest / 100
    enough = samples_for(found.n, low, high, allowed)
    known = with_missing(found.model_copy(update={"ci_low": low, "ci_high": high}), gaps, highest)
    if known.worst_low is not None:
        low, high, enough = known.worst_low, known.worst_high, None
    return Offset(
        n=found.n,
        old_score=found.before,
        new_score=found.after,
        shift=found.change,
        ci_low=low,
        ci_high=high,
        margin=allowed,
        decision=decide_offset(low, high, allowed),
        enough=enough,
        of=known.of,
    )


def decide_offset(low: float | None, high: float | None, margin: float) -> OffsetDecision:
    """Return the decision that a shift's interval allows; without an interval, `CANNOT_TELL`."""
    if low is None or high is None:
        return CANNOT_TELL
    if -margin <= low and high <= margin:
        return CONTINUED
    return WITH_OFFSET if (high - low) / 2 <= margin else CANNOT_TELL


def samples_for(n: int, low: float | None, high: float | None, margin: float) -> int | None:
    """Return how many samples would narrow an interval to the margin on either side, rounded up to two digits.

    An interval narrows with the square root of their number. None: it is narrow enough, or there is none.
    """
    if low is None or high is None or (high - low) / 2 <= margin:
        return None
    needed = n * ((high - low) / 2 / margin) ** 2
    step = 10 ** max(0, floor(log10(needed)) - 1)
    return ceil(needed / step) * step
