"""Paired differences: exact values, coverage, false alarms and power on simulated runs, and Holm's correction."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import betaincinv
from simulate_intervals import Images, seen_level

from tasks.statistics.intervals import Difference, Interval, difference, holm, interval, sign_test, smallest_shown

SCORES = np.array([0.0, 50.0, 100.0])
BENCHMARK = 292
"""Number of diagrams in the published benchmark."""
NOISE = 0.3
"""Share of outcomes that change at random when a judge repeats them."""


def measured_twice(random: np.random.Generator, n: int, drop: float = 0.0) -> tuple[NDArray[np.float64], ...]:
    """Return two noisy scorings of n samples; in the second, random samples first fall to 0, a mean fall of `drop`."""
    real = random.choice([50.0, 100.0], n)
    before, after = real.copy(), np.where(random.random(n) < drop / real, 0.0, real)
    for scores in (before, after):
        again = random.random(n) < NOISE
        scores[again] = random.choice(SCORES, again.sum())
    return before, after


def simulate_differences(times: int, n: int, drop: float = 0.0, seed: int = 5) -> list[Difference]:
    random = np.random.default_rng(seed)
    return [difference(*measured_twice(random, n, drop)) for _ in range(times)]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([], [], (0, None, None, None, "none", None, "too few")),
        ([0.0, 100.0], [50.0, 100.0], (2, 25.0, None, None, "none", 1.0, "too few")),
        # Ten changes of 50, 50, 0 …: mean 25, s = 26.3523, s / sqrt(10) times t(9) = 2.26216 is 18.8514.
        ([0.0] * 10, [50.0, 0.0] * 5, (10, 25.0, 6.1486, 43.8514, "student t", 0.0625, "better")),
        ([50.0, 0.0] * 5, [0.0] * 10, (10, -25.0, -43.8514, -6.1486, "student t", 0.0625, "worse")),
        ([0.0, 50.0] * 4, [50.0, 0.0] * 4, (8, 0.0, -44.6872, 44.6872, "student t", 1.0, "no difference shown")),
        # 5 of 100 changed by 50: s = 10.9521, s / 10 times t(99) = 1.98422 is 2.1731. Skewness is 4.1295, which moves
        # both ends by 2 / 5 of 4.1295 * (1 + 2 * 1.98422^2) / 60 standard errors of 1.09521: 0.2676.
        ([0.0] * 100, [50.0] * 5 + [0.0] * 95, (100, 2.5, 0.5944, 4.9407, "student t", 0.0625, "better")),
        # The skewness correction never moves an interval towards zero: 8 of 10 changed by 50, s = 21.0819, s / sqrt(10)
        # times t(9) = 2.26216 is 15.0810.
        ([0.0] * 10, [50.0] * 8 + [0.0] * 2, (10, 40.0, 24.9190, 55.0810, "student t", 0.0078125, "better")),
        # No correction where no difference is shown: 6 up and 1 down.
        (
            [0.0] * 50 + [50.0] * 50,
            [50.0] * 6 + [0.0] * 45 + [50.0] * 49,
            (100, 2.5, -0.0906, 5.0906, "student t", 0.125, "no difference shown"),
        ),
        # Fewer than five pairs differ: no interval, whatever the number of pairs.
        ([0.0] * 8, [50.0, 0.0] * 4, (8, 25.0, None, None, "none", 0.125, "few differ")),
        ([50.0] * 100, [50.0] * 100, (100, 0.0, None, None, "none", 1.0, "few differ")),
        ([50.0] * 292, [50.0] * 288 + [0.0] * 4, (292, -200 / 292, None, None, "none", 0.125, "few differ")),
        # Each of 8 pairs rose by 50: up to 36.94% might have fallen by 100, which gives 50 - 0.3694 * 150.
        ([0.0] * 8, [50.0] * 8, (8, 50.0, -5.4125, 68.4708, "binomial", 0.0078125, "no difference shown")),
        ([0.0] * 30, [50.0] * 30, (30, 50.0, 32.6445, 55.7852, "binomial", 2 * 0.5**30, "better")),
        # Differences of decimals are equal, whatever their last bits.
        ([7.1, 5.2] * 4, [7.6, 5.7] * 4, (8, 0.5, -36.6264, 37.2570, "binomial", 0.0078125, "no difference shown")),
        ([0.1 + 0.2] * 8, [0.3] * 8, (8, 0.0, None, None, "none", 1.0, "few differ")),
    ],
)
def test_difference_of_worked_examples(before: list[float], after: list[float], expected: tuple) -> None:
    found = difference(before, after)
    assert (found.n, found.method, found.decision) == (expected[0], expected[4], expected[6])
    numbers = [each for each in (found.change, found.ci_low, found.ci_high, found.p)]
    assert numbers == pytest.approx([*expected[1:4], expected[5]], abs=1e-3)
    assert (found.smallest is None) == (found.method != "student t")


def test_difference_counts_pairs_rises_and_falls() -> None:
    found = difference([1.0, 2.0, 3.0, 4.0], [2.0, 3.0, 3.0, 1.0], highest=10)
    assert (found.before, found.after, found.change, found.higher, found.lower) == (2.5, 2.25, -0.25, 2, 1)


def test_unpaired_or_out_of_scale_values_are_refused() -> None:
    with pytest.raises(ValueError, match="2 before and 1 after"):
        difference([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="between -10 and 10"):
        difference([0.0], [50.0], highest=10)


@pytest.mark.parametrize(
    ("higher", "lower", "p"),
    [(0, 0, 1.0), (1, 0, 1.0), (5, 5, 1.0), (8, 2, 0.109375), (2, 8, 0.109375), (10, 0, 0.001953125)],
)
def test_sign_test_is_exact_binomial(higher: int, lower: int, p: float) -> None:
    assert sign_test(higher, lower) == pytest.approx(p)


@pytest.mark.parametrize(
    ("found", "adjusted"),
    [
        ([], []), ([0.03], [0.03]), ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([0.5, 0.5, 0.9], [1.0, 1.0, 1.0]), ([0.02, 0.02], [0.04, 0.04]),
    ],
)  # fmt: skip
def test_holm_adjusts_p_values_and_keeps_their_order(found: list[float], adjusted: list[float]) -> None:
    assert holm(found) == pytest.approx(adjusted)


def test_smallest_difference_depends_on_sample_size_and_spread() -> None:
    # With normal quantiles (1.96 + 0.8416) * 50 / sqrt(292) = 8.198; Student's are slightly larger.
    assert smallest_shown(50, BENCHMARK) == pytest.approx(8.22, abs=0.01)
    assert smallest_shown(100, BENCHMARK) == pytest.approx(2 * (smallest_shown(50, BENCHMARK) or 0))
    found = [smallest_shown(50, n) or 0 for n in (8, 30, 120, 480)]
    assert all(more > 1.9 * fewer for more, fewer in pairwise(found))
    assert smallest_shown(50, 7) is None and smallest_shown(0, BENCHMARK) is None


@pytest.mark.parametrize(("n", "fallen"), [(50, 0.13), (100, 0.065), (100, 0.15)])
def test_interval_covers_a_rare_drop_at_the_nominal_rate(n: int, fallen: float) -> None:
    """Nearly all changed pairs fall: Student's t alone would cover 98.3, 98.6 and 93.6% of the cases."""
    shares = [fallen / 2, fallen / 2, 0.998 - fallen, 0.002]
    changes = np.random.default_rng(4).choice([-100.0, -50.0, 0.0, 50.0], (3000, n), p=shares)
    before = np.where(changes < 0, -changes, 50.0)
    found = map(difference, before, before + changes)
    given = [(each.ci_low, each.ci_high) for each in found if each.ci_low is not None and each.ci_high is not None]
    assert 0.94 <= np.mean([low <= 0.1 - 75 * fallen <= high for low, high in given]) <= 0.98


def test_unchanged_candidate_is_called_worse_in_at_most_5_percent() -> None:
    decisions = [found.decision for found in simulate_differences(200, BENCHMARK)]
    assert decisions.count("worse") <= 10 and decisions.count("no difference shown") >= 180


def test_smallest_difference_is_detected_with_80_percent_power() -> None:
    spread = np.mean([each.smallest or 0 for each in simulate_differences(50, BENCHMARK, drop=9.0)])
    found = simulate_differences(400, BENCHMARK, drop=float(spread) / (1 - NOISE), seed=8)
    assert np.mean([each.decision == "worse" for each in found]) == pytest.approx(0.8, abs=0.05)


# Intervals of levels


@pytest.mark.parametrize(
    ("values", "low", "high", "expected"),
    [
        ([], 0, 100, Interval(None, None, None, "none")),
        ([50.0], 0, 100, Interval(50.0, None, None, "none")),
        ([0.0, 100.0] * 3 + [50.0], 0, 100, Interval(50.0, None, None, "none")),
        ([100.0] * 7, 0, 100, Interval(100.0, None, None, "none")),
        # Clopper-Pearson for 8 of 8: 63.06 % to 100 %; for 300 of 300: 98.78 % to 100 %.
        ([100.0] * 8, 0, 100, Interval(100.0, 63.0583, 100.0, "binomial")),
        ([0.0] * 8, 0, 100, Interval(0.0, 0.0, 36.9417, "binomial")),
        ([50.0] * 8, 0, 100, Interval(50.0, 31.5292, 68.4708, "binomial")),
        ([100.0] * 300, 0, 100, Interval(100.0, 98.7779, 100.0, "binomial")),
        ([10.0] * 8, 0, 10, Interval(10.0, 6.30583, 10.0, "binomial")),
        ([8.0] * 8, 0, 10, Interval(8.0, 5.04466, 8.738834, "binomial")),
        ([0.1 + 0.2, 0.3] * 4, 0, 1, Interval(0.3, 0.189175, 0.558592, "binomial")),
    ],
)
def test_interval_of_few_values_and_of_equal_values(values: list, low: int, high: int, expected: Interval) -> None:
    found = interval(values, low, high)
    assert found.method == expected.method
    assert found[:3] == pytest.approx(expected[:3], abs=1e-3)


@pytest.mark.parametrize(("ones", "n"), [(1, 8), (4, 8), (1, 30), (29, 30), (150, 292)])
@pytest.mark.parametrize("high", [1, 10, 100])
def test_interval_of_a_share_is_close_to_jeffreys(ones: int, n: int, high: float) -> None:
    # The prior's half pseudo-observation at each end of the scale makes a Beta posterior, known exactly.
    found = interval([high] * ones + [0.0] * (n - ones), 0, high)
    deviation = ((ones + 0.5) * (n - ones + 0.5) / (n + 2)) ** 0.5 / (n + 1)
    ends, near = high * betaincinv(ones + 0.5, n - ones + 0.5, [0.025, 0.975]), 0.1 * high * deviation
    assert (found.ci_low, found.ci_high) == pytest.approx(ends, abs=near)


def test_pseudo_observations_hardly_widen_mid_scale_intervals() -> None:
    values = np.random.default_rng(4).normal(7.5, 1, size=20).clip(0, 10)
    found = interval(values, high=10)
    reach = 2.093 * values.std(ddof=1) / 20**0.5
    assert found.ci_low is not None and found.ci_high is not None
    assert 2 * reach < found.ci_high - found.ci_low < 1.35 * 2 * reach


def test_interval_contains_the_mean_at_the_ends_of_the_scale() -> None:
    for values in ([10.0] * 39 + [9.9], [0.0] * 11 + [0.1], [10.0] * 79 + [9.75]):
        found = interval(values, high=10)
        assert found.value is not None and found.ci_low is not None and found.ci_high is not None
        assert 0 <= found.ci_low <= found.value <= found.ci_high <= 10
        assert found.ci_high - found.ci_low > 0.1


def test_interval_ignores_the_order_of_values() -> None:
    values = np.random.default_rng(1).choice([0.0, 50.0, 100.0], size=120)
    assert interval(values) == interval(np.sort(values)) == interval(values.tolist())


def test_interval_of_many_distinct_values_is_nearly_normal() -> None:
    values = np.random.default_rng(2).uniform(0, 100, size=1500)
    found = interval(values)
    error = values.std() / 1500**0.5
    ends = values.mean() - 1.96 * error, values.mean() + 1.96 * error
    assert (found.ci_low, found.ci_high) == pytest.approx(ends, abs=0.15)


@pytest.mark.parametrize("values", [[101.0], [-0.5, 3.0], [float("nan"), 50.0]])
def test_values_outside_the_scale_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="between 0 and 100, found"):
        interval(values)


@pytest.mark.parametrize(
    ("n", "shares", "at_least", "at_most"),
    [
        (12, (0.3, 0.3, 0.4), 0.92, 0.98),
        # A percentile bootstrap covers only 84-90% here.
        (50, (0.01, 0.04, 0.95), 0.93, 0.99),
        # Most draws are constant: a plain resampled interval would have no width and miss the mean.
        (60, (0.002, 0.002, 0.996), 0.95, 1.0),
    ],
)
def test_intervals_cover_the_true_mean(n: int, shares: tuple[float, ...], at_least: float, at_most: float) -> None:
    scores, random = np.array([0.0, 50.0, 100.0]), np.random.default_rng(7)
    bounds = np.array([interval(random.choice(scores, size=n, p=shares))[1:3] for _ in range(200)], dtype=float)
    truth = scores @ shares
    covered = (bounds[:, 0] <= truth) & (truth <= bounds[:, 1])
    assert at_least <= covered.mean() <= at_most


@pytest.mark.parametrize(("n", "ceiling"), [(12, 0.97), (20, 0.97)])
def test_intervals_cover_the_mean_of_prompts_near_the_ceiling(n: int, ceiling: float) -> None:
    seen = seen_level("", Images(ceiling).level, 10, n, [7], 200)
    assert 0.92 <= seen.covered <= 0.995
