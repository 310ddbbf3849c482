"""The runner of `jury up`: it survives an outage of the Prefect server and restarts runs whose process is gone."""

import asyncio
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deployed_here import Deployment
from loopback_judge import LoopbackJudge
from loopback_relay import LoopbackRelay
from loopback_replies import Reply, Request, allowed_reply
from prefect import get_client
from prefect._flow_run_suspension import mark_flow_run_suspension_requested
from prefect.client.schemas.objects import FlowRun, State
from prefect.exceptions import Pause
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.states import Cancelling, Crashed, Paused, Pending, Running
from served import JURY, environment, listed, on_ctrl_c, wait_for, write_list

from flows.server import runner as runner_process
from flows.server.deployments import variable_name
from flows.server.runner import OutageRunner, begin_again
from flows.server.supervision import UP, lifeline

NAME = "outages"
DUE = b"/get_scheduled_flow_runs "
"""A request that only a started runner sends."""


@contextmanager
def run_up(relay: LoopbackRelay, folder: Path, **settings: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Start `jury up` with one deployment, on the server behind a relay; yield it and its log once it polls or has
    ended.
    """
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
    """Return the server; afterwards remove everything that `jury up` left on it."""
    yield prefect_server
    with get_client(sync_client=True) as client:
        client.delete_deployment(client.read_deployment_by_name(f"counting/{NAME}").id)
        client.delete_variable_by_name(variable_name(f"counting/{NAME}"))


def test_jury_up_survives_a_long_outage_and_stops_on_sigterm(server: str, tmp_path: Path) -> None:
    """Prefect's own runner ends after three failed requests; here each request is sent twice.

    `jury up` is started as by a shell script: shells make background processes ignore Ctrl-C.
    """
    runner_log = tmp_path / "store" / "prefect" / "runner.log"
    with (
        on_ctrl_c(signal.SIG_IGN),
        LoopbackRelay(server, DUE, times=8) as relay,
        run_up(relay, tmp_path, PREFECT_CLIENT_MAX_RETRIES="1") as (process, log),
    ):
        wait_for(lambda: sum(DUE in each for each in relay.asked) > 8)
        assert process.poll() is None and relay.losses == 8
    assert process.returncode == 0, log.read_text()
    assert runner_log.read_text().count("the Prefect server does not answer: ") == 4
    assert "has ended" not in (output := log.read_text()) and "Traceback" not in output
    assert output.partition("Ctrl-C stops all of it.\n")[2].count("\n") == 1


def test_cancellation_check_retries_after_a_lost_connection(prefect_server: str) -> None:
    async def check_once() -> None:
        async with OutageRunner("image-jury") as runner:
            await runner._cancelling_observer._check_for_cancelled_flow_runs()  # pyright: ignore

    with (
        LoopbackRelay(prefect_server, b"POST /api/flow_runs/filter ") as relay,
        temporary_settings({PREFECT_API_URL: relay.api, PREFECT_CLIENT_MAX_RETRIES: 0}),
    ):
        asyncio.run(check_once())
    assert relay.losses == 1


@pytest.fixture
def up_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(runner_process, "BEGINS_WITHIN", timedelta(0))
    monkeypatch.setenv(UP, "")
    with lifeline(tmp_path):
        yield


def run_in_state(deployment: Deployment, state: State) -> FlowRun:
    run = deployment.create_run({})
    deployment.client.set_flow_run_state(run.id, state, force=True)
    return run


@pytest.mark.usefixtures("up_here")
def test_only_runs_without_process_are_restarted(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    taken, running, cancelled = (run_in_state(deployment, state) for state in (Pending(), Running(), Cancelling()))
    working = run_in_state(deployment, Running())
    monkeypatch.setattr(runner_process, "has_process", lambda run: run == str(working.id))
    since = datetime.now(UTC)
    fresh, hopeless = (run_in_state(deployment, state) for state in (Pending(), Crashed()))
    for _ in range(2):  # its process never came as far as Running
        deployment.client.set_flow_run_state(hopeless.id, Crashed(), force=True)
    asyncio.run(begin_again([deployment.id], since))
    runs = (taken, running, cancelled, working, fresh, hopeless)
    expected = ["Scheduled", "Scheduled", "Cancelled", "Running", "Pending", "Crashed"]
    assert [deployment.client.read_flow_run(run.id).state_name for run in runs] == expected
    states = deployment.client.read_flow_run_states(running.id)
    assert "Crashed" in [state.name for state in states]


def test_suspended_run_pauses_and_does_not_crash(deployment: Deployment, loopback: LoopbackJudge) -> None:
    run, plain = deployment.create_run({"judge": {"model": "m", "base_url": loopback.base_url}}), allowed_reply()

    def answer(request: Request) -> Reply:
        mark_flow_run_suspension_requested(run.id, Paused(name="Suspended"))
        return plain(request)

    loopback.answer = answer
    with pytest.raises(Pause):
        deployment.execute(run)
    assert deployment.client.read_flow_run(run.id).state_name == "Running", "Prefect has recorded no crash"
