"""Slots for calls in flight, shared by all runs that ask one endpoint.

A Prefect global concurrency limit for each endpoint, made by the first run that asks it, says how many calls may be in
flight there, whoever makes them: four deployments that start together send what one may send. Asking Prefect for each
call, or for each chunk, would cost more than the calls: a run takes its slots in a few blocks, shares them among all
its chunks, and gives each block back every so often, for others to take. How the server is asked stands in `leases`.
"""

import asyncio
import math
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Literal
from urllib.parse import urlsplit

from prefect.client.orchestration import PrefectClient

from flows.runtime.leases import Leases
from flows.runtime.temporary_server import is_alone
from tasks.parameters import EMBEDDED, Judge

BLOCKS = 4
HELD_SECONDS = 60.0
"""How long the first block is held; each further one is held longer, so that the blocks are not given back together: a
server that stops answering just then would leave the run without any."""
IDLE_SECONDS = 3.0
"""A block that nothing needed for so long is given back until slots are short again: a judge that takes 8 calls at once
leaves most of them idle, and another run may wait for them."""
TURN_SECONDS = 1.5
"""Between giving a block back and asking for it anew, so that a run that waits gets it; longer than `ASK_SECONDS`."""


def limit_name(base_url: str) -> str:
    """Name of the limit of an endpoint: `jury:api.openai.com`, with the port where the address has one."""
    parts = urlsplit(base_url)
    return f"jury:{parts.hostname}:{parts.port}" if parts.port else f"jury:{parts.hostname}"


def is_unshared(client: PrefectClient, judge: Judge) -> bool:
    """Whether no other run may ask the same judge: the embedded one is in the run's own process, and a temporary
    server nobody else uses.
    """
    return judge.base_url == EMBEDDED or is_alone(client)


@asynccontextmanager
async def shared_slots(client: PrefectClient, judge: Judge) -> AsyncGenerator[asyncio.Semaphore]:
    """As many slots as the run may have calls in flight: up to `judge.concurrency`, and up to its share of the limit.

    A judge that no other run may ask needs no limit.

    Args:
        client: a prompt one.

    Raises:
        InputError: from waiting for a slot: the server refuses this run.
    """
    if is_unshared(client, judge):
        yield asyncio.Semaphore(judge.concurrency)
        return
    slots = _Slots()
    leases = Leases(client, limit_name(judge.base_url), judge.concurrency, BLOCKS)
    keeping = asyncio.create_task(_keep_slots(leases, slots))
    try:
        yield slots
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


class _Slots(asyncio.Semaphore):
    """Slots of which there are none at first. When no more will come, whoever waits for one is told why."""

    def __init__(self) -> None:
        super().__init__(0)
        self._why: Exception | None = None
        self._short = asyncio.Event()
        self.block = 0
        """Slots of a block."""
        self.full_at = -math.inf
        """When a slot was taken last that left no more than a block of them free."""

    def close(self, why: Exception) -> None:
        """Raise this for all who wait or will wait."""
        self._why = why
        self.release()

    @property
    def free(self) -> int:
        """Slots that nobody uses now."""
        return self._value

    async def are_short(self) -> None:
        """Wait until somebody has to wait for a slot."""
        if not self.locked():
            self._short.clear()
            await self._short.wait()

    async def acquire(self) -> Literal[True]:
        if self.locked():
            self._short.set()
        await super().acquire()
        if self._value <= self.block:
            self.full_at = time.monotonic()
        if self._why:
            self.release()  # the next one who waits is to be told, too
            raise self._why
        return True


async def _keep_slots(leases: Leases, slots: _Slots) -> None:
    """Take slots and give them back, for ever. Whatever ends that is told to those who wait for slots."""
    try:
        async with asyncio.TaskGroup() as group:
            for number in range(BLOCKS):
                group.create_task(_keep_block(leases, number, slots))
    except* Exception as failed:
        slots.close(failed.exceptions[0])


async def _keep_block(leases: Leases, number: int, slots: _Slots) -> None:
    while True:
        block = await leases.take(number)
        renewing = asyncio.create_task(leases.renew(block))
        try:
            slots.block = block.size
            for _ in range(block.size):
                slots.release()
            needed = await _needed(number, block.size, slots)
            # All at once, or each would queue anew behind the calls that wait.
            await asyncio.gather(*(slots.acquire() for _ in range(block.size)))
        finally:
            renewing.cancel()
            await asyncio.shield(leases.give_back(block))
        await asyncio.sleep(TURN_SECONDS)
        if not needed:
            await slots.are_short()


async def _needed(number: int, size: int, slots: _Slots) -> bool:
    """Wait for as long as a block may be held, or until it has been idle for a while; whether it was needed to the end.

    The first block of a run is always needed. The others are looked at one after another: what one gives back is not
    idle for the next. What was in use between two looks was needed, whatever they see.
    """
    later = 1 + number / BLOCKS
    began = time.monotonic()
    until, pause = began + HELD_SECONDS * later, IDLE_SECONDS * later
    while (now := time.monotonic()) < until:
        if number and slots.free > size and now - max(began, slots.full_at) >= IDLE_SECONDS:
            return False
        await asyncio.sleep(min(pause, until - now))
    return True
