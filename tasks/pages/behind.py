"""The pages of a large run, made by a process of their own, so that nobody waits for them.

The process waits for the thumbnails first: a page makes those that it lacks one after the other.
"""

import atexit
import os
import signal
import subprocess
import sys
import time

from tasks.ledger.remote import local_cache
from tasks.pictures.thumbnails import waiting

LARGE = 16
"""Samples of a run above which its pages are worth a process of their own, which takes a second to start."""
PATIENCE_SECONDS = 900.0
"""Longest wait for the thumbnails: those that are missing then are made here."""
LOOK_EVERY_SECONDS = 0.2
NICENESS = 10
"""Judging goes first, but others wait for the index, which this process makes alone."""


def renew_behind(store: str, run_id: str) -> None:
    """Start a process that makes the pages of a run and sends them; this process ends after it.

    Args:
        store: as its user names it.
    """
    command = [sys.executable, "-P", "-m", __name__, store, run_id]
    atexit.register(subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL).wait)


def _main(store: str, run_id: str) -> None:
    from tasks.pages.sent_pages import renew_and_send  # DuckDB, which the process that starts this one need not load

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without words
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    last = time.monotonic() + PATIENCE_SECONDS
    while waiting(local_cache(store)) and time.monotonic() < last:
        time.sleep(LOOK_EVERY_SECONDS)
    renew_and_send(store, [run_id])


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2])
