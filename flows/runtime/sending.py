"""Ledgers and a remote store: those of others are fetched before a run, its own is sent while it goes on.

It is sent after every chunk and every few seconds. What cannot be sent costs a warning and nothing else: it is in the
local cache on this machine, and the next sync sends it.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from prefect.logging import get_logger

from tasks.ledger.alarm_records import exchange_alarm_records
from tasks.ledger.forgotten import FOLDER as FORGOTTEN
from tasks.ledger.other_calls import OTHER_CALLS
from tasks.ledger.passport_exchange import exchange_passports
from tasks.ledger.remote import Remote

EVERY_SECONDS = 10.0
PATIENCE_SECONDS = 120.0
"""Longest wait for the last of a run to be sent."""

LONGEST_RUN = timedelta(days=2)
"""A reply that is young enough to be reused may stand in a run that began so long before."""

_log = get_logger("image-jury")
T = TypeVar("T")


class Fetched(NamedTuple):
    """What is known of earlier replies before any of them is reused."""

    reuse_hours: float
    """How old a reply may be; 0: none is reused."""
    warnings: tuple[str, ...]


async def fetch_replies(remote: Remote | None, reuse_hours: float) -> Fetched:
    """Bring what was forgotten elsewhere, and then the runs whose replies may be reused, into the local cache.

    Where it is not known what was forgotten none is reused: a reply of that would stand in a run that began later,
    which nobody has asked to be forgotten.
    """
    if remote is None or not reuse_hours:
        return Fetched(reuse_hours, ())
    since = datetime.now(UTC) - timedelta(hours=reuse_hours) - LONGEST_RUN
    try:
        await in_daemon_thread(lambda: remote.fetch_folder(FORGOTTEN))
    except OSError as error:
        words = "What other machines were told to forget is not known now, so that no earlier reply is reused"
        return Fetched(0.0, (f"{words}: {error}.",))
    try:
        await in_daemon_thread(lambda: remote.fetch(since))
    except OSError as error:
        words = "Runs of other machines could not be fetched, so that none of their replies are reused"
        return Fetched(reuse_hours, (f"{words}: {error}.",))
    return Fetched(reuse_hours, ())


async def fetch_passports(remote: Remote | None) -> bool:
    """Bring the passports that other machines made into the local cache; False: it is not known whether there are any.

    That they cannot be fetched is no warning of its own: the run's ledger cannot be sent then, either, and that is one.
    """
    try:
        if remote:
            await in_daemon_thread(lambda: exchange_passports(remote.bucket, remote.folder))
    except OSError:
        return False
    return True


async def share_nights(remote: Remote | None) -> tuple[str, ...]:
    """Bring the runs of other machines into the local cache, of which alarms are computed, and share what people and
    runs did about alarms; returns what there is to warn of."""
    if remote is None:
        return ()
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await in_daemon_thread(lambda: (remote.fetch(), exchange_alarm_records(remote.bucket, remote.folder)))
    except (OSError, TimeoutError) as error:
        return (f"Nights of other machines could not be fetched, so that a drop may not be told: {error}.",)
    return ()


class Sending:
    """The sending of one run, from entering the context to leaving it. Without a remote store it does nothing."""

    def __init__(self, remote: Remote | None, run_id: str, held: bool = False) -> None:
        """The sending of a run.

        Args:
            held: it waited for a batch, and belongs to this process by its lease.
        """
        self._remote, self._held = remote, held
        self._run_id = run_id
        self._due = asyncio.Event()
        self._loop: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> Self:
        if self._remote:
            self._loop = asyncio.create_task(self._keep_sending(self._remote))
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
        """Send what is left, the end included, within `PATIENCE_SECONDS`; returns what there is to warn of."""
        if not self._remote:
            return ()
        patience = asyncio.timeout(PATIENCE_SECONDS)
        try:
            async with patience:
                await self._send(self._remote)
                await self._send_other_calls(self._remote)
        except OSError as error:
            why = f"it took longer than {PATIENCE_SECONDS:g} s" if patience.expired() else error
            return (
                f"The run could not be sent whole ({why}). It is safe on this machine; `jury sync` sends the rest.",
            )
        return ()

    async def _send(self, remote: Remote) -> None:
        async with self._turn:
            send = remote.send_held if self._held else remote.send
            await in_daemon_thread(lambda: send(self._run_id))

    async def _send_other_calls(self, remote: Remote) -> None:
        if OTHER_CALLS.folders(remote.folder):
            await in_daemon_thread(lambda: remote.send_folder(OTHER_CALLS.folder))

    async def _keep_sending(self, remote: Remote) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._due.wait(), EVERY_SECONDS)
            self._due.clear()
            try:
                await self._send(remote)
            except OSError as error:
                _log.warning("The ledger could not be sent, trying again: %s", error)


async def in_daemon_thread(work: Callable[[], T]) -> T:
    """What this returns in a thread that the end of the process does not wait for, as it does with `to_thread`.

    A thread cannot be stopped half-way. Where this is cancelled, the thread goes on, and what it does goes nowhere.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error:
            done.set_exception(error)
        else:
            done.set_result(result)  # pyright: ignore[reportArgumentType]

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop has been closed meanwhile
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="image-jury", daemon=True).start()
    return await done
