"""Progress of a run while it runs: a bar or lines on stderr, and a progress artifact. It never fails the run."""

import asyncio
import logging
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import IO, TYPE_CHECKING, Self
from uuid import UUID

from tasks.judging.counts import CallCounts
from tasks.text import counted, duration, number_of, printable

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

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

_log = logging.getLogger(__name__)


def _no_cost(_done: int, _calls: int) -> str:
    return ""


class Progress:
    """The progress of one run, shown from entering the context to leaving it."""

    def __init__(
        self,
        title: str,
        counts: CallCounts,
        stream: IO[str] | None = None,
        held_up: Callable[[], str] = str,
        key: str = "",
        cost: Callable[[int, int], str] = _no_cost,
        keep: Callable[[str], object] = str,
    ) -> None:
        """Prepare a progress that is not shown yet.

        Args:
            counts: counts of the run, read several times a second.
            held_up: returns the reason that holds the calls up at the moment, "" if there is none.
            key: key of the run's artifacts; empty: the title.
            cost: returns the cost in words, given the calls that have ended and all calls; "": nothing or unknown.
            keep: keeps the words for other processes.
        """
        self._title, self._counts, self._key = title, counts, f"{key or title}-progress"
        self._stream = stream or sys.stderr
        self._held_up, self._cost, self._keep_words = held_up, cost, keep
        self._began = time.monotonic()
        self._line_at = -LINE_SECONDS
        self._in_line: tuple[int, float, bool] = -1, -1, False
        """Time and state of the last line."""
        self._bar = _bar(self._stream, title) if self._stream.isatty() else None
        self._over = asyncio.Event()
        self._at_work: list[asyncio.Task[None]] = []
        self._artifact: UUID | None = None
        self._published = ""

    async def __aenter__(self) -> Self:
        from prefect.context import FlowRunContext, TaskRunContext

        if self._bar:
            self._bar.start()
        self._at_work.append(asyncio.create_task(self._keep(self._show, SHOW_SECONDS)))
        if FlowRunContext.get() or TaskRunContext.get():
            self._at_work.append(asyncio.create_task(self._keep(self._publish, UPDATE_SECONDS)))
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._keep_words(self._words())  # where the run is cancelled, so are the tasks, and none looks once more
        await asyncio.wait(self._at_work, timeout=PATIENCE_SECONDS)
        for task in self._at_work:
            task.cancel()
        if self._bar:
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
        self._keep_words(words)
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
            parts = [calls, samples, failed, reused, self._cost(counts.done, counts.calls), time_left, note]
        return " · ".join(filter(None, parts))

    def _note(self) -> str:
        return printable(self._held_up())

    async def _publish(self) -> None:
        """Update the artifact; after a failure, the next update tries again."""
        from prefect.artifacts import acreate_progress_artifact, aupdate_progress_artifact

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
            _log.debug("The progress artifact could not be updated: %s", error)


def _bar(stream: IO[str], title: str) -> "Bar":
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = TextColumn(title), BarColumn(BAR_WIDTH), TextColumn("{task.fields[words]}", markup=False)
    # The bar leaves standard output alone: it may go to a file while the bar goes to a terminal.
    bar = Bar(*columns, console=Console(file=stream), redirect_stdout=False)
    bar.add_task(title, total=100, words="starting")
    return bar
