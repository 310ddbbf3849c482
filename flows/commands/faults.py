"""Failures of a command: a user's, reported in a sentence, or the program's, whose traceback is logged.

A fault of the program is never reported as a user's mistake, and tracebacks are printed on request only.
"""

import errno
import os
import stat
import sys
import traceback
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from flows.commands.messages import warn
from tasks.text import printable

LOG = "jury.log"
"""File in the store with tracebacks of faults, each with its time, the newest last."""
DEBUG = "JURY_DEBUG"
"""Environment variable that prints tracebacks on standard error if it has any value."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""Errors of a disk that only the user can fix, for any file."""


def is_users(error: OSError, given: Mapping[str, Any]) -> bool:
    """Return whether an error concerns the remote store, a full disk, or a path that the user named, in or above it."""
    from tasks.ledger.bucket import RemoteUnavailable

    if isinstance(error, RemoteUnavailable) or error.errno in FULL:
        return True
    store = _store(given)
    named = [Path(value) for value in given.values() if isinstance(value, str) and value] + ([store] if store else [])
    places = [place.expanduser().absolute() for place in named]
    names = [name for name in (error.filename, error.filename2) if isinstance(name, str | bytes | Path)]
    failed = [Path(os.fsdecode(name)).absolute() for name in names]
    return any(place.is_relative_to(file) or file.is_relative_to(place) for file in failed for place in places)


def tell_fault(error: BaseException, given: Mapping[str, Any]) -> None:
    """Report a fault of the program: the exception, and the place of its traceback."""
    told = "".join(traceback.format_exception(error))
    if os.environ.get(DEBUG):
        print(printable(told), file=sys.stderr)
    where = _kept(told, given) or f"{DEBUG}=1 in the environment shows the traceback"
    what = f"{type(error).__name__}: {error}".rstrip(": ")
    warn(f"a fault of Image Jury, not of what you gave it: {what} ({where})")


def _kept(told: str, given: Mapping[str, Any]) -> str:
    """Append a traceback to the log of the store; return its place, or an empty text if it could not be written."""
    folder = _store(given)
    if not folder or not folder.is_dir():
        return ""
    try:
        with os.fdopen(_opened(folder / LOG), "a", encoding="utf-8", errors="replace") as log:
            log.write(f"{datetime.now().astimezone().isoformat(timespec='seconds')}\n{told}\n")
    except OSError:
        return ""
    return f"its traceback is in {folder / LOG}"


def _opened(log: Path) -> int:
    """Open the log for this user alone; a stranger's store may have a link or a pipe in its place."""
    strange = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    return os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | strange, stat.S_IRUSR | stat.S_IWUSR)


def _store(given: Mapping[str, Any]) -> Path | None:
    from tasks.ledger.remote import local_cache
    from tasks.parameters import default_store

    return local_cache(given["store"] or default_store()) if "store" in given else None
