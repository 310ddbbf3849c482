"""Slots for calls in flight, shared by all runs that ask one endpoint.

A Prefect global concurrency limit for each endpoint, made by the first run that asks it, says how many calls may be in
flight there, whoever makes them: four deployments that start together send what one may send. Asking Prefect for each
call, or for each chunk, would cost more than the calls: a run takes its slots in a few blocks, shares them among all
its chunks, and gives each block back every so often, for others to take. How the server is asked stands in `leases`.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Literal
from urllib.parse import urlsplit

from prefect import get_client
from prefect.client.base import ServerType

from flows.runtime.leases import Leases
from tasks.parameters import EMBEDDED, Judge

BLOCKS = 4
HELD_SECONDS = 60.0
TURN_SECONDS = 1.5
"""Between giving a block back and asking for it anew, so that a run that waits gets it; longer than `ASK_SECONDS`."""


def limit_name(base_url: str) -> str:
    """Name of the limit of an endpoint: `jury:api.openai.com`, with the port where the address has one."""
    parts = urlsplit(base_url)
    return f"jury:{parts.hostname}:{parts.port}" if parts.port else f"jury:{parts.hostname}"


@asynccontextmanager
async def shared_slots(judge: Judge) -> AsyncGenerator[asyncio.Semaphore]:
    """As many slots as the run may have calls in flight: up to `judge.concurrency`, and up to its share of the limit.

    The embedded judge is in the run's own process and needs no limit, nor do runs on a temporary server, which nobody
    else uses.

    Raises:
        InputError: from waiting for a slot: the server refuses this run.
    """
    if judge.base_url == EMBEDDED:
        yield asyncio.Semaphore(judge.concurrency)
        return
    async with get_client() as client:
        if client.server_type == ServerType.EPHEMERAL:
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

    def close(self, why: Exception) -> None:
        """Raise this for all who wait or will wait."""
        self._why = why
        self.release()

    async def acquire(self) -> Literal[True]:
        await super().acquire()
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
            for _ in range(block.size):
                slots.release()
            await asyncio.sleep(HELD_SECONDS)
            # All at once, or each would queue anew behind the calls that wait.
            await asyncio.gather(*(slots.acquire() for _ in range(block.size)))
        finally:
            renewing.cancel()
            await asyncio.shield(leases.give_back(block))
        await asyncio.sleep(TURN_SECONDS)
