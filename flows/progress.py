"""Progress of a run while it runs: a bar or lines on stderr, and a progress artifact. It never fails the run."""

import asyncio
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import IO, TYPE_CHECKING, Self
from uuid import UUID

from tasks.records import Judgment
from tasks.text import counted, printable

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

UPDATE_SECONDS = 1.0
"""Least time between two updates of the artifact, each of which is a request to the server."""
PATIENCE_SECONDS = 5.0
"""Longest wait for the last update when the run is over."""
LINES = 10
"""Number of lines in all, if there is no terminal for a bar and nothing holds the calls up."""
LINE_SECONDS = 30.0
"""Seconds between two lines while the calls are held up."""

_log = logging.getLogger(__name__)


class Progress:
    """The progress of one run, shown from entering the context to leaving it."""

    def __init__(
        self,
        flow: str,
        samples: int,
        stream: IO[str] | None = None,
        held_up: Callable[[], str] = str,
        key: str = "",
        cost: Callable[[], str] = str,
    ) -> None:
        """Prepare a progress that is not shown yet.

        Args:
            held_up: returns the reason that holds the calls up at the moment, "" if there is none.
            key: key of the run's artifacts; empty: the flow's name.
            cost: returns the cost of the run so far, "" if that is nothing or unknown.
        """
        self._flow = flow
        self._key = f"{key or flow}-progress"
        self._samples = samples
        self._stream = stream or sys.stderr
        self._done = 0
        self._statuses: Counter[str] = Counter()
        self._held_up, self._cost = held_up, cost
        self._line_at = time.monotonic() - LINE_SECONDS
        self._bar = _bar(self._stream, flow, samples) if self._stream.isatty() else None
        self._over = asyncio.Event()
        self._publishing: asyncio.Task[None] | None = None
        self._artifact: UUID | None = None
        self._published = ""

    async def __aenter__(self) -> Self:
        if self._bar:
            self._bar.start()
        from prefect.context import FlowRunContext, TaskRunContext

        if FlowRunContext.get() or TaskRunContext.get():
            self._publishing = asyncio.create_task(self._keep_publishing())
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._bar:
            self._bar.stop()
        if self._publishing:
            await asyncio.wait([self._publishing], timeout=PATIENCE_SECONDS)
            self._publishing.cancel()

    def advance(self, judgments: Iterable[Judgment]) -> None:
        """Count one more decided sample, and its judgments that count."""
        before = self._share()
        self._done += 1
        self._statuses.update(row.status for row in judgments)
        if self._bar:
            self._draw(self._bar)
        elif int(LINES * self._share()) > int(LINES * before):
            self._print_line()

    def _draw(self, bar: "Bar") -> None:
        bar.update(bar.task_ids[0], completed=self._done, not_ok=self._besides())

    def _print_line(self) -> None:
        self._line_at = time.monotonic()
        with suppress(OSError):
            print(f"{self._flow} {self._words()}", file=self._stream, flush=True)

    def _tell(self) -> None:
        """Show the reason that holds the calls up, even while no sample is decided; print lines now and then."""
        if self._bar:
            self._draw(self._bar)
        elif self._note() and time.monotonic() - self._line_at >= LINE_SECONDS:
            self._print_line()

    def _share(self) -> float:
        return self._done / self._samples if self._samples else 0.0

    def _words(self) -> str:
        return f"{self._done}/{self._samples} samples{self._besides()}"

    def _besides(self) -> str:
        cost = self._cost()
        failed = Counter({status: n for status, n in self._statuses.items() if status != "ok"})
        not_ok = f", {failed.total()} not ok ({counted(failed)})" if failed else ""
        return not_ok + (f", {cost}" if cost else "") + self._note()

    def _note(self) -> str:
        words = printable(self._held_up())
        return f", {words}" if words else ""

    async def _keep_publishing(self) -> None:
        while not self._over.is_set():
            self._tell()
            await self._publish()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), UPDATE_SECONDS)
        await self._publish()

    async def _publish(self) -> None:
        """Update the artifact; after a failure, the next update tries again."""
        from prefect.artifacts import acreate_progress_artifact, aupdate_progress_artifact

        words, percent = self._words(), round(100 * self._share(), 1)
        if words == self._published:
            return
        try:
            if self._artifact is None:
                self._artifact = await acreate_progress_artifact(percent, self._key, words)
            else:
                await aupdate_progress_artifact(self._artifact, percent, words)
            self._published = words
        except Exception as error:
            _log.debug("The progress artifact could not be updated: %s", error)


def _bar(stream: IO[str], flow: str, samples: int) -> "Bar":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    words = TextColumn("samples{task.fields[not_ok]}", markup=False)
    columns = (TextColumn(flow), BarColumn(), MofNCompleteColumn(), words, TimeElapsedColumn(), TimeRemainingColumn())
    # The bar leaves standard output alone: it may go to a file while the bar goes to a terminal.
    bar = Bar(*columns, console=Console(file=stream), redirect_stdout=False)
    bar.add_task(flow, total=samples, not_ok="")
    return bar
