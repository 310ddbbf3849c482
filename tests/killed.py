"""The command in a process that is killed: forked from one that has everything imported, which takes seconds.

Owns the process. When it is killed the test says, mostly by the endpoint that the command asks.
"""

import multiprocessing
import os
import signal
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Any

from batch_twin import BatchTwin

IMPORTED = ["flows.cli", "flows.commands.run", "flows.commands.collect", "flows.collect", "flows.diagram"]


def in_a_process(twin: BatchTwin, *words: object, requests: int, rows: int = 0) -> ForkServerProcess:
    """Start `jury` with these words.

    Args:
        twin: stands in the place of OpenAI.
        requests: most in a file.
        rows: of the ledger, after which it kills itself; 0: it does not.
    """
    context: ForkServerContext = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    started = context.Process(
        target=_work, args=(twin.base_url, [*map(str, words)], requests, rows, {**os.environ}), daemon=True
    )
    started.start()
    return started


def kill(process: ForkServerProcess | None) -> None:
    """At once, as a machine does that runs out of memory. Who started it waits for its end."""
    assert process and process.pid
    os.kill(process.pid, signal.SIGKILL)


def _work(address: str, words: list[str], most: int, rows: int, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    from flows.cli import main
    from tasks.batches import requests
    from tasks.endpoint import known
    from tasks.ledger.writing import Ledger

    table = known.endpoints()
    moved = table["openai"].model_copy(update={"address": address})
    known.endpoints = lambda: {**table, "openai": moved}
    requests.MOST_REQUESTS = most
    append, written = Ledger.append, 0

    def counted(self: Ledger, row: Any) -> None:
        nonlocal written
        append(self, row)
        written += 1
        if written == rows:
            os.kill(os.getpid(), signal.SIGKILL)

    Ledger.append = counted
    main(words)
