"""Whose failure it is: the user's, who needs a sentence, or the program's, whose traceback is kept.

A fault of the program is never told as a mistake of the user's, and a user never meets a traceback unasked.
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
"""In the store: tracebacks of faults, each with its time, the newest last."""
DEBUG = "JURY_DEBUG"
"""Environment variable that shows tracebacks on standard error, whatever its value."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""What only the user can change about a disk, whichever file it is told of."""


def is_users(error: OSError, given: Mapping[str, Any]) -> bool:
    """Whether an error is about a place that the user named, what is in it or what it is in, or about a full disk."""
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
    """Say that the program is at fault, name the exception and where its traceback is kept."""
    told = "".join(traceback.format_exception(error))
    if os.environ.get(DEBUG):
        print(printable(told), file=sys.stderr)
    where = _kept(told, given) or f"{DEBUG}=1 in the environment shows the traceback"
    what = f"{type(error).__name__}: {error}".rstrip(": ")
    warn(f"a fault of Image Jury, not of what you gave it: {what} ({where})")


def _kept(told: str, given: Mapping[str, Any]) -> str:
    """Append a traceback to the log of the store; returns where it is, or nothing where there is no such store."""
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
    """Open the log, for this user alone; the store of a stranger may have a link or a pipe in its place."""
    strange = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    return os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | strange, stat.S_IRUSR | stat.S_IWUSR)


def _store(given: Mapping[str, Any]) -> Path | None:
    from tasks.ledger.remote import local_cache
    from tasks.parameters import default_store

    return local_cache(given["store"] or default_store()) if "store" in given else None
