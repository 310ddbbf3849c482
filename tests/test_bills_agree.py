"""Runs that end, stop or are interrupted: all bills agree, and interrupted ones resume without paying twice."""

import re
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from batch_twin import BatchTwin, by_picture
from endpoint_twins import moved_to
from killed import dies
from loopback_judge import LoopbackJudge, judged_by
from written_datasets import write_figures
from written_history import ask as rows_of

from flows.cli import main
from tasks.ledger.run_files import read_judgments, run_folders
from tasks.ledger.side_records import OTHER_CALLS
from tasks.spending.budget import Month, month_of

CALL = (1200 * 1 + 80 * 10) / 1e6
"""Price of a loopback judge's reply by `PRICES`, for the tokens that it reports."""
PRICES = {"judge.price-in": 1, "judge.price-out": 10, "judge.max-output-tokens": 100, "judge.concurrency": 4}
SAMPLES, CALLS, IN_FLIGHT = 6, 24, 4
RESULTS = (
    "SELECT sample_id, dimension, verdict, score FROM verdicts ORDER BY ALL",
    "SELECT dimension, n, scored, model_wins, human_wins, both_good, score, ci_low, ci_high FROM leaderboard "
    "ORDER BY dimension",
)

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.fixture
def twin(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchTwin]:
    with BatchTwin(by_picture) as running:
        moved_to(monkeypatch, "openai", running.base_url)
        yield running


@pytest.fixture(scope="module")
def undisturbed(prefect_server: str, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Results of a run that nobody interrupts."""
    place = tmp_path_factory.mktemp("undisturbed")
    with LoopbackJudge(by_picture) as judge:
        given = [*write_figures(place / "data", SAMPLES), *judged_by(judge), "--store", str(place / "store")]
        assert main(["run", "diagram", *given]) == 0
    return [rows_of(place / "store", sql) for sql in RESULTS]


def cost(store: Path) -> float:
    """Return the price of all replies in a store."""
    runs = (row.price for run in run_folders(store) for row in read_judgments(run))
    others = (row.price for place in OTHER_CALLS.folders(store) for row in OTHER_CALLS.read(place))
    return sum(price or 0.0 for price in (*runs, *others))


def check_bills(store: Path, twin: LoopbackJudge, jury: Any, ask: Any, lost: int = 0) -> str:
    """Assert that all bills agree and that the judge counts at most `lost` calls more; return output of `status`."""
    now, expected = datetime.now(UTC), cost(store)
    [spend] = ask("SELECT sum(price) AS price FROM spend")
    assert spend["price"] == pytest.approx(expected, abs=1e-6)
    assert Month(store, month_of(now), 1.0).sum().spent == pytest.approx(expected, abs=1e-6)
    out = jury("status")[1]
    assert f"spent      {month_of(now)}: {expected:.4f};" in out
    assert 0 <= round(twin.count - expected / CALL, 6) <= lost
    return out


def printed(out: str) -> float:
    [found] = re.findall(r"price: ([0-9.]+) in the currency", out)
    return float(found)


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill -9"])
def test_interrupted_run_is_billed_at_once_and_resumes_without_paying_twice(
    by: signal.Signals, tmp_path: Path, twin: BatchTwin, undisturbed: list[Any], jury: Any, ask: Any
) -> None:
    store, command = tmp_path / "store", ["run", "diagram", *write_figures(tmp_path / "data", SAMPLES)]
    command += [*judged_by(twin, **PRICES), "--store", str(store)]
    dies(twin, *command, requests=1, rows=9, by=by)
    [run] = run_folders(store)
    status = check_bills(store, twin, jury, ask, IN_FLIGHT)
    reached = r" \(\d+/24 calls · \d/6 samples · [^)]*\d\)" if by == signal.SIGINT else ".*"
    assert re.search(rf"{run.name}  .*: Killed or interrupted{reached}\. All replies so far are kept", status)
    assert f"; up to {IN_FLIGHT} calls in flight at its end may be billed as well.\n" in status
    before, calls, kept = cost(store), twin.count, len([*read_judgments(run)])
    assert 0 < kept < CALLS and not (run / "end.json").exists()
    code, out, err = jury(*command, "--reuse-hours", "0.000001")
    assert code == 0 and twin.count - calls == 1 + CALLS - kept, err
    assert [rows_of(store, sql) for sql in RESULTS] == undisturbed
    assert run.name in str(ask("FROM failures"))
    check_bills(store, twin, jury, ask, IN_FLIGHT)
    assert printed(out) == pytest.approx(cost(store) - before, abs=1e-6) == pytest.approx((twin.count - calls) * CALL)


def test_stopped_and_ended_runs_print_the_stored_price(
    tmp_path: Path, loopback: LoopbackJudge, jury: Any, ask: Any
) -> None:
    store, command = tmp_path / "store", ["run", "diagram", *write_figures(tmp_path / "data", SAMPLES)]
    command += judged_by(loopback, **PRICES)
    before = 0.0
    for options, exit_code in ((["--budget", 0.04], 3), ([], 0)):
        code, out, err = jury(*command, *options)
        assert code == exit_code, err
        check_bills(store, loopback, jury, ask)
        assert printed(out) == pytest.approx(cost(store) - before, abs=1e-6)
        if options:
            assert f"Stopped at its budget of 0.0400: {cost(store):.4f} spent, " in " ".join(out.split())
        before = cost(store)
