"""Slots of one endpoint, shared by runs through a real Prefect server."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from loopback_judge import LoopbackJudge
from loopback_replies import Reply, allowed_reply
from loopback_replies import Request as Asked
from prefect import get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate, GlobalConcurrencyLimitUpdate

from flows.runtime import shared_limit as limits
from flows.runtime.shared_limit import limit_name, shared_slots
from tasks.parameters import Judge

pytestmark = pytest.mark.usefixtures("prefect_server")


def judge(base_url: str, concurrency: int = 8) -> Judge:
    return Judge(model="m", base_url=base_url, concurrency=concurrency)  # pyright: ignore


async def active(name: str) -> int:
    async with get_client() as client:
        return (await client.read_global_concurrency_limit_by_name(name)).active_slots


async def free(slots: asyncio.Semaphore, count: int) -> None:
    """Wait until so many slots can be had at once, and give them back."""
    await asyncio.wait_for(asyncio.gather(*(slots.acquire() for _ in range(count))), 30)
    for _ in range(count):
        slots.release()


def test_the_name_of_a_limit_tells_the_endpoint() -> None:
    assert limit_name("https://api.openai.com/v1") == "jury:api.openai.com"
    assert limit_name("http://127.0.0.1:8000/v1?") == "jury:127.0.0.1:8000"


def test_the_limit_is_made_by_the_first_run_and_all_slots_come_back() -> None:
    async def run() -> None:
        made = judge("http://first.example/v1", 6)
        async with shared_slots(made) as slots:
            await free(slots, 6)
            assert await active("jury:first.example") == 6
            assert slots.locked() is False
        assert await active("jury:first.example") == 0

    asyncio.run(run())


def test_two_runs_together_have_no_more_slots_than_the_limit() -> None:
    async def run() -> None:
        made = judge("http://two.example/v1", 8)
        async with shared_slots(made) as first:
            await free(first, 8)
            async with shared_slots(made) as second:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(second.acquire(), 2.5)
                assert await active("jury:two.example") == 8

    asyncio.run(run())


def test_a_run_that_waits_gets_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HELD_SECONDS", 1.0)
    monkeypatch.setattr(limits, "RENEW_SECONDS", 1.0)

    async def run() -> None:
        made = judge("http://turn.example/v1", 4)
        async with shared_slots(made) as first:
            await free(first, 4)
            async with shared_slots(made) as second:
                await asyncio.wait_for(second.acquire(), 30)
                second.release()
                assert await active("jury:turn.example") <= 4

    asyncio.run(run())


def test_a_limit_that_people_lowered_is_kept_to() -> None:
    async def run() -> None:
        async with get_client() as client:
            await client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name="jury:low.example", limit=9))
            await client.update_global_concurrency_limit("jury:low.example", GlobalConcurrencyLimitUpdate(limit=3))
        async with shared_slots(judge("http://low.example/v1", 16)) as slots:
            await free(slots, 3)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(free(slots, 4), 2)

    asyncio.run(run())


class Crowd:
    """Counts the calls that are with the judge at once."""

    def __init__(self) -> None:
        self.most = self._now = 0
        self._lock = threading.Lock()

    async def answer(self, seen: Asked) -> Reply:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        await asyncio.sleep(0.05)
        with self._lock:
            self._now -= 1
        return allowed_reply()(seen)


@pytest.fixture
def crowd(loopback: LoopbackJudge) -> Iterator[Crowd]:
    counting = Crowd()
    loopback.answer = counting.answer
    yield counting


def test_two_evaluations_at_once_send_what_one_may_send(
    tmp_path: Any, loopback: LoopbackJudge, crowd: Crowd, prefect_server: str
) -> None:
    import os
    import subprocess
    import sys
    from pathlib import Path

    from written_images import prompt_row, write_geneval

    root = write_geneval(tmp_path / "images", [prompt_row(f"clock {n}", "counting") for n in range(20)], 4)
    command = [Path(sys.executable).with_name("jury"), "run", "counting", "--dataset", root, "--judge.model", "m"]
    given = [*command, "--judge.base-url", loopback.base_url, "--judge.concurrency", "6", "--reuse-hours", "0"]

    def evaluate(name: str) -> int:
        own = [*map(str, given), "--store", str(tmp_path / name)]
        return subprocess.run(
            own, env={**os.environ, "PREFECT_API_URL": prefect_server}, capture_output=True
        ).returncode

    with ThreadPoolExecutor() as threads:
        assert list(threads.map(evaluate, ("one", "two"))) == [0, 0]
    assert crowd.most <= 6 and loopback.count == 162
