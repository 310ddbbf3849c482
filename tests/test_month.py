"""A monthly budget shared by runs: spending recorded in ledgers, and the limit of each run."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from factories import end, judgment, line, other_call, start, write_run

from tasks.ledger.removals import tombstone_of
from tasks.ledger.run_files import END, JUDGMENTS, REMOVED, Ledger, read_start, write_record
from tasks.ledger.side_records import OTHER_CALLS
from tasks.records import Judgment, RunStart
from tasks.spending import budget as months
from tasks.spending.budget import Month, MonthLimit, costs_of, month_of

NOW = datetime.now(UTC)
THIS = month_of(NOW)


def priced(price: float | None, at: datetime = NOW, **changes: Any) -> Judgment:
    return judgment(price=price, judged_at=at.isoformat(), **changes)


def write_costs(store: Path, run_id: str, *rows: Judgment, finished: bool = True, **changes: Any) -> None:
    begun = start(run_id, **{"started_at": NOW.isoformat(), **changes})
    write_run(store, begun, [*rows], end(run_id) if finished else None)


def left(store: Path, month: str = THIS) -> float:
    return Month(store, month, 10.0).sum().left_of(10.0)


OPENED: list[Ledger] = []


@pytest.fixture(autouse=True)
def _close_ledgers() -> Iterator[None]:
    yield
    for ledger in OPENED:
        ledger.close()
    OPENED.clear()


class BudgetedRun:
    """A run that requests a spending limit in a month with a budget of 10."""

    def __init__(self, store: Path, run_id: str, wanted: float | None = None, **changes: Any) -> None:
        self.start: RunStart = start(run_id, started_at=NOW.isoformat(), **changes)
        self.ledger = Ledger(store, self.start)
        self.limit = MonthLimit(Month(store, THIS, 10.0, run_id), self.start, wanted)
        OPENED.append(self.ledger)

    def announce(self) -> None:
        self.limit.write = self.ledger.set_limit
        self.limit.announce()

    def spend(self, *prices: float) -> None:
        for price in prices:
            self.ledger.append(priced(price, run_id=self.start.run_id))

    def finish(self) -> None:
        self.ledger.end(end(self.start.run_id))


def announce_run(store: Path, run_id: str, wanted: float | None = None, **changes: Any) -> BudgetedRun:
    run = BudgetedRun(store, run_id, wanted, **changes)
    run.announce()
    return run


def test_month_spending_is_the_sum_over_ledgers(tmp_path: Path) -> None:
    before = NOW.replace(day=1) - timedelta(days=1)
    write_costs(tmp_path, "1-old", priced(2.0, before), priced(1.5))
    write_costs(tmp_path, "2-more", priced(0.25, estimated=0.25), priced(9.0, reused_from="1-old"))
    write_costs(tmp_path, "3-unknown", priced(None))
    found = Month(tmp_path, THIS, 10.0).sum()
    assert (found.spent, found.unknown, found.open) == (2.0, 1, {}) and left(tmp_path, month_of(before)) == 8.0


def test_finished_run_gives_its_cost_without_reading_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = announce_run(tmp_path, "1-one")
    run.ledger.append(priced(7.0, reused_from="0", run_id="1-one"))
    run.spend(1.5, 2.5)
    run.ledger.append(priced(None, run_id="1-one"))
    run.ledger.append(priced(None, run_id="1-one", status="rejected"))  # never billed, so known
    rows = costs_of(run.ledger.folder)
    run.finish()
    monkeypatch.setattr(months, "whole_lines", None)
    assert costs_of(run.ledger.folder) == rows == {THIS: (4.0, 1)} and left(tmp_path) == 6.0


@pytest.mark.parametrize(
    "changes",
    [
        *({"judged_at": "soon"}, {"price": float("nan")}, {"price": -500}, {"estimated": float("inf")}),
        *({"schema": 9}, {"tokens_in": -5}, {"tokens_out": 10**400}),
    ],
)
def test_damaged_row_counts_as_unknown_and_hides_no_other(tmp_path: Path, changes: dict[str, Any]) -> None:
    folder = announce_run(tmp_path, "1-one").ledger.folder
    rows = [json.loads(priced(price, run_id="1-one").model_dump_json()) for price in (1.0, 2.0, 4.0)]
    (folder / JUDGMENTS).write_text("".join(line(row) for row in [rows[0], {**rows[1], **changes}, rows[2]]))
    write_record(folder / END, end("1-one", cost={THIS: -5.0}))
    assert costs_of(folder) == {THIS: (5.0, 1)}


def test_other_calls_count_except_a_passports_own(tmp_path: Path) -> None:
    at = {"asked_at": NOW.isoformat()}
    OTHER_CALLS.keep(tmp_path, [other_call("29990101T12-probe-a", price=1.0, **at), other_call("29990101T12-probe-a")])
    OTHER_CALLS.keep(tmp_path, [other_call("29990101T13-p", purpose="passport", asked_by="p", price=2.0, **at)])
    OTHER_CALLS.keep(tmp_path, [other_call("29990101T14-unknown", price=None, **at)])
    found = Month(tmp_path, THIS, 10.0).sum()
    assert found.spent == pytest.approx(3.0 + 0.001 * (THIS == "2026-11")) and found.unknown == 1
    assert MonthLimit(Month(tmp_path, THIS, 10.0, "p"), None, None).amount == pytest.approx(12.0 - found.spent)


@pytest.mark.parametrize(
    ("changes", "finished", "rest"),
    [
        ({"spending_limit": 6.0}, False, 4.0),
        ({"spending_limit": 6.0}, True, 8.5),
        ({}, False, 8.5),
        ({"spending_limit": 1.0}, False, 8.5),
        ({"spending_limit": 6.0, "started_at": (NOW - timedelta(hours=47)).isoformat()}, False, 4.0),
        ({"spending_limit": 6.0, "started_at": (NOW - timedelta(hours=49)).isoformat()}, False, 8.5),
    ],
    ids=["at work or killed", "ended", "without a limit", "above its limit", "young", "old"],
)
def test_limit_is_reserved_for_two_days(tmp_path: Path, changes: dict[str, Any], finished: bool, rest: float) -> None:
    write_costs(tmp_path, "1-other", priced(1.5), finished=finished, **changes)
    assert left(tmp_path) == rest and BudgetedRun(tmp_path, "2-now").limit.amount == rest
    assert BudgetedRun(tmp_path, "2-now", 3.0).limit.amount == 3.0


def test_run_that_ends_or_waits_releases_its_unspent_limit(tmp_path: Path) -> None:
    one = announce_run(tmp_path, "1-one", 6.0)
    assert left(tmp_path) == 4.0
    one.spend(2.0)
    one.limit.keep(5.0)
    assert left(tmp_path) == 5.0 and one.limit.amount == 5.0
    one.limit.keep(2.0)
    assert left(tmp_path) == 8.0 and read_start(one.ledger.folder).spending_limit == 2.0
    one.finish()
    one.limit.keep(1.0)
    assert left(tmp_path) == 8.0 and read_start(one.ledger.folder).spending_limit == 2.0, "the limit is final"


STEPS: tuple[Callable[[dict[str, BudgetedRun], Path, str], object], ...] = (
    lambda runs, store, name: runs.update({name: BudgetedRun(store, name)}),
    lambda runs, _, name: runs[name].announce(),
    lambda runs, _, name: runs[name].limit.read_again(),
)
ORDERS = sorted({*permutations([*["1-one"] * len(STEPS), *["2-other"] * len(STEPS)])})


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: "".join(name[0] for name in order))
def test_two_runs_starting_together_never_exceed_the_budget(tmp_path: Path, order: tuple[str, ...]) -> None:
    """Each run reads, writes and reads again; then both read once more, as before each call in the first seconds."""
    runs: dict[str, BudgetedRun] = {}
    for place, name in enumerate(order):
        STEPS[order[:place].count(name)](runs, tmp_path, name)
    for run in runs.values():
        assert not run.limit.is_settled
        run.limit.read_again()
    amounts = [run.limit.amount for run in runs.values()]
    assert sorted(amounts) == [0.0, 10.0]
    assert [read_start(run.ledger.folder).spending_limit for run in runs.values()] == amounts


def test_sum_is_reread_only_in_the_first_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = announce_run(tmp_path, "1-one")
    assert not run.limit.is_settled
    monkeypatch.setattr(months, "TOGETHER_SECONDS", -1.0)
    assert announce_run(tmp_path, "2-other").limit.is_settled


def shard(number: int, **changes: Any) -> dict[str, Any]:
    return {"evaluation_id": "e", "shard": number, "shards": 8, **changes}


def test_shards_get_equal_shares_whenever_they_start(tmp_path: Path) -> None:
    write_costs(tmp_path, "0-before", priced(2.0))
    first = [announce_run(tmp_path, f"1-{number}", **shard(number)) for number in range(1, 5)]
    assert [run.limit.amount for run in first] == [1.0] * 4
    for run in first:
        run.spend(0.25)
    first[0].finish()
    later = [announce_run(tmp_path, f"2-{number}", **shard(number)) for number in range(5, 9)]
    for run in [*first[1:], *later]:
        run.limit.read_again()
    assert [run.limit.amount for run in [*first, *later]] == [1.0] * 8 and left(tmp_path) == 10.0 - 2.0 - 0.25 - 7 * 1.0
    assert BudgetedRun(tmp_path, "3-another").limit.amount == left(tmp_path)


def test_restarted_shard_keeps_its_share(tmp_path: Path) -> None:
    runs = [announce_run(tmp_path, f"1-{number}", **shard(number)) for number in range(1, 9)]
    runs[0].spend(0.25)
    assert announce_run(tmp_path, "2-1", **shard(1)).limit.amount == 1.0


def test_invalid_tombstones_are_ignored(tmp_path: Path) -> None:
    odd = (b"junk", b"[]", json.dumps({"run_id": "r", "cost": {THIS: "x"}}).encode())
    told = [tombstone_of(f"2026-{number}", {THIS: cost}) for number, cost in ((3, -5.0), (4, 1.5), (5, 7.5))]
    for number, data in enumerate((*odd, *told[:2], told[2].replace(b"7.5", b"1e999"))):
        run = tmp_path / "ledger" / f"2026-{number}"
        run.mkdir(parents=True)
        (run / REMOVED).write_bytes(data)
    assert left(tmp_path) == 8.5


def test_month_is_in_utc() -> None:
    assert month_of(datetime.fromisoformat("2026-12-01T00:30:00+01:00")) == "2026-11"
