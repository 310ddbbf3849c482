"""Session of one run, from its judge's client to its last warning; failures of some steps cost only a warning."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.states import Completed

from flows.chunks import Chunks
from flows.flow_run import is_scheduled, keep_stopped, log_start, name_run, own_run, results_key
from flows.process import judge_client
from flows.progress import Progress
from tasks.datasets.dataset import Dataset
from tasks.endpoint.client import Vlm
from tasks.errors import InputError, first_of
from tasks.extensions import extensions_of
from tasks.judging.extension import Opening
from tasks.judging.lifecycle import end_run, open_run, opening_of, start_record
from tasks.judging.run import Run
from tasks.ledger.run_files import STOPPED_BY
from tasks.pictures.thumbnails import Thumbnails
from tasks.records import INCOMPLETE, BudgetStop, RunStart, Sample
from tasks.records.parameters import Parameters

STOPPED = "Stopped at the budget"
"""State name of a run that judged as many samples as its budget allowed."""


@asynccontextmanager
async def opened(flow: str, asked: Parameters, said: list[str]) -> AsyncGenerator["Session"]:
    """Yield a session with its judge's client, which is open inside the context.

    A run with a temporary server has made the client while the server started: then it is taken over.

    Args:
        said: sentences about the parameters, for the reader of the run.
    """
    async with judge_client(flow, asked) as vlm, AsyncExitStack() as stack:
        opening = await asyncio.to_thread(opening_of, flow, asked, said, is_scheduled())
        session = Session(opening, vlm, stack)
        for each in session.extensions:
            stack.push_async_callback(each.close)
        yield session


class Session:
    """One run. Its id, key and warnings are set when it begins and when it has been judged, and missing before."""

    run_id: str
    shown_as: str
    """Key of the run's artifacts."""
    warnings: list[str]
    """Sentences for the reader of the run."""
    waits: bool = False
    """True if the run does not end now, because its replies come by batches."""
    stopped: BudgetStop | None = None
    """Place at which the run stopped at its budget; None: it did not stop."""
    all_ok: bool = True
    """True if everything was judged."""

    def __init__(self, opening: Opening, vlm: Vlm, stack: AsyncExitStack) -> None:
        self.opening, self._vlm = opening, vlm
        self._began = time.monotonic()
        self.parameters, self.scheduled = opening.parameters, opening.scheduled
        self.store, self.place = opening.parameters.store, opening.asked.store
        """Folder of the store, which is the local cache of a remote one; and the store as its user names it."""
        self.extensions = extensions_of(opening)
        for each in self.extensions:
            opening.said += each.check()
        self._thumbnails = stack.enter_context(Thumbnails(Path(self.store)))

    @property
    def said(self) -> list[str]:
        """Warnings from before the first call, each once."""
        return [*dict.fromkeys(self.opening.said)]

    @asynccontextmanager
    async def judging(self, dataset: Dataset) -> AsyncGenerator[Chunks]:
        """Yield the chunks of the dataset; afterwards, end the run in its ledger, unless it waits.

        A stopped run remains unfinished there, is stored unfinished and has a page: the paid replies must be visible.
        """
        dataset, start = await self.prepare(dataset)
        log_start(start)
        run = await self.begin(start)
        title = f"{self.opening.flow}, put down for a batch:" if self.waits else self.opening.flow
        try:
            chunks = Chunks(run, await asyncio.to_thread(self.samples, dataset))
            async with self.progress(title, self.shown_as, run), asyncio.TaskGroup() as group:
                group.create_task(name_run(start))
                yield chunks
            if run.limit:
                self.stopped = run.limit.stopped(dataset.samples, sum(run.tally.outcomes.values()))
            await self.finish(run)
        except* (InputError, OSError) as stopped:
            if run.ledger.folder.exists():
                error = first_of(stopped)
                run.ledger.note_progress(f"{STOPPED_BY}{str(error).removesuffix('.')}.")
                await asyncio.gather(keep_stopped(self.place, start), self.after_judging())
                if isinstance(error, InputError):
                    error.run_id = self.run_id
            raise
        finally:
            self.close(run)
        await self.end(run, time.monotonic() - self._began)

    async def prepare(self, dataset: Dataset) -> tuple[Dataset, RunStart]:
        """Let the extensions prepare the run; return the dataset as it is judged, and the run's first record."""
        self.opening.said += dataset.warnings
        for each in self.extensions:
            dataset = await each.prepare(dataset)
        record = own_run()
        start = start_record(self.opening, dataset, str(record.id) if record else "")
        self.run_id, self.shown_as = start.run_id, await results_key(self.opening.flow)
        return dataset, start

    def samples(self, dataset: Dataset) -> Sequence[Sample]:
        """Return all samples that are judged, those of extensions among them."""
        samples: Sequence[Sample] = dataset.samples
        for each in self.extensions:
            samples = each.samples(samples)
        return samples

    def progress(self, title: str, key: str, run: Run) -> Progress:
        """Return the progress of a run, as an artifact with this key."""
        return Progress(title, run.counts, None, self._vlm.gate.words, key, run.bill.words, run.ledger.note_progress)

    async def begin(self, start: RunStart) -> Run:
        """Return the run, ready for its first call; close it at its end.

        Raises:
            InputError, OSError: an extension cannot begin.
        """
        equipment = self._vlm, self._thumbnails, self.extensions
        run = await asyncio.to_thread(open_run, self.opening, start, *equipment)
        self._say(run.replies.at_work_words)
        try:
            for each in self.extensions:
                await each.begin(run)
        except BaseException:
            run.close()
            raise
        return run

    def close(self, run: Run) -> None:
        """Close the files of a run, and tell how many calls were cut off."""
        run.close()
        self._say(run.vlm.cut_off_words)

    def _say(self, words: str) -> None:
        """Tell the reader of the terminal, and of the run's log in Prefect, at once; empty: nothing."""
        if words:
            get_run_logger().warning(words)
            print(f"{self.opening.flow}: {words}", file=sys.stderr)

    async def finish(self, run: Run) -> None:
        """Collect the warnings of a run whose samples are decided, and the last questions about none of them."""
        await run.note_first_questions()
        if not self.waits:
            found = [sentence for each in self.extensions for sentence in await each.finish()]
            self.warnings = [*self.said, *run.warnings(), *found]

    async def end(self, run: Run, seconds: float) -> None:
        """End a run in its ledger."""
        if self.waits:
            return
        self.all_ok = end_run(run, self.warnings, seconds, self.stopped).all_ok

    async def finish_thumbnails(self) -> None:
        """Make the waiting thumbnails here, if they are too few for a process of their own."""
        await asyncio.to_thread(self._thumbnails.finish_few)

    async def after_judging(self) -> list[str]:
        """Let the extensions work on a run in which nothing more is judged; return their warnings."""
        return _joined(await asyncio.gather(*(each.after_judging() for each in self.extensions)))

    async def before_report(self) -> list[str]:
        """Let the extensions work on a run that is stored; return their warnings."""
        return _joined([await each.before_report() for each in self.extensions])

    async def after_report(self) -> list[str]:
        """Let the extensions work on a run that is reported; return their warnings."""
        return _joined([await each.after_report() for each in self.extensions])

    def completed(self, reported: str, later: list[str]) -> State:
        """Return the state in Prefect of a run that was reported.

        Args:
            reported: sentence of the report step; empty: there is no report.
            later: warnings since the run was judged.
        """
        data = {"run_id": self.run_id, "warnings": [*self.warnings, *later]}
        name = STOPPED if self.stopped else None if self.all_ok else INCOMPLETE
        return Completed(message=" ".join(filter(None, [reported, *later])), data=data, name=name)


def _joined(said: Iterable[Sequence[str]]) -> list[str]:
    return [sentence for sentences in said for sentence in sentences]
