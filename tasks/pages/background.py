"""Pages of a large run, made by a process of their own, so that nobody waits for them."""

import atexit
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

from tasks.ledger.remote import local_cache
from tasks.pictures.thumbnails import made, waiting

NICENESS = 10
"""Niceness of the process: judging goes first, but others wait for the index, which only this process makes."""


def renew_behind(store: str, run_id: str) -> None:
    """Start a process that makes the pages of a run and sends them; the current process ends after it.

    Args:
        store: store as its user names it.
    """
    command = [sys.executable, "-P", "-m", __name__, store, run_id]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    atexit.register(process.wait)
    threading.Thread(target=process.wait, daemon=True).start()  # a process with many runs is to keep no ended ones


def _main(store: str, run_id: str) -> None:
    from tasks.pages.site import renew_and_send  # loads DuckDB, which the starting process does without

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a message
    os.nice(NICENESS)
    folder = local_cache(store)
    for sha256 in reversed(waiting(folder)):  # a process of the run, if it has one, makes them from the first one on
        with suppress(OSError):  # another user's, or no room: the pages come without it
            made(folder, sha256)
    renew_and_send(store, [run_id])


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2])
