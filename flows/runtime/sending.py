"""Ledgers and a remote store: those of others are fetched before a run, its own is sent while it goes on.

It is sent after every chunk and every few seconds. What cannot be sent costs a warning and nothing else: it is in the
local cache on this machine, and the next sync sends it.
"""

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self

from prefect.logging import get_logger

from tasks.ledger.bucket import RemoteUnavailable
from tasks.ledger.remote import Remote

EVERY_SECONDS = 10.0
PATIENCE_SECONDS = 120.0
"""Longest wait for the last of a run to be sent."""

LONGEST_RUN = timedelta(days=2)
"""A reply that is young enough to be reused may stand in a run that began so long before."""

_log = get_logger("image-jury")


async def fetch_replies(remote: Remote | None, reuse_hours: float) -> tuple[str, ...]:
    """Bring the runs whose replies may be reused into the local cache; returns what there is to warn of."""
    if remote is None or not reuse_hours:
        return ()
    since = datetime.now(UTC) - timedelta(hours=reuse_hours) - LONGEST_RUN
    try:
        await asyncio.to_thread(remote.fetch, since)
    except RemoteUnavailable as error:
        return (f"Runs of other machines could not be fetched, so that none of their replies are reused: {error}.",)
    return ()


class Sending:
    """The sending of one run, from entering the context to leaving it. Without a remote store it does nothing."""

    def __init__(self, remote: Remote | None, run_id: str) -> None:
        self._remote = remote
        self._run_id = run_id
        self._due = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> Self:
        if self._remote:
            self._loop = asyncio.create_task(self._keep_sending())
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._loop:
            self._loop.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._loop

    def wake(self) -> None:
        """There is something new to be sent."""
        self._due.set()

    async def finish(self) -> tuple[str, ...]:
        """Send what is left, the end included; returns what there is to warn of."""
        if not self._remote:
            return ()
        try:
            async with self._turn:
                await asyncio.wait_for(asyncio.to_thread(self._remote.send, self._run_id), PATIENCE_SECONDS)
        except (RemoteUnavailable, TimeoutError) as error:
            return (
                f"The run could not be sent whole ({error}). It is safe on this machine; `jury sync` sends the rest.",
            )
        return ()

    async def _keep_sending(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._due.wait(), EVERY_SECONDS)
            self._due.clear()
            try:
                # A thread cannot be stopped half-way: whoever sends next waits for it.
                async with self._turn:
                    await asyncio.shield(asyncio.to_thread(self._remote.send, self._run_id))  # pyright: ignore
            except RemoteUnavailable as error:
                _log.warning("The ledger could not be sent, trying again: %s", error)
