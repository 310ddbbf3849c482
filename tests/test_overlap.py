"""Whether a scheduled run stands back for the one before it, asked of a real Prefect server."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest
from hourly import YESTERDAY, Deployment, deployment
from prefect import State, flow
from prefect.states import Cancelling, Completed, Paused, Pending, Running

from flows.counting import counting
from flows.runtime import overlap
from flows.runtime.overlap import unfinished_before

pytestmark = pytest.mark.usefixtures("prefect_server")


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
            monkeypatch.setattr(overlap, "BEGIN_WITHIN", timedelta(0))
            assert await hourly.answer(second) == ""
            await hourly.put(first, Running())
            assert first.name in await hourly.answer(third)

    asyncio.run(story())


Story = Callable[[Deployment], Awaitable[str]]


async def the_one_before_has_ended(hourly: Deployment) -> str:
    first, second = await hourly.scheduled(2)
    await hourly.put(first, Completed())
    return await hourly.answer(second)


async def the_one_before_is_late_and_has_not_begun(hourly: Deployment) -> str:
    _, second = await hourly.scheduled(2)
    return await hourly.answer(second)


async def the_one_after_runs_too(hourly: Deployment) -> str:
    first, second = await hourly.scheduled(2)
    await hourly.put(second, Running())
    return await hourly.answer(first)


async def a_person_has_started_a_run(hourly: Deployment) -> str:
    [scheduled] = await hourly.scheduled(1)
    await hourly.put(await hourly.by_a_person(), Running())
    return await hourly.answer(scheduled)


async def a_person_starts_a_run_beside_a_scheduled_one(hourly: Deployment) -> str:
    [scheduled] = await hourly.scheduled(1)
    await hourly.put(scheduled, Running())
    return await hourly.answer(await hourly.by_a_person())


async def another_deployment_is_busy(hourly: Deployment) -> str:
    async with deployment(counting) as other:
        [busy] = await other.scheduled(1)
        await other.put(busy, Running())
        _, second = await hourly.scheduled(2)
        return await hourly.answer(second)


GO_ON = (
    the_one_before_has_ended,
    the_one_before_is_late_and_has_not_begun,
    the_one_after_runs_too,
    a_person_has_started_a_run,
    a_person_starts_a_run_beside_a_scheduled_one,
    another_deployment_is_busy,
)


@pytest.mark.parametrize("story", GO_ON, ids=lambda story: story.__name__)
def test_a_run_goes_on_where(story: Story) -> None:
    async def told() -> str:
        async with deployment(asking) as hourly:
            return await story(hourly)

    assert asyncio.run(told()) == ""


def test_an_evaluation_that_stands_back_ends_as_skipped_and_asks_no_judge(tmp_path: Path) -> None:
    async def story() -> None:
        store = tmp_path / "store"
        async with deployment(counting, parameters={"dataset": "samples", "store": str(store)}) as hourly:
            first, second = await hourly.scheduled(2)
            await hourly.put(first, Running())
            state = await hourly.start(second)
            assert state.name == "Skipped" and state.is_completed()
            assert state.message and first.name in state.message
            assert not store.exists()

    asyncio.run(story())


def test_outside_of_a_deployment_there_is_nothing_to_stand_back_for() -> None:
    assert asyncio.run(unfinished_before()) == ""
    assert asyncio.run(asking()) == ""
