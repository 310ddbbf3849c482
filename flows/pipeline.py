"""Chain of all flows: load; for each chunk of samples judge and aggregate; store, report.

Every flow that judges is one call of `evaluate`. `load` checks the dataset and reads no picture: `Chunks` reads
samples, takes over earlier replies, and calls `judge_chunk`. A quote does so for a few samples; a batch hands in its
requests, and another process ends it.
"""

import asyncio
import weakref
from contextlib import suppress
from importlib import import_module
from typing import TypeVar, cast

from prefect.client.schemas.objects import State
from prefect.exceptions import CancelledRun, Pause
from prefect.logging import get_run_logger
from prefect.states import Completed, Failed
from prefect.tasks import exponential_backoff
from prefect.utilities.annotations import quote as unsearched

from flows.flow_run import Raw, evaluate_in_shards, given, name_stopped, tell_in_sentences, unfinished_before
from flows.process import noting_end, settled
from flows.run import Session, opened
from tasks.aggregate import aggregate
from tasks.errors import InputError, first_of
from tasks.judge import judge
from tasks.judging.case import Chunk
from tasks.judging.run import Run
from tasks.load import load
from tasks.records.parameters import Parameters
from tasks.report import report_or_warn
from tasks.store import store_or_warn
from tasks.text import printable

IMPORTED_IN_RUNS = ("prefect.flow_engine", "prefect.task_engine", "fastapi.encoders")
"""Modules that Prefect would import when a flow is called: imported early, they save a run a third of a second."""

T = TypeVar("T")

for _name in IMPORTED_IN_RUNS:
    import_module(_name)


async def evaluate(flow: str, parameters: Parameters | Raw) -> State:
    """Run one evaluation from its dataset to its report, here or as the shards of a deployment.

    Args:
        parameters: raw if the run comes from a deployment, which then completes them; see `flow_run.given`.

    Returns:
        Completed, with the counts in its message and `{"run_id", "warnings"}` as its result. Completed as `Skipped`, if
        the scheduled run before this one is unfinished. Failed with one sentence, if a mistake in the input, the judge
        or the machine stops the run; all paid replies are in the ledger. Any other exception is a fault of the program,
        and is raised.
    """
    tell_in_sentences()
    try:
        return await noting_end(_evaluate(flow, parameters))
    except BaseExceptionGroup as errors:
        # Prefect takes a suspension in a group for a crash, and the runner would begin the run again at once.
        if suspended := errors.subgroup(Pause):
            raise first_of(cast(BaseExceptionGroup[Exception], suspended)) from None
        raise


async def _evaluate(flow: str, parameters: Parameters | Raw) -> State:
    try:
        if sentence := await unfinished_before():
            return Completed(name="Skipped", message=sentence)
        wanted, said = await given(flow, parameters)
        for sentence in said:
            get_run_logger().info(sentence)
        asked = await asyncio.to_thread(settled, wanted)
        if asked.to_be_split:
            return await evaluate_in_shards(flow, asked, wanted.store, said)
        return await _chain(flow, asked, said)
    except* (InputError, OSError) as stopped:
        get_run_logger().debug("The run was stopped", exc_info=stopped)
        first = first_of(stopped)
    await name_stopped(flow)
    data = {"run_id": first.run_id if isinstance(first, InputError) else ""}
    return Failed(message=printable(str(first)), data=data)  # Prefect logs the message, and may do so to a terminal


async def _chain(flow: str, asked: Parameters, said: list[str]) -> State:
    async with opened(flow, asked, said) as session:
        dataset = await load(flow, session.parameters)
        if isinstance(dataset, State):  # the run was cancelled meanwhile, and its step with it: there is no dataset
            raise asyncio.CancelledError
        if asked.quote:
            from flows.quoting import quoted

            return await quoted(session, dataset, judge_chunk)
        if asked.judge.service_tier == "batch":
            from flows.collect import hand_in

            return await hand_in(session, dataset)
        async with session.judging(dataset) as chunks:
            await chunks.each(judge_chunk)
        del dataset, chunks  # frees the replies to reuse, too: the next steps read the ledger, and need the memory
        return await store_and_report(session)


async def judge_chunk(run: Run, chunk: Chunk) -> None:
    """Judge the dimensions of a chunk of samples concurrently, in one task run each, then decide its samples.

    A task run for each call would cost more than the call. A chunk with only reused replies makes no call.
    """
    async with asyncio.TaskGroup() as dimensions:
        for dimension in chunk.dimensions:
            dimensions.create_task(_judge(run, chunk, dimension))
    await aggregate(_lent(run), _lent(chunk))


async def _judge(run: Run, chunk: Chunk, dimension: str) -> None:
    """Judge a dimension with the retries of this run; cancelling the run ends the step, too."""
    retries, delay = run.parameters.retries, exponential_backoff(run.parameters.retry_delay_seconds)
    retrying = judge.with_options(retries=retries, retry_delay_seconds=delay)
    with suppress(CancelledRun):
        await retrying(_lent(run), _lent(chunk), dimension)


def _lent(argument: T) -> T:
    """Wrap an argument of a step, so that Prefect neither searches it for futures nor keeps it alive.

    Searching it would take seconds. Connections keep the context of the step that opened them, with its arguments.
    """
    return cast(T, unsearched(weakref.proxy(argument)))


async def store_and_report(session: Session) -> State:
    """Store a run that has ended, then report it."""
    after_judging = asyncio.create_task(session.after_judging())
    unstored = await store_or_warn(session.folder, session.run_id)
    before = [sentence for each in session.extensions for sentence in await each.before_report()]
    thumbnails = asyncio.create_task(session.finish_thumbnails())
    about = session.run_id, session.warnings, session.scheduled, session.shown_as
    reported, unmade = await report_or_warn(session.store_name, *about)
    warned, _ = await asyncio.gather(after_judging, thumbnails)
    after = [sentence for each in session.extensions for sentence in await each.after_report()]
    return session.completed(reported, [*unstored, *before, *unmade, *warned, *after])
