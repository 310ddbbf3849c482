"""The empty database that a Prefect server of ours begins with: migrated once for a version of Prefect, then copied.

A server makes its database by a hundred migrations, which take longer than the rest of its start. Owns where the
prepared one is kept, what it is trusted for, and how it comes to a new home. It holds the schema and not a row more:
neither keys nor anything that could tell of one person to another.
"""

import contextlib
import os
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from tasks.files import alone

DATABASE = "prefect.db"
"""What Prefect calls the database in its home."""
FOLDER = "image-jury"
FAILURES = (OSError, RuntimeError, ImportError, sqlite3.Error, subprocess.SubprocessError)
"""What may be raised where it cannot be made or kept; RuntimeError: this user has no home; ImportError: Windows."""
ELSEWHERE = ("PREFECT_API_DATABASE_CONNECTION_URL", "PREFECT_SERVER_DATABASE_CONNECTION_URL")
"""What names another database than the one in the home."""
MIGRATE = """
import asyncio
from prefect.server.database import provide_database_interface
asyncio.run(provide_database_interface().create_db())
"""


def give(home: Path) -> None:
    """Put the prepared database into a home of Prefect that has none, after preparing it where that is still to do.

    What goes wrong is no failure: without it, the server migrates a database of its own.
    """
    if any(os.environ.get(name) for name in ELSEWHERE):
        return
    with contextlib.suppress(*FAILURES), alone(home):
        # Without the database, what others may have left of its log would be taken for a part of the new one.
        if not any(home.glob(f"{DATABASE}*")):
            _move_in(prepared(), home / DATABASE)


def prepared() -> Path:
    """The prepared database, prepared now where there is none that can be trusted.

    Raises:
        Exception: one of `FAILURES`; it could not be made.
    """
    place = kept_in()
    found = place / f"prefect-{version('prefect')}.db"
    with alone(place):
        if not is_sound(found):
            _prepare(found)
    return found


def is_there() -> bool:
    """Whether a server that begins now need not wait for the migrations."""
    with contextlib.suppress(*FAILURES):
        return is_sound(kept_in() / f"prefect-{version('prefect')}.db")
    return False


def kept_in() -> Path:
    """A private folder of the environment, or of this user's cache where the environment cannot be written."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    for place in (Path(sys.prefix) / "var" / FOLDER, caches / FOLDER / "prefect"):
        with contextlib.suppress(OSError):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _is_private(place.lstat()) and os.access(place, os.W_OK):
                return place
    raise PermissionError(f"neither {sys.prefix} nor {caches} can be written")


def is_sound(database: Path) -> bool:
    """Whether a database is this user's own, undamaged, of the schema that this Prefect expects, and empty."""
    try:
        if not stat.S_ISREG(database.lstat().st_mode) or not _is_private(database.lstat()):
            return False
        with contextlib.closing(sqlite3.connect(f"{database.as_uri()}?mode=ro&immutable=1", uri=True)) as opened:
            whole = opened.execute("PRAGMA quick_check").fetchall() == [("ok",)]
            tables = {name for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            revisions = {name for (name,) in opened.execute("SELECT version_num FROM alembic_version")}
            others = tables - {"alembic_version"}
            rows = any(opened.execute(f'SELECT 1 FROM "{table}" LIMIT 1').fetchone() for table in others)
    except (OSError, sqlite3.Error):
        return False
    return whole and bool(others) and not rows and revisions == newest_revisions()


@cache
def newest_revisions() -> set[str]:
    """Revisions of the schema that no migration of the installed Prefect goes on from; it is not imported for that."""
    package = find_spec("prefect")
    if not package or not package.origin:
        return set()
    folder = Path(package.origin).parent / "server" / "database" / "_migrations" / "versions" / "sqlite"
    texts = [file.read_text(encoding="utf-8") for file in folder.glob("*.py")]
    own, before = (
        {found for text in texts for found in re.findall(rf"""^{name}\b[^=\n]*=\s*["'](\w+)["']""", text, re.MULTILINE)}
        for name in ("revision", "down_revision")
    )
    return own - before


def _prepare(target: Path) -> None:
    home = target.with_suffix(".draft")
    shutil.rmtree(home, ignore_errors=True)  # of a process that was killed here
    home.mkdir(mode=0o700)
    try:
        _migrate(home)
        draft = home / target.name
        with contextlib.closing(sqlite3.connect(home / DATABASE)) as made:
            made.execute("VACUUM INTO ?", (str(draft),))
        draft.chmod(0o600)
        if not is_sound(draft):
            raise OSError("the migrated database is not what this version of Prefect expects")
        draft.replace(target)
    finally:
        shutil.rmtree(home)


def _migrate(home: Path) -> None:
    # Whatever a person has set for Prefect, another database above all, is not meant here.
    others = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
    settings = {**others, "PREFECT_HOME": str(home), "DO_NOT_TRACK": "1"}
    command = [sys.executable, "-P", "-c", MIGRATE]
    subprocess.run(command, env=settings, cwd=home, check=True, capture_output=True)


def _move_in(source: Path, target: Path) -> None:
    draft = target.with_name(f".{target.name}.draft")
    shutil.copy(source, draft)  # and its mode
    draft.replace(target)


def _is_private(found: os.stat_result) -> bool:
    return found.st_uid == os.getuid() and not found.st_mode & 0o077
