"""Files of the history and their layout, and the SQL that finds results to recompute."""

import hashlib
import logging
import os
import select
import shutil
import signal
import stat
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

import duckdb
from duckdb import DuckDBPyConnection as Connection

from tasks.errors import InputError
from tasks.files import alone, keep_private, private_folder

HISTORY = "history.duckdb"
FOLDER = ".history"
REBUILD = "`jury store rebuild` rebuilds it from the ledgers"

FRESH = "fresh.duckdb"
"""File for a new master, beside the old one; the next writer removes the file of a killed one."""

_MASTER, _LOCK, _SCRATCH, _READ = "master.duckdb", "lock", "scratch", "read-"
_UNOPENED_SECONDS = 60.0
"""Age of a link that no reader will open any more, because its maker was killed."""

Config = dict[str, str | bool | int | float | list[str]]

_WRITER: Config = {
    "storage_compatibility_version": "v1.3.0",  # since 1.3, DuckDB opens such files; older ones take twice the room
    "memory_limit": "400MB",
    "preserve_insertion_order": False,  # keeping it would hold more rows in memory
    "threads": 2,  # each has its own buffers
}
_GROUP_ROWS = 16_384
"""Rows that DuckDB writes together, and so holds in memory with all their texts; its default is 122,880."""
_READER: Config = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "memory_limit": "1GB",
    "max_temp_directory_size": "4GB",
}
"""Settings of readers. Data beyond the memory limit go to a separate folder on the disk; larger queries are refused."""
_PLANNED_AS_WRITTEN = "SET disabled_optimizers = 'distinct_aggregate_rewrite'"
"""Setting against joins for DISTINCT in aggregates, which DuckDB plans again in each nested view. The joins took a
quarter of the time of a page's queries; they save a tenth of a second on distinct values by group of a million rows."""

_idle: list[Connection] = []
"""Instances of DuckDB without a file, for the next writers: to begin and end one takes a fifth of a landing's time."""

_log = logging.getLogger(__name__)


class UnknownName(InputError):
    """SQL that names a table, a view or a column which the history does not have."""


@contextmanager
def reading(store: Path) -> Generator[Connection]:
    """Open the history read-only: no writes, no other files, no extensions, no settings.

    Raises:
        InputError: the file is not a history, or DuckDB refused a query; with the reason and DuckDB's message. If the
            query names something that the history lacks, and another version made it, the message says so.
    """
    put_log_aside(store)
    with (
        tempfile.TemporaryDirectory() as spill,
        open_published(store / HISTORY, {**_READER, "temp_directory": spill}) as db,
    ):
        try:
            with told():
                yield db
        except UnknownName:
            is_laid_out(db)
            raise


def open_published(history: Path, config: Config) -> Connection:
    """Open the file of a published history; connections made from this one have its settings.

    Raises:
        InputError: it is a link, or not a history.
    """
    _refuse_link(history)
    _refuse_link(history.parent / FOLDER)
    with _own_link(history) as link:
        try:
            db = _connect(link, config, read_only=True)
        except duckdb.Error as error:
            raise InputError(f"{history} cannot be opened: {error}; {REBUILD}") from error
    # Our times are UTC; now() has this zone.
    db.execute("SET GLOBAL TimeZone = 'UTC'; SET lock_configuration = true")
    return db


def _connect(place: Path | str, config: Config, read_only: bool = False) -> Connection:
    db = duckdb.connect(place, read_only, config)
    with suppress(duckdb.Error):  # a later DuckDB may have no optimizer of that name
        db.execute(_PLANNED_AS_WRITTEN)
    return db


def _refuse_link(place: Path) -> None:
    if place.is_symlink():
        raise InputError(f"{place} is a link, and the history of Image Jury is never a link: remove it; {REBUILD}")


@contextmanager
def _own_link(history: Path) -> Generator[Path]:
    """Create a hard link through which the history is opened: an open file remains readable without its link.

    DuckDB has one instance for each path and process. If a notebook has the history open, DuckDB would return its
    instance, or refuse other settings.
    """
    try:
        private_folder(history.parent / FOLDER)
        folder = Path(tempfile.mkdtemp(prefix=_READ, dir=history.parent / FOLDER))
    except OSError:  # the store is not writable
        yield history
        return
    link = folder / HISTORY
    try:
        with suppress(OSError):  # its file system has no hard links
            os.link(history, link)
        yield link if link.exists() else history
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def put_log_aside(store: Path) -> None:
    """Move away changes that somebody wrote into the published history, as root or with other rights of their own.

    DuckDB would apply that log to any file of this name.
    """
    log = store / f"{HISTORY}.wal"
    if not os.path.lexists(log):
        return
    aside = store / f"{HISTORY}.{datetime.now(UTC):%Y%m%dT%H%M%S%f}.aside"
    with suppress(FileNotFoundError):  # another process did it, or its writer has ended
        log.rename(aside)
        _log.warning(
            "%s: another program has changed the history, which is published to be read. Its changes are in no answer; "
            "they were moved to %s. Open the history with read_only=True.",
            log,
            aside,
        )


@contextmanager
def ended_after(db: Connection, seconds: float) -> Generator[None]:
    """Interrupt a query in this context after this time, or at once at Ctrl-C; 0: no limit.

    While another of its threads works on the query, DuckDB does not check for Ctrl-C, and Python runs no handler. But
    Python writes to this pipe as soon as a signal comes.
    """
    if not seconds:
        yield
        return
    ended, writer = os.pipe()
    os.set_blocking(writer, False)
    watching = threading.Thread(target=_interrupt_after, args=(db, ended, seconds), daemon=True)
    watching.start()
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.set_wakeup_fd(writer) if is_main else -1
    try:
        yield
    finally:
        if is_main:
            signal.set_wakeup_fd(before)
        os.close(writer)
        watching.join()
        os.close(ended)


def _interrupt_after(db: Connection, ended: int, seconds: float) -> None:
    """Interrupt a query at a byte from the pipe, or after this time; return once the pipe has no writer any more."""
    readable, _, _ = select.select([ended], [], [], min(seconds, threading.TIMEOUT_MAX))
    if not readable or os.read(ended, 1):
        db.interrupt()


@contextmanager
def told() -> Generator[None]:
    """Raise errors of DuckDB as an InputError in the words of a user."""
    try:
        yield
    except RuntimeError as error:
        if str(error) == "Query interrupted":  # at Ctrl-C, DuckDB raises this in its place
            raise KeyboardInterrupt from error
        raise
    except (duckdb.BinderException, duckdb.CatalogException) as error:
        raise UnknownName(f"{_refusal(error)}: {error}") from error
    except duckdb.Error as error:
        raise InputError(f"{_refusal(error)}: {error}") from error


class Master(NamedTuple):
    """Master of the history, open for the writer."""

    db: Connection
    """Connection; names without a database are the master's tables and views."""
    scratch: Path
    """Folder for temporary files; the next landing removes files left by a kill."""


@contextmanager
def alone_with_master(store: Path) -> Generator[Path]:
    """Wait until no other process of this machine writes, remove files of killed ones, and yield the master's path."""
    folder = store / FOLDER
    lock, master = folder / _LOCK, folder / _MASTER
    for place in (folder, lock, master, store / HISTORY):
        _refuse_link(place)
    private_folder(folder)
    if not lock.exists():
        lock.touch()
        keep_private(lock)
    with alone(lock):
        _remove_left_behind(folder)
        yield master


def _remove_left_behind(folder: Path) -> None:
    for left in folder.iterdir():  # the master and its log are kept, so that DuckDB can recover
        if not left.name.startswith((_SCRATCH, _READ, FRESH, HISTORY)):
            continue
        with suppress(FileNotFoundError):
            if left.name.startswith(_READ) and time.time() - left.stat().st_mtime < _UNOPENED_SECONDS:
                continue
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink()


@contextmanager
def opened_master(place: Path) -> Generator[Master]:
    """Open the master, or create it if there is none.

    Raises:
        InputError: the file is not a history.
        duckdb.Error: there is none, and the disk has no room for one.
    """
    scratch = place.with_name(_SCRATCH)
    scratch.mkdir()
    spilled = scratch / "spilled"
    try:
        with ExitStack() as closing:
            instance = _idle.pop() if _idle else _connect(":memory:", _WRITER)
            closing.callback(instance.close)
            instance.execute("SET temp_directory = $1", [str(spilled)])
            with instance.cursor() as db:
                _attach(db, place)
                yield Master(db, scratch)
            instance.execute("DETACH history")
            if not spilled.exists():  # DuckDB cannot change a folder that it has used
                _idle.append(instance)
                closing.pop_all()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _attach(db: Connection, place: Path) -> None:
    new = not place.exists()
    try:
        db.execute(f"ATTACH {quoted(place)} AS history (ROW_GROUP_SIZE {_GROUP_ROWS}); USE history")
    except duckdb.Error as error:
        if new:
            raise
        raise InputError(f"{place} cannot be opened: {error}; {REBUILD}") from error
    if new:
        keep_private(place)


def quoted(place: Path) -> str:
    """Return a path as a string of SQL."""
    return "'{}'".format(str(place).replace("'", "''"))


@contextmanager
def attached(db: Connection, place: Path, name: str) -> Generator[None]:
    """Attach a published history under this name."""
    with _own_link(place) as link:
        db.execute(f"ATTACH {quoted(link)} AS {name} (READ_ONLY)")
        try:
            yield
        finally:
            db.execute(f"DETACH {name}")


def is_published(master: Path, store: Path) -> bool:
    """Return whether the history equals the master: nothing was appended since, and nobody wrote into the history."""
    try:
        ours, theirs = master.stat(), (store / HISTORY).stat()
    except FileNotFoundError:
        return False
    return (ours.st_size, ours.st_mtime_ns) == (theirs.st_size, theirs.st_mtime_ns) and not _log_of(master).exists()


def publish(master: Path, store: Path) -> None:
    """Replace the history by a copy of the closed master.

    The copy is not flushed to the disk, which takes longer than all the rest. A history that is unreadable after a
    power failure can be rebuilt from the ledgers.

    Raises:
        OSError: the copy cannot be written; the history is unchanged.
    """
    history, copy, made = store / HISTORY, master.with_name(HISTORY), master.stat()
    try:
        shutil.copyfile(master, copy)
        os.utime(copy, ns=(made.st_atime_ns, made.st_mtime_ns))  # `is_published` compares these times
        copy.chmod(stat.S_IRUSR | (stat.S_IRGRP if store.stat().st_mode & stat.S_ISGID else 0))
        put_log_aside(store)  # DuckDB would apply it to the new file
        copy.replace(history)
    finally:
        copy.unlink(missing_ok=True)


def replace_master(fresh: Path, master: Path) -> None:
    """Replace the master by another closed file."""
    _log_of(master).unlink(missing_ok=True)  # DuckDB would apply it to the new file
    fresh.replace(master)


def remove_history(master: Path, store: Path) -> None:
    """Remove master and history."""
    for file in (_log_of(master), master, store / HISTORY):
        file.unlink(missing_ok=True)


def _log_of(master: Path) -> Path:
    return master.with_name(f"{master.name}.wal")


def _refusal(error: duckdb.Error) -> str:
    if isinstance(error, duckdb.InterruptException):
        return "this SQL took longer than the limit of --seconds"
    if isinstance(error, duckdb.OutOfMemoryException):
        return "this SQL needs more memory, or more disk space for temporary data, than the limits allow"
    return "DuckDB refused this SQL"


VIEWS = (
    "shard_runs",
    "evaluations",
    "samples",
    "changes",
    "verdicts",
    "ratings",
    "by_group",
    "leaderboard",
    "by_category",
    "by_difficulty",
    "t2i_leaderboard",
    "by_aspect",
    "best_images",
    "reliability",
    "trend",
    "alarms",
    "coverage",
    "disagreements",
    "corrected",
    "judgment_attempts",
    "cost",
    "spend",
    "control_rates",
    "anchors",
    "judge_versions",
    "picture_contract",
    "failures",
)
"""Views, each a file of that name in `views/`, after the views that it uses; `macros` has shared macros."""


def layout_sql(name: str) -> str:
    """Return the SQL of the tables, of the macros or of a view."""
    return (Path(__file__).parent / f"{name}.sql").read_text(encoding="utf-8")


def views_sql() -> str:
    """Return the SQL of the macros and of all views."""
    return "\n".join(layout_sql(f"views/{name}") for name in ("macros", *VIEWS))


@cache
def layout_mark() -> str:
    """Return the mark of this version's tables and views, which the macro `layout` of a history returns."""
    return hashlib.sha256((layout_sql("tables") + views_sql()).encode()).hexdigest()


def is_laid_out(db: Connection) -> bool:
    """Return whether the open `history` has tables; it may be new. Call it outside of a transaction: a no ends one.

    Raises:
        InputError: the tables are those of another version.
    """
    found = None
    with suppress(duckdb.CatalogException):
        found = db.execute("SELECT history.main.layout()").fetchone()
    if found == (layout_mark(),):
        return True
    if db.execute("SELECT * FROM duckdb_tables() WHERE database_name = 'history'").fetchone():
        raise InputError(f"The history was made by another version of Image Jury; {REBUILD}")
    return found is not None


NIGHTS_DUE = """
    WITH wanted AS (
        SELECT run_id, flow, unnest(candidates) AS candidate, series_key, protocol_key FROM evaluations
        WHERE scheduled AND measured
    )
    SELECT DISTINCT coalesce(w.flow, n.flow) AS flow, candidate, coalesce(w.series_key, n.series_key) AS series_key,
           coalesce(w.protocol_key, n.protocol_key) AS protocol_key
    FROM wanted w FULL JOIN nights n USING (run_id, candidate) WHERE w.run_id IS NULL OR n.run_id IS NULL"""
"""Series (flow, candidate, series_key, protocol_key) with missing or surplus nights."""
LABEL_STAMPS = """
    SELECT flow, md5(string_agg(DISTINCT name || source_sha256, ' ' ORDER BY name || source_sha256)) AS stamp
    FROM labels WHERE page <> '' GROUP BY flow"""
"""Flow and a hash of its labels."""
CORRECTIONS_DUE = f"""
    SELECT e.run_id FROM evaluations e JOIN ({LABEL_STAMPS}) t USING (flow)
    WHERE e.run_id IN (SELECT run_id FROM scores)
          AND NOT EXISTS (SELECT 1 FROM corrections c WHERE c.run_id = e.run_id AND c.stamp = t.stamp)
    UNION SELECT c.run_id FROM corrections c LEFT JOIN evaluations e USING (run_id)
        LEFT JOIN ({LABEL_STAMPS}) t USING (flow)
    WHERE t.stamp IS DISTINCT FROM c.stamp"""
"""Evaluations whose corrections are missing or are based on other labels."""
MEMBERS = """
    WITH judged AS (
        SELECT flow, dataset_key, protocol_key, judge_key || ' ' || prompt_set AS judged_by, run_id, started_at,
               dimensions, measured, stopped, unnest(candidates) AS candidate
        FROM evaluations
    ), of_flows AS (
        SELECT flow, dataset_key, protocol_key AS alike, candidate, [run_id] AS runs FROM judged WHERE measured
        QUALIFY row_number() OVER (
            PARTITION BY flow, dataset_key, protocol_key, candidate ORDER BY started_at DESC, run_id DESC) = 1
    ), of_tags AS (
        SELECT dataset_key, judged_by, candidate, run_id, dimensions FROM judged
        WHERE list_contains(image_flows(), flow) AND stopped IS NULL
        QUALIFY row_number() OVER (
            PARTITION BY flow, dataset_key, judged_by, candidate ORDER BY started_at DESC, run_id DESC) = 1
    ), together AS (
        SELECT '' AS flow, dataset_key, judged_by AS alike, candidate, list(run_id ORDER BY run_id) AS runs FROM of_tags
        GROUP BY ALL HAVING list_has_all(flatten(list(dimensions)), six_tags())
    ), of_several AS (
        SELECT * FROM of_flows WINDOW one AS (PARTITION BY flow, dataset_key, alike)
        QUALIFY min(runs) OVER one <> max(runs) OVER one
    ), of_all_flows AS (
        SELECT * FROM together QUALIFY count(*) OVER (PARTITION BY dataset_key, alike) > 1
    )
    SELECT * FROM of_several UNION ALL SELECT * FROM of_all_flows"""
"""Newest measured run of each candidate, grouped by equal flow, dataset key and protocol key; for generated images also
the newest complete ones over the four flows, as in `t2i_leaderboard`.

Columns: flow (empty: all tags together), dataset_key, alike, candidate, runs.
"""
BEST_DUE = f"""
    SELECT DISTINCT flow, dataset_key, alike
    FROM (SELECT *, true AS wanted FROM ({MEMBERS})) m
    FULL JOIN (SELECT DISTINCT flow, dataset_key, alike, candidate, runs, true AS had FROM versus_best) v
        USING (flow, dataset_key, alike, candidate, runs)
    WHERE wanted IS NULL OR had IS NULL"""
"""Groups whose newest runs have not been compared."""
_NONE_DUE = """
    SELECT NOT EXISTS (FROM runs WHERE scheduled) AND NOT EXISTS (FROM nights),
        NOT EXISTS (FROM labels WHERE page <> '') AND NOT EXISTS (FROM corrections),
        (SELECT count(DISTINCT candidate) < 2 FROM (SELECT unnest(candidates) AS candidate FROM runs))
            AND NOT EXISTS (FROM versus_best)"""
"""Check, on tables alone, that no nights, corrections or comparisons with the best can be due. Planning the views that
find due results takes thirty times as long."""


def what_is_due(db: Connection) -> tuple[bool, ...]:
    """Return whether nights, corrections, and comparisons with the best must be recomputed."""
    none = db.execute(_NONE_DUE).fetchone() or (True, True, True)
    if not all(none):  # otherwise DuckDB plans and computes the view again in each query that finds or computes results
        db.execute("CREATE OR REPLACE TEMP TABLE evaluations AS FROM history.main.evaluations")
    return tuple(
        not is_none and bool(db.execute(sql).fetchone())
        for is_none, sql in zip(none, (NIGHTS_DUE, CORRECTIONS_DUE, BEST_DUE), strict=True)
    )
