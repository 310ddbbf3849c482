"""Begin and end of a run whose calls are bought as batches: requests are written, later their replies are recorded."""

import asyncio
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from prefect.client.schemas.objects import State

from flows.pipeline import store_and_report
from flows.run import Session, opened
from tasks.aggregate import aggregate_sample
from tasks.batches.log import Event, Log, begin, locked
from tasks.batches.results import Replies, withdraw
from tasks.batches.submission import HandingIn, Withheld, custom_id, read_cases
from tasks.datasets.dataset import Dataset
from tasks.judge import write_down
from tasks.judging.case import Chunk
from tasks.judging.protocol_items import check_prompts
from tasks.judging.run import Run
from tasks.ledger.run_files import read_start
from tasks.records.parameters import Parameters
from tasks.spending.budget import spent_by_run


async def put_down(session: Session, dataset: Dataset) -> str:
    """Write the samples, all or those that the budget covers, and all requests about them, before any is sent.

    Returns:
        Id of the run that waits: this one, or one that waits already with the same calls; then nothing of this one
        remains.

    Raises:
        InputError: the budget does not cover all samples, and the cost of this judge's calls is unknown.
    """
    session.waits = True
    session.opening.ledger = Withheld
    async with session.judging(dataset) as chunks:
        run, store, turn = chunks.run, Path(session.folder), asyncio.Lock()
        begin(store, session.run_id)
        with locked(store, session.run_id) as log:
            assert log  # the run is new: no other process has locked it
            handing_in = HandingIn(run, log)

            async def add(_: Run, chunk: Chunk) -> None:
                async with turn:
                    await asyncio.to_thread(handing_in.add, chunk.cases)

            try:
                with closing(handing_in):
                    await chunks.each(add)
                if waits := await asyncio.to_thread(handing_in.earlier):
                    withdraw(log)
                else:
                    stopped = run.limit.stopped(dataset.samples, handing_in.samples) if run.limit else None
                    if run.limit:
                        await run.limit.wait()
                    handing_in.finish(shown_as=session.shown_as, said=tuple(session.said), stopped=stopped)
            except BaseException:
                withdraw(log)  # nothing of it was sent
                raise
    await session.finish_thumbnails()
    return waits or session.run_id


async def take_in(log: Log, asked: Parameters) -> State:
    """Record the replies to a run that waited, decide its samples, and end, store and report it.

    Raises:
        InputError: its prompts have changed since it was begun.
    """
    start, told = read_start(log.run), log.prepared
    assert told
    async with opened(start.flow, asked, []) as session:
        session.run_id, session.shown_as, session.scheduled = start.run_id, told.shown_as, start.scheduled
        check_prompts(start, session.opening.rubric)
        session.opening.said = [*told.said]
        run = await session.begin(start)
        try:
            await asyncio.to_thread(run.ledger.begin_anew)
            await _record(log, told, run)
            await session.finish(run)
        finally:
            run.close()
        if told.stopped:
            spent = await asyncio.to_thread(spent_by_run, Path(session.folder), start.run_id)
            session.stopped = told.stopped.model_copy(update={"spent": spent})
        began = datetime.fromisoformat(start.started_at)
        session.end(run, (datetime.now(UTC) - began).total_seconds())
        return await store_and_report(session)


async def _record(log: Log, told: Event, run: Run) -> None:
    """Record all replies, and decide the samples."""
    manner = {"rung": told.rung, "not_sent": told.not_sent, "tier": "batch"}
    replies = await asyncio.to_thread(Replies, log, run.vlm.mask)
    for case in read_cases(log.work, run.rubric):
        for row in case.judgments:  # replies of earlier runs
            run.ledger.append(row)
        for call in [*filter(case.is_open, case.calls)]:
            found = replies.find(custom_id(case, call), run.vlm.read)
            await write_down(run, case, call, found._replace(**manner))
        aggregate_sample(run, case)
        await asyncio.sleep(0)
