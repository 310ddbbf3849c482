"""What a store's own Prefect recorded of runs goes from its database, every byte of it."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from prefect.server.database.orm_models import Base
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateTable

from flows.runtime.prefect_database import database_of, known, take_out

GONE, SHOWN, STAYS = (f"{digit * 8}-0000-4000-8000-000000000000" for digit in "123")
TABLES = (
    *("flow_run", "flow_run_state", "flow_run_input", "task_run", "task_run_state"),
    *("artifact", "artifact_collection", "log", "events", "event_resources"),
)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Prefect's own tables, with a row of each for three flow runs."""
    (tmp_path / "prefect").mkdir()
    place = tmp_path / "prefect" / "prefect.db"
    with closing(sqlite3.connect(place)) as db, db:
        db.execute("PRAGMA journal_mode = WAL")
        for name in TABLES:
            db.execute(str(CreateTable(Base.metadata.tables[name]).compile(dialect=sqlite.dialect())))
        for run in (GONE, SHOWN, STAYS):
            for name in TABLES:
                fill(db, name, run)
    return place


def fill(db: sqlite3.Connection, table: str, run: str) -> None:
    """A row of a table that is about a flow run, with its words in each text."""
    words = f"words of {run[0] * 4}"
    told: dict[str, Any] = {"id": f"{table}-{run}" if table != "flow_run" else run, "flow_run_id": run}
    told |= {"task_run_id": f"task_run-{run}", "event_id": f"events-{run}", "data": words, "message": words}
    told |= {"resource_id": f"prefect.flow-run.{run}", "payload": words, "related": "[]", "name": words}
    columns = [column.name for column in Base.metadata.tables[table].columns]
    row = {name: told.get(name, f"{name}-{run}") for name in columns}
    names, marks = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
    db.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", [*row.values()])


def test_a_flow_run_goes_whole_and_of_others_what_they_show(database: Path) -> None:
    assert database_of(database.parents[1]) == database
    assert known(database, [GONE, STAYS, "none"]) == [GONE, STAYS]
    take_out(database, [GONE], [SHOWN], [])
    held = b"".join(file.read_bytes() for file in database.parent.iterdir())
    assert GONE.encode() not in held and b"words of 1111" not in held
    with closing(sqlite3.connect(database)) as db:
        left = {name: db.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in TABLES}
    assert left == {name: 1 if name in ("artifact", "artifact_collection", "log") else 2 for name in TABLES}
    assert b"words of 3333" in held


def test_an_artifact_that_names_a_run_goes_whosoever_it_is(database: Path) -> None:
    take_out(database, [], [], ["words of 3333"])
    with closing(sqlite3.connect(database)) as db:
        assert db.execute("SELECT flow_run_id FROM artifact ORDER BY 1").fetchall() == [(GONE,), (SHOWN,)]


def test_a_store_without_a_server_of_its_own_has_none(tmp_path: Path) -> None:
    assert database_of(tmp_path) is None
