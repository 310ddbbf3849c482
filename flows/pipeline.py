"""The chain, once: load, judge, aggregate, store, report. Every flow is one call of `evaluate`."""

import asyncio

from prefect.client.schemas.objects import State

from flows.runtime.chunks import Chunk
from flows.runtime.collecting import handed_in
from flows.runtime.given import Raw
from flows.runtime.quoting import quoted
from flows.runtime.session import opened
from flows.runtime.states import final_state
from tasks.aggregate import aggregate
from tasks.judge import judge
from tasks.load import load
from tasks.parameters import Parameters
from tasks.report import report
from tasks.store import store


async def evaluate(flow: str, parameters: Parameters | Raw) -> State:
    """Run one evaluation from its dataset to its report.

    Args:
        parameters: raw where the run comes from a deployment, which then completes them; see `runtime.given`.

    Returns:
        Completed, with the counts in its message and `{"run_id", "warnings"}` as its result; or Failed with one
        sentence, where the input or the judge makes any further call pointless. What was paid for is in the ledger. A
        scheduled run that finds the one before it unfinished is Completed as `Skipped`.
    """
    return await final_state(flow, parameters, _chain)


async def _chain(flow: str, parameters: Parameters, said: list[str]) -> State:
    async with opened(flow, parameters, said) as session:
        dataset = await session.loading(load(flow, session.parameters))
        if session.parameters.quote:
            return await quoted(session, dataset, _judge_and_aggregate)
        if parameters.judge.service_tier == "batch":
            # The steps that follow are those of `jury collect`.
            return await handed_in(session, dataset)
        async with session.judging(dataset) as chunks:
            await chunks.each(_judge_and_aggregate)
        del dataset, chunks  # with the replies to reuse: what follows reads the ledger, and needs memory of its own
        # Not awaited here: the session awaits the two steps, and decides what a failure of either costs.
        storing = session.storing(store(session.store, session.run_id))
        shown = report(session.place, session.run_id, session.warnings, session.scheduled, session.shown_as)
        return await session.completed(storing, session.reporting(shown))


async def _judge_and_aggregate(chunk: Chunk) -> None:
    """Judge the dimensions of a chunk of samples side by side, a task run each, then decide its samples.

    A task run for each call would cost more than the call. A chunk whose replies were all taken over asks nothing.
    """
    async with asyncio.TaskGroup() as dimensions:
        for dimension in chunk.dimensions:
            dimensions.create_task(chunk.ask(judge, dimension))
    await aggregate(chunk.samples)
