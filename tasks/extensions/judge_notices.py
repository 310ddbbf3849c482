"""Notices about the judge of a run: it has no good passport, or its provider ends it soon."""

import asyncio
from collections.abc import Sequence

from tasks.endpoint.catalog import ending, today
from tasks.judging.extension import Extension
from tasks.ledger.bucket import in_daemon_thread
from tasks.ledger.passports import exchange_passports
from tasks.passport.lines import warning


class JudgeNotices(Extension):
    """Extension for a run whose judge is a model."""

    async def finish(self) -> Sequence[str]:
        """See `Extension.finish`."""
        opening, judge, day, said = self.opening, self.opening.asked.judge, today(), list[str]()
        try:
            if remote := opening.remote:
                await in_daemon_thread(lambda: exchange_passports(remote.bucket, remote.folder))
        except OSError:  # it needs no warning: the run's ledger cannot be sent then, either, and that causes one
            pass
        else:
            asked_store = opening.asked.store
            said.append(await asyncio.to_thread(warning, opening.store, opening.flow, judge, asked_store))
        if found := ending(judge.model, judge.base_url, day):
            said.append(
                f"The judge {found.words(day)}. `jury status` lists what it judges, `jury judge bridge` tells whether "
                f"its history may be continued with another. ({found.source})"
            )
        return [*filter(None, said)]
