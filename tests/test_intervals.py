"""Intervals of scores: which method when, exact edges, and coverage under simulation."""

import numpy as np
import pytest

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
        # Four 40s and five 60s: s = 10.5409, s / 3 times t(8) = 2.306004 is 8.1025.
        ([40.0] * 4 + [60.0] * 5, 0, 100, Interval(51.1111, 43.0086, 59.2136, "student t")),
        # 87.5 with a reach of 29.56 would end beyond the scale.
        ([100.0] * 7 + [0.0], 0, 100, Interval(87.5, 57.9422, 100.0, "student t")),
        ([0.0] * 7 + [10.0], 0, 10, Interval(1.25, 0.0, 4.20578, "student t")),
    ],
)
def test_method_and_bounds(values: list[float], low: float, high: float, expected: Interval) -> None:
    found = interval(values, low, high)
    assert found.method == expected.method
    assert found[:3] == pytest.approx(expected[:3], abs=1e-3)


@pytest.mark.parametrize(("n", "method"), [(7, "none"), (8, "student t"), (29, "student t"), (30, "bootstrap")])
def test_method_follows_the_number_of_values(n: int, method: str) -> None:
    assert interval([0.0] + [100.0] * (n - 1)).method == method


def test_bootstrap_agrees_with_the_normal_interval_on_a_large_sample() -> None:
    # 400 values, half 0 and half 100: the standard error of the mean is 50 / 20 = 2.5.
    found = interval([0.0, 100.0] * 200)
    assert (found.value, found.method) == (50.0, "bootstrap")
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
