"""Slots for calls in flight, shared by all runs that ask one endpoint.

A Prefect global concurrency limit for each endpoint, made by the first run that asks it, says how many calls may be in
flight there, whoever makes them: four deployments that start together send what one may send. Asking Prefect for each
call, or for each chunk, would cost more than the calls: a run takes its slots in a few blocks, shares them among all
its chunks, and gives each block back every so often, for others to take.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit
from uuid import UUID

import httpx
from prefect import get_client
from prefect.client.base import ServerType
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from prefect.client.schemas.responses import ConcurrencyLimitWithLeaseResponse
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from prefect.logging import get_logger

from tasks.parameters import EMBEDDED, Judge

BLOCKS = 4
HELD_SECONDS = 60.0
TURN_SECONDS = 1.5
"""Between giving a block back and asking for it anew, so that a run that waits gets it; longer than `ASK_SECONDS`."""
ASK_SECONDS = 1.0
"""How often a run that waits asks, for one block at a time."""
RETRY_SECONDS = 10.0
LEASE_SECONDS = 60.0
"""A block whose holder has vanished is free again after so long (the least that Prefect takes); who lives renews it."""
RENEW_SECONDS = 20.0
TELL_SECONDS = 5.0
"""Wait after which a person is told what is waited for."""

LOCKED = 423
"""HTTP status of a limit that is used up."""

_log = get_logger("image-jury")


def limit_name(base_url: str) -> str:
    """Name of the limit of an endpoint: `jury:api.openai.com`, with the port where the address has one."""
    parts = urlsplit(base_url)
    return f"jury:{parts.hostname}:{parts.port}" if parts.port else f"jury:{parts.hostname}"


@asynccontextmanager
async def shared_slots(judge: Judge) -> AsyncGenerator[asyncio.Semaphore]:
    """As many slots as the run may have calls in flight: up to `judge.concurrency`, and up to its share of the limit.

    The embedded judge is in the run's own process and needs no limit, nor do runs on a temporary server, which nobody
    else uses.
    """
    if judge.base_url == EMBEDDED:
        yield asyncio.Semaphore(judge.concurrency)
        return
    async with get_client() as client:
        if client.server_type == ServerType.EPHEMERAL:
            yield asyncio.Semaphore(judge.concurrency)
            return
        slots = asyncio.Semaphore(0)
        keeping = asyncio.create_task(_keep_slots(client, judge, slots))
        try:
            yield slots
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)


async def _keep_slots(client: PrefectClient, judge: Judge, slots: asyncio.Semaphore) -> None:
    name = limit_name(judge.base_url)
    allowed = await _asked(client, name, judge.concurrency)
    block, rest = divmod(min(judge.concurrency, allowed), BLOCKS)
    line = asyncio.Lock()
    async with asyncio.TaskGroup() as group:
        for number in range(BLOCKS):
            if size := block + (number < rest):
                group.create_task(_keep_block(client, name, size, slots, line))


async def _asked(client: PrefectClient, name: str, concurrency: int) -> int:
    while True:
        try:
            return await _allowed(client, name, concurrency)
        except httpx.HTTPError as error:
            _log.warning("The limit %s cannot be asked for, asking again: %s", name, error)
        await asyncio.sleep(RETRY_SECONDS)


async def _allowed(client: PrefectClient, name: str, concurrency: int) -> int:
    """Calls that the endpoint's limit allows. It is made when it is missing, and then left to people."""
    try:
        return (await client.read_global_concurrency_limit_by_name(name)).limit
    except ObjectNotFound:
        with suppress(ObjectAlreadyExists):
            await client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=name, limit=concurrency))
        return concurrency


async def _keep_block(
    client: PrefectClient, name: str, size: int, slots: asyncio.Semaphore, line: asyncio.Lock
) -> None:
    while True:
        async with line:
            lease = await _take(client, name, size)
        try:
            for _ in range(size):
                slots.release()
            await _hold(client, lease)
            # All at once, or each would queue anew behind the calls that wait.
            await asyncio.gather(*(slots.acquire() for _ in range(size)))
        finally:
            await asyncio.shield(_give_back(client, lease))
        await asyncio.sleep(TURN_SECONDS)


async def _take(client: PrefectClient, name: str, size: int) -> UUID:
    """Take slots as soon as there are so many; returns the lease on them, which ends by itself if this process does."""
    tell = asyncio.get_running_loop().call_later(TELL_SECONDS, _tell, name)
    try:
        return await _taken(client, name, size)
    finally:
        tell.cancel()


def _tell(name: str) -> None:
    print(f"waiting for other runs: the calls that the limit {name} allows are in use", file=sys.stderr)


async def _taken(client: PrefectClient, name: str, size: int) -> UUID:
    while True:
        try:
            response = await client.increment_concurrency_slots_with_lease([name], size, "concurrency", LEASE_SECONDS)
            taken = ConcurrencyLimitWithLeaseResponse.model_validate_json(response.content)
            if taken.limits:
                return taken.lease_id
            await _allowed(client, name, size)  # somebody has deleted the limit: it is made anew
        except httpx.HTTPError as error:
            in_use = isinstance(error, httpx.HTTPStatusError) and error.response.status_code == LOCKED
            if not in_use:
                _log.warning("No slots of %s can be had, asking again: %s", name, error)
                await asyncio.sleep(RETRY_SECONDS)
        await asyncio.sleep(ASK_SECONDS)


async def _hold(client: PrefectClient, lease: UUID) -> None:
    for _ in range(round(HELD_SECONDS / RENEW_SECONDS)):
        await asyncio.sleep(RENEW_SECONDS)
        with suppress(httpx.HTTPError):  # tried again before the lease ends
            await client.renew_concurrency_lease(lease, LEASE_SECONDS)


async def _give_back(client: PrefectClient, lease: UUID) -> None:
    with suppress(httpx.HTTPError):  # a lease that cannot be given back ends by itself
        await client.release_concurrency_slots_with_lease(lease)
