"""A deployment on a real Prefect server with runs that its schedule or a person asked for, begun by the test alone."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from prefect import Flow, State, get_client
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.filters import DeploymentFilter
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.schedules import CronSchedule
from prefect.flow_engine import run_flow_async
from prefect.states import Scheduled

YESTERDAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)


class Deployment(NamedTuple):
    """A deployment that is due every hour, on a server that has nothing to start its runs with."""

    client: PrefectClient
    flow: Flow[..., Any]
    id: UUID

    async def scheduled(self, hours: int) -> list[FlowRun]:
        """Runs of the first hours of yesterday, the oldest first, as the server's scheduler makes them."""
        first_and_last = YESTERDAY, YESTERDAY + timedelta(hours=hours - 1)
        span = dict(zip(("start_time", "end_time"), map(datetime.isoformat, first_and_last), strict=True))
        await self.client.request("POST", "/deployments/{id}/schedule", path_params={"id": self.id}, json=span)
        own = DeploymentFilter.model_validate({"id": {"any_": [self.id]}})
        runs = await self.client.read_flow_runs(deployment_filter=own)
        due = {run.expected_start_time: run for run in runs if run.auto_scheduled}
        return [due[YESTERDAY + timedelta(hours=hour)] for hour in range(hours)]

    async def by_a_person(self) -> FlowRun:
        """A run that a person asked for, to start before those that are scheduled."""
        due = Scheduled(scheduled_time=YESTERDAY - timedelta(hours=1))
        return await self.client.create_flow_run_from_deployment(self.id, state=due)

    async def put(self, run: FlowRun, state: State) -> None:
        await self.client.set_flow_run_state(run.id, state, force=True)

    async def start(self, run: FlowRun) -> State:
        """What becomes of a run that starts now."""
        return await run_flow_async(self.flow, run, run.parameters, return_type="state")

    async def answer(self, run: FlowRun) -> str:
        """What the flow returns in a run that starts now."""
        return await (await self.start(run)).result()


@asynccontextmanager
async def deployment(of: Flow[..., Any], **parameters: Any) -> AsyncIterator[Deployment]:
    hourly = DeploymentScheduleCreate(schedule=CronSchedule(cron="0 * * * *", timezone="UTC"), active=True)
    async with get_client() as client:
        flow_id = await client.create_flow(of)
        made = await client.create_deployment(flow_id, "hourly", schedules=[hourly], parameters=parameters)
        try:
            yield Deployment(client, of, made)
        finally:
            await client.delete_deployment(made)
