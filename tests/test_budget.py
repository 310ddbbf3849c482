"""Budgets: which calls fit, when a call waits, and how far a run can exceed its budget."""

import asyncio
from collections.abc import Hashable, Mapping
from pathlib import Path

import numpy as np
import pytest
import simulate_budget
from simulate_budget import DIMENSIONS, JUDGES, costs_of

from tasks.errors import InputError
from tasks.spending.budget import ENOUGH, VARIABLE, Budget, CallCosts, Month, MonthLimit, month_budget
from tasks.spending.prices import Rates, Tariff

TARIFF = Tariff((Rates(1.0, 0.1, 1.25, 10.0),), "given")


def budget(limit: float | None, share: MonthLimit | None = None) -> Budget:
    return Budget(limit, CallCosts(TARIFF, 1000), share)


def test_call_is_expected_at_its_maximum_until_some_are_billed() -> None:
    costs = CallCosts(TARIFF, longest_reply=1000)
    most = (4000 * 1.25 + 1000 * 10) / 1e6
    assert costs.of("readability", 4000) == pytest.approx(most)
    for number in range(ENOUGH):
        assert costs.of("readability", 4000) == pytest.approx(most if number < 1 else min(most, 0.001 * (number + 4)))
        costs.note("readability", 0.001 * (number + 1))
    assert costs.of("readability", 4000) == 0.001 * ENOUGH
    for _ in range(80):
        costs.note("readability", 0.001)
    assert costs.of("readability", 4000) == pytest.approx(0.016)
    assert costs.of("aesthetics", 4000) == pytest.approx(most)


def test_prices_of_earlier_runs_replace_the_maximum() -> None:
    costs = CallCosts(TARIFF, 1000, {"readability": [0.003] * ENOUGH})
    assert costs.of("readability", 4000) == 0.003
    costs.note("readability", 0.002)
    assert costs.of("readability", 4000) == 0.003
    costs.note("readability", 0.004)
    assert costs.of("readability", 4000) == 0.004 and costs.of("aesthetics", 4000) == pytest.approx(0.015)


def test_sample_waits_for_calls_in_flight_or_ends_the_run() -> None:
    async def run() -> None:
        money = budget(1.0)
        assert await money.fits({"a": 0.5, "b": 0.4})
        waiting = asyncio.create_task(money.fits({"c": 0.6}))
        await asyncio.sleep(0)
        money.settle("a", "readability", 0.1)
        await asyncio.sleep(0)
        assert not waiting.done() and not money.over
        money.settle("b", "readability", 0.2)
        assert await waiting
        money.settle("c", "readability", 0.6)
        assert not await money.fits({"d": 0.2, "e": 0.01})
        assert money.over and money.needed == pytest.approx(0.21) and money.exhausted is None
        assert money.spent == pytest.approx(0.9)

    asyncio.run(run())


def test_repeated_call_has_to_fit_the_budget_too() -> None:
    async def run() -> None:
        money = budget(1.0)
        assert await money.fits({"a": 0.6})
        assert await money.covers("a", 0.6)
        money.settle("a", "readability", 0.6)
        assert await money.covers("a", 0.3)
        money.settle("a", "readability", 0.3)
        assert not await money.covers("a", 0.2) and money.over

    asyncio.run(run())


def test_free_sample_fits_until_the_run_ends() -> None:
    money = budget(0.5)
    assert asyncio.run(money.fits({})) and not asyncio.run(money.fits({"a": 0.6}))


def test_first_sample_that_does_not_fit_ends_a_batch() -> None:
    money = budget(1.0)
    assert asyncio.run(money.fits_or_ends({"a": 0.6})) and not money.over
    assert not asyncio.run(money.fits_or_ends({"b": 0.5}))
    assert money.over and money.needed == 0.5 and money.used == 0.6


def test_run_ends_at_an_unpriced_sample_whose_maximum_does_not_fit() -> None:
    def at_most(money: Budget) -> Mapping[Hashable, float]:
        return {each: money.expected(each, 4000) for each in DIMENSIONS}

    money = budget(0.05)
    assert not asyncio.run(money.starts(lambda: at_most(money))) and money.unknown_words
    assert money.over and money.needed == pytest.approx(4 * 0.015)
    unbilled = budget(0.1)
    assert asyncio.run(unbilled.starts(lambda: at_most(unbilled)))
    for each in DIMENSIONS:
        unbilled.settle(each, each, None)  # the judge reports no tokens
    assert unbilled.spent == pytest.approx(4 * 0.015), "the amount reserved"
    assert not asyncio.run(unbilled.starts(lambda: at_most(unbilled))) and not unbilled.unknown_words, "stops as usual"
    known = Budget(0.01, CallCosts(TARIFF, 1000, dict.fromkeys(DIMENSIONS, [0.003] * ENOUGH)))
    assert not asyncio.run(known.starts(lambda: at_most(known))) and not known.unknown_words


def test_exhausted_month_is_distinguished_from_the_runs_budget(tmp_path: Path) -> None:
    for limit, left, exhausted in ((1.0, 0.5, True), (0.5, 1.0, False), (None, 0.5, True)):
        money = budget(limit, MonthLimit(Month(tmp_path, "2026-11", left), None, None))
        assert asyncio.run(money.fits({"a": 0.4}))
        money.settle("a", "readability", 0.4)
        assert not asyncio.run(money.fits({"b": 0.4}))
        assert (money.exhausted is not None) == exhausted


@pytest.mark.parametrize("text", ["ten", "inf", "nan", "-1"])
def test_month_budget_must_be_an_amount(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(InputError, match=f"JURY_BUDGET_MONTH is '{text}': allowed is an amount above 0"):
        month_budget()


@pytest.mark.parametrize("judge", JUDGES, ids=lambda judge: judge.name)
def test_run_exceeds_its_budget_by_at_most_two_percent_or_a_call(judge: simulate_budget.Judge) -> None:
    found = costs_of(judge, 10, np.random.default_rng(2))
    assert found.over <= 0.02 or found.over_calls <= 1
    assert found.left <= 0.05
