"""Judging chunk after chunk: how much is in memory at once, and what becomes of a chunk when all of it is asked.

One task run stands for a chunk of samples on one dimension, because a task run for each call would cost more than the
call; see `steps`.
"""

import asyncio
import math

from prefect.tasks import exponential_backoff

from flows.runtime.steps import CHUNKS, Chunks, judge_step
from tasks.endpoint.requests import probe_request
from tasks.judge import take_over
from tasks.judging.cases import load_case
from tasks.kinds.outcomes import decided
from tasks.kinds.tier_rule import last_attempts
from tasks.presentation.drawing import warm_up
from tasks.records import Sample


async def judge_all(chunks: Chunks, samples: tuple[Sample, ...]) -> None:
    """Judge chunk after chunk, with as many in hand as keep the judge busy and no more."""
    CHUNKS.set(chunks)
    parameters = chunks.run.parameters
    size = parameters.chunk_size
    calls = size * len(chunks.run.rubric.prompts) * len(parameters.order_list()) * parameters.votes
    # More than fill the judge: one is being read, and two that end together leave nothing to do without a third.
    room = asyncio.Semaphore(math.ceil(parameters.judge.concurrency / calls) + 3)
    async with asyncio.TaskGroup() as group:
        if samples and not len(chunks.run.replies):
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
