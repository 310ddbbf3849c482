"""Whole runs against a judge that limits them, goes away or gives out: what they record, say, and ask for again."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from limited_judges import Limited
from loopback_judge import LoopbackJudge, judged_by
from loopback_replies import Reply, allowed_reply, error
from loopback_replies import Request as Seen
from written_datasets import record, result, write_benchmark, write_json

from tasks.endpoint import adaptive_limit

SAMPLES, CALLS = 6, 24

pytestmark = pytest.mark.usefixtures("prefect_server", "drawn_here", "laid_out")


@pytest.fixture
def figures(tmp_path: Path) -> list[str]:
    """Options of `jury run diagram`."""
    root = write_benchmark(tmp_path / "data", [record(number) for number in range(SAMPLES)])
    results = write_json(root / "results.json", [result(number) for number in range(SAMPLES)])
    return ["--dataset", str(root), "--results", str(results)]


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adaptive_limit, "PAUSE_SECONDS", (0.01, 0.03))


async def summary_of(prefect_run_id: str) -> str:
    """The run's report in Prefect."""
    from prefect import get_client
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId

    async with get_client() as client:
        by_run = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[prefect_run_id]))  # pyright: ignore
        artifacts = await client.read_artifacts(artifact_filter=by_run)
    return next(str(artifact.data) for artifact in artifacts if artifact.key == "diagram-command")


def test_the_limits_of_a_judge_are_in_the_ledger_and_in_the_report(
    tmp_path: Path, loopback: LoopbackJudge, figures: list[str], jury: Any, ask: Any
) -> None:
    loopback.answer = limited = Limited(seconds=0.2, at_once=2)
    code, _, err = jury("run", "diagram", *figures, *judged_by(loopback, **{"judge.concurrency": 8}))
    assert code == 0, err
    [end] = (tmp_path / "store").glob("ledger/*/end.json")
    limits = json.loads(end.read_bytes())["limits"]
    assert limits["waits"] == limited.refused > 0 and limits["away_seconds"] == 0
    assert limits["changes"][0]["reason"] == "429: Too many requests."
    rows = ask("SELECT status, attempt, http_retries, waits FROM judgments")
    assert len(rows) == CALLS and {(row["status"], row["attempt"], row["http_retries"]) for row in rows} == {
        ("ok", 1, 0)
    }
    assert sum(row["waits"] for row in rows) == limited.refused
    [run] = ask("SELECT prefect_run_id FROM runs")
    [calls] = re.findall(r"## Calls\n+(.*?)\n\n", asyncio.run(summary_of(run["prefect_run_id"])) + "\n\n", re.DOTALL)
    assert re.search(rf"limited by the judge to .*: {limited.refused} refusals, .* waited in all calls together", calls)


def test_a_run_without_limits_names_none(
    tmp_path: Path, loopback: LoopbackJudge, figures: list[str], jury: Any, ask: Any
) -> None:
    assert jury("run", "diagram", *figures, *judged_by(loopback))[0] == 0
    [end] = (tmp_path / "store").glob("ledger/*/end.json")
    assert json.loads(end.read_bytes())["limits"] is None
    [run] = ask("SELECT prefect_run_id FROM runs")
    assert "limited by the judge" not in asyncio.run(summary_of(run["prefect_run_id"]))


def test_a_run_that_gives_up_says_what_is_missing_and_asks_for_the_rest_when_started_again(
    tmp_path: Path, loopback: LoopbackJudge, figures: list[str], jury: Any, ask: Any
) -> None:
    good = allowed_reply()

    def gives_out(seen: Seen) -> Reply:
        return good(seen) if loopback.count <= 1 + 10 else error(503, "The model is being moved.")

    loopback.answer = gives_out
    settings = {"judge.concurrency": 1, "judge.patience-seconds": 1, "chunk-size": 1}
    command = ["run", "diagram", *figures, *judged_by(loopback, **settings)]
    code, _, err = jury(*command)
    assert code == 2 and not [*(tmp_path / "store").glob("ledger/*/end.json")]
    assert f"The judge m at {loopback.base_url} has refused all calls for 1 s: 503: The model is being moved." in err
    [missing] = re.findall(
        rf"(\d) of {SAMPLES} samples are not judged. All replies so far are kept: the same command", err
    )
    assert SAMPLES - 10 // 4 <= int(missing) <= SAMPLES
    assert "asks for the rest" in err and "Traceback" not in err
    kept = ask("SELECT sample_id, dimension FROM judgments WHERE status = 'ok'")
    assert len(kept) == 10

    loopback.answer, before = good, loopback.count
    code, _, err = jury(*command)
    assert code == 0, err
    assert loopback.count - before == 1 + CALLS - len(kept)
    [run] = ask("SELECT reused, calls FROM runs WHERE status = 'finished'")
    assert (run["reused"], run["calls"]) == (len(kept), CALLS - len(kept))
