"""`jury up` while a server begins again: what is asked of it is asked again, and a fault of another kind is not."""

import asyncio
import json
import subprocess
from pathlib import Path

import httpx
import pytest
from loopback_relay import LoopbackRelay
from prefect import get_client
from served import JURY, environment, wait_for

from flows.runtime import asked_again as module
from flows.runtime.asked_again import asked_again

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
    "events of the runner": b"GET /api/events/in ",
}
DUE = b"/get_scheduled_flow_runs "
"""What a runner asks for that has started."""


@pytest.mark.parametrize("lost", LOST)
def test_jury_up_serves_where_the_server_was_away_while_it_started(
    lost: str, prefect_server: str, tmp_path: Path
) -> None:
    listed = tmp_path / "prefect.yaml"
    listed.write_text(json.dumps({"deployments": [LISTED]}), encoding="utf-8")
    log = tmp_path / "log"
    with LoopbackRelay(prefect_server, LOST[lost], times=1) as relay, log.open("w") as output:
        command = [JURY, "up", "--store", str(tmp_path / "store"), "--deployments", str(listed)]
        own = environment() | {"PREFECT_API_URL": relay.api}
        process = subprocess.Popen(command, stdout=output, stderr=output, env=own)
        try:
            wait_for(lambda: process.poll() is not None or any(DUE in each for each in relay.asked))
            assert process.poll() is None, log.read_text()
            assert relay.losses == 1
        finally:
            process.terminate()
            assert process.wait(120) == 0, log.read_text()
    assert f"counting/{NAME}" in (said := log.read_text()) and "a fault of" not in said
    with get_client(sync_client=True) as client:
        client.delete_deployment(client.read_deployment_by_name(f"counting/{NAME}").id)


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
