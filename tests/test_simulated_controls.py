"""Simulated judges with known habits, and what the controls of a run call them, however they are asked."""

import pytest
from simulate_controls import erring, first_place, many_runs, stubborn

from tasks.records import Order

ONE: tuple[Order, ...] = ("human_first",)
BOTH: tuple[Order, ...] = ("human_first", "model_first")
RUNS = 250


@pytest.mark.parametrize("share", [0.03, 0.05])
def test_how_a_judge_is_asked_does_not_change_its_rate(share: float) -> None:
    """Of 24,000 questions the standard error of a rate of 5% is 0.14 points in one order, and less in both."""
    one = many_runs(1, erring(share), 4 * RUNS, orders=ONE)
    both = many_runs(2, erring(share), 4 * RUNS, orders=BOTH)
    voted = many_runs(3, erring(share), RUNS, orders=BOTH, votes=3)
    assert one.rate == pytest.approx(share, abs=0.01)
    assert both.rate == pytest.approx(share, abs=0.01) and voted.rate == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize("pairs", [2, 6])
@pytest.mark.parametrize("orders", [ONE, BOTH])
def test_a_judge_that_seldom_errs_is_hardly_ever_red(pairs: int, orders: tuple[Order, ...]) -> None:
    """In truth at most 1 run in 1,000: three of 250 would be a miracle."""
    for judge in (erring(0.05), stubborn(0.05)):
        assert many_runs(4, judge, RUNS, pairs, orders).red <= 2 / RUNS


@pytest.mark.parametrize("orders", [ONE, BOTH])
def test_a_judge_that_goes_by_the_place_or_by_chance_is_red(orders: tuple[Order, ...]) -> None:
    assert many_runs(5, first_place(1.0), 20, orders=orders).red == 1
    assert many_runs(6, erring(0.6), RUNS, orders=orders).red > 0.95
