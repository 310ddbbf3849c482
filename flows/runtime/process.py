"""The process that a run or a command works in: its garbage collector, what ends it, and its silence at the end."""

import asyncio
import atexit
import gc
import os
import signal
import sys
from collections.abc import Coroutine, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import Any, TypeVar, cast

THRESHOLDS = 50_000, 20, 50
"""Objects made, less those freed, after which the youngest are searched; then how many searches of one generation
there are before the next older one is searched, too."""


END_SECONDS = 8.0
"""For what is left of the work in a process to end by itself, when the work is done or was stopped."""

_ENDED = "Finished in state Running", "Finished in state Cancelled"
_UNTOLD = {
    "prefect.flow_runs": _ENDED,
    "prefect.task_runs": (*_ENDED, "Finished in state Crashed", "Crash detected! Execution was "),
}
"""By logger: how what Prefect writes of a run that somebody cancels begins, and is not to be told."""

T = TypeVar("T")
_LEFT_BEHIND = Event()


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, but SIGTERM ends it as Ctrl-C does, and what does not end in time once the work is done or stopped
    is left behind: Prefect tells a server that a run was stopped, and where the server hangs it tells it for minutes.
    """
    runner = asyncio.Runner()
    loop = runner.get_loop()
    loop.set_exception_handler(_tell_but_sigterm)
    with suppress(NotImplementedError):  # Windows
        loop.add_signal_handler(signal.SIGTERM, _interrupt_loop)
    try:
        return runner.run(work)
    finally:
        _end(runner)


def _interrupt_loop() -> None:
    """Do in the event loop's own thread what Ctrl-C does.

    What a shell script begins in the background ignores Ctrl-C, until it is told to end by SIGTERM.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.raise_signal(signal.SIGINT)


def _tell_but_sigterm(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What asyncio does with an exception that nobody takes.

    At SIGTERM Prefect raises one wherever the event loop is: in a callback, or in a task that nobody waits for, it ends
    nothing. The loop learns of the signal besides, and ends the run.
    """
    if not _is_sigterm(context.get("exception")):
        loop.default_exception_handler(context)


def _end(runner: asyncio.Runner) -> None:
    if not _LEFT_BEHIND.is_set() and not _all_ended(runner.get_loop()):
        leave_behind()
    if not _LEFT_BEHIND.is_set():
        runner.close()


def _all_ended(loop: asyncio.AbstractEventLoop) -> bool:
    """End all tasks; whether they do in time, and nobody stops the waiting."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    try:
        return not left or not loop.run_until_complete(asyncio.wait(left, timeout=END_SECONDS))[1]
    except BaseException:
        leave_behind()
        raise


def leave_behind() -> None:
    """Something in this process will not end by itself within reason: the process is to end without it."""
    _LEFT_BEHIND.set()


def end_without_the_rest(code: int) -> None:
    """End a process that has left something behind; return where it has not, for then it ends as any other."""
    if _LEFT_BEHIND.is_set():
        atexit._run_exitfuncs()  # pyright: ignore
        sys.stdout.flush()
        os._exit(code)


@contextmanager
def settle_garbage_collector() -> Generator[None]:
    """Let the garbage collector search rarely, and only what was made since; as it was before on leaving.

    Python frees most objects as soon as nothing refers to them. The collector only finds those that refer to each
    other in a circle, by walking through everything that is alive. What is imported when a run begins stays alive for
    good, and calls to the judge leave few reference cycles behind: frequent searches would find nothing, and take
    from the calls the processor's time.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def search_rarely() -> None:
    """Let the garbage collector search as rarely for good, in the process of a command: a tenth of its start is else
    spent on searching what it imports.
    """
    gc.set_threshold(*THRESHOLDS)


@contextmanager
def ended_by_sigterm() -> Generator[None]:
    """Let SIGTERM end what runs in the context as Ctrl-C does; for the main thread.

    While a flow runs, Prefect has a handler of its own, which raises an exception of its own.
    """
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except BaseException as error:
        if _is_sigterm(error):
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def interrupt() -> None:
    """Interrupt the main thread as Ctrl-C does, from any thread of a process that SIGTERM ends so.

    Ctrl-C's own signal would do nothing in a process that a shell script began in the background: it is ignored there.
    """
    os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def bounded_memory(more: int) -> Generator[None]:
    """Let this process take so many bytes more than it has and no further, where the system can see to that (Linux).

    What does not fit raises MemoryError, of whatever library wants it.
    """
    held = 0
    with suppress(OSError):
        told = Path("/proc/self/status").read_text().splitlines()
        held = next((int(line.split()[1]) << 10 for line in told if line.startswith("VmData:")), 0)
    if not held:
        yield
        return
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    bounds = [bound for bound in (held + more, *before) if bound != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(bounds), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def end_quietly() -> None:
    """Keep the end of a run that somebody cancels from looking like a fault, in a process made for one run by Prefect.

    Prefect raises wherever the event loop is when SIGTERM comes, which asyncio tells with a traceback, and writes for
    the run `Finished in state Running()`, as an error: its state comes from the process that ended it. A step that was
    under way is told as a crash; what ended the run, the run says.
    """
    import logging

    def is_told(record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith(_UNTOLD[record.name])

    def is_unexpected(record: logging.LogRecord) -> bool:
        return not record.exc_info or not _is_sigterm(record.exc_info[1])

    atexit.register(hush)
    hush_observers()
    logging.getLogger("asyncio").addFilter(is_unexpected)
    for name in _UNTOLD:
        logging.getLogger(name).addFilter(is_told)


def hush_observers() -> None:
    """Leave out what Prefect says where the server was away: a traceback for each of its watchers of cancelled runs.

    They go on asking; that a server had ended is said where it begins again.
    """
    import logging

    for name in ("FlowRunCancellingObserver", "FlowRunSuspendingObserver"):
        logging.getLogger(f"prefect.{name}").addFilter(lambda _: False)
    logging.getLogger("asyncio").addFilter(lambda record: "Observer._handle" not in record.getMessage())


def hush() -> None:
    """Keep what DuckDB 2.0 prints at exit (nanobind's leak list) from the user; to be registered with `atexit`."""
    sys.stderr.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _is_sigterm(error: BaseException | None) -> bool:
    """Whether this is what Prefect raises at SIGTERM, wherever the event loop is: within a task of a group, too."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(_is_sigterm, cast(BaseExceptionGroup[BaseException], error).exceptions))
    return type(error).__name__ == "TerminationSignal"
