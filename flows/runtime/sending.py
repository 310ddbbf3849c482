"""Ledgers and a remote store: those of others are fetched before a run, its own is sent every few seconds.

What cannot be sent costs a warning: it is in the local cache on this machine, and the next sync sends it.
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
"""Longest wait for the last of a run to be sent."""

LONGEST_RUN = timedelta(days=2)
"""A reply that is young enough to be reused may stand in a run that began so long before."""

_log = get_logger("image-jury")
T = TypeVar("T")


async def fetch_replies(remote: Remote | None, reuse_hours: float) -> tuple[float, list[str]]:
    """Bring the runs whose replies may be reused into the local cache; return the hours, and what there is to warn of.

    Where the bucket does not answer none is reused: what another machine has forgotten would be in the cache still.
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
            await in_daemon_thread(lambda: (_fetch(remote), remote.share_folder(ALARMS)))
    except (InputError, OSError, TimeoutError) as error:
        return (f"Nights of other machines could not be fetched, so that a drop may not be told: {error}.",)
    return ()


def _fetch(remote: Remote, since: datetime | None = None) -> None:
    """Bring runs of other machines here, and remove here what these have forgotten."""
    remote.fetch(since)
    settle(remote.folder, remote)


class Sending:
    """The sending of one run, from entering the context to leaving it. Without a remote store it does nothing."""

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
        """There is something new to be sent."""
        self._due.set()

    async def finish(self) -> tuple[str, ...]:
        """Send what is left, the end included, within `PATIENCE_SECONDS`; returns what there is to warn of."""
        if not (remote := self._remote):
            return ()
        patience = asyncio.timeout(PATIENCE_SECONDS)
        try:
            async with patience:
                await self._send(remote)
                if OTHER_CALLS.folders(remote.folder):
                    await in_daemon_thread(lambda: remote.send_folder(OTHER_CALLS.folder))
        except Exception as error:  # none may take the run with it: its replies are paid, and lie here
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
            except Exception as error:  # finish tells of it, too, if it stays
                _log.warning("The ledger could not be sent, trying again: %s", error)


async def in_daemon_thread(work: Callable[[], T]) -> T:
    """Return the result of work in a thread that the end of the process does not wait for, as it does with `to_thread`.

    A thread cannot be stopped half-way. Where this is cancelled, the thread goes on, and its result goes nowhere.
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
