"""Notices about the judge of a run: it has no good passport, or its provider ends it soon."""

import asyncio
from collections.abc import Sequence

from tasks.endpoint.catalog import ending, today
from tasks.judging.extension import Extension
from tasks.ledger.passports import exchange_passports
from tasks.ledger.remote import Remote, in_daemon_thread
from tasks.passport.lines import warning
from tasks.records.judge import Judge


class JudgeNotices(Extension):
    """Extension for a run whose judge is a model."""

    async def finish(self) -> Sequence[str]:
        """See `Extension.finish`."""
        return [*await self._untested(), *_ending_sentences(self.opening.asked.judge)]

    async def _untested(self) -> list[str]:
        """Return a warning if the judge has no good passport for this flow; none if the passports cannot be fetched."""
        opening = self.opening
        if opening.remote and not await _fetch_passports(opening.remote):
            return []
        judge, store = opening.asked.judge, opening.asked.store
        words = await asyncio.to_thread(warning, opening.store, opening.flow, judge, store)
        return [words] if words else []


async def _fetch_passports(remote: Remote) -> bool:
    """Fetch the passports of other machines into the local cache; return False if that fails.

    The failure needs no warning of its own: the run's ledger cannot be sent then, either, and that causes one.
    """
    try:
        await in_daemon_thread(lambda: exchange_passports(remote.bucket, remote.folder))
    except OSError:
        return False
    return True


def _ending_sentences(judge: Judge) -> list[str]:
    """Return a warning if the judge ends soon, or has ended."""
    day = today()
    found = ending(judge.model, judge.base_url, day)
    cure = (
        "`jury status` lists what it judges, `jury judge bridge` tells whether its history may be continued with "
        "another"
    )
    return [f"The judge {found.words(day)}. {cure}. ({found.source})"] if found else []
