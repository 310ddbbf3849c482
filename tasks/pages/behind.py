"""The pages of a large run, made behind it by a process that gives way to others, so that nobody waits for them.

It begins when the thumbnails are there: a page makes those that it lacks by itself, one after the other. Run as a
module, this file is such a process. What it does not get done, the next run or `jury sync` does.
"""

import atexit
import signal
import subprocess
import sys
import time

from tasks.errors import HistoryLocked
from tasks.ledger.remote import local_cache
from tasks.pictures.thumbnails import waiting

LARGE = 16
"""Samples of a run above which its pages are worth a process of their own, which takes a second to start."""
PATIENCE_SECONDS = 900.0
"""Longest wait for the thumbnails: those that are missing then are made here."""
LOOK_EVERY_SECONDS = 0.2
TIMES = 5
"""A history or an index that stays in use is asked for so often."""


def renew_behind(store: str, run_id: str) -> None:
    """Let a process make the pages of a run and send them where its store is remote; this process ends after it.

    Args:
        store: as its user names it.
    """
    command = [sys.executable, "-P", "-m", __name__, store, run_id]
    atexit.register(subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL).wait)


def _main(store: str, run_id: str) -> None:
    from tasks.pages.sent_pages import renew_and_send  # DuckDB, which whoever starts this process need not load

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without words
    last = time.monotonic() + PATIENCE_SECONDS
    while waiting(local_cache(store)) and time.monotonic() < last:
        time.sleep(LOOK_EVERY_SECONDS)
    for tries_left in reversed(range(TIMES)):
        try:
            renew_and_send(store, [run_id], gently=True)
            return
        except (HistoryLocked, TimeoutError):  # others have the history, or make the index, all the time
            if not tries_left:
                raise


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2])
