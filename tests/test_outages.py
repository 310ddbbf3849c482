"""The runner of `jury up`: it goes on while its Prefect server is away, and begins runs again whose process is gone."""

import asyncio
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deployed_here import Deployment
from loopback_relay import LoopbackRelay
from prefect import get_client
from prefect.client.schemas.objects import FlowRun, State
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.states import Cancelling, Pending, Running
from served import JURY, environment, listed, on_ctrl_c, wait_for, write_list

from flows.server import runner as runner_process
from flows.server.deployments import variable_name
from flows.server.runner import OutageRunner, begin_again
from flows.server.supervision import UP, lifeline

NAME = "outages"
DUE = b"/get_scheduled_flow_runs "
"""What a runner asks for that has started."""


@contextmanager
def serving(relay: LoopbackRelay, folder: Path, **settings: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """`jury up` with one deployment on the server behind a relay, and its log; it polls unless it has ended."""
    deployments, log = write_list(folder / "prefect.yaml", listed(NAME, {}, {"limit": 1})), folder / "log"
    command = [JURY, "up", "--store", str(folder / "store"), "--deployments", deployments]
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
        client.delete_variable_by_name(variable_name(f"counting/{NAME}"))


def test_jury_up_goes_on_where_the_server_is_away_for_long_and_ends_by_sigterm(server: str, tmp_path: Path) -> None:
    """Prefect's own runner ends when three questions have failed; here each is sent twice.

    A shell script has started `jury up`: what a shell begins in the background ignores Ctrl-C.
    """
    runner_log = tmp_path / "store" / "prefect" / "runner.log"
    with (
        on_ctrl_c(signal.SIG_IGN),
        LoopbackRelay(server, DUE, times=8) as relay,
        serving(relay, tmp_path, PREFECT_CLIENT_MAX_RETRIES="1") as (process, log),
    ):
        wait_for(lambda: sum(DUE in each for each in relay.asked) > 8)
        assert process.poll() is None and relay.losses == 8
    assert process.returncode == 0, log.read_text()
    assert runner_log.read_text().count("the Prefect server does not answer: ") == 4
    assert "has ended" not in (said := log.read_text()) and "Traceback" not in said
    assert said.partition("Ctrl-C stops all of it.\n")[2].count("\n") == 1


def test_runs_that_are_cancelled_are_asked_for_again_however_often_that_failed(prefect_server: str) -> None:
    async def asked() -> None:
        async with OutageRunner("image-jury") as runner:
            await runner._cancelling_observer._check_for_cancelled_flow_runs()  # pyright: ignore

    with (
        LoopbackRelay(prefect_server, b"POST /api/flow_runs/filter ") as relay,
        temporary_settings({PREFECT_API_URL: relay.api, PREFECT_CLIENT_MAX_RETRIES: 0}),
    ):
        asyncio.run(asked())
    assert relay.losses == 1


@pytest.fixture
def up_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(runner_process, "BEGINS_WITHIN", timedelta(0))
    monkeypatch.setenv(UP, "")
    with lifeline(tmp_path):
        yield


def left(deployment: Deployment, state: State) -> FlowRun:
    """A run in this state."""
    run = deployment.asked({})
    deployment.client.set_flow_run_state(run.id, state, force=True)
    return run


def name_of(deployment: Deployment, run: FlowRun) -> str | None:
    return deployment.client.read_flow_run(run.id).state_name


@pytest.mark.usefixtures("up_here")
def test_only_runs_whose_process_is_gone_begin_again(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    taken, running, cancelled = (left(deployment, state) for state in (Pending(), Running(), Cancelling()))
    working = left(deployment, Running())
    monkeypatch.setattr(runner_process, "has_process", lambda run: run == str(working.id))
    since = datetime.now(UTC)
    fresh = left(deployment, Pending())
    asyncio.run(begin_again([deployment.id], since))
    runs = (taken, running, cancelled, working, fresh)
    assert [name_of(deployment, run) for run in runs] == ["Scheduled", "Scheduled", "Cancelled", "Running", "Pending"]
    states = deployment.client.read_flow_run_states(running.id)
    assert "Crashed" in [state.name for state in states]
