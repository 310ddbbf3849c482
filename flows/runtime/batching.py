"""A run whose calls are bought as a batch, up to where it waits: read as any run is, put down instead of asked.

Owns that nobody else is at work on it meanwhile, and what becomes of it where it does not come to be handed in. What
happens from there on is for `collecting`.
"""

import asyncio
from pathlib import Path
from typing import NamedTuple

from flows.runtime.chunks import Chunk
from flows.runtime.session import Session
from tasks.batches.handing_in import HandingIn, Withheld
from tasks.batches.log import begin, lease
from tasks.batches.taking_out import remove
from tasks.datasets.dataset import Dataset
from tasks.judging.run import current_run
from tasks.store import store as store_step


class HandedIn(NamedTuple):
    """What came of handing in."""

    run_id: str
    """The run that waits: this one, or one that waits already and asks the very same, and nothing of this one stays."""
    unstored: list[str]
    """Why the history does not show it; empty: it does."""


async def hand_in(session: Session, dataset: Dataset) -> HandedIn:
    """Put down all samples and what is to be asked about them."""
    session.waits = True
    async with session.judging(dataset, Withheld) as chunks:
        run, store, turn = current_run(), Path(session.store), asyncio.Lock()
        log = begin(store, session.run_id)
        with lease(store, session.run_id):
            handing_in = HandingIn(run, log)

            async def put_down(chunk: Chunk) -> None:
                async with turn:
                    await asyncio.to_thread(handing_in.add, run.in_hand.chunks[chunk.samples])

            try:
                await chunks.each(put_down)
                waits = handing_in.finish(session.shown_as, session.said)
            except BaseException:
                remove(log)  # nothing of it was sent
                raise
            if waits != log.run_id:
                remove(log)
    await session.finish_thumbnails()
    return HandedIn(waits, await session.storing(store_step(session.store, waits)))
