"""Warning of a run whose judge has no good passport."""

import asyncio
from collections.abc import Collection, Sequence

from tasks.errors import InputError
from tasks.judging.extension import Extension
from tasks.judging.run import Run
from tasks.ledger.bucket import in_daemon_thread
from tasks.ledger.passports import PASSPORTS
from tasks.passport.lines import warning

PATIENCE_SECONDS = 60.0
"""Longest wait for a bucket, since the run has not ended in its ledger yet."""


class JudgeNotices(Extension):
    """Extension for a run whose judge is a model."""

    _answered: Collection[str] = ()

    async def begin(self, run: Run) -> None:
        """See `Extension.begin`."""
        self._answered = run.tally.models

    async def finish(self) -> Sequence[str]:
        """See `Extension.finish`."""
        opening, asked = self.opening, self.opening.asked
        try:
            if remote := opening.remote:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await in_daemon_thread(lambda: remote.share_folder(PASSPORTS))
        except InputError as error:
            return [f"Passports of judges could not be exchanged with {asked.store}: {error}."]
        except OSError:  # it needs no warning: the run's ledger cannot be sent then, either, and that causes one
            return []
        words = await asyncio.to_thread(warning, opening.store, opening.flow, asked.judge, asked.store, self._answered)
        return [words] if words else []
