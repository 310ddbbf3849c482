"""The database of a store's own Prefect server, from which what it recorded of some runs is taken out.

Prefect keeps names, parameters, logs and artifacts (tables, captions, pictures) of each flow run. By its API a flow run
goes without its logs and events, and the bytes of what went stay in the file until they are written over; so this is
done in the file itself, which SQLite lets be done beside a server that is up.
"""

import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing
from pathlib import Path

from flows.runtime.server import home

DATABASE = "prefect.db"
WAIT_SECONDS = 30.0
"""For a server that is writing."""


def database_of(store: Path) -> Path | None:
    """The file, if the store's own servers have made one."""
    found = home(store) / DATABASE
    return found if found.is_file() else None


def known(database: Path, runs: Collection[str]) -> list[str]:
    """Those of these flow runs that it has."""
    with closing(_opened(database)) as db:
        return [run for run in runs if db.execute("SELECT 1 FROM flow_run WHERE id = ?", (run,)).fetchone()]


def take_out(database: Path, whole: Collection[str], shown: Collection[str], names: Collection[str]) -> None:
    """Remove all that is recorded of flow runs, and of others what they show; no byte of it stays in the file.

    Args:
        whole: flow runs that go.
        shown: flow runs that stay without their artifacts and logs.
        names: an artifact that has one of these in it goes, whosoever it is.

    Raises:
        sqlite3.Error: it is in use for too long, or no database.
    """
    with closing(_opened(database)) as db:
        with db:
            for sql, value in _statements(whole, shown, names):
                db.execute(sql, (value,))
        db.execute("VACUUM")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _opened(database: Path) -> sqlite3.Connection:
    db = sqlite3.connect(database, timeout=WAIT_SECONDS)
    db.execute("PRAGMA secure_delete = ON")
    return db


def _statements(whole: Collection[str], shown: Collection[str], names: Collection[str]) -> Iterator[tuple[str, str]]:
    """SQL with one value each; what refers to a row goes before it."""
    for name in names:
        for table in ("artifact", "artifact_collection"):
            yield f"DELETE FROM {table} WHERE instr(CAST(data AS TEXT), ?) > 0", name
    for run in (*whole, *shown):
        for table in ("artifact", "artifact_collection", "log"):
            yield f"DELETE FROM {table} WHERE flow_run_id = ?", run
    for run in whole:
        events = "SELECT id FROM events WHERE instr(resource_id || related || payload, ?) > 0"
        yield f"DELETE FROM event_resources WHERE event_id IN ({events})", run
        yield "DELETE FROM event_resources WHERE instr(resource_id, ?) > 0", run
        yield "DELETE FROM events WHERE instr(resource_id || related || payload, ?) > 0", run
        yield "DELETE FROM task_run_state WHERE task_run_id IN (SELECT id FROM task_run WHERE flow_run_id = ?)", run
        for table in ("task_run", "flow_run_state", "flow_run_input"):
            yield f"DELETE FROM {table} WHERE flow_run_id = ?", run
        yield "DELETE FROM flow_run WHERE id = ?", run
