"""Ledgers and a remote store: other machines' ledgers are fetched before a run, its own is sent every few seconds.

A failure to send costs a warning: the data is in the local cache on this machine, and the next sync sends it.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self, TypeVar

from prefect.logging import get_logger

from tasks.errors import InputError
from tasks.forgetting.doing import settle
from tasks.ledger.alarm_records import FOLDER as ALARMS
from tasks.ledger.other_calls import OTHER_CALLS
from tasks.ledger.passports import exchange_passports
from tasks.ledger.remote import Remote

EVERY_SECONDS = 10.0
PATIENCE_SECONDS = 120.0
"""Longest wait for the last data of a run to be sent."""

LONGEST_RUN = timedelta(days=2)
"""Longest run: a reply that is young enough to be reused may be in a run that began so long before."""

_log = get_logger("image-jury")
T = TypeVar("T")


async def fetch_replies(remote: Remote | None, reuse_hours: float) -> tuple[float, list[str]]:
    """Fetch the runs whose replies may be reused into the local cache; return the hours, and warnings.

    If the bucket does not answer, no reply is reused: the cache may still have runs that another machine has removed.
    """
    if remote is None or not reuse_hours:
        return reuse_hours, []
    since = datetime.now(UTC) - timedelta(hours=reuse_hours) - LONGEST_RUN
    try:
        await in_daemon_thread(lambda: _fetch(remote, since))
    except (InputError, OSError) as error:
        words = "Runs of other machines could not be fetched, so that no earlier reply is reused"
        return 0.0, [f"{words}: {error}."]
    return reuse_hours, []


async def fetch_passports(remote: Remote | None) -> bool:
    """Fetch the passports of other machines into the local cache; return False if that fails.

    The failure needs no warning of its own: the run's ledger cannot be sent then, either, and that causes one.
    """
    try:
        if remote:
            await in_daemon_thread(lambda: exchange_passports(remote.bucket, remote.folder))
    except OSError:
        return False
    return True


async def share_nights(remote: Remote | None) -> tuple[str, ...]:
    """Fetch the runs of other machines, for alarms, and share the records of alarms; return warnings."""
    if remote is None:
        return ()
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await in_daemon_thread(lambda: (_fetch(remote), remote.share_folder(ALARMS)))
    except (InputError, OSError, TimeoutError) as error:
        return (f"Nights of other machines could not be fetched, so that a drop may go unreported: {error}.",)
    return ()


def _fetch(remote: Remote, since: datetime | None = None) -> None:
    """Fetch runs of other machines, and remove data here that they have removed."""
    remote.fetch(since)
    settle(remote.folder, remote)


class Sending:
    """Sending of one run, from entering the context to leaving it. Without a remote store it does nothing."""

    def __init__(self, remote: Remote | None, run_id: str) -> None:
        self._remote, self._run_id = remote, run_id
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
        """Report that there is new data to send."""
        self._due.set()

    async def finish(self) -> tuple[str, ...]:
        """Send the remaining data, the end included, within `PATIENCE_SECONDS`; return warnings."""
        if not (remote := self._remote):
            return ()
        patience = asyncio.timeout(PATIENCE_SECONDS)
        try:
            async with patience:
                await self._send(remote)
                if OTHER_CALLS.folders(remote.folder):
                    await in_daemon_thread(lambda: remote.send_folder(OTHER_CALLS.folder))
        except Exception as error:  # none may stop the run: its replies are paid for, and stored here
            why = f"it took longer than {PATIENCE_SECONDS:g} s" if patience.expired() else error
            return (
                f"The run could not be sent whole ({why}). It is safe on this machine; `jury sync` sends the rest.",
            )
        return ()

    async def _send(self, remote: Remote) -> None:
        async with self._turn:
            await in_daemon_thread(lambda: remote.send(self._run_id))

    async def _keep_sending(self, remote: Remote) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._due.wait(), EVERY_SECONDS)
            self._due.clear()
            try:
                await self._send(remote)
            except Exception as error:  # `finish` reports it, too, if it lasts
                _log.warning("The ledger could not be sent, trying again: %s", error)


async def in_daemon_thread(work: Callable[[], T]) -> T:
    """Return the result of work in a thread that the end of the process does not wait for, unlike one of `to_thread`.

    A thread cannot be stopped half-way. If this call is cancelled, the thread continues, and its result is lost.
    """
    done: Future[T] = Future()

    def run() -> None:
        done.set_running_or_notify_cancel()
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="image-jury", daemon=True).start()
    return await asyncio.wrap_future(done)
