"""Chunks of samples: the number in memory at once, and the work before and after the steps on each chunk."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import chain, count
from pathlib import Path

from tasks.aggregate import aggregate_sample
from tasks.errors import InputError, JudgeStopped, first_of
from tasks.judge import take_over
from tasks.judging.case import Case, Chunk, planned_calls
from tasks.judging.extension import Limit
from tasks.judging.run import Run
from tasks.records import Sample
from tasks.spending.budget import units

READERS = 2
"""Threads that read a chunk together. One alone would mostly wait for Python's lock, which the calls hold; more would
only take the processor from the calls."""

FIRST_PORTION = 16
"""Samples of a run that are read first, while the size of their pictures is unknown."""

PORTION_BYTES = 64_000_000
"""Bytes of pictures, as they are sent, in one portion of a chunk. The judge is asked about a portion, in tasks of its
own, while the rest of the chunk is read. Few chunks have more: 64 images of 1.5 MB are two."""


Work = Callable[[Run, Chunk], Awaitable[None]]
"""Steps on one chunk of a run."""


class Chunks:
    """Samples of one run, in chunks."""

    def __init__(self, run: Run, samples: Sequence[Sample]) -> None:
        self.run = run
        self._samples = samples
        run.counts.plan(samples, run.rubric, run.parameters)
        self._reading = asyncio.Lock()
        self._at_work: list[Chunk] = []
        self._numbers = count()
        self._portion = FIRST_PORTION
        """Number of samples in a portion, if their pictures are as large as the last ones read."""

    async def each(self, work: Work) -> None:
        """Do the work on every chunk, with just enough chunks in memory to keep the judge busy.

        Raises:
            JudgeStopped: no further call can succeed, or the wait for the judge was in vain. The message counts the
                missing samples; those whose calls have all ended are decided.
        """
        try:
            await self._all(work)
        except* JudgeStopped as stopped:
            # The chunks of samples whose calls have all ended may never have reached the aggregate step.
            for case in chain.from_iterable(chunk.cases for chunk in self._at_work):
                if case.settled and not case.decided:
                    aggregate_sample(self.run, case)
            first = first_of(stopped)
            raise type(first)(f"{str(first).removesuffix('.')}. {self._missing()}") from stopped

    def _missing(self) -> str:
        done = sum(self.run.tally.outcomes.values())
        samples = sum(not sample.control for sample in self._samples)
        return (
            f"{samples - done:,} of {samples:,} samples are not judged. All replies so far are kept: the same command "
            "asks for the rest"
        )

    async def _all(self, work: Work) -> None:
        run = self.run
        # Samples with earlier replies have a stream of their own: thousands of them would delay the first call.
        # Under a limit all samples keep their order, because it decides which of them the limit covers.
        known = [] if run.limit else [each for each in self._samples if run.replies.have(each)]
        others = self._samples if not known else [each for each in self._samples if not run.replies.have(each)]
        async with asyncio.TaskGroup() as group:
            group.create_task(self._stream(others, work))
            group.create_task(self._stream(known, work))

    async def _stream(self, samples: Sequence[Sample], work: Work) -> None:
        run, size = self.run, self.run.parameters.chunk_size
        room = asyncio.Semaphore(self._most_in_hand(size))
        async with asyncio.TaskGroup() as group:
            for some in cut(samples, size, whole_units=run.limit is not None):
                await room.acquire()
                if run.limit and run.limit.over:
                    break
                done = group.create_task(self._read_chunk(some, work))
                done.add_done_callback(lambda _: room.release())
            if samples:
                group.create_task(self._warm_up())

    def _most_in_hand(self, size: int) -> int:
        parameters = self.run.parameters
        calls = size * len(parameters.order_list())
        if not parameters.shares_beginnings:  # if they do, only one of them is asked at first
            calls *= len(self.run.rubric.prompts) * parameters.votes
        # More than fill the judge: one is being read, and if two end together, a third must keep the judge busy.
        return math.ceil(parameters.judge.concurrency / calls) + 3

    async def _read_chunk(self, samples: Sequence[Sample], work: Work) -> None:
        run = self.run
        # Reading ends first, so that the next chunk is read while this one is judged.
        async with asyncio.TaskGroup() as parts, self._reading:
            for portion in cut(samples, self._portion, whole_units=run.limit is not None):
                await run.in_hand.few_bytes()
                cases = await self._read(portion)
                run.in_hand.add(cases)
                async for part in (run.limit or Limit()).admit(cases):
                    parts.create_task(self._dispatch(part, work))

    async def _dispatch(self, cases: list[Case], work: Work) -> None:
        run = self.run
        for case in cases:
            planned = planned_calls(case.sample, run.rubric, run.parameters).total()
            run.counts.begin(case, planned, take_over(run, case))
        prompts = run.rubric.prompts
        asked = tuple(each.dimension for each in prompts if any(case.unsettled(each.dimension) for case in cases))
        chunk = Chunk(f"{cases[0].number}-{cases[-1].number}", asked, tuple(cases))
        self._at_work.append(chunk)
        if asked:
            await run.ask_first_question()
        await work(run, chunk)
        self._at_work.remove(chunk)
        for case in cases:
            run.in_hand.free(case)
            run.counts.end(case)
        await run.note_first_questions()
        for each in run.extensions:
            each.after_chunk()

    async def _read(self, samples: Sequence[Sample]) -> list[Case]:
        def load(part: Sequence[Sample]) -> list[Case]:
            return [self.run.read(sample, self.run.thumbnails) for sample in part]

        part = math.ceil(len(samples) / READERS)
        parts = (samples[first : first + part] for first in range(0, len(samples), part))
        read = await asyncio.gather(*(asyncio.to_thread(load, part) for part in parts))
        cases = list(chain.from_iterable(read))
        for case in cases:
            case.number = next(self._numbers)
        self._portion = max(1, PORTION_BYTES * len(cases) // (1 + sum(case.picture_bytes for case in cases)))
        return cases

    async def _warm_up(self) -> None:
        """Prepare the end of the run once little is left to read and the run only waits for the judge."""
        async with self._reading:
            await asyncio.to_thread(_get_end_ready, Path(self.run.parameters.store))


def cut(ordered: Sequence[Sample], size: int, whole_units: bool) -> Iterator[Sequence[Sample]]:
    """Yield chunks of samples in their order: of `size` samples, or a few more to keep a unit whole."""
    if not whole_units:
        yield from (ordered[first : first + size] for first in range(0, len(ordered), size))
        return
    chunk: list[Sample] = []
    for unit in units(ordered, lambda sample: sample):
        chunk += unit
        if len(chunk) >= size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _get_end_ready(store: Path) -> None:
    """Import the modules of the history, and make an empty one in a new store.

    The imports (DuckDB, numpy and scipy) take half a second, the empty history a quarter.
    """
    landing = import_module("tasks.history.landing")
    with suppress(InputError):  # the store step reports it
        landing.prepare(store)
