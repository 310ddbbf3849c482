"""The steps as Prefect runs them: load, judge, store, report.

Owns which tasks there are, what they are given, and what is tried again. How a step works stands in `tasks`, in which
order they run in `pipeline`.
"""

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import FlowRun, State
from prefect.context import FlowRunContext, TaskRunContext
from prefect.logging import get_run_logger

from flows.runtime.progress import Progress
from flows.runtime.sending import Sending
from tasks.comparing.past import Past, look_back
from tasks.comparing.regression import announce
from tasks.datasets.dataset import Dataset, load_dataset
from tasks.errors import HistoryLocked, InvalidReply, JudgeUnavailable
from tasks.history.loading import store_run
from tasks.judge import judge
from tasks.judging.cases import Case, RunContext
from tasks.pages.run_summary import summarize
from tasks.pages.summary_texts import sentence
from tasks.parameters import Parameters
from tasks.records import RunStart
from tasks.report import publish
from tasks.synthetic.samples import DRAWN, drawn_samples

SCHEDULED = "scheduled"
"""Tag of the shards of an evaluation that a schedule started: they are runs on request."""


@dataclass
class Chunks:
    """The run that the tasks of this flow run work on, and the chunks now in hand by their first sample."""

    run: RunContext
    progress: Progress
    sending: Sending
    in_hand: dict[int, list[Case]] = field(default_factory=dict[int, list[Case]])
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One chunk is read at a time: more threads would only take the processor from the calls in flight."""


# Prefect walks, hashes and stores what a task is given, so tasks are given names and numbers and find the rest here.
CHUNKS: ContextVar[Chunks] = ContextVar("chunks")


def own_run() -> FlowRun | None:
    """The flow run that this is called in, as the server knew it at its start; None outside of one."""
    context = FlowRunContext.get()
    return context.flow_run if context else None


def is_scheduled() -> bool:
    """Whether a schedule started this run, or the evaluation that it is a shard of."""
    record = own_run()
    return bool(record and (record.auto_scheduled or SCHEDULED in record.tags))


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
