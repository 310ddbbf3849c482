"""The history's file: opened for a moment, to be asked or to be written, and waited for while somebody else has it.

Owns `<store>/history.duckdb` as a file: DuckDB's settings, its locks, and what its refusals mean to a user. What stands
in it is for `layout`, what is brought into it for `loading`.

DuckDB lets one process write and then nobody else may even read, and an open reader keeps writers out. So the file is
held for moments, and whoever finds it taken waits a while.
"""

import os
import random
import re
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import duckdb
from duckdb import DuckDBPyConnection as Connection

from tasks.errors import HistoryLocked, InputError
from tasks.files import keep_private

HISTORY = "history.duckdb"
REBUILD = "`jury sync --rebuild` makes it anew from the ledgers"

T = TypeVar("T")
Config = dict[str, str | bool | int | float | list[str]]

_STORAGE: Config = {"storage_compatibility_version": "v1.0.0"}
"""Makes files that every DuckDB 1.x opens too."""
_LOADER: Config = {**_STORAGE, "threads": 1}
"""Each thread would hold buffers of its own."""
_LEAST_MEMORY, _MOST_MEMORY = 100_000_000, 1_000_000_000
"""What loading may hold, in bytes: the same whatever the number of rows, more where rows are large, and never so much
that the machine has none left; DuckDB refuses what needs more."""
_REVISED = 200_000_000
"""Bytes of what is put together while the history is revised, at most: two years of nights have 20 MB of scores."""
VECTOR_ROWS = 2048
"""Rows that DuckDB handles together, with all their texts in memory at once; no setting makes them fewer."""
_READER: Config = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "memory_limit": "1GB",
    "max_temp_directory_size": "4GB",
}
"""What is not in memory is on the disk, in a folder of its own; whatever asks for more is refused."""
_PLANNED_AS_WRITTEN = "SET disabled_optimizers = 'distinct_aggregate_rewrite'"
"""DuckDB plans DISTINCT in aggregates as joins, in each view within a view anew. Of a page's questions that took a
quarter of the time, and of a million rows that are asked for distinct ones by group it saves a tenth of a second."""


@contextmanager
def reading(history: Path, wait_seconds: float) -> Generator[Connection]:
    """The history open for reading alone: no writes, no other files, no extensions, no settings.

    Raises:
        HistoryLocked: a writer held the history for `wait_seconds`.
        InputError: the file is no history, or DuckDB refused what was asked of it: why, and DuckDB's words.
    """
    with tempfile.TemporaryDirectory() as spill:
        config = {**_READER, "temp_directory": spill}
        connect = partial(duckdb.connect, history, read_only=True, config=config)
        with _when_free(history, connect, wait_seconds) as db, told():
            with suppress(duckdb.Error):  # a later DuckDB may have no optimizer of that name
                db.execute(_PLANNED_AS_WRITTEN)
            db.execute("SET lock_configuration = true")
            yield db


@contextmanager
def ended_after(db: Connection, seconds: float) -> Generator[None]:
    """Interrupt what is asked here when it takes longer; 0: it may take as long as it does."""
    if not seconds:
        yield
        return
    timer = threading.Timer(seconds, db.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def told() -> Generator[None]:
    """What DuckDB refuses, in the words of a user."""
    try:
        yield
    except duckdb.Error as error:
        raise InputError(f"{_refusal(error)}: {error}") from error


@contextmanager
def staging(vector_bytes: int = 0) -> Generator[Connection]:
    """An empty database in memory, bounded, which spills into a folder of its own.

    Args:
        vector_bytes: of the largest `VECTOR_ROWS` rows that will be staged, together.
    """
    # Twice: rows that are read together may be written as parts of two vectors.
    memory = min(_LEAST_MEMORY + 2 * vector_bytes, _MOST_MEMORY)
    with tempfile.TemporaryDirectory() as spill:
        config = {**_LOADER, "memory_limit": f"{memory}B", "temp_directory": spill}
        with duckdb.connect(config=config) as db:
            yield db


def attach(db: Connection, history: Path, wait_seconds: float) -> None:
    """Open the history for writing as `history` beside what `db` holds; it is made where there is none.

    Raises:
        HistoryLocked: somebody held the history for `wait_seconds`.
        InputError: the file is no history.
    """
    place = str(history).replace("'", "''")
    new = not history.exists()
    _when_free(history, lambda: db.execute(f"ATTACH '{place}' AS history"), wait_seconds)
    if new:
        keep_private(history)


@contextmanager
def revising(history: Path, wait_seconds: float) -> Generator[Connection]:
    """The history in one transaction, for tables that are computed from others in it; an error leaves it as it was.

    Raises:
        HistoryLocked: the history stayed in use for `wait_seconds`.
    """
    with staging(_REVISED) as db:
        attach(db, history, wait_seconds)
        db.execute("USE history")
        db.begin()
        yield db
        db.commit()
        db.execute("USE memory")


@contextmanager
def kept_out(history: Path, wait_seconds: float) -> Generator[None]:
    """Keep everybody out of the history while another file takes its place.

    Raises:
        HistoryLocked: somebody held the history for `wait_seconds`.
    """
    with duckdb.connect(config=_STORAGE) as db:
        if history.exists():
            # A file that cannot be opened for another reason than being in use is what a rebuild is for.
            with suppress(InputError, duckdb.Error):
                attach(db, history, wait_seconds)
                db.execute("CHECKPOINT history")
        # Once the new file has the name, this log would be taken for its own.
        history.with_name(f"{HISTORY}.wal").unlink(missing_ok=True)
        yield


def _refusal(error: duckdb.Error) -> str:
    if isinstance(error, (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException)):
        return "this SQL is not understood"
    if isinstance(error, duckdb.InterruptException):
        return "this SQL took longer than it may, which --seconds says"
    if isinstance(error, duckdb.OutOfMemoryException):
        return "this SQL needs more memory, or more room for what does not fit into it, than it may have"
    if "read-only" in str(error):
        return "the history is only read"
    if isinstance(error, duckdb.PermissionException) or "locked" in str(error):
        return "SQL reaches the history alone, and no files or settings"
    return "this SQL has no answer"


def _when_free(history: Path, use: Callable[[], T], wait_seconds: float) -> T:
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            return use()
        except duckdb.Error as error:
            holder = _holder(error)
            if not holder:
                raise InputError(f"{history} cannot be opened: {error}; {REBUILD}") from error
            if time.monotonic() >= deadline:
                raise HistoryLocked(f"{history} is in use: {holder}") from error
        time.sleep(random.uniform(0.01, 0.1))  # uneven, so that two who wait do not keep meeting


def _holder(error: duckdb.Error) -> str:
    """Who has the file, in DuckDB's words; empty when that is not the trouble."""
    if isinstance(error, (duckdb.ConnectionException, duckdb.ResourceInUseException)):
        return f"this process (PID {os.getpid()})"
    sentence = re.search(r"Could not set lock on file .*?: (?:Conflicting lock is held in )?(.+?)(?:\. |$)", str(error))
    return sentence[1] if sentence else ""
