"""What another Prefect server recorded of runs that are forgotten: named exactly, with the commands that delete it."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from factories import end, outcome, start, write_run
from prefect import flow
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.client.orchestration import get_client
from prefect.runtime import flow_run
from test_forget import without_pages

from flows.runtime.prefect_elsewhere import deletions
from tasks.history.loading import sync

pytestmark = pytest.mark.usefixtures("laid_out", without_pages.__name__)
Jury = Callable[..., tuple[int, str, str]]


@flow(log_prints=False)
def showing() -> tuple[str, set[str]]:
    """A run that shows two artifacts: its id, and theirs."""
    shown = (create_markdown_artifact("of a sample", "forget-me"), create_table_artifact([{"a": 1}], "forget-me-not"))
    return str(flow_run.get_id()), {str(each) for each in shown if isinstance(each, UUID)}


def test_flow_runs_and_their_artifacts_are_named_with_the_commands_that_delete_them(
    prefect_server: str, tmp_path: Path, jury: Jury
) -> None:
    run, artifacts = showing()
    gone = str(uuid4())
    for number, known in enumerate((run, gone)):
        begun = start(f"2026112{number}T120000-diagram-0000aa", prefect_run_id=known)
        write_run(tmp_path, begun, [outcome("s1"), outcome("s2")], end())
    sync(tmp_path)
    code, out, err = jury("forget", "--sample", "s1", "--yes", "--store", tmp_path)
    lines = out.splitlines()
    assert (code, err) == (0, "") and "of 2 flow runs in a database that was not changed" in out
    assert commands(lines) == {
        f"prefect flow-run delete {run}",
        f"prefect flow-run delete {gone}",
        *(f"prefect artifact delete --id {each}" for each in artifacts),
    }
    [others] = [line for line in lines if "prefect artifact ls --all" in line]
    assert gone in others and run not in others, "of this one the server told no artifacts"

    async def deleted() -> None:
        async with get_client() as client:
            await client.delete_flow_run(UUID(run))
            for each in artifacts:
                await client.delete_artifact(UUID(each))

    asyncio.run(deleted())
    assert commands(deletions([run])) == {f"prefect flow-run delete {run}"}, "what is gone is not named"


def commands(lines: list[str]) -> set[str]:
    return {line.strip() for line in lines if line.startswith("  prefect ")}


def test_without_a_server_people_are_told_how_artifacts_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    run = str(uuid4())
    first, command, others, events = deletions([run])
    assert "of a flow run in" in first and "PREFECT_API_URL" in first and "after 7 days" in events
    assert command == f"  prefect flow-run delete {run}"
    assert f"artifacts of {run}, which stay" in others and "`prefect artifact delete --id ID`" in others


def test_what_is_no_id_of_a_flow_run_is_in_no_command() -> None:
    assert deletions(["$(touch harmed)", "", f"{uuid4()}; rm -r ."]) == []
