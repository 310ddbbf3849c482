"""`jury status` without a server; `test_up` covers its output with a running server."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from factories import end, judgment, other_call, outcome, start, write_run

from tasks.history.landing import land
from tasks.ledger.run_files import read_start
from tasks.ledger.side_records import OTHER_CALLS
from tasks.spending.budget import month_of


@pytest.fixture(autouse=True)
def _no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)


@pytest.mark.parametrize("words", ["status", "query leaderboard", "store sync", "run diagram --dataset samples"])
def test_store_that_is_a_file_is_refused(words: str, tmp_path: Path, jury: Any) -> None:
    history = tmp_path / "history.duckdb"
    history.touch()
    code, out, err = jury(*words.split(), "--store", history)
    assert (code, out) == (2, "") and err == (
        f"jury: the store {history} is a file: name the folder that it is in (--store, JURY_STORE)\n"
    )


def test_status_reports_a_missing_store_and_runs_missing_in_the_history(tmp_path: Path, jury: Any) -> None:
    code, out, _ = jury("status", "--store", tmp_path / "nowhere")
    assert code == 3 and "there is no store" in out and "in step" not in out and not (tmp_path / "nowhere").exists()
    write_run(tmp_path, start(), [judgment(price=0.0), outcome()], end())
    code, out, _ = jury("status", "--store", tmp_path)
    assert code == 3 and "history    lacks 1 finished run" in out
    land(tmp_path)
    code, out, _ = jury("status", "--store", tmp_path)
    assert code == 0 and "in step with the ledgers" in out and "spent" not in out and "budget" not in out


@pytest.mark.usefixtures("without_pages")
def test_status_reports_forgetting(tmp_path: Path, jury: Any) -> None:
    run = write_run(tmp_path, start(samples=3), [*map(outcome, ("s1", "s2", "s3"))], end(outcomes={"complete": 3}))
    assert "forgotten" not in jury("status", "--store", tmp_path)[1]
    for name in ("s1", "s2"):
        assert jury("store", "forget", "--sample", name, "--flow", "diagram", "--yes", "--store", tmp_path)[0] == 0
    assert read_start(run).revision == 2
    line = "3 samples: 1 complete, 60 s; rows were forgotten at a request\n"
    assert line in jury("status", "--store", tmp_path)[1]


def test_status_shows_the_monthly_budget_in_parts(tmp_path: Path, jury: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime.now(UTC)
    at = now.isoformat()
    rows = [judgment(f"s{number}", price=price, judged_at=at) for number, price in enumerate((1.0, 0.25, None))]
    write_run(tmp_path, start(started_at=at, scheduled=True), [*rows, outcome()], end())
    OTHER_CALLS.keep(tmp_path, [other_call(f"{now:%Y%m%dT%H%M%S}-probe-a", price=0.5, asked_at=at)])
    land(tmp_path)
    spent = f"spent      {month_of(now)}: 1.7500; JURY_BUDGET_MONTH is not set, so that nothing limits it\n"
    assert spent in jury("status", "--store", tmp_path)[1]
    at_work = start("29990101T000000-at-work", started_at=at, spending_limit=3.0)
    write_run(tmp_path, at_work, [judgment(price=1.0, judged_at=at)], None)
    monkeypatch.setenv("JURY_BUDGET_MONTH", "10")
    out = jury("status", "--store", tmp_path)[1]
    may_be = "2.0000 may be by 1 run at work or waiting"
    line = f"{month_of(now)}: 2.7500 of 10.0000 spent, {may_be}, 5.2500 left (JURY_BUDGET_MONTH)"
    assert f"budget     {line}\n           without 1 call whose price is unknown\n" in out
    monkeypatch.setenv("JURY_BUDGET_MONTH", "much")
    assert "budget     JURY_BUDGET_MONTH is 'much': allowed is" in jury("status", "--store", tmp_path)[1]


def test_run_of_an_earlier_version_is_reported_once(tmp_path: Path, jury: Any) -> None:
    run = write_run(tmp_path, start(), [outcome()], end())
    (run / "run.json").write_text('{"schema": 3}\n')
    message = "run.json, line 1: ledger schema 3; this version reads 7 alone"
    code, out, _ = jury("status", "--store", tmp_path)
    assert code == 3 and out.count(message) == 1 and "history    " in out
    code, out, err = jury("query", "SELECT 1", "--store", tmp_path)
    assert code == 0 and err.count(message) == 1 and "rows: 1" in out
