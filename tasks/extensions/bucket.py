"""Runs on a bucket: other machines' ledgers are fetched before a run, its own is sent every few seconds.

A failure to send costs a warning: the data is in the local cache of this machine, and `jury store sync` sends it.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta
from typing import Self

from tasks.datasets.dataset import Dataset
from tasks.errors import InputError
from tasks.history.forgetting import settle
from tasks.judging.extension import Extension, Opening
from tasks.judging.run import Run
from tasks.ledger.bucket import in_daemon_thread
from tasks.ledger.remote import Remote
from tasks.ledger.side_records import ALARMS, OTHER_CALLS

EVERY_SECONDS = 10.0
PATIENCE_SECONDS = 120.0
"""Longest wait for the last data of a run to be sent."""

LONGEST_RUN = timedelta(days=2)
"""Longest run: a reply that is young enough to be reused may be in a run that began so long before."""

_log = logging.getLogger("prefect.image-jury")
"""Logger of the program below Prefect's, whose settings apply to it."""


async def fetch_replies(remote: Remote, reuse_hours: float) -> tuple[float, list[str]]:
    """Fetch the runs whose replies may be reused into the local cache; return the hours, and warnings.

    If the bucket does not answer, no reply is reused: the cache may still have runs that another machine has removed.
    """
    if not reuse_hours:
        return reuse_hours, []
    since = datetime.now(UTC) - timedelta(hours=reuse_hours) - LONGEST_RUN
    try:
        await in_daemon_thread(lambda: remote.fetch(since))
    except (InputError, OSError) as error:
        words = "Runs of other machines could not be fetched, so that no earlier reply is reused"
        return 0.0, [f"{words}: {error}."]
    try:
        await in_daemon_thread(lambda: settle(remote.folder, remote))
    except (InputError, OSError) as error:  # the fetch has replaced the runs: no forgotten reply is left
        return reuse_hours, [f"Pages and history may still show what another machine has forgotten: {error}."]
    return reuse_hours, []


async def share_nights(remote: Remote) -> tuple[str, ...]:
    """Fetch the runs of other machines, for alarms, and share the records of alarms; return warnings."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await in_daemon_thread(lambda: (remote.fetch(), settle(remote.folder, remote), remote.share_folder(ALARMS)))
    except (InputError, OSError, TimeoutError) as error:
        return (f"Nights of other machines could not be fetched, so that a drop may go unreported: {error}.",)
    return ()


class Sending:
    """Sending of one run, from entering the context to leaving it."""

    def __init__(self, remote: Remote, run_id: str) -> None:
        self._remote, self._run_id = remote, run_id
        self._due = asyncio.Event()
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.create_task(self._keep_sending())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._loop.cancel()
        with suppress(asyncio.CancelledError):
            await self._loop

    def wake(self) -> None:
        """Report that there is new data to send."""
        self._due.set()

    async def finish(self) -> tuple[str, ...]:
        """Send the remaining data, the end included, within `PATIENCE_SECONDS`; return warnings."""
        remote, patience = self._remote, asyncio.timeout(PATIENCE_SECONDS)
        try:
            async with patience:
                await self._send()
                if OTHER_CALLS.folders(remote.folder):
                    await in_daemon_thread(lambda: remote.send_folder(OTHER_CALLS.folder))
        except Exception as error:  # none may stop the run: its replies are paid for, and stored here
            why = f"it took longer than {PATIENCE_SECONDS:g} s" if patience.expired() else error
            return (
                f"The run could not be sent whole ({why}). It is safe on this machine; `jury store sync` sends the "
                "rest.",
            )
        return ()

    async def _send(self) -> None:
        async with self._turn:
            await in_daemon_thread(lambda: self._remote.send(self._run_id))

    async def _keep_sending(self) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._due.wait(), EVERY_SECONDS)
            self._due.clear()
            try:
                await self._send()
            except Exception as error:  # `finish` reports it, too, if it lasts
                _log.warning("The ledger could not be sent, trying again: %s", error)


class BucketStore(Extension):
    """Extension for a run whose store is a bucket: other machines' runs are fetched, its own is sent."""

    def __init__(self, opening: Opening) -> None:
        super().__init__(opening)
        assert opening.remote
        self._remote, self._open, self._unfetched = opening.remote, AsyncExitStack(), tuple[str, ...]()

    async def prepare(self, dataset: Dataset) -> Dataset:
        """See `Extension.prepare`: fetch the runs whose replies may be reused."""
        opening = self.opening
        opening.reuse_hours, unfetched = await fetch_replies(self._remote, opening.reuse_hours)
        opening.said += unfetched
        return dataset

    async def begin(self, run: Run) -> None:
        """See `Extension.begin`."""
        self._sending = await self._open.enter_async_context(Sending(self._remote, run.start.run_id))

    def after_chunk(self) -> None:
        """See `Extension.after_chunk`."""
        self._sending.wake()

    async def after_judging(self) -> Sequence[str]:
        """See `Extension.after_judging`: send the rest of the ledger, including its end."""
        return await self._sending.finish()

    async def before_report(self) -> Sequence[str]:
        """See `Extension.before_report`: a scheduled run exchanges nights with other machines, for its alarms."""
        if self.opening.scheduled:
            self._unfetched = await share_nights(self._remote)
        return self._unfetched

    async def after_report(self) -> Sequence[str]:
        """See `Extension.after_report`: an announced alarm is shared, too."""
        if not self.opening.scheduled or self._unfetched:
            return ()
        return await share_nights(self._remote)

    async def close(self) -> None:
        """See `Extension.close`: stop sending."""
        await self._open.aclose()
