"""Quotes compared with the bill of the run that follows: command, Prefect and a loopback judge."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from factories import judgment
from loopback_judge import LoopbackJudge, judged_by
from quoted_judges import JUDGES, PRICES, write_figures
from test_budget_runs import state_of
from test_limited_runs import artifacts_of

from tasks.ledger.run_files import BATCHES
from tasks.spending.quote import newest_model

pytestmark = pytest.mark.usefixtures("prefect_server")


def test_quote_predicts_the_bill_and_is_reused(tmp_path: Path, loopback: LoopbackJudge, jury: Any, ask: Any) -> None:
    loopback.answer = JUDGES["reasoning"]
    given = [*write_figures(tmp_path / "data", 16), *judged_by(loopback, **PRICES)]
    code, out, err = jury("run", "diagram", *given, "--quote")
    assert code == 0, err
    assert loopback.count == 1 + 5 * 4
    first, tokens, price, time, basis = out.splitlines()
    words = "44 calls to be made about 11 samples, with 88 pictures; 20 replies are there already and cost nothing"
    assert first == words
    assert " tokens in, " in tokens and price.startswith("price in any tier: "), "given ones apply in each"
    assert time.startswith("time: ") and time.endswith(" with 16 calls at once")
    assert basis.startswith("by the replies about 5 samples, asked just now for ")
    assert ask("SELECT status, calls FROM runs") == [{"status": "quote", "calls": None}]
    assert ask("leaderboard") == [] and ask("failures") == []

    for again in ((), ("--reuse-hours", 0)):
        code, out, _ = jury("run", "diagram", *given, "--quote", *again)
        assert code == 0 and loopback.count == 1 + 5 * 4, "the pilot's replies are read without new calls"
        assert out.splitlines()[-1] == "by 20 earlier replies of this judge"

    [waiting] = tmp_path.glob("store/ledger/*")
    (waiting / BATCHES).write_text("a row")
    (tmp_path / "store" / "batches" / waiting.name).mkdir(parents=True)
    code, out, err = jury("run", "diagram", *given, "--quote", "history", "--json")
    (waiting / BATCHES).unlink()
    quote = json.loads(out)
    assert code == 0 and loopback.count == 1 + 5 * 4, "a quote by history makes no call"
    assert "paid for twice" not in err, "though a run waits whose batch asks the same"
    assert (quote["calls"], quote["reused"], quote["pilot_samples"]) == (44, 20, 0)
    code, _, err = jury("run", "diagram", *given)
    assert code == 0, err
    assert loopback.count == 2 + 16 * 4, "each call is made once, and the first question by each process"
    [bill] = ask("SELECT price, tokens_in, tokens_out, reused FROM cost")
    assert bill["reused"] == 20
    [standard] = quote["taken"]["prices"]
    spent = ask("SELECT sum(price) AS price FROM spend")[0]["price"]
    found = ask("SELECT purpose, sum(calls)::INT AS calls, sum(price) AS price FROM spend GROUP BY ALL ORDER BY ALL")
    assert [(row["purpose"], row["calls"]) for row in found] == [("pilot", 20), ("probe", 2), ("run", 44)]
    pilot, probes, paid = (row["price"] for row in found)
    assert paid + probes / 2 == pytest.approx(bill["price"], rel=0.01), "the bill includes the run's own first question"
    assert float(basis.split(" for ")[1].split(";")[0]) == pytest.approx(pilot + probes / 2, rel=0.01)
    assert standard["price"]["middle"] + pilot == pytest.approx(spent, rel=0.1)
    assert standard["price"]["low"] < bill["price"] < standard["price"]["high"]
    assert quote["taken"]["tokens_in"]["middle"] == pytest.approx(bill["tokens_in"], rel=0.02)
    code, out, _ = jury("run", "diagram", *given, "--quote")
    assert out.splitlines()[0] == "no calls to be made: 64 replies are there already and cost nothing"


def test_quote_of_a_new_judge_asks_a_pilot_and_is_shown_in_prefect(
    tmp_path: Path, loopback: LoopbackJudge, jury: Any, ask: Any
) -> None:
    given = [*write_figures(tmp_path / "data", 3), *judged_by(loopback)]
    code, out, _ = jury("run", "diagram", *given, "--quote", "history")
    assert code == 0 and loopback.count == 0 and not list((tmp_path / "store").glob("ledger/*"))
    unknown = "tokens, price and time: unknown, for this judge has not replied to these prompts in this store"
    assert out.splitlines() == (calls := ["12 calls to be made about 3 samples, with 24 pictures"]) + [unknown]
    code, out, _ = jury("run", "diagram", *given, "--quote", "--reuse-hours", 0)
    assert (code, out.splitlines()[:1], loopback.count) == (0, calls, 13) and "reuses" not in out, "all is asked again"
    [run] = ask("SELECT prefect_run_id FROM runs")
    state, shown = asyncio.run(state_of(run["prefect_run_id"])), asyncio.run(artifacts_of(run["prefect_run_id"]))
    assert state.is_completed() and (state.message or "").startswith(f"{calls[0]}; ")
    assert shown.keys() == {"diagram-command-quote", "diagram-command-quote-progress"}
    assert "asked just now for an unknown price" in shown["diagram-command-quote"]


@pytest.mark.parametrize(
    ("endpoint", "model", "tiers"),
    [
        ("https://api.openai.com/v1", "gpt-5", {"standard", "flex", "batch"}),
        ("https://generativelanguage.googleapis.com/v1beta/openai", "gemini-2.5-pro", {"standard", "flex"}),
        ("https://openrouter.ai/api/v1", "openai/gpt-5", {"standard"}),
    ],
)
def test_quote_has_prices_of_the_endpoints_service_tiers(endpoint: str, model: str, tiers: set[str]) -> None:
    from tasks.records.judge import Judge
    from tasks.spending.prices import tariffs

    assert {*tariffs(Judge(model=model, base_url=endpoint), "")} == tiers


def test_quote_has_the_prices_of_the_model_that_answered_last() -> None:
    replies = {"2026-11-02T00:00:00+00:00": "new", "2026-11-01T00:00:00+00:00": "old"}
    rows = [judgment("s1", "overall", None, judged_at=at, judge_answered=model) for at, model in replies.items()]
    assert (newest_model(rows), newest_model([])) == ("new", "")


def test_pilot_stays_within_the_budget_and_the_quote_reports_it(
    tmp_path: Path, loopback: LoopbackJudge, jury: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest = {"judge.max-output-tokens": 100, "judge.concurrency": 4}
    given = [*write_figures(tmp_path / "data", 6), *judged_by(loopback, **PRICES, **longest), "--quote", "--budget"]
    code, out, err = jury("run", "diagram", *given, 0.001)
    assert code == 0 and loopback.count == 0, "no call fits, so even the first question is skipped"
    assert "A budget of 0.001 has room for 0 of the 5 samples of the pilot" in err and "asked just now" not in out
    monkeypatch.setenv("JURY_BUDGET_MONTH", "5")
    code, out, err = jury("run", "diagram", *given, 0.2)
    [left] = re.findall(r"JURY_BUDGET_MONTH has ([0-9.]+) left", out)
    [asked] = re.findall(r"asked just now for ([0-9.]+)", out)
    assert float(left) == pytest.approx(5 - float(asked), abs=1e-4) and 0 < float(asked) <= 0.2, err
    assert loopback.count % 4 == 1, "whole samples plus the first question"
