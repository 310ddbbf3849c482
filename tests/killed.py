"""The command in a process that is killed, forked from one with everything imported, which takes seconds.

This module owns the process, and the points at which a batch run is killed; the test chooses among them.
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
"""Requests of a run with two files until its replies are ready, and how often each resuming process has made them when
it is killed. The second file's last step (upload, creation, check or download) is then not on record."""
SECONDS = 120
INTERRUPTED = 130
"""Exit code of a command after Ctrl-C."""
IMPORTED = ["flows.cli", "flows.commands.run", "flows.commands.batch", "flows.collect", "flows.diagram"]


def in_a_process(
    twin: BatchTwin, *words: object, requests: int, rows: int = 0, by: signal.Signals = signal.SIGKILL
) -> ForkServerProcess:
    """Start `jury` with these words.

    Args:
        twin: replaces OpenAI.
        requests: most in a file.
        rows: number of ledger rows after which it kills itself; 0: never.
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
    """Run `jury` with these words until it is killed, and wait for its end.

    Args:
        asked: the request that the endpoint has completed, but not answered, at the kill.
        times: number of such requests.
        rows: number of ledger rows after which it is killed.
        by: signal that it sends itself after these rows.
    """
    seen, dead = Counter[str](), threading.Event()
    process: ForkServerProcess | None = None

    def count_and_kill(request: str) -> None:
        seen[request] += 1
        if request == asked and seen[request] == times:
            kill(process)
            dead.wait(SECONDS)

    twin.seen = count_and_kill
    process = in_a_process(twin, *words, requests=requests, rows=rows, by=by)
    process.join(SECONDS)
    dead.set()
    twin.seen = lambda _: None
    assert process.exitcode == (-by if by == signal.SIGKILL else INTERRUPTED), asked


def kill(process: ForkServerProcess | None) -> None:
    """Kill at once, as a machine does that runs out of memory; the starter waits for the end."""
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

    def append_and_count(self: Ledger, row: Any) -> None:
        nonlocal written
        append(self, row)
        written += 1
        if written == rows:
            os.kill(os.getpid(), by)

    Ledger.append = append_and_count
    sys.exit(main(words))
