"""What runs on one Prefect server tell each other of a judge's limits, through a real server."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from typing import Any

import pytest
from loopback_prefect import LoopbackPrefect, Said
from prefect import get_client
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import VariableCreate
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.runtime import shared_findings as findings
from flows.runtime.asked_again import prompt_client
from flows.runtime.shared_findings import IDLE_SECONDS, sharing_findings, variable_name
from tasks.endpoint.adaptive_limit import Figures
from tasks.parameters import Judge

pytestmark = pytest.mark.usefixtures("prefect_server")
FOUND = Figures(7.2, 19.0)


class Gate:
    """What a run has found, and what it was told last."""

    def __init__(self, found: Figures | None = None, idle_seconds: float = 0.0) -> None:
        self.found, self.idle_seconds = found, idle_seconds
        self.told: tuple[int, list[Figures]] | None = None

    def figures(self) -> Figures | None:
        return self.found

    def share(self, runs: int, others: Sequence[Figures]) -> None:
        self.told = (runs, [*others])


@asynccontextmanager
async def run(host: str, gate: Gate, **changes: object) -> AsyncIterator[None]:
    judge = Judge(**{"model": "m", "base_url": f"http://{host}.example/v1", **changes})  # pyright: ignore
    async with prompt_client() as client, sharing_findings(client, judge) as serve:
        serve(gate)  # pyright: ignore[reportArgumentType]
        yield


async def kept(host: str) -> Any:
    async with get_client() as client:
        variable = await client.read_variable_by_name(variable_name(f"http://{host}.example/v1"))
        return variable.value if variable else None


async def has_told(host: str) -> bool:
    """Whether a run has told what it found."""
    told = await kept(host)
    return isinstance(told, dict) and any(each["calls_in_flight"] for each in told.values())


async def until(look: Callable[[], bool] | Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while True:
            seen = look()
            if seen if isinstance(seen, bool) else await seen:
                return
            await asyncio.sleep(0.02)


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "FIRST_PAUSES", ())
    monkeypatch.setattr(findings, "EXCHANGE_SECONDS", 0.05)
    monkeypatch.setattr(findings, "ANSWER_SECONDS", 20.0)
    monkeypatch.setattr(findings, "FIRST_ANSWER_SECONDS", 20.0)


def test_the_name_of_the_variable_tells_the_endpoint() -> None:
    assert variable_name("https://api.openai.com/v1") == "jury_api_openai_com"
    assert variable_name("http://127.0.0.1:8000/v1") == "jury_127_0_0_1_8000"


@pytest.mark.parametrize("found", [FOUND, Figures(8.0, math.inf)])
def test_a_run_that_joins_hears_at_once_and_is_heard_until_it_leaves(found: Figures) -> None:
    async def scene() -> None:
        first, second = Gate(found), Gate()
        async with run("joined", first):
            assert first.told == (1, [])
            await until(lambda: has_told("joined"))
            async with run("joined", second):
                assert second.told == (2, [found])
                await until(lambda: first.told == (2, []))
                second.found = Figures(3.0, 9.5)
                await until(lambda: first.told == (2, [Figures(3.0, 9.5)]))
            await until(lambda: first.told == (1, []))
        assert await kept("joined") is None

    asyncio.run(scene())


@pytest.mark.parametrize("other", [{"model": "another"}, {"api_key_env": "ANOTHER"}])
def test_another_model_or_key_has_other_limits(other: dict[str, str]) -> None:
    async def scene() -> None:
        first, second = Gate(FOUND), Gate(FOUND)
        async with run("apart", first), run("apart", second, **other):
            await until(both_are_kept)
            assert first.told == second.told == (1, [])

    async def both_are_kept() -> bool:
        return len(await kept("apart") or ()) == 2

    asyncio.run(scene())


def test_a_run_that_makes_no_calls_for_a_while_leaves_its_part_to_others() -> None:
    async def scene() -> None:
        first, second = Gate(FOUND), Gate(FOUND)
        async with run("idle", first), run("idle", second):
            await until(lambda: first.told == (2, [FOUND]))
            second.idle_seconds = IDLE_SECONDS + 1
            await until(lambda: first.told == (1, []))
            await until(lambda: second.told == (2, [FOUND]))

    asyncio.run(scene())


def test_a_run_that_was_killed_is_gone_after_a_while() -> None:
    async def scene() -> None:
        gate = Gate()
        async with run("killed", Gate(FOUND)):
            await until(lambda: has_told("killed"))
            left = await kept("killed")
        async with get_client() as client:
            await client.create_variable(VariableCreate(name="jury_killed_example", value=left))
        async with run("killed", gate):
            assert gate.told == (2, [FOUND])
            await until(lambda: gate.told == (1, []))
        assert await kept("killed") is None

    asyncio.run(scene())


def test_runs_that_start_in_the_same_moment_hear_of_each_other_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "FIRST_PAUSES", (1000.0,))
    read, both, reads = PrefectClient.read_variable_by_name, asyncio.Barrier(2), count()

    async def read_together(client: PrefectClient, name: str) -> Any:
        """Neither run has made the variable when the other looks for it."""
        found = await read(client, name)
        if next(reads) < 2:
            await both.wait()
        return found

    async def start(stack: AsyncExitStack, gate: Gate) -> None:
        await stack.enter_async_context(run("together", gate))

    async def scene() -> None:
        gates = Gate(), Gate()
        async with AsyncExitStack() as stack:
            await asyncio.gather(*(start(stack, gate) for gate in gates))
            assert sorted(gate.told or () for gate in gates) == [(1, []), (2, [])]
            assert len(await kept("together")) == 2

    monkeypatch.setattr(PrefectClient, "read_variable_by_name", read_together)
    asyncio.run(scene())


def test_words_that_another_run_has_written_over_are_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "RENEW_SECONDS", 1000.0)

    async def scene() -> None:
        async with run("lost", Gate(FOUND)), get_client() as client:
            await until(lambda: has_told("lost"))
            await client.delete_variable_by_name(variable_name("http://lost.example/v1"))
            await until(lambda: has_told("lost"))

    asyncio.run(scene())


@pytest.mark.parametrize(
    "value",
    ["text", [1], {"a": 3}, {"a": {"model": "m"}}, {"a": {"model": "m", "api_key_env": "", "calls_in_flight": "many"}}],
)
def test_what_people_write_there_is_left_out(value: Any) -> None:
    async def scene() -> None:
        gate = Gate(FOUND)
        async with get_client() as client, AsyncExitStack() as stack:
            await client.create_variable(VariableCreate(name="jury_odd_example", value=value))
            await stack.enter_async_context(run("odd", gate))
            assert gate.told == (1, [])
            await until(lambda: has_told("odd"))
            assert [told["calls_in_flight"] for told in (await kept("odd")).values()] == [FOUND.window]
        assert await kept("odd") is None

    asyncio.run(scene())


@pytest.mark.parametrize("said", [Said(500), Said(body=None), Said(body=b"[]"), Said(hangs=True)])
def test_a_server_in_trouble_costs_the_run_nothing(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(findings, "FIRST_ANSWER_SECONDS", 0.3)
    monkeypatch.setenv("PREFECT_CLIENT_MAX_RETRIES", "0")

    async def scene() -> None:
        gate = Gate(FOUND)
        async with run("trouble", gate):
            await until(lambda: len(server.requests) >= 2)
        assert gate.told == (1, [])

    with LoopbackPrefect(lambda _: said) as server, temporary_settings({PREFECT_API_URL: server.api}):
        asyncio.run(scene())


def test_a_run_alone_writes_when_it_has_found_something_and_not_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "RENEW_SECONDS", 1000.0)

    async def scene() -> None:
        gate, written, exchanged = Gate(FOUND), list[float](), list[float]()

        async def counting(self: Any, *others: Any) -> None:
            written.append(time.monotonic())
            await tell(self, *others)

        def present(self: Any, told: Any) -> Any:
            exchanged.append(time.monotonic())
            return look(self, told)

        tell, look = findings._Findings._tell, findings._Findings._present
        monkeypatch.setattr(findings._Findings, "_tell", counting)
        monkeypatch.setattr(findings._Findings, "_present", present)
        async with run("alone", gate):
            await until(lambda: len(exchanged) > 5)
            assert len(written) == 2  # that it is there, and what its gate had found
            gate.found = Figures(3.0, 9.5)
            await until(lambda: len(written) == 3)
        assert len(written) == 4

    asyncio.run(scene())


def test_the_embedded_judge_tells_nobody() -> None:
    async def scene() -> None:
        gate = Gate(FOUND)
        embedded = Judge(base_url="embedded")  # pyright: ignore
        async with prompt_client() as client, sharing_findings(client, embedded) as serve:
            serve(gate)  # pyright: ignore[reportArgumentType]
            assert gate.told is None

    asyncio.run(scene())
