"""Runs that a runner had taken and not begun when it ended: nobody would begin them, and they would hold up others.

A scheduled run stands back for the one before it, also for one that is about to begin; see `overlap`.
"""

from prefect import get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.states import Scheduled

TAKEN = {"state": {"type": {"any_": ["PENDING"]}}, "deployment_id": {"is_null_": False}}


async def begin_again() -> None:
    """Put runs of deployments that were about to begin back among those that are due.

    For a server whose only runner starts now: on any other a runner may be about to begin them.
    """
    async with get_client() as client:
        for run in await client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate(TAKEN)):
            due = run.expected_start_time or run.next_scheduled_start_time
            await client.set_flow_run_state(run.id, Scheduled(scheduled_time=due), force=True)
