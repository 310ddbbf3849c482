"""Pages of a large run, made by a process of their own, so that nobody waits for them."""

import atexit
import os
import signal
import subprocess
import sys
import threading
import time

from tasks.ledger.remote import local_cache
from tasks.pictures.thumbnails import waiting

LARGE = 16
"""Number of samples above which the pages of a run get a process of their own, which takes a second to start."""
PATIENCE_SECONDS = 900.0
"""Longest wait for the thumbnails; this process makes any that are missing then."""
LOOK_EVERY_SECONDS = 0.2
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
    last = time.monotonic() + PATIENCE_SECONDS
    while waiting(local_cache(store)) and time.monotonic() < last:
        time.sleep(LOOK_EVERY_SECONDS)
    renew_and_send(store, [run_id])


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2])
