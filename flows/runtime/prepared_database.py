"""Empty database that our Prefect servers start with: migrated once for a version of Prefect, then copied.

A server makes its database by a hundred migrations, which take longer than the rest of its start. The prepared one
holds the schema and no rows: no keys, and nothing that could reveal one person's data to another.
"""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from tasks.files import alone

DATABASE = "prefect.db"
"""Prefect's name for the database in its home."""
FOLDER = "image-jury"
FAILURES = (OSError, RuntimeError, ImportError, sqlite3.Error, subprocess.SubprocessError)
"""Errors if the database cannot be made or kept; RuntimeError: this user has no home; ImportError: Windows."""
ELSEWHERE = ("PREFECT_API_DATABASE_CONNECTION_URL", "PREFECT_SERVER_DATABASE_CONNECTION_URL")
"""Variables that name another database than the one in the home."""
MIGRATE = """
import asyncio
from prefect.server.database import provide_database_interface
asyncio.run(provide_database_interface().create_db())
"""


def give(home: Path) -> None:
    """Put the prepared database into a home of Prefect that has none; prepare it first if necessary.

    Errors are ignored: without it, the server migrates a database of its own.
    """
    if any(os.environ.get(name) for name in ELSEWHERE):
        return
    with contextlib.suppress(*FAILURES), alone(home):
        # A log that others left without its database would be taken for a part of the new one.
        if not any(home.glob(f"{DATABASE}*")):
            draft = home / f".{DATABASE}.draft"
            shutil.copy(prepared(), draft)  # and its mode
            draft.replace(home / DATABASE)


def prepared() -> Path:
    """Return the prepared database; make it if there is none.

    Raises:
        Exception: one of `FAILURES`; it could not be made.
    """
    found = _place()
    with alone(found.parent):
        if not found.exists():
            _prepare(found)
    return found


def is_prepared() -> bool:
    """Return whether a server that starts now can skip the migrations."""
    with contextlib.suppress(*FAILURES):
        return _place().exists()
    return False


def _place() -> Path:
    """Return its file, in a private folder of the environment, or of this user's cache if that cannot be written."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for folder in (Path(sys.prefix) / "var" / FOLDER, caches / FOLDER / "prefect"):
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = folder.lstat()
            if found.st_uid == os.getuid() and not found.st_mode & 0o077 and os.access(folder, os.W_OK):
                return folder / f"prefect-{version('prefect')}.db"
    raise PermissionError(f"neither {sys.prefix} nor {caches} can be written")


def _prepare(target: Path) -> None:
    home = target.with_suffix(".draft")
    shutil.rmtree(home, ignore_errors=True)  # left by a process that was killed here
    home.mkdir(mode=0o700)
    # A person's settings of Prefect, above all another database, must not apply here.
    others = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
    settings = {**others, "PREFECT_HOME": str(home), "DO_NOT_TRACK": "1"}
    command = [sys.executable, "-P", "-c", MIGRATE]
    try:
        subprocess.run(command, env=settings, cwd=home, check=True, capture_output=True, umask=0o077)
        draft = home / target.name
        with contextlib.closing(sqlite3.connect(home / DATABASE)) as made:
            made.execute("VACUUM INTO ?", (str(draft),))  # one file, without a log beside it
        draft.chmod(0o600)
        draft.replace(target)
    finally:
        shutil.rmtree(home)
