"""`jury status` without a server; what it says of one that is up is in `test_up`."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from factories import end, judgment, other_call, outcome, start, write_run

from tasks.history.loading import sync
from tasks.ledger.other_calls import OTHER_CALLS
from tasks.ledger.reading import FORGOTTEN
from tasks.spending.reservations import Month, month_of
from tasks.spending.shelves import LocalShelf


@pytest.fixture(autouse=True)
def _no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)


def test_a_store_that_is_not_there_is_not_in_step(tmp_path: Path, jury: Any) -> None:
    code, out, _ = jury("status", "--store", tmp_path / "nowhere")
    assert code == 3 and "there is no store" in out and "in step" not in out
    assert not (tmp_path / "nowhere").exists()


def test_a_finished_run_is_told_and_whether_the_history_has_it(tmp_path: Path, jury: Any) -> None:
    write_run(tmp_path, start(), [judgment(), outcome()], end())
    code, out, _ = jury("status", "--store", tmp_path)
    assert code == 3 and "behind the ledgers" in out
    sync(tmp_path)
    code, out, _ = jury("status", "--store", tmp_path)
    assert code == 0 and "in step with the ledgers" in out


def test_samples_that_were_forgotten_are_told(tmp_path: Path, jury: Any) -> None:
    run = write_run(tmp_path, start(samples=3), [*map(outcome, ("s1", "s2", "s3"))], end(outcomes={"complete": 3}))
    assert "forgotten" not in jury("status", "--store", tmp_path)[1]
    for name in ("s1", "s2"):
        assert jury("forget", "--sample", name, "--flow", "diagram", "--yes", "--store", tmp_path)[0] == 0
    assert (run / FORGOTTEN).exists()
    told = "3 samples: 1 complete, 60 s; 2 samples forgotten at a request\n"
    assert told in jury("status", "--store", tmp_path)[1]


def paid(store: Path, *prices: float | None, **changes: Any) -> None:
    """A run of just now, which has ended."""
    now = datetime.now(UTC).isoformat()
    rows = [judgment(f"s{number}", price=price, judged_at=now) for number, price in enumerate(prices)]
    write_run(store, start(started_at=now, **changes), [*rows, outcome()], end())
    OTHER_CALLS.keep(store, [other_call(f"{datetime.now(UTC):%Y%m%dT%H%M%S}-probe-a", price=0.5, asked_at=now)])
    sync(store)


def test_the_budget_of_the_month_is_told_with_what_is_spent_claimed_and_unknown(
    tmp_path: Path, jury: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    paid(tmp_path, 1.0, 0.25, None)
    now = datetime.now(UTC)
    assert Month(tmp_path, LocalShelf(tmp_path), month_of(now), 10.0, "at work").claim(3.0)
    monkeypatch.setenv("JURY_BUDGET_MONTH", "10")
    code, out, _ = jury("status", "--store", tmp_path)
    assert code == 0
    claimed = "3.0000 claimed by 1 run at work or waiting"
    told = f"{month_of(now)}: 1.7500 of 10.0000 spent, {claimed}, 5.2500 left (JURY_BUDGET_MONTH)"
    assert f"budget     {told}\n           without 1 call whose price is unknown\n" in out
    monkeypatch.setenv("JURY_BUDGET_MONTH", "much")
    assert "budget     JURY_BUDGET_MONTH is 'much': allowed is" in jury("status", "--store", tmp_path)[1]


def test_without_a_budget_the_month_is_told_and_what_schedules_make_of_it(tmp_path: Path, jury: Any) -> None:
    paid(tmp_path, 7.0, scheduled=True)
    _, out, _ = jury("status", "--store", tmp_path)
    now = datetime.now(UTC)
    rest = ((now.replace(day=1) + timedelta(days=32)).replace(day=1, hour=0, minute=0, second=0) - now).total_seconds()
    assert f"spent      {month_of(now)}: 7.5000; JURY_BUDGET_MONTH is not set, so that nothing limits it\n" in out
    [line] = [each for each in out.splitlines() if "at its end" in each]
    assert line.endswith(" at its end, if scheduled runs go on as in the last 7 days")
    assert float(line.split()[1]) == pytest.approx(7.5 + rest / 86_400, abs=0.1)


def test_a_store_in_which_nothing_was_spent_tells_of_no_money(tmp_path: Path, jury: Any) -> None:
    write_run(tmp_path, start(), [outcome()], end())
    sync(tmp_path)
    _, out, _ = jury("status", "--store", tmp_path)
    assert "spent" not in out and "budget" not in out
