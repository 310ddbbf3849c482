"""`jury up` while a server begins again: what is asked of it is asked again, and a fault of another kind is not."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from loopback_prefect import LoopbackPrefect, Said
from loopback_relay import LoopbackRelay
from prefect import flow, get_client
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from served import JURY, environment, wait_for

from flows.runtime import asked_again as module
from flows.runtime.asked_again import asked_again, asked_soon, prompt_client
from flows.runtime.patient_runner import PatientRunner

NAME = "asked-again"
LISTED = {
    "name": NAME,
    "entrypoint": "flows.counting.counting",
    "description": "On request.",
    "tags": ["test"],
    "schedules": [],
    "parameters": {"parameters": {"limit": 1}},
}
LOST = {
    "a deployment": b"POST /api/deployments/ ",
    "what it was in the list": b" /api/variables/",
    "all deployments": b"POST /api/deployments/filter ",
    "events of the runner": b"GET /api/events/in ",
}
DUE = b"/get_scheduled_flow_runs "
"""What a runner asks for that has started."""


@contextmanager
def serving(relay: LoopbackRelay, folder: Path, **settings: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """`jury up` with one deployment on the server behind a relay, and its log; it polls unless it has ended."""
    listed, log = folder / "prefect.yaml", folder / "log"
    listed.write_text(json.dumps({"deployments": [LISTED]}), encoding="utf-8")
    command = [JURY, "up", "--store", str(folder / "store"), "--deployments", str(listed)]
    with log.open("w") as output:
        own = environment() | {"PREFECT_API_URL": relay.api} | settings
        process = subprocess.Popen(command, stdout=output, stderr=output, env=own)
        try:
            wait_for(lambda: process.poll() is not None or any(DUE in each for each in relay.asked))
            yield process, log
        finally:
            process.terminate()
            process.wait(120)


@pytest.fixture
def server(prefect_server: str) -> Iterator[str]:
    """A server that `jury up` leaves nothing on."""
    yield prefect_server
    with get_client(sync_client=True) as client:
        client.delete_deployment(client.read_deployment_by_name(f"counting/{NAME}").id)


@pytest.mark.parametrize("lost", LOST)
def test_jury_up_serves_where_the_server_was_away_while_it_started(lost: str, server: str, tmp_path: Path) -> None:
    with LoopbackRelay(server, LOST[lost], times=1) as relay, serving(relay, tmp_path) as (process, log):
        assert process.poll() is None, log.read_text()
        assert relay.losses == 1
    assert process.returncode == 0, log.read_text()
    assert f"counting/{NAME}" in (said := log.read_text()) and "a fault of" not in said


def test_jury_up_goes_on_where_the_server_is_away_for_long(server: str, tmp_path: Path) -> None:
    """Prefect's own runner ends when three questions have failed; here each is asked once."""
    with (
        LoopbackRelay(server, DUE, times=5) as relay,
        serving(relay, tmp_path, PREFECT_CLIENT_MAX_RETRIES="0") as (process, log),
    ):
        wait_for(lambda: process.poll() is not None or "the Prefect server answers again" in log.read_text())
        assert process.poll() is None, log.read_text()
        assert relay.losses == 5
    assert process.returncode == 0, log.read_text()
    assert (said := log.read_text()).count("the Prefect server does not answer, and is asked until it does: ") == 1
    assert "Traceback" not in said and "a fault of" not in said


def test_jury_up_ends_with_a_sentence_where_the_server_refuses_it(server: str, tmp_path: Path) -> None:
    with (
        LoopbackPrefect(lambda _: Said(401)) as other,
        LoopbackRelay(server) as relay,
        serving(relay, tmp_path, PREFECT_CLIENT_MAX_RETRIES="0") as (process, log),
    ):
        relay.turn_to(other.port)
        assert process.wait(120) == 2, log.read_text()
    told = f"jury: the Prefect server of PREFECT_API_URL, {relay.api}, does not answer: Client error '401 Unauthorized'"
    assert told in (said := log.read_text()) and "a fault of" not in said


def test_runs_that_are_cancelled_are_asked_for_again_however_often_that_failed(prefect_server: str) -> None:
    async def asked() -> None:
        async with PatientRunner("image-jury") as runner:
            await runner._cancelling_observer._check_for_cancelled_flow_runs()  # pyright: ignore

    with (
        LoopbackRelay(prefect_server, b"POST /api/flow_runs/filter ") as relay,
        temporary_settings({PREFECT_API_URL: relay.api, PREFECT_CLIENT_MAX_RETRIES: 0}),
    ):
        asyncio.run(asked())
    assert relay.losses == 1


@pytest.mark.parametrize("why", ["its schedule was paused", "the server is away"])
def test_a_due_run_that_is_not_begun_for_a_known_reason_is_no_fault(
    why: str, prefect_server: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A runner takes a run ten seconds before it is due, and a schedule that is paused by then deletes its runs."""

    async def begun(relay: LoopbackRelay) -> bool:
        async with PatientRunner("image-jury") as runner, get_client() as client:
            run = await client.create_flow_run(flow(lambda: None, name="due"))
            if why == "the server is away":
                relay.lost, relay.times = b"/set_state ", 1
            else:
                await client.delete_flow_run(run.id)
            return await runner._state_proposer.propose_pending(run)  # pyright: ignore

    with (
        LoopbackRelay(prefect_server) as relay,
        temporary_settings({PREFECT_API_URL: relay.api, PREFECT_CLIENT_MAX_RETRIES: 0}),
    ):
        assert not asyncio.run(begun(relay))
    assert not [record for record in caplog.records if record.exc_info]


def test_a_busy_server_is_asked_soon_and_by_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefect's client would ask each time six times, in a minute."""
    monkeypatch.setattr(module, "PAUSES", (0.0,) * 3)

    async def asked() -> None:
        async with prompt_client() as client:
            await asked_soon(client.read_variables)

    with (
        LoopbackPrefect(lambda _: Said(503)) as server,
        temporary_settings({PREFECT_API_URL: server.api}),
        pytest.raises(httpx.HTTPStatusError, match="503"),
    ):
        asyncio.run(asked())
    assert server.requests == ["POST /variables/filter"] * 4


def test_a_fault_of_another_kind_is_raised_at_once() -> None:
    asked: list[int] = []

    async def work() -> None:
        asked.append(1)
        raise RuntimeError("of another kind")

    with pytest.raises(RuntimeError, match="of another kind"):
        asyncio.run(asked_again(work))
    assert len(asked) == 1


def test_a_server_that_stays_away_is_told_when_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.2)
    asked: list[int] = []

    async def work() -> None:
        asked.append(1)
        raise httpx.ConnectError("nobody there")

    with pytest.raises(httpx.ConnectError):
        asyncio.run(asked_again(work))
    assert len(asked) == 2
