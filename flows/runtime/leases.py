"""Leases on the slots of a Prefect global concurrency limit, taken in blocks by one run.

Owns how the server is asked, and what becomes of a run whose server does not answer: it goes on with the slots that it
may have alone. A server that is away costs the limit and never the run.

Prefect's own `prefect.concurrency.asyncio.concurrency` is not used: with it a process does not end for minutes where
the server hangs (a thread goes on asking, and Python waits for it), and every question of a run that waits for its turn
is logged as an error.
"""

import asyncio
import math
import sys
import time
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import NamedTuple
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from prefect.client.schemas.responses import ConcurrencyLimitWithLeaseResponse
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from prefect.logging import get_logger

from flows.runtime.asked_again import asked_soon
from tasks.errors import InputError

ASK_SECONDS = 1.0
"""How often a run that waits asks, for one block at a time."""
LEASE_SECONDS = 60.0
"""A block whose holder has vanished is free again after so long (the least that Prefect takes); who lives renews it."""
RENEW_SECONDS = 20.0
TELL_SECONDS = 5.0
"""Wait after which a person is told what is waited for."""

ANSWER_SECONDS = 10.0
"""Longest wait for an answer of the server, with all that is asked again by itself."""
RETRY_SECONDS = 5.0
"""Wait after an answer that is of no use."""
PATIENCE_SECONDS = 30.0
"""A run whose server gives no useful answer for so long goes on without it."""
GIVE_BACK_SECONDS = 5.0
"""Longest wait for slots to be given back: the end of a run waits for it, and the lease on them ends by itself."""

REFUSED = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}

_log = get_logger("image-jury")


class Block(NamedTuple):
    """Slots that are held and given back together."""

    size: int
    lease: UUID | None = None
    """By which the server knows that they are held; it ends by itself if this process does. None: the server does not
    know of them."""


class Leases:
    """What one run has of a limit: a few blocks, one after another."""

    def __init__(self, client: PrefectClient, name: str, concurrency: int, blocks: int) -> None:
        """`concurrency` slots at most, in so many blocks, of the limit of this name."""
        self._client = client
        self._name = name
        self._concurrency = concurrency
        self._blocks = blocks
        self._line = asyncio.Lock()
        self._limit: int | None = None
        """What the limit allows; None: it has to be asked for."""
        self._silent_since: float | None = None
        """Time of the first of the server's last answers that were all useless; None: the last one was useful."""
        self._in_use_since: float | None = None
        """Since when others have had the slots that are waited for; infinite: that was said; None: not known of any."""

    async def take(self, number: int) -> Block:
        """The block of this number, counted from 0, as soon as it is free; of no slots where the limit leaves none.

        Raises:
            InputError: the server refuses this run.
        """
        async with self._line:
            self._limit = None  # people may have changed it
            if self._in_use_since != math.inf:  # runs that share a limit wait for each of their blocks
                self._in_use_since = None
            while True:
                if block := await self._asked(number):
                    return block
                await asyncio.sleep(ASK_SECONDS)

    async def renew(self, block: Block) -> None:
        """Keep a block until this is cancelled. What fails is tried again before the lease ends."""
        while block.lease:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                await asked_soon(partial(self._client.renew_concurrency_lease, block.lease, LEASE_SECONDS))
            except Exception as error:  # no reason to stop calls that are in flight
                _log.debug("A lease on slots of %s could not be renewed: %s", self._name, error)

    async def give_back(self, block: Block) -> None:
        """Free the slots for others. A lease that cannot be given back ends by itself."""
        if not block.lease:
            return
        try:
            async with asyncio.timeout(GIVE_BACK_SECONDS):
                await asked_soon(partial(self._client.release_concurrency_slots_with_lease, block.lease))
        except Exception as error:  # the run has had what it needed
            _log.debug("Slots of %s could not be given back: %s", self._name, error)

    def _in_use(self) -> None:
        """Others have the slots: said once a run, when that has lasted."""
        now = time.monotonic()
        self._in_use_since = self._in_use_since or now
        if now - self._in_use_since >= TELL_SECONDS:
            print(f"waiting for other runs: the calls that the limit {self._name} allows are in use", file=sys.stderr)
            self._in_use_since = math.inf

    async def _asked(self, number: int) -> Block | None:
        """Ask for a block once; None: ask again."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                block = await asked_soon(partial(self._answer, number))
        except Exception as error:  # whatever may be wrong with a server or the way to it
            return await self._unanswered(number, error)
        self._silent_since = None
        return block

    async def _answer(self, number: int) -> Block | None:
        """What the server says: a block; or None, while others have the slots."""
        if self._limit is None:
            self._limit = await self._read_limit()
        size = self._size(number, self._limit)
        if not size:
            if not self._limit and not number:
                _log.warning("The limit %s allows no calls: this run waits until somebody raises it", self._name)
            return Block(0)
        try:
            response = await self._client.increment_concurrency_slots_with_lease(
                [self._name], size, "concurrency", LEASE_SECONDS
            )
        except httpx.HTTPStatusError as error:
            if error.response.status_code == HTTPStatus.LOCKED:
                self._in_use()
                return None
            raise
        taken = ConcurrencyLimitWithLeaseResponse.model_validate_json(response.content)
        if not taken.limits:  # somebody has deleted the limit: it is made anew
            self._limit = None
            return None
        return Block(size, taken.lease_id)

    def _size(self, number: int, limit: int) -> int:
        block, rest = divmod(min(self._concurrency, limit), self._blocks)
        return block + (number < rest)

    async def _read_limit(self) -> int:
        """Calls that the limit allows. It is made when it is missing, and then left to people."""
        try:
            return (await self._client.read_global_concurrency_limit_by_name(self._name)).limit
        except ObjectNotFound:
            made = GlobalConcurrencyLimitCreate(name=self._name, limit=self._concurrency)
            with suppress(ObjectAlreadyExists):
                await self._client.create_global_concurrency_limit(made)
            return self._concurrency

    async def _unanswered(self, number: int, error: Exception) -> Block | None:
        """What to do where the server gave no useful answer: ask again (None), or go on without it."""
        if isinstance(error, httpx.HTTPStatusError) and error.response.status_code in REFUSED:
            raise InputError(self._refusal(error.response)) from error
        self._limit = None
        now, words = time.monotonic(), f"{type(error).__name__}: {error}".removesuffix(": ")
        self._silent_since = self._silent_since or now
        if now - self._silent_since >= PATIENCE_SECONDS:
            _log.warning("Judging goes on without the limit %s, which cannot be asked for: %s", self._name, words)
            return Block(self._size(number, self._concurrency))
        _log.warning("No slots of the limit %s can be had, asking again: %s", self._name, words)
        await asyncio.sleep(RETRY_SECONDS)
        return None

    def _refusal(self, response: httpx.Response) -> str:
        server = str(httpx.URL(self._client.api_url).copy_with(userinfo=b"")).rstrip("/")
        return (
            f"The Prefect server at {server} refuses this run, which asked it for slots of the limit {self._name}: "
            f"{response.status_code} {response.reason_phrase}. Set PREFECT_API_AUTH_STRING or PREFECT_API_KEY to what "
            "this server wants, or PREFECT_API_URL to another server"
        )
