"""Submission of a run whose calls are bought as batches; all requests are written before any is sent."""

import asyncio
from contextlib import closing
from pathlib import Path

from prefect.client.schemas.objects import State
from prefect.states import Completed

from flows.collect import DEPLOYMENT, EVERY, absolute, arranged, collected
from flows.flow_run import WAITING
from flows.run import Session
from tasks.batches.log import begin, locked
from tasks.batches.results import remove
from tasks.batches.submission import HandingIn, Withheld
from tasks.datasets.dataset import Dataset
from tasks.errors import BatchesUnavailable
from tasks.judging.case import Chunk
from tasks.judging.run import Run
from tasks.store import store_or_warn


async def handed_in(session: Session, dataset: Dataset) -> State:
    """Submit a run, and advance it as far as possible at once: usually until it waits for its batches."""
    run_id, unstored = await _hand_in(session, dataset)
    try:
        state = await collected(session.place, run_id)
    except BatchesUnavailable:
        await arranged(absolute(session.place))
        raise
    if state.name != WAITING:
        return state
    looks = await arranged(absolute(session.place))
    by_itself = f"So does the deployment {DEPLOYMENT}, every {EVERY.seconds // 60} minutes." if looks else ""
    also = " ".join([by_itself, *unstored]).strip()
    return Completed(name=WAITING, message=f"{state.message} {also}".strip(), data={**state.data, "also": also})  # pyright: ignore


async def _hand_in(session: Session, dataset: Dataset) -> tuple[str, list[str]]:
    """Write the samples, all or those that the budget covers, and the requests about them.

    Returns:
        Id of the run that waits: this one, or one that waits already with the same calls; then nothing of this one
        remains. And a warning if the history does not show it; empty: it does.

    Raises:
        InputError: the budget does not cover all samples, and the cost of this judge's calls is unknown.
    """
    waits = await _put_down(session, dataset)
    await session.finish_thumbnails()
    return waits, await store_or_warn(session.store, waits)


async def _put_down(session: Session, dataset: Dataset) -> str:
    """Write the samples and their requests; return the id of the run that waits."""
    session.waits = True
    session.opening.ledger = Withheld
    async with session.judging(dataset) as chunks:
        run, store, turn = chunks.run, Path(session.store), asyncio.Lock()
        begin(store, session.run_id)
        with locked(store, session.run_id) as log:
            assert log  # the run is new: no other process has locked it
            handing_in = HandingIn(run, log)

            async def put_down(_: Run, chunk: Chunk) -> None:
                async with turn:
                    await asyncio.to_thread(handing_in.add, chunk.cases)

            try:
                with closing(handing_in):
                    await chunks.each(put_down)
                waits = await asyncio.to_thread(handing_in.earlier) or log.run_id
                if waits == log.run_id:
                    stopped = run.limit.stopped(dataset.samples, handing_in.samples) if run.limit else None
                    if run.limit:
                        await run.limit.wait()
                    handing_in.finish(shown_as=session.shown_as, said=tuple(session.said), stopped=stopped)
            except BaseException:
                remove(log)  # nothing of it was sent
                raise
            if waits != log.run_id:
                remove(log)
    return waits
