"""Where the money of a run comes from, and what it begins by."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from factories import DIMENSIONS, NOON, end, judgment, start, write_run

from flows.runtime import budgeting
from flows.runtime.budgeting import budget_of, tariff_of
from tasks.errors import InputError
from tasks.parameters import Judge, PairwiseParameters
from tasks.spending import reservations
from tasks.spending.budget import Budget
from tasks.spending.prices import Amounts
from tasks.spending.reservations import Month, month_of
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


def test_a_judge_that_costs_nothing_by_the_workers_prices_has_room_in_any_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = 'endpoint="http://127.0.0.1"\nmodel="*"\ninput=0\noutput=0\nlooked_up=2026-11-01\n'
    (tmp_path / "own.toml").write_text(f"[ours]\n{free}")
    asked = PairwiseParameters(judge=Judge(model="m", base_url="http://127.0.0.1:8000/v1"), budget=0.01)
    with pytest.raises(InputError, match="those of a judge that costs nothing stand as 0 in a file that JURY_PRICES"):
        tariff_of(asked)
    monkeypatch.setenv("JURY_PRICES", str(tmp_path / "own.toml"))
    tariff = tariff_of(asked)
    assert tariff and tariff.price(Amounts(1e6, 0, 0, 1e6)) == 0


def test_at_the_turn_of_the_month_a_run_goes_on_in_the_budget_of_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here it begins a month before this one, in which another run has left 4."""
    monkeypatch.setenv(reservations.VARIABLE, "10")
    today = datetime.now(UTC)
    last = today.replace(day=1) - timedelta(days=1)

    def other(moment: datetime) -> Month:
        return Month(tmp_path, LocalShelf(tmp_path), month_of(moment), 10.0, "other")

    assert other(today).claim(6.0)

    async def spend(budget: Budget) -> None:
        assert budget.month == month_of(last)
        assert await budget.fits({"a": 9.0, "b": 1.0})
        budget.settle("a", "readability", 8.0)
        with monkeypatch.context() as turned:
            turned.setattr(budgeting, "datetime", datetime)
            assert await budget.fits_now({"c": 3.0}), "beside the call that was in flight at the turn"
            assert budget.month == month_of(today) and not await budget.fits_now({"d": 0.1})
        budget.settle("b", "readability", 1.0)
        budget.settle("c", "readability", 2.0)

    class Before(datetime):
        """A clock that is a month late."""

        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return last.astimezone(tz)

    with monkeypatch.context() as late:
        late.setattr(budgeting, "datetime", Before)
        opened(tmp_path, spend)
    assert other(last).left() == pytest.approx(2.0)
    assert other(today).left() == pytest.approx(10.0 - 3.0)


def test_calls_of_unknown_price_are_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = reservations.datetime.now(reservations.UTC).isoformat()
    rows = [judgment(price=None, judged_at=now), judgment("s2", price=None, judged_at=NOON.replace("2026", "2025"))]
    write_run(tmp_path, start(), rows, end())
    monkeypatch.setenv(reservations.VARIABLE, "10")
    assert "JURY_BUDGET_MONTH does not count 1 calls of " in opened(tmp_path).warnings[0]
    monkeypatch.delenv(reservations.VARIABLE)
    assert not opened(tmp_path, budget=1).warnings
