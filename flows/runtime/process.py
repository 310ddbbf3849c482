"""The process that a run or a command works in: its garbage collector, what ends it, and its silence at the end."""

import atexit
import gc
import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

THRESHOLDS = 50_000, 20, 50
"""Objects made, less those freed, after which the youngest are searched; then how many searches of one generation
there are before the next older one is searched, too."""


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


@contextmanager
def ended_by_sigterm() -> Generator[None]:
    """Let SIGTERM end what runs in the context as Ctrl-C does; for the main thread.

    While a flow runs, Prefect has a handler of its own, which raises an exception of its own.
    """
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except BaseException as error:
        if type(error).__name__ == "TerminationSignal":
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


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
    the run `Finished in state Running()`, as an error: its state comes from the process that ended it.
    """
    import logging

    def is_told(record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith(("Finished in state Running", "Finished in state Cancelled"))

    def is_unexpected(record: logging.LogRecord) -> bool:
        return not record.exc_info or type(record.exc_info[1]).__name__ != "TerminationSignal"

    atexit.register(hush)
    logging.getLogger("asyncio").addFilter(is_unexpected)
    for name in ("flow_runs", "task_runs"):
        logging.getLogger(f"prefect.{name}").addFilter(is_told)


def hush() -> None:
    """Keep what DuckDB 2.0 prints at exit (nanobind's leak list) from the user; to be registered with `atexit`."""
    sys.stderr.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
