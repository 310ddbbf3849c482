"""Lines about the work of a Prefect server: running, failed, paused and coming runs."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from prefect import get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.sorting import FlowRunSort

from tasks.records import INCOMPLETE
from tasks.text import one_line

NEXT, RUNNING, FAILED = 6, 20, 5
"""Most runs shown of each sort; of each schedule the next one."""
LOOKED_AT = 200
"""Most coming runs that are looked at: the server makes some ahead for each schedule."""
RECENT = timedelta(days=7)
"""Time for which a failed run is shown."""
LONGEST = 200
"""Most characters of a run's last message."""


def at_work() -> list[str]:
    """Return lines for a person, each with its kind first, such as `running`."""
    with get_client(sync_client=True) as client:
        deployments = {each.id: each for each in client.read_deployments()}
        flows = {flow.id: flow.name for flow in client.read_flows()}
        names = flows | {each.id: each.name for each in deployments.values()}
        now = datetime.now(UTC)

        def runs(states: str, sort: FlowRunSort, most: int, kind: str = "type", **moments: Any) -> list[FlowRun]:
            wanted = FlowRunFilter.model_validate({"state": {kind: {"any_": states.split()}}, **moments})
            return client.read_flow_runs(flow_run_filter=wanted, sort=sort, limit=most)

        running = runs("RUNNING PENDING PAUSED CANCELLING", FlowRunSort.START_TIME_DESC, RUNNING)
        failed = runs("FAILED CRASHED", FlowRunSort.END_TIME_DESC, FAILED, end_time={"after_": now - RECENT})
        partly = runs(INCOMPLETE, FlowRunSort.END_TIME_DESC, FAILED, "name", end_time={"after_": now - RECENT})
        due = runs("SCHEDULED", FlowRunSort.EXPECTED_START_TIME_ASC, LOOKED_AT, expected_start_time={"after_": now})
        first = {(run.deployment_id, run.created_by and run.created_by.id): run for run in reversed(due)}
        coming = sorted(first.values(), key=lambda run: str(run.expected_start_time))[:NEXT]
        return [
            *(f"running  {_named(run, names)}, {_state(run)}{_since(run)}" for run in running),
            *(f"failed   {_named(run, names)}, {_when(run.end_time)}: {_message(run)}" for run in failed),
            *(f"partly   {_named(run, names)}, {_when(run.end_time)}: {_message(run)}" for run in partly),
            *(f"paused   {words}" for words in _paused([*deployments.values()])),
            *(f"next     {_when(run.expected_start_time)}  {_whose(run, names)}" for run in coming),
        ]


def _paused(deployments: list[DeploymentResponse]) -> Iterator[str]:
    """Yield deployments that are paused as a whole, and single schedules that are off."""
    for each in sorted(deployments, key=lambda deployment: deployment.name):
        if each.paused:
            yield f"{each.name}, as a whole"
        else:
            off = [schedule.slug or "without a name" for schedule in each.schedules if not schedule.active]
            yield from (f"{each.name}, its schedule {slug}" for slug in off)


def _named(run: FlowRun, names: dict[UUID, str]) -> str:
    return f"{_whose(run, names)}  {one_line(run.name, LONGEST)}"


def _whose(run: FlowRun, names: dict[UUID, str]) -> str:
    """Return the name of a run's deployment, or else of its flow."""
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
