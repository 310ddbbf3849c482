"""End of a run whose calls were bought as batches: record the replies, decide the samples, and finish the run."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from prefect.client.schemas.objects import State

from flows.flow_run import show_end
from flows.pipeline import store_and_report
from flows.run import Session, opened
from tasks.aggregate import aggregate_sample
from tasks.batches.log import Event, Log
from tasks.batches.results import Replies
from tasks.batches.submission import custom_id, read_cases
from tasks.judge import write_down
from tasks.judging.protocol_items import check_prompts
from tasks.judging.run import Run
from tasks.ledger.run_files import read_start
from tasks.records import RunStart
from tasks.records.parameters import Parameters
from tasks.spending.budget import spent_by_run
from tasks.spending.prices import BATCH


async def ended(log: Log, asked: Parameters) -> State:
    """Record the replies, and end the run; the flow run that submitted it shows the end, too."""
    start, told = read_start(log.run), log.prepared
    assert told
    async with opened(start.flow, asked, []) as session:
        async with _going_on(session, start, told) as run:
            await _taken_in(log, run)
        state = await store_and_report(session)
    await show_end(start.prefect_run_id, str(state.message))
    return state


@asynccontextmanager
async def _going_on(session: Session, start: RunStart, told: Event) -> AsyncGenerator[Run]:
    """Yield a run that waited, as it was begun; afterwards, end it in its ledger.

    Raises:
        InputError: its prompts have changed since it was begun.
    """
    session.run_id, session.shown_as, session.scheduled = start.run_id, told.shown_as, start.scheduled
    check_prompts(start, session.opening.rubric)
    session.opening.said = [*told.said]
    run = await session.begin(start)
    await asyncio.to_thread(run.ledger.begin_anew)
    try:
        yield run
        await session.finish(run)
    finally:
        run.close()
    if told.stopped:
        spent = await asyncio.to_thread(spent_by_run, Path(session.store), start.run_id)
        session.stopped = told.stopped.model_copy(update={"spent": spent})
    began = datetime.fromisoformat(start.started_at)
    await session.end(run, (datetime.now(UTC) - began).total_seconds())


async def _taken_in(log: Log, run: Run) -> None:
    """Record all replies, and decide the samples."""
    told = log.prepared
    assert told
    manner = {"rung": told.rung, "not_sent": told.not_sent, "tier": BATCH}
    replies = await asyncio.to_thread(Replies, log, run.vlm.mask)
    for case in read_cases(log.work, run.rubric):
        for row in case.judgments:  # replies of earlier runs
            run.ledger.append(row)
        for call in [*filter(case.is_open, case.calls)]:
            found = replies.find(custom_id(case, call), run.vlm.read)
            await write_down(run, case, call, found._replace(**manner))
        aggregate_sample(run, case)
        await asyncio.sleep(0)
