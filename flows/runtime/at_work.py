"""What a Prefect server is doing for us, in lines: what runs, failed, is paused, comes next, and whose judge ends."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from prefect import get_client
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.sorting import FlowRunSort

from flows.runtime.endings import ending_lines
from tasks.endpoint.models import today
from tasks.text import one_line

NEXT, RUNNING, FAILED = 6, 20, 5
"""Runs shown of each sort."""
RECENT = timedelta(days=7)
"""How long a failed run is shown."""
LONGEST = 200
"""Characters of what a run says of its end."""


def at_work() -> list[str]:
    """Lines for a person, each beginning with what it tells of."""
    with get_client(sync_client=True) as client:
        deployments = {each.id: each for each in client.read_deployments()}
        flows = {flow.id: flow.name for flow in client.read_flows()}
        names = flows | {each.id: each.name for each in deployments.values()}
        return [
            *(f"running  {_named(run, names)}, {_state(run)}{_since(run)}" for run in _now(client)),
            *(f"failed   {_named(run, names)}, {_when(run.end_time)}: {_message(run)}" for run in _failed(client)),
            *(f"paused   {words}" for words in _paused([*deployments.values()])),
            *(f"next     {_when(run.expected_start_time)}  {_whose(run, names)}" for run in _coming(client)),
            *(f"ending   {words}" for words in ending_lines(deployments.values(), today())),
        ]


def _now(client: SyncPrefectClient) -> list[FlowRun]:
    states = ["RUNNING", "PENDING", "PAUSED", "CANCELLING"]
    return _runs(client, {"state": {"type": {"any_": states}}}, FlowRunSort.START_TIME_DESC, RUNNING)


def _failed(client: SyncPrefectClient) -> list[FlowRun]:
    wanted = {"state": {"type": {"any_": ["FAILED", "CRASHED"]}}, "end_time": {"after_": datetime.now(UTC) - RECENT}}
    return _runs(client, wanted, FlowRunSort.END_TIME_DESC, FAILED)


def _coming(client: SyncPrefectClient) -> list[FlowRun]:
    wanted = {"state": {"type": {"any_": ["SCHEDULED"]}}, "expected_start_time": {"after_": datetime.now(UTC)}}
    return _runs(client, wanted, FlowRunSort.EXPECTED_START_TIME_ASC, NEXT)


def _runs(client: SyncPrefectClient, wanted: dict[str, Any], sort: FlowRunSort, most: int) -> list[FlowRun]:
    return client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate(wanted), sort=sort, limit=most)


def _paused(deployments: list[DeploymentResponse]) -> Iterator[str]:
    """What starts by no schedule at the moment: deployments as a whole, or single schedules."""
    for each in sorted(deployments, key=lambda deployment: deployment.name):
        if each.paused:
            yield f"{each.name}, as a whole"
        else:
            off = [schedule.slug or "without a name" for schedule in each.schedules if not schedule.active]
            yield from (f"{each.name}, its schedule {slug}" for slug in off)


def _named(run: FlowRun, names: dict[UUID, str]) -> str:
    return f"{_whose(run, names)}  {one_line(run.name, LONGEST)}"


def _whose(run: FlowRun, names: dict[UUID, str]) -> str:
    """The deployment that a run is of, or else its flow."""
    return names.get(run.deployment_id or run.flow_id, names[run.flow_id])


def _state(run: FlowRun) -> str:
    return (run.state_name or "").lower()


def _message(run: FlowRun) -> str:
    state = run.state
    return one_line(state.message if state and state.message else _state(run), LONGEST)


def _since(run: FlowRun) -> str:
    return f" since {_when(run.start_time)}" if run.start_time else ""


def _when(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC" if moment else ""
