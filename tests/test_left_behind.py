"""A runner that ended between taking a run and beginning it leaves nothing behind that waits for nobody."""

import asyncio
from pathlib import Path

from deployed_here import Deployment
from prefect import get_client
from prefect.states import Pending, Running

from flows.runtime.left_behind import begin_again


def test_runs_that_were_taken_are_due_again_and_those_that_run_are_left_alone(
    prefect_server: str, tmp_path: Path
) -> None:
    with get_client(sync_client=True) as client:
        deployment = Deployment(client, tmp_path / "store")
        taken, running = deployment.asked({}), deployment.asked({})
        client.set_flow_run_state(taken.id, Pending(name="Submitting"), force=True)
        client.set_flow_run_state(running.id, Running(), force=True)
        asyncio.run(begin_again())
        state = client.read_flow_run(taken.id).state
        assert state and state.is_scheduled() and state.state_details.scheduled_time == taken.expected_start_time
        left = client.read_flow_run(running.id).state
        assert left and left.is_running()
        client.set_flow_run_state(running.id, Pending(), force=True)
        for run in (taken, running):
            client.delete_flow_run(run.id)
