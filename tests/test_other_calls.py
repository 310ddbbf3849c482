"""Calls that judge no sample: they count in bill and month, and no texts of them are kept."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from loopback_judge import LoopbackJudge, judged_by

from tasks.ledger.side_records import OTHER_CALLS
from tasks.spending.budget import Month, month_of

PRICES = ("--judge.price-in", "1", "--judge.price-out", "10")
Jury = Callable[..., tuple[int, str, str]]
Ask = Callable[[str], list[dict[str, Any]]]


def test_first_question_counts_in_bill_and_month(tmp_path: Path, loopback: LoopbackJudge, jury: Jury, ask: Ask) -> None:
    code, _, err = jury("judge", "ping", *judged_by(loopback)[:4], *PRICES)
    assert code == 0, err
    [row] = ask("SELECT purpose, flow, judge, calls, price, tokens_in FROM spend")
    assert (row["purpose"], row["flow"], row["calls"]) == ("probe", "", 1) and row["tokens_in"] and row["price"]
    store = tmp_path / "store"
    assert Month(store, month_of(datetime.now(UTC)), 10.0).sum().spent == pytest.approx(row["price"])
    [place] = OTHER_CALLS.folders(store)
    assert b"ready" not in (place / OTHER_CALLS.file).read_bytes()


def test_unknown_price_remains_unknown(loopback: LoopbackJudge, jury: Jury, ask: Ask) -> None:
    assert jury("judge", "ping", *judged_by(loopback)[:4])[0] == 0
    assert ask("SELECT calls, price FROM spend") == [{"calls": 1, "price": None}]


def test_embedded_judge_costs_nothing_and_writes_no_store(tmp_path: Path, jury: Jury) -> None:
    assert jury("judge", "ping")[0] == 0
    assert not (tmp_path / "store").exists()
