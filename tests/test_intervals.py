"""Intervals of scores: which method when, exact edges, and coverage under simulation."""

import numpy as np
import pytest
from scipy.stats import beta
from simulate_intervals import Images, seen_level

from tasks.statistics.intervals import Interval, interval


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
    ],
)
def test_too_few_values_have_no_interval_and_equal_ones_the_exact_bound(
    values: list[float], low: float, high: float, expected: Interval
) -> None:
    found = interval(values, low, high)
    assert found.method == expected.method
    assert found[:3] == pytest.approx(expected[:3], abs=1e-3)


@pytest.mark.parametrize(("n", "method"), [(7, "none"), (8, "bayesian bootstrap"), (300, "bayesian bootstrap")])
def test_method_follows_the_number_of_values(n: int, method: str) -> None:
    assert interval([0.0] + [100.0] * (n - 1)).method == method


@pytest.mark.parametrize(("ones", "n"), [(1, 8), (4, 8), (1, 30), (29, 30), (150, 292)])
@pytest.mark.parametrize("high", [1, 10, 100])
def test_a_share_has_the_interval_of_jeffreys(ones: int, n: int, high: float) -> None:
    # Half a pseudo-observation at each end of the scale, beside the values: a Beta posterior, known exactly.
    found = interval([high] * ones + [0.0] * (n - ones), 0, high)
    exact = beta(ones + 0.5, n - ones + 0.5)
    ends, near = high * exact.ppf([0.025, 0.975]), 0.1 * high * exact.std()
    assert (found.ci_low, found.ci_high) == pytest.approx(ends, abs=near)


def test_values_in_the_middle_of_the_scale_are_hardly_drawn_to_its_ends() -> None:
    values = np.random.default_rng(4).normal(7.5, 1, size=20).clip(0, 10)
    found = interval(values, high=10)
    reach = 2.093 * values.std(ddof=1) / 20**0.5
    assert found.ci_low is not None and found.ci_high is not None
    assert 2 * reach < found.ci_high - found.ci_low < 1.35 * 2 * reach


def test_the_interval_contains_the_mean_also_where_nearly_all_values_are_at_one_end() -> None:
    for values in ([10.0] * 39 + [9.9], [0.0] * 11 + [0.1], [10.0] * 79 + [9.75]):
        found = interval(values, high=10)
        assert found.value is not None and found.ci_low is not None and found.ci_high is not None
        assert 0 <= found.ci_low <= found.value <= found.ci_high <= 10
        assert found.ci_high - found.ci_low > 0.1


def test_many_values_have_nearly_the_normal_interval() -> None:
    # 400 values, half 0 and half 100: the standard error of the mean is 50 / 20 = 2.5.
    found = interval([0.0, 100.0] * 200)
    assert (found.value, found.method) == (50.0, "bayesian bootstrap")
    assert (found.ci_low, found.ci_high) == pytest.approx((50 - 1.96 * 2.5, 50 + 1.96 * 2.5), abs=0.3)


def test_the_same_values_give_the_same_interval_in_any_order() -> None:
    values = np.random.default_rng(1).choice([0.0, 50.0, 100.0], size=120)
    assert interval(values) == interval(np.sort(values)) == interval(values.tolist())


def test_many_distinct_values_are_resampled_in_portions() -> None:
    values = np.random.default_rng(2).uniform(0, 100, size=1500)
    found = interval(values)
    error = values.std() / 1500**0.5
    assert (found.ci_low, found.ci_high) == pytest.approx(
        (values.mean() - 1.96 * error, values.mean() + 1.96 * error), abs=0.15
    )


@pytest.mark.parametrize("values", [[101.0], [-0.5, 3.0], [float("nan"), 50.0]])
def test_values_off_the_scale_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="between 0 and 100, found"):
        interval(values)


@pytest.mark.parametrize(
    ("n", "shares", "at_least", "at_most"),
    [
        (12, (0.3, 0.3, 0.4), 0.92, 0.98),
        (29, (0.2, 0.5, 0.3), 0.92, 0.98),
        (60, (0.3, 0.3, 0.4), 0.92, 0.98),
        (292, (0.2, 0.1, 0.7), 0.92, 0.98),
        # A percentile bootstrap covers 84-90% here.
        (50, (0.01, 0.04, 0.95), 0.93, 0.99),
        (30, (0.05, 0.05, 0.9), 0.93, 0.99),
        # Nearly all equal: most samples are constant, where a resampled interval would have no width and cover nothing.
        (12, (0.01, 0.01, 0.98), 0.95, 1.0),
        (60, (0.002, 0.002, 0.996), 0.95, 1.0),
    ],
)
def test_intervals_cover_the_true_mean(n: int, shares: tuple[float, ...], at_least: float, at_most: float) -> None:
    scores, random = np.array([0.0, 50.0, 100.0]), np.random.default_rng(7)
    bounds = np.array([interval(random.choice(scores, size=n, p=shares))[1:3] for _ in range(400)], dtype=float)
    truth = scores @ shares
    covered = (bounds[:, 0] <= truth) & (truth <= bounds[:, 1])
    assert at_least <= covered.mean() <= at_most


@pytest.mark.parametrize(("n", "ceiling"), [(12, 0.97), (20, 0.97), (20, 0.8)])
def test_intervals_cover_the_mean_of_prompts_most_of_which_reach_the_ceiling(n: int, ceiling: float) -> None:
    seen = seen_level("", Images(ceiling).level, 10, n, [7], 300)
    assert 0.92 <= seen.covered <= 0.995 and seen.covered_before < seen.covered
