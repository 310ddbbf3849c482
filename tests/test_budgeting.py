"""Where the money of a run comes from, and what it begins by."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from factories import DIMENSIONS, NOON, end, judgment, start, write_run

from flows.runtime.budgeting import budget_of, tariff_of
from tasks.parameters import Judge, PairwiseParameters
from tasks.spending import reservations
from tasks.spending.budget import Budget
from tasks.spending.reservations import Month
from tasks.spending.shelves import LocalShelf

JUDGE = Judge(model="gpt-x", base_url="https://judge.example/v1", price_in=1.0, price_out=10.0, max_output_tokens=1000)
NOW = start("20261121T120000-diagram-now", model=JUDGE.model, endpoint=JUDGE.base_url)


def opened(store: Path, use: Any = None, **given: Any) -> Budget:
    """The budget of a run, after a use of it while it runs."""
    asked = PairwiseParameters(judge=JUDGE, **given)

    async def run() -> Budget:
        async with budget_of(asked, tariff_of(asked), store, None, NOW) as budget:
            assert budget
            if use:
                await use(budget)
            return budget

    return asyncio.run(run())


def test_a_run_begins_by_what_its_judge_cost_before(tmp_path: Path) -> None:
    rows = [
        judgment(f"s{number}", dimension, tokens_in=1000, tokens_out=100 + number)
        for dimension in DIMENSIONS[:3]
        for number in range(100)
    ]
    write_run(tmp_path, start(parameters=PairwiseParameters(judge=JUDGE).model_dump(mode="json")), rows, end())
    now = NOW.model_copy(update={"parameters": PairwiseParameters(judge=JUDGE).model_dump(mode="json")})
    asked = PairwiseParameters(judge=JUDGE, budget=1)

    async def run() -> tuple[float, float]:
        async with budget_of(asked, tariff_of(asked), tmp_path, None, now) as budget:
            assert budget
            return budget.expected("readability", 10_000), budget.expected(DIMENSIONS[3], 10_000)

    known, unknown = asyncio.run(run())
    assert known == pytest.approx((1000 + 10 * 195) / 1e6, rel=0.01)
    assert unknown == pytest.approx((10_000 + 10 * 1000) / 1e6)


def test_a_run_tells_the_month_what_it_spent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(reservations.VARIABLE, "10")

    async def spend(budget: Budget) -> None:
        assert await budget.fits({"a": 6.0})
        assert not other().claim(4.1)
        budget.settle("a", "readability", 2.0)

    def other() -> Month:
        month = reservations.month_of(reservations.datetime.now(reservations.UTC))
        return Month(tmp_path, LocalShelf(tmp_path), month, 10.0, "other")

    opened(tmp_path, spend)
    assert other().claim(8.0) and not other().claim(8.1)


def test_calls_of_unknown_price_are_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = reservations.datetime.now(reservations.UTC).isoformat()
    rows = [judgment(price=None, judged_at=now), judgment("s2", price=None, judged_at=NOON.replace("2026", "2025"))]
    write_run(tmp_path, start(), rows, end())
    monkeypatch.setenv(reservations.VARIABLE, "10")
    assert "JURY_BUDGET_MONTH does not count 1 calls of " in opened(tmp_path).warnings[0]
    monkeypatch.delenv(reservations.VARIABLE)
    assert not opened(tmp_path, budget=1).warnings
