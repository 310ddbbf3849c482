"""Runs of a deployment on a real Prefect server, which the test alone begins: their overlap, results and names."""

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

from flows import states
from flows.counting import counting
from flows.flow_run import is_made_up, is_scheduled, key_of, name_run, results_key
from flows.states import unfinished_before

pytestmark = pytest.mark.usefixtures("prefect_server")
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

    async def by_a_trigger(self) -> FlowRun:
        """A run that an automation asked for: the server knows these by the headers of the request."""
        name = b64encode(b"my generator is done").decode()
        headers = {"prefect-automation-id": str(uuid4()), "prefect-automation-name": name}
        path = f"/deployments/{self.id}/create_flow_run"
        made = await self.client._client.post(path, json={"state": {"type": "SCHEDULED"}}, headers=headers)
        return await self.client.read_flow_run(UUID(made.json()["id"]))

    async def by_a_person(self) -> FlowRun:
        """A run that a person asked for, to start before those that are scheduled."""
        due = Scheduled(scheduled_time=YESTERDAY - timedelta(hours=1))
        return await self.client.create_flow_run_from_deployment(self.id, state=due)

    async def put(self, run: FlowRun, state: State) -> None:
        await self.client.set_flow_run_state(run.id, state, force=True)

    async def start(self, run: FlowRun) -> State:
        return await run_flow_async(self.flow, run, run.parameters, return_type="state")

    async def answer(self, run: FlowRun) -> str:
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


@flow
async def asking() -> str:
    """A flow that says what `unfinished_before` says."""
    return await unfinished_before()


@pytest.mark.parametrize("state", [Pending(), Running(), Paused(), Cancelling()], ids=lambda state: state.type.value)
def test_a_scheduled_run_names_the_unfinished_one_before_it(state: State) -> None:
    async def story() -> None:
        async with deployment(asking) as hourly:
            first, second = await hourly.scheduled(2)
            await hourly.put(first, Running())  # without which Prefect ends a run at once that is to be cancelled
            await hourly.put(first, state)
            answer = await hourly.answer(second)
            assert first.name in answer and f"{YESTERDAY:%Y-%m-%d} 00:00 UTC" in answer and "unfinished" in answer

    asyncio.run(story())


def test_a_run_that_was_never_begun_does_not_stop_its_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with deployment(asking) as hourly:
            first, second, third = await hourly.scheduled(3)
            await hourly.put(first, Pending())
            monkeypatch.setattr(states, "BEGIN_WITHIN", timedelta(0))
            assert await hourly.answer(second) == ""
            await hourly.put(first, Running())
            assert first.name in await hourly.answer(third)

    asyncio.run(story())


GO_ON = {
    "the one before has ended": ({"first": Completed()}, "second"),
    "the one before is late and has not begun": ({}, "second"),
    "the one after runs, too": ({"second": Running()}, "first"),
    "a person has started a run": ({"by a person": Running()}, "second"),
    "a person starts a run beside a scheduled one": ({"first": Running()}, "by a person"),
    "another deployment is busy": ({"of another": Running()}, "second"),
}


@pytest.mark.parametrize(("states", "asked"), GO_ON.values(), ids=[*GO_ON])
def test_a_run_goes_on_where(states: dict[str, State], asked: str) -> None:
    async def told() -> str:
        async with deployment(asking) as hourly, deployment(counting) as other:
            first, second = await hourly.scheduled(2)
            runs = {"first": first, "second": second, "by a person": await hourly.by_a_person()}
            [runs["of another"]] = await other.scheduled(1)
            for name, state in states.items():
                await hourly.put(runs[name], state)
            return await hourly.answer(runs[asked])

    assert asyncio.run(told()) == ""


def test_an_evaluation_that_stands_back_ends_as_skipped_and_asks_no_judge(tmp_path: Path) -> None:
    async def story() -> None:
        store = tmp_path / "store"
        async with deployment(counting, parameters={"dataset": "samples", "store": str(store)}) as hourly:
            first, second = await hourly.scheduled(2)
            await hourly.put(first, Running())
            state = await hourly.start(second)
            assert state.name == "Skipped" and state.is_completed() and state.message and first.name in state.message
            assert not store.exists()

    asyncio.run(story())


def test_outside_of_a_deployment_there_is_nothing_to_stand_back_for() -> None:
    assert asyncio.run(unfinished_before()) == "" and asyncio.run(asking()) == ""


@flow
async def showing(limit: int = 0) -> str:
    return await results_key("diagram")


@flow
async def telling() -> str:
    return f"{is_scheduled()} {await results_key('diagram')}"


def test_a_run_that_a_trigger_started_is_a_night() -> None:
    async def story() -> list[str]:
        async with deployment(telling) as here:
            [night] = await here.scheduled(1)
            return [await here.answer(run) for run in (night, await here.by_a_trigger(), await here.by_a_person())]

    nightly = "True diagram-hourly"
    assert asyncio.run(story()) == [nightly, nightly, "False diagram-hourly-by-hand"]


@flow
async def naming() -> None:
    await name_run(start(candidates=("alpha",), samples=3))


def test_only_what_is_scheduled_and_unmodified_is_shown_as_the_nightly_result() -> None:
    async def keys() -> list[Any]:
        async with deployment(showing, limit=20) as here:
            first, changed = await here.scheduled(2)
            await here.client.update_flow_run(changed.id, parameters={"limit": 4})
            changed = await here.client.read_flow_run(changed.id)
            return [await here.answer(run) for run in (first, changed, await here.by_a_person())] + [await showing()]

    assert asyncio.run(keys()) == ["diagram-hourly", *["diagram-hourly-by-hand"] * 2, "diagram-command"]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("nightly", "diagram-nightly"),
        ("diagram-nightly", "diagram-nightly"),
        ("Team A / weekly", "diagram-team-a-weekly"),
    ],
)
def test_a_key_is_made_of_flow_and_deployment(name: str, key: str) -> None:
    assert key_of("diagram", name) == key


def test_a_name_that_a_person_typed_is_kept() -> None:
    async def names() -> list[str]:
        async with deployment(naming) as here:
            found = []
            for name in ("before the fix", generate_slug(2), "theta3-cancri-nebula"):
                run = await here.client.create_flow_run_from_deployment(here.id, name=name)
                await here.start(run)
                found.append((await here.client.read_flow_run(run.id)).name)
            return found

    ours = "diagram · alpha · gpt-x · 3 samples"
    assert asyncio.run(names()) == ["before the fix", ours, ours]


def test_a_run_that_stops_before_it_knows_its_samples_is_named_so_unless_a_person_named_it(tmp_path: Path) -> None:
    async def names() -> list[str]:
        form = {"dataset": str(tmp_path / "nowhere"), "store": str(tmp_path / "store")}
        async with deployment(counting, parameters=form) as here:
            found = []
            for name in ("theta3-cancri-nebula", "before the fix"):
                run = await here.client.create_flow_run_from_deployment(here.id, name=name)
                assert (await here.start(run)).is_failed()
                found.append((await here.client.read_flow_run(run.id)).name)
            return found

    assert asyncio.run(names()) == ["counting · stopped before its first call", "before the fix"]


def test_names_that_prefect_and_its_pages_make_up_are_told_from_those_of_people() -> None:
    made_up = [
        "theta3-cancri-nebula",
        "beta4-nishio",
        "alpha42-nishio",
        "omega-mudor-point",
        "eta-canis-majoris",
        "Rustic-Drob",
    ]
    made_up += ["diagram · alpha · gpt-x · 3 samples", *(generate_slug(2) for _ in range(50))]
    assert all(map(is_made_up, made_up))
    typed = ["before the fix", "gpt-6 again", "judge-v2", "alpha", "before-fix", "Rustic", "", "delta test"]
    typed += ["Small-test", "Tasty-try", "before · after"]
    assert not any(map(is_made_up, typed))
