"""The command in a process that is killed: forked from one that has everything imported, which takes seconds.

Owns the process, and the places at which a run that is bought as a batch is killed; at which of them, the test says.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections import Counter
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Any

from batch_twin import BatchTwin

SENDING = {"make file": 2, "make batch": 1, "ask batch": 2, "content file": 2}
"""What a run whose requests are two files asks for until its replies are there, and how often each process that goes on
with it has done so when it is killed. The run is uploaded, created, waiting or downloaded then, and of the second file
that is not on record."""
SECONDS = 120
INTERRUPTED = 130
"""Exit code of a command after Ctrl-C."""
IMPORTED = ["flows.cli", "flows.commands.run", "flows.commands.batch", "flows.collect", "flows.diagram"]


def in_a_process(
    twin: BatchTwin, *words: object, requests: int, rows: int = 0, by: signal.Signals = signal.SIGKILL
) -> ForkServerProcess:
    """Start `jury` with these words.

    Args:
        twin: stands in the place of OpenAI.
        requests: most in a file.
        rows: of the ledger, after which it kills itself; 0: it does not.
    """
    context: ForkServerContext = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    given = (twin.base_url, [*map(str, words)], requests, rows, by, {**os.environ})
    started = context.Process(target=_work, args=given, daemon=True)
    started.start()
    return started


def dies(
    twin: BatchTwin,
    *words: object,
    requests: int,
    asked: str = "",
    times: int = 0,
    rows: int = 0,
    by: signal.Signals = signal.SIGKILL,
) -> None:
    """Have `jury` with these words killed, and wait for its end.

    Args:
        asked: what the endpoint is asked for, and has done but not said, when it is killed.
        times: that it has done so.
        rows: of the ledger, after which it is killed.
        by: signal that it sends itself after these rows.
    """
    seen, dead = Counter[str](), threading.Event()
    process: ForkServerProcess | None = None

    def kill_it(what: str) -> None:
        seen[what] += 1
        if what == asked and seen[what] == times:
            kill(process)
            dead.wait(SECONDS)

    twin.seen = kill_it
    process = in_a_process(twin, *words, requests=requests, rows=rows, by=by)
    process.join(SECONDS)
    dead.set()
    twin.seen = lambda _: None
    assert process.exitcode == (-by if by == signal.SIGKILL else INTERRUPTED), asked


def kill(process: ForkServerProcess | None) -> None:
    """At once, as a machine does that runs out of memory. Who started it waits for its end."""
    assert process and process.pid
    os.kill(process.pid, signal.SIGKILL)


def _work(
    address: str, words: list[str], most: int, rows: int, by: signal.Signals, environment: dict[str, str]
) -> None:
    os.environ.update(environment)
    from flows.cli import main
    from tasks import report
    from tasks.batches import submission
    from tasks.endpoint import catalog
    from tasks.ledger.run_files import Ledger

    report.renewed = report.renew_behind = lambda *_: []  # as in `conftest.jury`; pages take longest
    table = catalog.endpoints()
    moved = table["openai"].model_copy(update={"address": address})
    catalog.endpoints = lambda: {**table, "openai": moved}
    submission.MOST_REQUESTS = most
    append, written = Ledger.append, 0

    def counted(self: Ledger, row: Any) -> None:
        nonlocal written
        append(self, row)
        written += 1
        if written == rows:
            os.kill(os.getpid(), by)

    Ledger.append = counted
    sys.exit(main(words))
