"""Whole runs against a judge with rate limits, outages or spent credit: records, messages, and resuming."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from limited_judges import Limited
from loopback_judge import LoopbackJudge, judged_by
from loopback_replies import Reply, allowed_reply, delayed, error
from loopback_replies import Request as Seen
from written_datasets import write_figures

from tasks.endpoint import gate

SAMPLES, CALLS = 6, 24

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.fixture
def figures(tmp_path: Path) -> list[str]:
    return write_figures(tmp_path / "data", SAMPLES)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "BACKOFF_SECONDS", (0.01, 0.03))


async def artifacts_of(prefect_run_id: str) -> dict[str, Any]:
    """Return the artifacts of a Prefect run by key; `diagram-command` is its report."""
    from prefect import get_client
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId

    async with get_client() as client:
        by_run = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[prefect_run_id]))  # pyright: ignore
        artifacts = await client.read_artifacts(artifact_filter=by_run)
    return {str(artifact.key): artifact.data for artifact in artifacts}


def test_ledger_and_report_show_the_judges_rate_limits(
    tmp_path: Path, loopback: LoopbackJudge, figures: list[str], jury: Any, ask: Any
) -> None:
    loopback.answer = limited = Limited(seconds=0.2, at_once=2)
    code, _, err = jury("run", "diagram", *figures, *judged_by(loopback, **{"judge.concurrency": 8}))
    assert code == 0, err
    [end] = (tmp_path / "store").glob("ledger/*/end.json")
    limits = json.loads(end.read_bytes())["limits"]
    assert limits["waits"] == limited.refused > 0 and limits["away_seconds"] == 0
    rows = ask("SELECT status, attempt, http_retries, waits FROM judgments")
    assert len(rows) == CALLS and {tuple(row.values())[:3] for row in rows} == {("ok", 1, 0)}
    assert sum(row["waits"] for row in rows) == limited.refused
    [run] = ask("SELECT prefect_run_id FROM runs")
    report = asyncio.run(artifacts_of(run["prefect_run_id"]))["diagram-command"]
    assert re.search(r"- limited by the judge to \d", report)


def test_run_that_gives_up_resumes_with_the_missing_calls(
    tmp_path: Path, loopback: LoopbackJudge, figures: list[str], jury: Any, ask: Any
) -> None:
    good = allowed_reply()

    def fail_after_ten(seen: Seen) -> Reply:
        return good(seen) if loopback.count <= 1 + 10 else error(503, "The model is being moved.")

    loopback.answer = fail_after_ten
    settings = {"judge.concurrency": 1, "judge.patience-seconds": 1, "chunk-size": 1}
    command = ["run", "diagram", *figures, *judged_by(loopback, **settings)]
    code, out, err = jury(*command)
    assert code == 2 and not [*(tmp_path / "store").glob("ledger/*/end.json")]
    [run] = ask("SELECT run_id, status FROM runs")
    assert "faithfulness" in out and f"run {run['run_id']}" in out, "the table of judged samples"
    assert f"The judge m at {loopback.base_url} has refused all calls for 1 s: 503: The model is being moved." in err
    words = rf"(\d) of {SAMPLES} samples are not judged. All replies so far are kept: the same command"
    [missing] = re.findall(words, err)
    [complete] = ask("SELECT count(*) AS samples FROM outcomes WHERE status = 'complete'")
    assert int(missing) == SAMPLES - complete["samples"] < SAMPLES
    assert "asks for the rest" in err and "Traceback" not in err
    kept = ask("SELECT sample_id, dimension FROM judgments WHERE status = 'ok'")
    assert len(kept) == 10

    # Samples whose replies are reused come first.
    loopback.answer = lambda _: delayed(error(402, "No credit is left."), 2.0)
    code, _, err = jury(*command[: command.index("--chunk-size")], "--chunk-size", "3")
    [missing] = re.findall(rf"(\d) of {SAMPLES} samples are not judged", err)
    least = SAMPLES - complete["samples"]  # two need no reply; chance decides whether they precede the refusal
    assert code == 2 and least <= int(missing) <= SAMPLES

    loopback.answer, before = good, loopback.count
    code, _, err = jury(*command)
    assert code == 0, err
    assert loopback.count - before == 1 + CALLS - len(kept)
    [run] = ask("SELECT reused, calls FROM runs WHERE status = 'finished'")
    assert (run["reused"], run["calls"]) == (len(kept), CALLS - len(kept))
