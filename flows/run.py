"""Session of one run, from its judge's client to its last warning, and the progress that it shows meanwhile."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING
from uuid import UUID

from prefect.artifacts import acreate_progress_artifact, aupdate_progress_artifact
from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.states import Completed

from flows.chunks import Chunks
from flows.flow_run import is_scheduled, keep_stopped, log_start, name_run, own_run, results_key
from flows.server.server import secret_block
from tasks.datasets.dataset import Dataset
from tasks.endpoint.client import Vlm
from tasks.errors import InputError, first_of
from tasks.extensions import extensions_of
from tasks.judging.extension import Opening
from tasks.judging.lifecycle import end_run, judge_client, open_run, opening_of, start_record
from tasks.judging.run import Run
from tasks.ledger.run_files import STOPPED_BY
from tasks.pictures.thumbnails import Thumbnails
from tasks.records import INCOMPLETE, BudgetStop, RunStart, Sample
from tasks.records.parameters import Parameters
from tasks.text import counted, duration, number_of, print_aside, printable

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

STOPPED = "Stopped at the budget"
"""State name of a run that judged as many samples as its budget allowed."""


@asynccontextmanager
async def opened(flow: str, asked: Parameters, said: list[str]) -> AsyncGenerator["Session"]:
    """Yield a session with its judge's client, which is open inside the context.

    Args:
        said: sentences about the parameters, for the reader of the run.
    """
    opening = await asyncio.to_thread(opening_of, flow, asked, said, is_scheduled())
    async with judge_client(opening, secret_block) as vlm, AsyncExitStack() as stack:
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
        self.folder = opening.parameters.store
        """Folder of the store; of a remote one, its local cache."""
        self.store_name = opening.asked.store
        """Store as its user names it."""
        self.extensions = extensions_of(opening)
        for each in self.extensions:
            opening.said += each.check()
        self._thumbnails = stack.enter_context(Thumbnails(Path(self.folder)))

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
        self._say(run.replies.at_work_words)
        title = f"{self.opening.flow}, put down for a batch:" if self.waits else self.opening.flow
        try:
            chunks = Chunks(run, await asyncio.to_thread(self.samples, dataset))
            async with Progress(run, title, self.shown_as).shown(), asyncio.TaskGroup() as group:
                group.create_task(name_run(start))
                yield chunks
            if run.limit:
                self.stopped = run.limit.stopped(dataset.samples, sum(run.tally.outcomes.values()))
            await self.finish(run)
        except* (InputError, OSError) as stopped:
            if not run.ledger.folder.exists():
                raise
            error = first_of(stopped)
            run.ledger.note_progress(f"{STOPPED_BY}{str(error).removesuffix('.')}.")
            await asyncio.gather(keep_stopped(self.store_name, start), self.after_judging())
            shown = error if isinstance(error, InputError) else InputError(str(error))
            shown.run_id = self.run_id
            raise shown from stopped
        finally:
            self.close(run)
        if not self.waits:
            self.end(run, time.monotonic() - self._began)

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

    async def begin(self, start: RunStart) -> Run:
        """Return the run, ready for its first call; close it at its end.

        Raises:
            InputError, OSError: an extension cannot begin.
        """
        equipment = self._vlm, self._thumbnails, self.extensions
        run = await asyncio.to_thread(open_run, self.opening, start, *equipment)
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
            print_aside(f"{self.opening.flow}: {words}")

    async def finish(self, run: Run) -> None:
        """Collect the warnings of a run whose samples are decided, and the last questions about none of them."""
        await run.note_first_questions()
        if not self.waits:
            found = [sentence for each in self.extensions for sentence in await each.finish()]
            self.warnings = [*self.said, *run.warnings(), *found]

    def end(self, run: Run, seconds: float) -> None:
        """End a run in its ledger."""
        self.all_ok = end_run(run, self.warnings, seconds, self.stopped).all_ok

    async def finish_thumbnails(self) -> None:
        """Make the waiting thumbnails here, if they are too few for a process of their own."""
        await asyncio.to_thread(self._thumbnails.finish_few)

    async def after_judging(self) -> list[str]:
        """Let the extensions work on a run in which nothing more is judged; return their warnings."""
        found = await asyncio.gather(*(each.after_judging() for each in self.extensions))
        return [*chain.from_iterable(found)]

    def completed(self, reported: str, later: list[str]) -> State:
        """Return the state in Prefect of a run that was reported.

        Args:
            reported: sentence of the report step; empty: there is no report.
            later: warnings since the run was judged.
        """
        data = {"run_id": self.run_id, "warnings": [*self.warnings, *later]}
        name = STOPPED if self.stopped else None if self.all_ok else INCOMPLETE
        return Completed(message=" ".join(filter(None, [reported, *later])), data=data, name=name)


SHOW_SECONDS = 0.25
"""Time between two looks at the counts."""
UPDATE_SECONDS = 1.0
"""Least time between two updates of the artifact, each of which is a request to the server."""
PATIENCE_SECONDS = 5.0
"""Longest wait for the last update when the run is over."""
LINE_SECONDS, LINE_SHARE = 1.0, 1 / 20
"""Least seconds between two lines, and least share of the time so far: an hour's run prints a hundred and fifty."""
BAR_WIDTH = 16
HELD_UP_SECONDS = 30.0
"""Seconds between two lines while the calls are held up."""


class Progress:
    """Progress of a run: a bar or lines on standard error, an artifact, and words for other processes.

    A failure to show it never fails the run.
    """

    def __init__(self, run: Run, title: str, key: str, stream: IO[str] | None = None) -> None:
        """Prepare a progress that is not shown yet; `key` is that of the run's artifacts."""
        self._run, self._counts = run, run.counts
        self._title, self._key = title, f"{key}-progress"
        self._stream = stream or sys.stderr
        self._began = time.monotonic()
        self._line_at = -LINE_SECONDS
        self._in_line: tuple[int, float, bool] = -1, -1, False
        """Time and state of the last line."""
        self._bar = _bar(self._stream, title) if self._stream.isatty() else None
        self._over = asyncio.Event()
        self._artifact: UUID | None = None
        self._published = ""

    @asynccontextmanager
    async def shown(self) -> AsyncGenerator[None]:
        """Show the progress inside the context."""
        acts = [self._keep(self._show, SHOW_SECONDS)]
        if own_run():
            acts.append(self._keep(self._publish, UPDATE_SECONDS))
        at_work = [asyncio.create_task(act) for act in acts]
        if self._bar:
            self._bar.start()
        try:
            yield
        finally:
            self._over.set()
            self._run.ledger.note_progress(self._words())  # where the run is cancelled, so are the tasks
            await asyncio.wait(at_work, timeout=PATIENCE_SECONDS)
            for task in at_work:
                task.cancel()
            if self._bar:
                with suppress(OSError):
                    self._bar.stop()

    async def _keep(self, act: Callable[[], Awaitable[None]], seconds: float) -> None:
        """Repeat an act until the run is over, and do it once more then."""
        while not self._over.is_set():
            await act()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), seconds)
        await act()

    async def _show(self) -> None:
        """Keep the words; draw the bar, or print a line if something has changed and the last line is old enough."""
        words = self._words()
        self._run.ledger.note_progress(words)
        if self._bar:
            self._bar.update(self._bar.task_ids[0], completed=100 * self._counts.share, words=words)
            return
        now, note = time.monotonic(), self._note()
        state, since = (self._counts.done, self._counts.samples_done, bool(note)), now - self._line_at
        gap = 0 if self._over.is_set() else max(LINE_SECONDS, LINE_SHARE * (now - self._began))
        if (state != self._in_line and since >= gap) or (note and since >= HELD_UP_SECONDS):
            self._line_at, self._in_line = now, state
            with suppress(OSError):
                print(f"{self._title} {words}", file=self._stream, flush=True)

    def _words(self) -> str:
        counts, note = self._counts, self._note()
        failed = f"{counts.not_ok.total():,} not ok ({counted(counts.not_ok)})" if counts.not_ok else ""
        reused = f"{number_of(counts.reused, 'answer')} reused" if counts.reused else ""
        if not (counts.done or counts.samples_done):
            asked = number_of(counts.calls, "call") if counts.calls else ""
            parts = ["starting", asked, number_of(counts.samples, "sample"), reused, note]
        else:
            calls = f"{counts.done:,}/{counts.calls:,} calls" if counts.calls else ""
            samples = f"{counts.samples_done:,}/{counts.samples:,} samples"
            left = round(counts.seconds_left())
            time_left = f"{duration(left)} left" if left and not note else ""
            parts = [calls, samples, failed, reused, self._run.bill.words(counts.done, counts.calls), time_left, note]
        return " · ".join(filter(None, parts))

    def _note(self) -> str:
        return printable(self._run.vlm.gate.words())

    async def _publish(self) -> None:
        """Update the artifact; after a failure, the next update tries again."""
        words, percent = self._words(), round(100 * self._counts.share, 1)
        if words == self._published:
            return
        try:
            if self._artifact is None:
                self._artifact = await acreate_progress_artifact(percent, self._key, words)
            else:
                await aupdate_progress_artifact(self._artifact, percent, words)
            self._published = words
        except Exception as error:
            get_run_logger().debug("The progress artifact could not be updated", exc_info=error)


def _bar(stream: IO[str], title: str) -> "Bar":
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = TextColumn(title), BarColumn(BAR_WIDTH), TextColumn("{task.fields[words]}", markup=False)
    # The bar leaves standard output alone: it may go to a file while the bar goes to a terminal.
    bar = Bar(*columns, console=Console(file=stream), redirect_stdout=False)
    bar.add_task(title, total=100, words="starting")
    return bar
