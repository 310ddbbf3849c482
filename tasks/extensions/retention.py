"""Retention: a run removes pictures and pages older than `JURY_KEEP_DAYS` from a store that is a folder."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from tasks.errors import InputError
from tasks.judging.extension import Extension
from tasks.ledger.removals import keep_days, remove_old


class Retention(Extension):
    """Extension for a run whose environment sets `JURY_KEEP_DAYS`."""

    def check(self) -> Sequence[str]:
        """See `Extension.check`: an invalid number of days is reported before the first call."""
        keep_days()
        return ()

    async def before_report(self) -> Sequence[str]:
        """See `Extension.before_report`: the index is made after it, without links to the removed pages.

        In a bucket a sync removes, since it has the judgments of all machines.
        """
        if not self.opening.remote:
            with suppress(OSError, InputError):  # the next run does it; `jury store sync` reports refusals
                await asyncio.to_thread(remove_old, self.opening.store)
        return ()
