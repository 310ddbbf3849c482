"""What a run knows of itself in Prefect: where its results are shown, and whether a person gave it its name."""

import asyncio
from typing import Any

import pytest
from factories import start
from hourly import deployment
from prefect import flow
from prefect.utilities.names import generate_slug

from flows.runtime.prefect_run import key_of, name_run, results_key
from flows.runtime.run_names import is_made_up

pytestmark = pytest.mark.usefixtures("prefect_server")


@flow
async def showing(limit: int = 0) -> str:
    """A flow that says where its results are shown."""
    return await results_key("diagram")


@flow
async def naming() -> None:
    """A flow that names its run."""
    await name_run(start(candidates=("alpha",), samples=3))


def test_only_what_is_scheduled_and_unmodified_is_shown_as_the_nightly_result() -> None:
    async def keys() -> list[Any]:
        async with deployment(showing, limit=20) as here:
            first, changed = await here.scheduled(2)
            await here.client.update_flow_run(changed.id, parameters={"limit": 4})
            changed = await here.client.read_flow_run(changed.id)
            return [await here.answer(run) for run in (first, changed, await here.by_a_person())] + [await showing()]

    assert asyncio.run(keys()) == [
        "diagram-hourly",
        "diagram-hourly-by-hand",
        "diagram-hourly-by-hand",
        "diagram-command",
    ]


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


def test_names_that_prefect_and_its_pages_make_up_are_told_from_those_of_people() -> None:
    made_up = [
        "theta3-cancri-nebula",
        "beta4-nishio",
        "mu-cygni",
        "alpha42-canis-majoris",
        "Rustic-Drob",
        "diagram · alpha · gpt-x · 3 samples",
    ]
    assert all(map(is_made_up, [*made_up, *(generate_slug(2) for _ in range(50))]))
    typed = [
        "before the fix",
        "gpt-6 again",
        "judge-v2",
        "alpha",
        "before-fix",
        "Rustic",
        "",
        "delta test",
        "alpha-test",
    ]
    typed += ["beta-test", "delta-run", "lambda-fix", "Small-test", "Tasty-try", "before · after"]
    assert not any(map(is_made_up, typed))
