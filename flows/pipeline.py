"""The chain, once: load, judge, aggregate, store, report.

Every flow is one call of `evaluate`. This module owns the order of the steps, how Prefect runs them (one task run for
a chunk of samples on one dimension, because a task run for each call would cost more than the call), and how much is in
memory at once; how each step works stands in `tasks`.
"""

import asyncio
import atexit
import gc
import math
import os
import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from prefect import get_client, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import FlowRun, State
from prefect.context import FlowRunContext, TaskRunContext
from prefect.logging import get_run_logger
from prefect.states import Completed, Failed
from prefect.tasks import exponential_backoff

from flows.commands.quiet import hush
from flows.limits import shared_slots
from flows.overlap import unfinished_before
from flows.sending import Sending, fetch_replies
from flows.shards import judge_in_shards
from tasks.aggregate import last_attempts
from tasks.cases import Case, RunContext, load_case
from tasks.changing import resolved, unchanged_words
from tasks.export import open_export
from tasks.judge import judge, take_over
from tasks.ledger import Ledger, earlier_replies
from tasks.load import Dataset, load_dataset
from tasks.outcomes import decided
from tasks.parameters import Parameters, at_store
from tasks.past import Past, look_back
from tasks.plotter import warm_up
from tasks.progress import Progress
from tasks.protocol import picture_policy, run_end, run_start
from tasks.records import HistoryLocked, InvalidReply, JudgeUnavailable, RunStart, Sample
from tasks.regression import announce
from tasks.remote import Remote, is_remote, mirror
from tasks.report import publish
from tasks.request import probe_request
from tasks.rubric import Rubric, load_rubric
from tasks.samples import DRAWN, drawn_samples
from tasks.shams import with_shams
from tasks.standings import sentence
from tasks.store import store_run, sync
from tasks.summary import summarize
from tasks.vlm import Vlm

if "PREFECT__FLOW_RUN_ID" in os.environ:  # a process that Prefect started for one run, as `jury` is its own
    atexit.register(hush)

# What is imported by now stays for good; without this the collector walks through all of it again and again.
gc.freeze()


@dataclass
class Chunks:
    """The run that the tasks of this flow run work on, and the chunks now in hand by their first sample."""

    run: RunContext
    progress: Progress
    sending: Sending
    in_hand: dict[int, list[Case]] = field(default_factory=dict[int, list[Case]])
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One chunk is read at a time: more threads would only take the processor from the calls in flight."""


CLOCKS = timedelta(hours=1)
"""Clocks of machines that work on one evaluation differ by less."""

# Prefect walks, hashes and stores what a task is given, so tasks are given names and numbers and find the rest here.
CHUNKS: ContextVar[Chunks] = ContextVar("chunks")


async def evaluate(flow: str, parameters: Parameters) -> State:
    """Run one evaluation from its dataset to its report.

    Returns:
        Completed, with the counts in its message and `{"run_id", "warnings"}` as its result; or Failed with one
        sentence, where the input or the judge makes any further call pointless. What was paid for is in the ledger. A
        scheduled run that finds the one before it unfinished is Completed as `Skipped`.
    """
    try:
        if sentence := await unfinished_before():
            return Completed(name="Skipped", message=sentence)
        now = datetime.now().astimezone()
        asked = await asyncio.to_thread(resolved, at_store(parameters), now)
        if asked.to_be_split:
            evaluation = await judge_in_shards(flow, asked.model_copy(update={"store": parameters.store}))
            return await _put_together(evaluation, asked.store, now)
        return await _evaluate(flow, asked)
    except* (ValueError, OSError) as stopped:
        get_run_logger().debug("The run was stopped", exc_info=stopped)
        sentence = _first(stopped)
    return Failed(message=sentence)


async def _evaluate(flow: str, asked: Parameters) -> State:
    started = time.monotonic()
    rubric = load_rubric(flow, asked.prompt_set)
    # A run on a remote store works on a mirror of it.
    parameters = asked.model_copy(update={"store": str(mirror(asked.store))})
    remote = Remote(asked.store, mirror(asked.store)) if is_remote(asked.store) else None
    async with shared_slots(parameters.judge) as slots, Vlm(parameters.judge, slots) as vlm:
        dataset = await load_step(flow, parameters)
        unfetched = await fetch_replies(remote, asked.reuse_hours)
        start = _start(flow, asked, dataset, rubric)
        run = _open_run(start, parameters, rubric, vlm)
        async with Sending(remote, start.run_id) as sending:
            try:
                async with Progress(flow, len(dataset.samples)) as progress, asyncio.TaskGroup() as group:
                    group.create_task(_name_run(start))
                    shown = with_shams(dataset.samples, parameters.controls)
                    group.create_task(_judge_all(Chunks(run, progress, sending), shown))
                unlike = run.tally.contract.warnings()
                warnings = (*dataset.warnings, *unfetched, *_exported(run), *unlike, *await _unchanged(run))
            except* (ValueError, OSError):
                # What was paid for until then is to be seen in the history, as an unfinished run.
                if run.ledger.folder.exists():
                    await asyncio.gather(_store(run), sending.finish())
                raise
            finally:
                run.close()
            run.ledger.end(run_end(run, warnings, time.monotonic() - started))
            storing = asyncio.create_task(_store(run))
            reported, unstored, unsent = await asyncio.gather(
                _report(run, warnings, storing), storing, sending.finish()
            )
    data = {"run_id": start.run_id, "warnings": [*warnings, *unstored, *unsent]}
    return Completed(message=" ".join([reported, *unstored, *unsent]), data=data)


async def _put_together(evaluation: str, store: str, began: datetime) -> State:
    """Show the shards of an evaluation as one. They are done, whether or not that can be shown from this machine."""
    folder, warnings = mirror(store), list[str]()
    try:
        if is_remote(store):
            await asyncio.to_thread(Remote(store, folder).fetch, began - CLOCKS)
        await asyncio.to_thread(sync, folder)
        message = await report_step(str(folder), evaluation, [], _scheduled())
    except (OSError, HistoryLocked) as error:
        message = f"All shards of {evaluation} are done, but cannot be put together here: {error}"
        warnings.append(f"{message}. `jury sync` where their store can be reached does it.")
    return Completed(message=message, data={"run_id": "" if warnings else evaluation, "warnings": warnings})


def _start(flow: str, asked: Parameters, dataset: Dataset, rubric: Rubric) -> RunStart:
    record = _flow_run()
    return run_start(flow, asked, dataset, rubric, str(record.id) if record else "", _scheduled())


def _flow_run() -> FlowRun | None:
    context = FlowRunContext.get()
    return context.flow_run if context else None


def _scheduled() -> bool:
    record = _flow_run()
    return bool(record and record.auto_scheduled)


def _open_run(start: RunStart, parameters: Parameters, rubric: Rubric, vlm: Vlm) -> RunContext:
    store = Path(parameters.store)
    replies = earlier_replies(store, start, parameters.reuse_hours)
    export = open_export(parameters, start.candidates)
    return RunContext(start, rubric, parameters, picture_policy(parameters), vlm, Ledger(store, start), replies, export)


async def _unchanged(run: RunContext) -> tuple[str, ...]:
    """What a scheduled run that judged the same pictures as the last one should say."""
    words = await asyncio.to_thread(unchanged_words, run.ledger.folder) if run.start.scheduled else ""
    return (words,) if words else ()


def _exported(run: RunContext) -> tuple[str, ...]:
    """Put the export in its place; returns what there is to warn of."""
    left_out = run.export.close().left_out if run.export else 0
    return (f"{left_out} images without a score are not in the export",) if left_out else ()


async def _name_run(start: RunStart) -> None:
    """Give the run in the UI a name that says what is judged, now that the dataset is known."""
    if start.prefect_run_id:
        part = f" · shard {start.shard} of {start.shards}" if start.shards > 1 else ""
        name = f"{start.flow} · {' + '.join(start.candidates)} · {start.model} · {start.samples} samples{part}"
        try:
            async with get_client() as client:
                await client.update_flow_run(start.prefect_run_id, name=name)  # pyright: ignore
        except Exception as error:  # A name is nice to have; no run stops for want of one.
            get_run_logger().debug("The run could not be named", exc_info=error)


async def _judge_all(chunks: Chunks, samples: tuple[Sample, ...]) -> None:
    """Judge chunk after chunk, with as many in hand as keep the judge busy and no more."""
    CHUNKS.set(chunks)
    parameters = chunks.run.parameters
    size = parameters.chunk_size
    calls = size * len(chunks.run.rubric.prompts) * len(parameters.order_list()) * parameters.votes
    # More than fill the judge: one is being read, and two that end together leave nothing to do without a third.
    room = asyncio.Semaphore(math.ceil(parameters.judge.concurrency / calls) + 3)
    async with asyncio.TaskGroup() as group:
        if not len(chunks.run.replies):
            # Nothing can spare the question whether the judge is there: it is asked while the first chunk is read.
            group.create_task(chunks.run.vlm.probe(probe_request()))
        for first in range(0, len(samples), size):
            await room.acquire()
            judged = group.create_task(_judge_chunk(chunks, first, samples[first : first + size]))
            judged.add_done_callback(lambda _: room.release())
        group.create_task(_warm_up(chunks))


async def _judge_chunk(chunks: Chunks, first: int, samples: tuple[Sample, ...]) -> None:
    run = chunks.run
    async with chunks.reading:
        cases = await asyncio.to_thread(lambda: [load_case(run, sample) for sample in samples])
    for case in cases:
        take_over(run, case)
    asked = [p.dimension for p in run.rubric.prompts if any(case.unsettled(p.dimension) for case in cases)]
    if asked:
        await run.vlm.probe(probe_request())
        chunks.in_hand[first] = cases
        last = first + len(samples) - 1
        retries, delay = run.parameters.retries, run.parameters.retry_delay_seconds
        step = judge_step.with_options(retries=retries, retry_delay_seconds=exponential_backoff(delay))
        async with asyncio.TaskGroup() as group:
            for dimension in asked:
                group.create_task(step(dimension, first, last))
        del chunks.in_hand[first]
    for case in cases:
        outcome = decided(run, case)
        counting = last_attempts(case.judgments).values()
        run.ledger.append(outcome)
        run.tally.add(case.judgments, counting, outcome)
        if outcome.control:
            continue
        if run.export:
            run.export.add(outcome, case.sample)
        chunks.progress.advance(counting)
    chunks.sending.wake()


async def _warm_up(chunks: Chunks) -> None:
    """Start what draws the chart once nothing is left to read and only the judge is waited for."""
    async with chunks.reading:
        await asyncio.to_thread(warm_up)


async def _store(run: RunContext) -> tuple[str, ...]:
    """Load the run into the history; a history that stays locked costs a warning, for the ledger holds everything."""
    try:
        await store_step(run.parameters.store, run.start.run_id)
    except (HistoryLocked, ValueError, OSError) as error:
        return (f"{error}. The run is safe in its ledger; `jury sync` loads it into the history.",)
    return ()


async def _report(run: RunContext, warnings: tuple[str, ...], storing: asyncio.Task[tuple[str, ...]]) -> str:
    """Show the run in the UI; returns it in one sentence. A finished run does not fail because it cannot be shown."""
    try:
        if run.start.scheduled:
            await storing  # the trend is read from the history
        return await report_step(run.parameters.store, run.start.run_id, list(warnings), run.start.scheduled)
    except Exception as error:
        get_run_logger().warning("The report could not be made", exc_info=error)
        return f"The run is complete, but its report could not be made: {error}."


@task(name="load", cache_policy=NO_CACHE)
async def load_step(flow: str, parameters: Parameters) -> Dataset:
    """Check the whole dataset before anything is asked."""
    if parameters.dataset == DRAWN:
        folder = await asyncio.to_thread(drawn_samples, Path(parameters.store) / DRAWN, flow)
        parameters = parameters.model_copy(update={"dataset": str(folder)})
    return await asyncio.to_thread(load_dataset, flow, parameters)


def _worth_retrying(_task: object, _task_run: object, state: State) -> bool:
    return isinstance(state.data, JudgeUnavailable | InvalidReply | HistoryLocked)


@task(
    name="judge",
    task_run_name="{dimension} {first}-{last}",
    cache_policy=NO_CACHE,
    retry_condition_fn=_worth_retrying,
    retry_jitter_factor=0.3,
)
async def judge_step(dimension: str, first: int, last: int) -> dict[str, int]:
    """Judge one dimension of a chunk of samples; Prefect retries it while calls are unsettled."""
    chunks = CHUNKS.get()
    task_run = TaskRunContext.get()
    final = task_run is None or task_run.task_run.run_count > chunks.run.parameters.retries
    return await judge(chunks.run, dimension, chunks.in_hand[first], final)


@task(
    name="store",
    cache_policy=NO_CACHE,
    retries=3,
    retry_delay_seconds=[1, 3, 6],
    retry_condition_fn=_worth_retrying,
    retry_jitter_factor=0.5,
)
async def store_step(store: str, run_id: str) -> None:
    """Load one run into the history."""
    await asyncio.to_thread(store_run, Path(store), run_id)


@task(name="report", cache_policy=NO_CACHE)
async def report_step(store: str, run_id: str, warnings: list[str], scheduled: bool) -> str:
    """Show the run in the Prefect UI, a scheduled one beside the last; returns it in one sentence, or more if worse."""
    summary = await asyncio.to_thread(summarize, Path(store), run_id)
    if summary.start.run_id != summary.start.evaluation_id:  # a shard is no result that anybody waits for
        return sentence(summary)
    past = await _past(Path(store), summary.start) if scheduled else None
    try:
        await publish(summary, warnings, past)
    finally:  # a drop is told even where it cannot be shown
        worse = announce(past.since) if past and past.since else []
    return " ".join([sentence(summary), *worse])


async def _past(store: Path, start: RunStart) -> Past | None:
    """What a run is shown beside; None where that cannot be told, which is no reason to show nothing."""
    try:
        return await asyncio.to_thread(look_back, store, start)
    except Exception as error:
        get_run_logger().warning("The run could not be compared with earlier ones: %s", error)
        return None


def _first(stopped: BaseExceptionGroup[Exception]) -> str:
    error: BaseException = stopped
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error)
