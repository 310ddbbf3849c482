"""Runs of a deployment on a real Prefect server, started by the test only: overlap, results and names."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID, uuid4

import pytest
from factories import start
from prefect import Flow, State, flow, get_client
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.filters import DeploymentFilter
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.schedules import CronSchedule
from prefect.flow_engine import run_flow_async
from prefect.states import Cancelling, Completed, Paused, Pending, Running, Scheduled
from prefect.utilities.names import generate_slug

from flows import flow_run
from flows.counting import counting
from flows.flow_run import is_made_up, is_scheduled, key_of, name_run, name_stopped, results_key, unfinished_before

pytestmark = pytest.mark.usefixtures("prefect_server")
YESTERDAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)


class Deployment(NamedTuple):
    """A deployment due every hour, on a server without a worker to start its runs."""

    client: PrefectClient
    flow: Flow[..., Any]
    id: UUID
    name: str

    async def scheduled(self, hours: int) -> list[FlowRun]:
        """Return the runs of yesterday's first hours, the oldest first, created by the server's scheduler."""
        first_and_last = YESTERDAY, YESTERDAY + timedelta(hours=hours - 1)
        span = dict(zip(("start_time", "end_time"), map(datetime.isoformat, first_and_last), strict=True))
        await self.client.request("POST", "/deployments/{id}/schedule", path_params={"id": self.id}, json=span)
        own = DeploymentFilter.model_validate({"id": {"any_": [self.id]}})
        runs = await self.client.read_flow_runs(deployment_filter=own)
        due = {run.expected_start_time: run for run in runs if run.auto_scheduled}
        return [due[YESTERDAY + timedelta(hours=hour)] for hour in range(hours)]

    async def create_by_automation(self) -> FlowRun:
        """Create a run as an automation does: the server recognizes these by the headers of the request."""
        name = b64encode(b"my generator is done").decode()
        headers = {"prefect-automation-id": str(uuid4()), "prefect-automation-name": name}
        path = f"/deployments/{self.id}/create_flow_run"
        made = await self.client._client.post(path, json={"state": {"type": "SCHEDULED"}}, headers=headers)
        return await self.client.read_flow_run(UUID(made.json()["id"]))

    async def create_by_hand(self) -> FlowRun:
        """Create a run by hand, due before the scheduled ones."""
        due = Scheduled(scheduled_time=YESTERDAY - timedelta(hours=1))
        return await self.client.create_flow_run_from_deployment(self.id, state=due)

    async def set_state(self, run: FlowRun, state: State) -> None:
        await self.client.set_flow_run_state(run.id, state, force=True)

    async def execute(self, run: FlowRun) -> State:
        return await run_flow_async(self.flow, run, run.parameters, return_type="state")

    async def result_of(self, run: FlowRun) -> str:
        return await (await self.execute(run)).result()


@asynccontextmanager
async def deploy(of: Flow[..., Any], **parameters: Any) -> AsyncIterator[Deployment]:
    hourly = DeploymentScheduleCreate(schedule=CronSchedule(cron="0 * * * *", timezone="UTC"), active=True)
    async with get_client() as client:
        flow_id = await client.create_flow(of)
        name = f"hourly-{uuid4().hex[:8]}"
        made = await client.create_deployment(flow_id, name, schedules=[hourly], parameters=parameters)
        try:
            yield Deployment(client, of, made, name)
        finally:
            await client.delete_deployment(made)


@flow
async def report_unfinished() -> str:
    """Return the result of `unfinished_before`."""
    return await unfinished_before()


def test_scheduled_run_names_the_unfinished_earlier_run(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with deploy(report_unfinished) as hourly:
            first, second = await hourly.scheduled(2)

            async def answer(state: State) -> str:
                await hourly.set_state(first, Running())  # otherwise Prefect ends a run at once on cancelling
                await hourly.set_state(first, state)
                await hourly.set_state(second, Scheduled())
                return await hourly.result_of(second)

            for state in (Pending(), Running(), Paused(), Cancelling()):
                words = await answer(state)
                assert first.name in words and f"{YESTERDAY:%Y-%m-%d} 00:00 UTC" in words and "unfinished" in words
            monkeypatch.setattr(flow_run, "BEGIN_WITHIN", timedelta(0))
            assert first.name in await answer(Running())
            assert await answer(Pending()) == "", "a run that never started does not block its schedule"

    asyncio.run(story())


NOT_BLOCKED = {
    "earlier run has ended": ({"first": Completed()}, "second"),
    "earlier run is late and not started": ({}, "second"),
    "later run is running": ({"second": Running()}, "first"),
    "manual run is running": ({"by hand": Running()}, "second"),
    "manual run beside a scheduled one": ({"first": Running()}, "by hand"),
    "another deployment is busy": ({"of another": Running()}, "second"),
}


def test_run_is_not_blocked_if() -> None:
    async def unfinished() -> dict[str, str]:
        async with deploy(report_unfinished) as hourly, deploy(counting) as other:
            first, second = await hourly.scheduled(2)
            runs = {"first": first, "second": second, "by hand": await hourly.create_by_hand()}
            [runs["of another"]] = await other.scheduled(1)
            found = dict[str, str]()
            for case, (states, asked) in NOT_BLOCKED.items():
                for name, run in runs.items():
                    await hourly.set_state(run, states.get(name, Scheduled(scheduled_time=run.expected_start_time)))
                found[case] = await hourly.result_of(runs[asked])
            return found

    assert asyncio.run(unfinished()) == dict.fromkeys(NOT_BLOCKED, "")


def test_overlapping_scheduled_evaluation_is_skipped_without_calls(tmp_path: Path) -> None:
    async def story() -> None:
        store = tmp_path / "store"
        async with deploy(counting, parameters={"dataset": "samples", "store": str(store)}) as hourly:
            first, second = await hourly.scheduled(2)
            await hourly.set_state(first, Running())
            state = await hourly.execute(second)
            assert state.name == "Skipped" and state.is_completed() and state.message and first.name in state.message
            assert not store.exists()

    asyncio.run(story())


def test_run_without_deployment_is_never_blocked() -> None:
    assert asyncio.run(unfinished_before()) == "" and asyncio.run(report_unfinished()) == ""


@flow
async def report_schedule_and_key(limit: int = 0) -> str:
    return f"{is_scheduled()} {await results_key('diagram')}"


@flow
async def name_itself() -> None:
    await name_run(start(candidates=("alpha",), samples=3))
    await name_stopped("diagram")  # an error after the first call


def test_only_unmodified_runs_by_a_schedule_or_an_automation_use_the_nightly_key() -> None:
    async def keys() -> tuple[str, list[str]]:
        async with deploy(report_schedule_and_key, limit=20) as here:
            first, changed = await here.scheduled(2)
            await here.client.update_flow_run(changed.id, parameters={"limit": 4})
            changed = await here.client.read_flow_run(changed.id)
            runs = first, await here.create_by_automation(), changed, await here.create_by_hand()
            return here.name, [*[await here.result_of(run) for run in runs], await report_schedule_and_key()]

    name, found = asyncio.run(keys())
    nightly, by_hand = f"True diagram-{name}", f"diagram-{name}-by-hand"
    assert found == [nightly, nightly, f"True {by_hand}", f"False {by_hand}", "False diagram-command"]


def test_artifact_key_combines_flow_and_deployment() -> None:
    keys = {"nightly": "nightly", "diagram-nightly": "nightly", "Team A / weekly": "team-a-weekly"}
    assert {name: key_of("diagram", name) for name in keys} == {name: f"diagram-{key}" for name, key in keys.items()}


async def names_after(of: Flow[..., Any], state: str, *names: str, **parameters: Any) -> list[str]:
    """Return the names of runs that begin with these names and end in this state."""
    async with deploy(of, **parameters) as here:
        runs = [await here.client.create_flow_run_from_deployment(here.id, name=name) for name in names]
        assert {(await here.execute(run)).name for run in runs} == {state}
        return [(await here.client.read_flow_run(run.id)).name for run in runs]


def test_run_name_typed_by_a_person_is_kept() -> None:
    names = "before the fix", generate_slug(2), "theta3-cancri-nebula"
    ours = "diagram · alpha · gpt-x · 3 samples"
    assert asyncio.run(names_after(name_itself, "Completed", *names)) == ["before the fix", ours, ours]


def test_run_stopped_before_loading_is_named_so_unless_named_by_hand(tmp_path: Path) -> None:
    form = {"dataset": str(tmp_path / "nowhere"), "store": str(tmp_path / "store")}
    names = asyncio.run(names_after(counting, "Failed", "theta3-cancri-nebula", "before the fix", parameters=form))
    assert names == ["counting · stopped before its first call", "before the fix"]


def test_generated_run_names_are_distinguished_from_typed_ones() -> None:
    made_up = ["theta3-cancri-nebula", "beta4-nishio", "omega-mudor-point", "eta-canis-majoris", "Rustic-Drob"]
    made_up += ["diagram · alpha · gpt-x · 3 samples", *(generate_slug(2) for _ in range(50))]
    assert all(map(is_made_up, made_up))
    typed = ["before the fix", "gpt-6 again", "judge-v2", "alpha", "before-fix", "Rustic", "", "delta test"]
    typed += ["Small-test", "Tasty-try", "before · after"]
    assert not any(map(is_made_up, typed))
