"""Slots of one endpoint, shared by runs through a real Prefect server."""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import pytest
from loopback_judge import LoopbackJudge
from loopback_prefect import LoopbackPrefect, Said, good
from loopback_replies import Reply, allowed_reply
from loopback_replies import Request as Asked
from prefect import get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate, GlobalConcurrencyLimitUpdate
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

from flows.runtime import asked_again, leases
from flows.runtime import shared_limit as limits
from flows.runtime.asked_again import prompt_client
from flows.runtime.shared_limit import limit_name
from tasks.endpoint.client import Vlm
from tasks.endpoint.requests import probe_request
from tasks.errors import InputError
from tasks.parameters import Judge

pytestmark = pytest.mark.usefixtures("prefect_server", "answered_late")


@pytest.fixture
def answered_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server in order is waited for however busy the machine is: no run of a test goes on without it."""
    monkeypatch.setattr(leases, "ANSWER_SECONDS", 120.0)


def judge(base_url: str, concurrency: int = 8) -> Judge:
    return Judge(model="m", base_url=base_url, concurrency=concurrency)  # pyright: ignore


@asynccontextmanager
async def shared_slots(judge: Judge) -> AsyncGenerator[asyncio.Semaphore]:
    """Those of one run."""
    async with prompt_client() as client, limits.shared_slots(client, judge) as slots:
        yield slots


async def active(name: str) -> int:
    async with get_client() as client:
        return (await client.read_global_concurrency_limit_by_name(name)).active_slots


async def free(slots: asyncio.Semaphore, count: int) -> None:
    """Wait until so many slots can be had at once, and give them back."""
    await asyncio.wait_for(asyncio.gather(*(slots.acquire() for _ in range(count))), 120)
    for _ in range(count):
        slots.release()


async def until(look: Callable[[], Awaitable[object]], wanted: object) -> None:
    """Look again and again until this is seen."""
    while True:
        if await look() == wanted:
            return
        await asyncio.sleep(0.05)


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


def test_two_runs_together_have_no_more_slots_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "IDLE_SECONDS", 1000.0)  # nothing needs the slots of the first run, which keeps them
    monkeypatch.setattr(leases, "ASK_SECONDS", 0.1)

    async def run() -> None:
        made = judge("http://two.example/v1", 8)
        async with shared_slots(made) as first:
            await free(first, 8)
            async with shared_slots(made) as second:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(second.acquire(), 1)
                assert await active("jury:two.example") == 8

    asyncio.run(run())


def test_a_run_that_waits_gets_its_turn_and_says_once_what_it_waits_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(limits, "HELD_SECONDS", 0.0)  # the first run gives back what it does not use
    monkeypatch.setattr(limits, "TURN_SECONDS", 1000.0)  # and does not wait in its turn before the second is done
    monkeypatch.setattr(leases, "RENEW_SECONDS", 1.0)
    monkeypatch.setattr(leases, "TELL_SECONDS", 0.0)
    monkeypatch.setattr(leases, "ASK_SECONDS", 0.2)
    waits = asyncio.Event()
    in_use = leases.Leases._in_use
    monkeypatch.setattr(leases.Leases, "_in_use", lambda self: in_use(self) or waits.set())

    async def run() -> None:
        made = judge("http://turn.example/v1", 4)
        async with shared_slots(made) as first:
            await asyncio.gather(*(first.acquire() for _ in range(4)))
            monkeypatch.setattr(limits, "HELD_SECONDS", 1000.0)
            async with shared_slots(made) as second:
                for _ in range(3):  # more than one block: each has to be waited for
                    waits.clear()
                    await waits.wait()
                    first.release()
                    await second.acquire()
                assert await active("jury:turn.example") <= 4
                for _ in range(3):
                    second.release()

    asyncio.run(asyncio.wait_for(run(), 120))
    assert capsys.readouterr().err.count("waiting for other runs") == 1


def test_blocks_that_a_run_leaves_idle_are_for_others_until_it_needs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "IDLE_SECONDS", 0.1)
    monkeypatch.setattr(limits, "TURN_SECONDS", 0.1)
    monkeypatch.setattr(leases, "ASK_SECONDS", 0.1)

    async def run() -> None:
        async with shared_slots(judge("http://idle.example/v1", 8)) as slots:
            await free(slots, 8)
            await until(lambda: active("jury:idle.example"), 2)
            for _ in range(8):
                await slots.acquire()
            assert await active("jury:idle.example") == 8

    asyncio.run(asyncio.wait_for(run(), 120))


@pytest.mark.parametrize(("at_once", "needed"), [(50, True), (8, False)])
def test_slots_that_are_in_use_between_two_looks_are_not_idle(
    at_once: int, needed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "IDLE_SECONDS", 0.2)
    monkeypatch.setattr(limits, "HELD_SECONDS", 1.0)

    async def use(slots: asyncio.Semaphore) -> None:
        while True:
            for _ in range(at_once):
                await slots.acquire()
            for _ in range(at_once):
                slots.release()
            await asyncio.sleep(0.01)

    async def run() -> bool:
        slots = limits._Slots()
        slots.block = 16
        for _ in range(64):
            slots.release()
        using = asyncio.create_task(use(slots))
        found = await limits._needed(1, 16, slots)
        using.cancel()
        return found

    assert asyncio.run(run()) is needed


def test_a_limit_that_people_lowered_is_kept_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "ASK_SECONDS", 0.1)

    async def run() -> None:
        async with get_client() as client:
            await client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name="jury:low.example", limit=9))
            await client.update_global_concurrency_limit("jury:low.example", GlobalConcurrencyLimitUpdate(limit=3))
        async with shared_slots(judge("http://low.example/v1", 16)) as slots:
            await free(slots, 3)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(free(slots, 4), 1)

    asyncio.run(run())


def test_a_limit_that_people_lower_below_a_block_during_a_run_is_kept_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HELD_SECONDS", 0.3)
    monkeypatch.setattr(limits, "TURN_SECONDS", 0.1)
    monkeypatch.setattr(leases, "RETRY_SECONDS", 0.1)

    async def run() -> None:
        async with shared_slots(judge("http://lowered.example/v1", 16)) as slots, get_client() as client:
            await free(slots, 16)
            await client.update_global_concurrency_limit("jury:lowered.example", GlobalConcurrencyLimitUpdate(limit=3))
            await until(lambda: active("jury:lowered.example"), 3)
            await free(slots, 3)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(free(slots, 4), 1)

    asyncio.run(asyncio.wait_for(run(), 120))


# A server that is not in order


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackPrefect]:
    """A server that is in order until the test sets `answer`, and a run with little patience."""
    for name, seconds in (("ANSWER", 0.5), ("RETRY", 0.1), ("ASK", 0.05), ("PATIENCE", 0.6), ("GIVE_BACK", 0.3)):
        monkeypatch.setattr(leases, f"{name}_SECONDS", seconds)
    with LoopbackPrefect() as running, temporary_settings({PREFECT_API_URL: running.api}):
        yield running


@pytest.fixture
def warnings() -> Iterator[list[str]]:
    """What was warned of."""
    told: list[str] = []

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.append(record.getMessage())

    logger, listening = logging.getLogger("prefect.image-jury"), Listening(logging.WARNING)
    logger.addHandler(listening)
    yield told
    logger.removeHandler(listening)


async def asked(loopback: LoopbackJudge, calls: int = 8) -> list[str]:
    """What becomes of calls to the judge under its limit."""
    given = judge(loopback.base_url)
    async with shared_slots(given) as slots, Vlm(given, slots) as vlm:
        return [reply.status for reply in await asyncio.gather(*(vlm.ask(probe_request()) for _ in range(calls)))]


async def told(warnings: list[str], words: str) -> bool:
    return any(words in each for each in warnings)


async def last(server: LoopbackPrefect) -> str:
    return server.requests[-1]


BROKEN = {
    "500": Said(500),
    "503": Said(503),
    "nonsense": Said(body=b"<html>"),
    "strange": Said(body=b'{"lease_id": 7}'),
    "closes": Said(body=None),
    "hangs": Said(hangs=True),
}


@pytest.mark.parametrize("said", BROKEN.values(), ids=BROKEN)
def test_a_server_without_a_useful_answer_costs_the_limit_and_not_the_run(
    said: Said,
    server: LoopbackPrefect,
    loopback: LoopbackJudge,
    warnings: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(leases, "TELL_SECONDS", 0.0)
    server.answer = lambda _: said
    assert asyncio.run(asyncio.wait_for(asked(loopback), 120)) == ["ok"] * 8
    assert "asking again" in warnings[0] and "Judging goes on without the limit jury:127.0.0.1:" in warnings[-1]
    assert "other runs" not in capsys.readouterr().err  # nobody said that there are any


def test_a_port_where_nobody_listens_costs_the_limit_and_not_the_run(
    server: LoopbackPrefect, loopback: LoopbackJudge, warnings: list[str]
) -> None:
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        assert asyncio.run(asyncio.wait_for(asked(loopback), 120)) == ["ok"] * 8
    assert "Judging goes on without the limit" in warnings[-1]


@pytest.mark.parametrize("said", BROKEN.values(), ids=BROKEN)
def test_slots_are_had_by_a_lease_as_soon_as_the_server_is_in_order_again(
    said: Said, server: LoopbackPrefect, warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "PATIENCE_SECONDS", 30)
    server.answer = lambda request: said if len(server.requests) < 6 else good(request)

    async def run() -> None:
        async with shared_slots(judge("http://mended.example/v1")) as slots:
            await free(slots, 8)

    asyncio.run(asyncio.wait_for(run(), 120))
    assert warnings and all("asking again" in words for words in warnings)
    assert server.requests.count("POST /v2/concurrency_limits/increment-with-lease") >= limits.BLOCKS


def test_a_server_that_was_busy_for_a_moment_is_asked_again_without_words(
    server: LoopbackPrefect, warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "ANSWER_SECONDS", 120.0)
    monkeypatch.setattr(asked_again, "PAUSES", (0.0, 0.0))
    turned_away: list[str] = []

    def answer(request: str) -> Said:
        """The first request of each kind is turned away."""
        if request in turned_away:
            return good(request)
        turned_away.append(request)
        return Said(503)

    async def run() -> None:
        async with shared_slots(judge("http://busy.example/v1")) as slots:
            await free(slots, 8)

    server.answer = answer
    with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}):  # nobody else asks again
        asyncio.run(asyncio.wait_for(run(), 120))
    assert len(turned_away) == 3 and not warnings


def test_a_server_that_breaks_during_a_run_takes_no_slots_away(
    server: LoopbackPrefect, warnings: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HELD_SECONDS", 0.2)
    monkeypatch.setattr(limits, "TURN_SECONDS", 0.05)
    monkeypatch.setattr(leases, "RENEW_SECONDS", 0.05)
    monkeypatch.setattr(leases, "ANSWER_SECONDS", 120.0)  # as long as it is in order, a late answer is one

    async def run() -> None:
        async with shared_slots(judge("http://breaks.example/v1")) as slots:
            await free(slots, 8)
            assert not warnings
            server.answer = lambda _: Said(500)
            await until(lambda: told(warnings, "goes on without"), True)
            await free(slots, 8)

    asyncio.run(asyncio.wait_for(run(), 120))


def test_a_server_that_stops_answering_when_a_block_is_given_back_leaves_the_run_the_others(
    server: LoopbackPrefect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HELD_SECONDS", 8.0)  # the second block is given back two seconds after the first
    monkeypatch.setattr(limits, "TURN_SECONDS", 0.1)
    monkeypatch.setattr(limits, "IDLE_SECONDS", 1000.0)  # no block is given back because nothing needs it
    monkeypatch.setattr(leases, "ANSWER_SECONDS", 120.0)  # as long as it is in order, a late answer is one
    taken, given_back = (f"POST /v2/concurrency_limits/{which}-with-lease" for which in ("increment", "decrement"))

    async def run() -> None:
        async with shared_slots(judge("http://silent.example/v1")) as slots:
            await free(slots, 8)
            monkeypatch.setattr(leases, "ANSWER_SECONDS", 0.5)
            await until(lambda: asked_for(taken), limits.BLOCKS + 1)
            assert server.requests.count(given_back) == 1
            await free(slots, 6)

    async def asked_for(request: str) -> int:
        return server.requests.count(request)

    server.answer = lambda request: Said(hangs=True) if server.requests.count(taken) > limits.BLOCKS else good(request)
    asyncio.run(asyncio.wait_for(run(), 120))


@pytest.mark.parametrize(("status", "words"), [(401, "401 Unauthorized"), (403, "403 Forbidden")])
def test_a_server_that_refuses_stops_the_run_with_what_to_do(
    status: int, words: str, server: LoopbackPrefect, loopback: LoopbackJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "ANSWER_SECONDS", 120.0)
    server.answer = lambda _: Said(status)
    with pytest.raises(InputError) as told:
        asyncio.run(asyncio.wait_for(asked(loopback), 120))
    assert str(told.value).startswith(f"The Prefect server at {server.api} refuses this run, which asked it for slots ")
    assert f": {words}. Set PREFECT_API_AUTH_STRING or PREFECT_API_KEY " in str(told.value)


def test_everybody_who_waits_is_told_of_a_refusal(server: LoopbackPrefect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "ANSWER_SECONDS", 120.0)
    server.answer = lambda request: Said(401) if request.startswith("POST") else good(request)

    async def run() -> list[object]:
        async with shared_slots(judge("http://refused.example/v1")) as slots:
            return await asyncio.gather(*(slots.acquire() for _ in range(5)), return_exceptions=True)

    assert [type(told) for told in asyncio.run(asyncio.wait_for(run(), 120))] == [InputError] * 5


def test_a_fault_of_ours_is_no_reason_to_wait_for_ever(
    server: LoopbackPrefect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HELD_SECONDS", "none")

    async def run() -> None:
        async with shared_slots(judge("http://fault.example/v1")) as slots:
            await free(slots, 9)

    with pytest.raises(TypeError):
        asyncio.run(asyncio.wait_for(run(), 120))


def test_a_server_that_hangs_does_not_hold_up_the_end_of_a_run(
    server: LoopbackPrefect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "ANSWER_SECONDS", 60)

    async def run() -> None:
        async with shared_slots(judge("http://ends.example/v1")) as slots:
            await free(slots, 8)
            server.answer = lambda _: Said(hangs=True)
        async with shared_slots(judge("http://ends.example/v1")):
            await until(lambda: last(server), "GET /v2/concurrency_limits/jury:ends.example")

    began = time.monotonic()
    asyncio.run(asyncio.wait_for(run(), 120))
    assert time.monotonic() - began < 50, "it waited for an answer"


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
