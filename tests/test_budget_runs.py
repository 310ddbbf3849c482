"""Whole runs with a budget: where they stop, what they print, and how a larger budget resumes them."""

import asyncio
import html
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from loopback_judge import LoopbackJudge, judged_by
from prefect import get_client
from prefect.client.schemas.objects import State
from test_limited_runs import artifacts_of
from written_datasets import record, result, write_benchmark, write_json

SAMPLES, FORFEITS, CALLS = 11, 2, 4
CALL = (1200 * 1 + 80 * 10) / 1e6
"""Price of a loopback judge's reply by `PRICES`, for the tokens that it reports."""
PRICES = {"judge.price-in": 1, "judge.price-out": 10}
SHORT = {"judge.max-output-tokens": 100, "judge.concurrency": 4}
"""Keep a call's maximum price, expected before any is billed, near its actual price."""

pytestmark = pytest.mark.usefixtures("prefect_server")
Jury = Callable[..., tuple[int, str, str]]
Ask = Callable[[str], list[dict[str, Any]]]


@pytest.fixture
def figures(tmp_path: Path) -> list[str]:
    """Options of `jury run diagram`; the candidate's output is missing for two of the samples."""
    records = [record(number, path_to_gt_image=f"images/{number % 10}.png") for number in range(SAMPLES)]
    root = write_benchmark(tmp_path / "data", records)
    made = [result(number) for number in range(SAMPLES - FORFEITS)]
    nothing = [record(number) for number in range(SAMPLES - FORFEITS, SAMPLES)]
    return ["--dataset", str(root), "--results", str(write_json(root / "results.json", [*made, *nothing]))]


def command(figures: list[str], judge: LoopbackJudge, **options: object) -> list[str]:
    return ["run", "diagram", *figures, *judged_by(judge, **PRICES, **SHORT, **options)]


async def state_of(prefect_run_id: str) -> State:
    async with get_client() as client:
        state = (await client.read_flow_run(UUID(prefect_run_id))).state
    assert state
    return state


def ends(store: Path) -> Iterator[dict[str, Any]]:
    return (json.loads(file.read_bytes()) for file in sorted(store.glob("ledger/*/end.json")))


def test_run_stops_within_its_budget_and_resumes_with_a_larger_one(
    tmp_path: Path, loopback: LoopbackJudge, figures: list[str], jury: Jury, ask: Ask
) -> None:
    budget = 0.06
    code, out, err = jury(*command(figures, loopback, budget=budget))
    assert code == 3, err
    [end] = ends(tmp_path / "store")
    stopped, calls = end["stopped"], loopback.count - 1
    judged = stopped["judged"]
    assert stopped["spent"] == pytest.approx(loopback.count * CALL) and stopped["spent"] <= budget
    assert stopped["spent"] + stopped["needed"] > budget and stopped["samples"] == SAMPLES
    assert calls == CALLS * (judged - end["outcomes"].get("forfeit", 0)) and 5 <= judged < SAMPLES

    sentence = f"Stopped at its budget of 0.0600: {stopped['spent']:.4f} spent, {judged} of {SAMPLES} samples"
    shown = " ".join(out.split())
    assert sentence in shown and "a random part of them" in shown and "The same command with more goes on." in shown
    [run] = ask("SELECT prefect_run_id, status, stopped.judged AS judged FROM runs")
    assert (run["status"], run["judged"]) == ("finished", judged)
    state = asyncio.run(state_of(run["prefect_run_id"]))
    assert state.is_completed() and state.name == "Stopped at the budget" and sentence in (state.message or "")
    artifact = asyncio.run(artifacts_of(run["prefect_run_id"]))["diagram-command"]
    assert f"**{sentence}" in artifact
    [coverage] = ask("coverage")
    assert coverage["stopped"] == f"stopped at 0.06, {judged} of {SAMPLES}"
    assert coverage["n"] == coverage["scored"] == judged
    assert {row["status"] for row in ask("failures")} <= {"forfeit"}

    assert jury("report", "--output", tmp_path / "report.html")[0] == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert html.unescape(page).count(sentence) == 1
    [about] = ask("SELECT measured FROM evaluations")
    assert not about["measured"] and ask("trend") == []

    before = loopback.count
    code, out, err = jury(*command(figures, loopback, budget=10))
    assert code == 0, err
    assert loopback.count - before == 1 + CALLS * (SAMPLES - FORFEITS) - calls
    assert [one["measured"] for one in ask("SELECT measured FROM evaluations ORDER BY started_at")] == [False, True]
    assert {row["n"] for row in ask("trend")} == {SAMPLES} and "new measurement" not in out


def test_budget_below_one_sample_is_refused_until_a_quote(
    loopback: LoopbackJudge, figures: list[str], jury: Jury
) -> None:
    longer = [*command(figures, loopback, limit=6), "--judge.max-output-tokens", "3000"]
    code, _, err = jury(*longer, "--budget", 0.1)
    assert code == 2 and loopback.count == 0, "no request is sent"
    assert "those about the next sample cost 0.1" in err and "with --quote and without a budget" in err
    assert jury(*longer, "--quote")[0] == 0
    before = loopback.count
    code, _, err = jury(*longer, "--budget", 0.1)
    assert code in (0, 3) and loopback.count > before, err


def test_monthly_budget_is_shared_by_all_runs_of_a_store(
    tmp_path: Path, loopback: LoopbackJudge, figures: list[str], jury: Jury, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JURY_BUDGET_MONTH", "0.12")
    once, again = (jury(*command(figures, loopback, **{"reuse-hours": 0})) for _ in range(2))
    assert (once[0], again[0]) == (0, 3), again[2]
    first, second = ends(tmp_path / "store")
    assert first["stopped"] is None and second["stopped"]["month"]
    assert "Stopped at the budget of 20" in " ".join(again[1].split())
    spent = loopback.count * CALL
    assert spent <= 0.12 and spent + second["stopped"]["needed"] > 0.12


@pytest.mark.parametrize(
    ("options", "month", "words"),
    [
        ({"budget": 1}, "", "no price of m at http://127.0.0.1"),
        ({}, "200", "JURY_BUDGET_MONTH is set, and no price of m at http://127.0.0.1"),
        ({"budget": -1}, "", "--budget: Input should be greater than 0, found '-1'"),
        ({"budget": 1, "shards": 2}, "", "shards would stop each at a place of its own"),
        ({**PRICES}, "0", "JURY_BUDGET_MONTH is '0': allowed is an amount above 0"),
    ],
)
def test_invalid_budgets_are_refused_before_the_first_call(
    loopback: LoopbackJudge, figures: list[str], jury: Jury, monkeypatch: Any, options: Any, month: str, words: str
) -> None:
    monkeypatch.setenv("JURY_BUDGET_MONTH", month)
    code, _, err = jury("run", "diagram", *figures, *judged_by(loopback, **options))
    assert (code, loopback.count) == (2, 0)
    assert words in err and ("price" not in words or "--judge.price-in and --judge.price-out" in err)


def test_free_judge_runs_within_any_budget(figures: list[str], jury: Jury, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JURY_BUDGET_MONTH", "0.01")
    assert jury("run", "diagram", *figures, "--limit", 1, "--budget", "0.01")[0] == 0
