"""Runs loaded from their ledgers into the history, and the history opened.

Owns `<store>/history.duckdb` and all that knows DuckDB. Its tables and views stand in `history.sql`; `history` asks it.
The ledger is the truth: a run that could not be loaded now is loaded by the next `sync`, and the history can be made
anew at any time. DuckDB lets one process write and then nobody else may even read, and an open reader keeps writers
out. So the file is held for moments (a run is staged beside it first), and whoever finds it taken waits a while.
"""

import hashlib
import json
import os
import random
import re
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import duckdb
from duckdb import DuckDBPyConnection as Connection

from tasks.controls.status import run_controls
from tasks.errors import HistoryLocked, InputError
from tasks.history.evaluated import evaluation_rates, evaluation_scores
from tasks.ledger import label_sets as labels
from tasks.ledger import reading as ledger
from tasks.ledger.evaluations import evaluation_folders
from tasks.ledger.protocol_keys import judge_key
from tasks.records import Record, RunEnd, RunStart

HISTORY = "history.duckdb"

T = TypeVar("T")
Config = dict[str, str | bool | int | float | list[str]]

_SQL = Path(__file__).with_name("history.sql").read_text(encoding="utf-8")
_LAYOUT = hashlib.sha256(_SQL.encode()).hexdigest()
_CREATE = f"{_SQL} CREATE MACRO layout() AS '{_LAYOUT}';"
"""Makes tables and views, and a mark by which those of another version are told apart."""
_STORAGE: Config = {"storage_compatibility_version": "v1.0.0"}
"""Makes files that every DuckDB 1.x opens too."""
_LOADER: Config = {**_STORAGE, "threads": 1, "memory_limit": "100MB"}
"""One thread and bounded memory, whatever the run's size: each thread would hold buffers of its own."""
_READER: Config = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "lock_configuration": True,
}
_REBUILD = "`jury sync --rebuild` makes it anew from the ledgers"


class DamagedLedger(InputError):
    """The ledger of a run cannot be read."""


class Synced(NamedTuple):
    """What a sync did."""

    loaded: tuple[str, ...]
    """Ids of the runs that were loaded, oldest first."""
    damaged: tuple[str, ...]
    """A sentence for every ledger that could not be read."""
    labels: tuple[str, ...] = ()
    """Names of the labels that were loaded."""


def store_run(store: Path, run_id: str, wait_seconds: float = 2.0) -> None:
    """Load one run, finished or not, in place of what the history has of it.

    Raises:
        HistoryLocked: the history stayed in use for `wait_seconds`.
        InputError: the ledger is damaged, or the history was made by another version.
    """
    _load(store / HISTORY, ledger.folder(store, run_id), wait_seconds)


def store_labels(store: Path, name: str, wait_seconds: float = 2.0) -> None:
    """Load the labels of a name, where the history has none of that name.

    Raises:
        HistoryLocked: the history stayed in use for `wait_seconds`.
        InputError: their ledger is damaged, or the history was made by another version.
    """
    for place in _new_labels(store / HISTORY, store, wait_seconds):
        if place.name == name:
            _load(store / HISTORY, place, wait_seconds)


def sync(store: Path, rebuild: bool = False, wait_seconds: float = 30.0) -> Synced:
    """Load every run whose ledger is not in the history as it now stands: new, grown or finished since; and new labels.

    With `rebuild` a history is made from all ledgers beside the present one, which serves until the new one takes its
    place. Without, no run is ever removed, whether or not its ledger is still there.

    Raises:
        HistoryLocked: the history stayed in use for `wait_seconds`.
        InputError: the history cannot be used and is not to be rebuilt.
    """
    history = store / HISTORY
    if not rebuild or not ledger.run_folders(store):
        return _load_changed(history, store, wait_seconds)
    with tempfile.TemporaryDirectory(dir=store, prefix="rebuild-") as place:
        fresh = Path(place) / HISTORY
        early = _load_changed(fresh, store, wait_seconds)
        with _kept_out(history, wait_seconds):
            late = _load_changed(fresh, store, wait_seconds)
            if fresh.exists():
                fresh.replace(history)
    names = tuple(sorted({*early.labels, *late.labels}))
    return Synced(tuple(sorted({*early.loaded, *late.loaded})), late.damaged, names)


def pending(store: Path, wait_seconds: float = 30.0) -> list[str]:
    """Ids of finished runs that are not in the history, or not as they ended.

    Raises:
        HistoryLocked: the history stayed in use for `wait_seconds`.
    """
    return [run.name for run in _changed(store / HISTORY, store, wait_seconds) if (run / ledger.END).exists()]


def _load_changed(history: Path, store: Path, wait_seconds: float) -> Synced:
    loaded: list[Path] = []
    damaged: list[str] = []
    for place in [*_changed(history, store, wait_seconds), *_new_labels(history, store, wait_seconds)]:
        try:
            _load(history, place, wait_seconds)
            loaded.append(place)
        except DamagedLedger as error:
            damaged.append(str(error))
    runs = tuple(place.name for place in loaded if not _is_labels(place))
    return Synced(runs, tuple(damaged), tuple(place.name for place in loaded if _is_labels(place)))


def _changed(history: Path, store: Path, wait_seconds: float) -> list[Path]:
    known: dict[str, int] = {}
    if history.exists():
        with reading(history, wait_seconds) as db:
            _is_laid_out(db)
            known = dict(db.execute("SELECT run_id, ledger_bytes FROM runs").fetchall())
    return [run for run in ledger.run_folders(store) if known.get(run.name) != _ledger_bytes(run)]


def _new_labels(history: Path, store: Path, wait_seconds: float) -> list[Path]:
    known: set[str] = set()
    if history.exists():
        with reading(history, wait_seconds) as db:
            if _is_laid_out(db):
                known = {name for (name,) in db.execute("SELECT DISTINCT name FROM labels").fetchall()}
    return [place for place in labels.label_folders(store) if place.name not in known]


def _is_labels(place: Path) -> bool:
    return (place / labels.ABOUT).exists()


def _ledger_bytes(run: Path) -> int:
    files = (run / name for name in (ledger.RUN, ledger.JUDGMENTS, ledger.OUTCOMES, ledger.END))
    return sum(file.stat().st_size for file in files if file.exists())


def _load(history: Path, place: Path, wait_seconds: float) -> None:
    """Load the folder of a run, or of labels."""
    with tempfile.TemporaryDirectory() as spill, duckdb.connect(config={**_LOADER, "temp_directory": spill}) as db:
        _stage(db, place)
        _attach(db, history, wait_seconds)
        try:
            _hand_over(db, place)
        except duckdb.Error as error:
            raise InputError(f"{history} cannot be written: {error}") from error


def _hand_over(db: Connection, place: Path) -> None:
    db.begin()
    if not _is_laid_out(db):
        db.execute(f"USE history; {_CREATE} USE memory")
    if _is_labels(place):
        db.execute("INSERT INTO history.labels FROM labels WHERE name NOT IN (SELECT name FROM history.labels)")
    else:
        _hand_over_run(db, place)
    db.commit()


def _hand_over_run(db: Connection, run: Path) -> None:
    for table in _OF_RUNS:
        db.execute(f"DELETE FROM history.{table} WHERE run_id = ?", [run.name])
    for table in _OF_EVALUATIONS:
        # A shard that is not the last to finish has none of an evaluation's rows, and takes none away.
        db.execute(f"DELETE FROM history.{table} WHERE run_id IN (SELECT run_id FROM {table})")
    for table in (*_OF_RUNS, *_OF_EVALUATIONS):
        db.execute(f"INSERT INTO history.{table} FROM {table}")
    db.execute("INSERT INTO history.pictures (FROM pictures EXCEPT FROM history.pictures)")


def _is_laid_out(db: Connection) -> bool:
    """Whether the open history has tables; it may be brand new.

    Raises:
        InputError: they are those of another version.
    """
    marks = (
        "SELECT macro_definition FROM duckdb_functions() WHERE database_name = 'history' AND function_name = 'layout'"
    )
    tables = "SELECT * FROM duckdb_tables() WHERE database_name = 'history'"
    found = db.execute(marks).fetchone()
    if found != (f"'{_LAYOUT}'",) and db.execute(tables).fetchone():
        raise InputError(f"The history was made by another version of Image Jury; {_REBUILD}")
    return found is not None


_OF_RUNS = ("runs", "judgments", "outcomes", "controls", "aspect_scores")
_OF_EVALUATIONS = ("scores", "rates")
_LAST_ATTEMPT = """attempt = max(attempt) OVER (
    PARTITION BY candidate, sample_id, "control", dimension, "order", vote) AS last_attempt"""
_ASPECTS = """INSERT INTO aspect_scores BY NAME
    SELECT run_id, flow, candidate, sample_id, dimension AS tag, vote, unnest(scores, recursive := true)
    FROM judgments WHERE last_attempt AND len(scores) > 0 AND coalesce("control", '') = ''"""
_PICTURES = """INSERT INTO pictures BY NAME
    SELECT DISTINCT picture.*, 'pictures/' || picture.source_sha256 || '.jpg' AS thumbnail
    FROM (SELECT unnest(map_values(pictures)) AS picture FROM outcomes)"""


def _stage(db: Connection, place: Path) -> None:
    """Fill tables like those of the history, so that a damaged ledger shows before the history is held."""
    db.execute(_CREATE)
    try:
        if _is_labels(place):
            _insert(db, "labels", labels.history_rows(place), place / labels.LABELS)
        else:
            _stage_run(db, place)
    except (ValueError, OSError, duckdb.Error) as error:
        raise DamagedLedger(f"The ledger {place} was left out: {error}") from error


def _stage_run(db: Connection, run: Path) -> None:
    size = _ledger_bytes(run)  # before reading: what is appended meanwhile makes the run due again
    end = ledger.read_end(run)
    _insert(db, "runs", [_run_row(run, end, size)], run / ledger.RUN)
    _insert(
        db,
        "judgments",
        ledger.read_rows(run / ledger.JUDGMENTS),
        run / ledger.JUDGMENTS,
        f"* REPLACE ({_LAST_ATTEMPT})",
    )
    real = (row for row in ledger.read_rows(run / ledger.OUTCOMES) if not row.get("control"))
    _insert(db, "outcomes", real, run / ledger.OUTCOMES)
    controls = ({"run_id": run.name, **row.model_dump()} for row in run_controls(run))
    _insert(db, "controls", controls, run / ledger.OUTCOMES)
    start = ledger.read_start(run)
    shards = evaluation_folders(run) if end else []
    if len(shards) == start.shards:
        _insert(db, "scores", _of_evaluation(start, evaluation_scores(start, shards)), run / ledger.OUTCOMES)
        _insert(db, "rates", _of_evaluation(start, evaluation_rates(start, shards)), run / ledger.OUTCOMES)
    db.execute(_ASPECTS)
    db.execute(_PICTURES)


def _of_evaluation(start: RunStart, rows: Iterable[Record]) -> Iterator[dict[str, Any]]:
    return ({"run_id": start.evaluation_id, **row.model_dump()} for row in rows)


def _run_row(run: Path, end: RunEnd | None, size: int) -> dict[str, Any]:
    ended: dict[str, Any] = {"status": "unfinished"}
    if end:
        ended = {"status": "finished", "judge_key": judge_key(end.protocol), **end.model_dump(mode="json")}
    return {**ledger.read_start(run).model_dump(mode="json"), **ended, "ledger_bytes": size}


def _insert(db: Connection, table: str, rows: Iterable[Mapping[str, Any]], source: Path, values: str = "*") -> None:
    """Insert rows by name, through a file of JSON lines: the fastest way in that needs no further package."""
    found = db.execute("SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ?", [table]).fetchall()
    columns = ", ".join(f"'{name}': '{kind}'" for name, kind in found)
    with tempfile.TemporaryDirectory() as place:
        lines = Path(place) / f"{table}.jsonl"
        with lines.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        read = f"read_json($lines, format = 'newline_delimited', columns = {{{columns}}})"
        try:
            db.execute(f"INSERT INTO {table} BY NAME SELECT {values} FROM {read}", {"lines": str(lines)})
        except duckdb.Error as error:
            raise InputError(str(error).partition("\n")[0].replace(str(lines), str(source))) from error


# Opening the history


@contextmanager
def reading(history: Path, wait_seconds: float) -> Generator[Connection]:
    """The history open for reading alone: no writes, no other files, no extensions, no settings.

    Raises:
        HistoryLocked: a writer held the history for `wait_seconds`.
        InputError: the file is no history, or DuckDB refused what was asked of it: why, and DuckDB's words.
    """
    with _when_free(history, lambda: duckdb.connect(history, read_only=True, config=_READER), wait_seconds) as db:
        try:
            yield db
        except duckdb.Error as error:
            raise InputError(f"{_refusal(error)}: {error}") from error


def _refusal(error: duckdb.Error) -> str:
    if isinstance(error, (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException)):
        return "this SQL is not understood"
    if "read-only" in str(error):
        return "the history is only read"
    if isinstance(error, duckdb.PermissionException) or "locked" in str(error):
        return "SQL reaches the history alone, and no files or settings"
    return "this SQL has no answer"


@contextmanager
def _kept_out(history: Path, wait_seconds: float) -> Generator[None]:
    """Keep everybody out of the history while another file takes its place."""
    with duckdb.connect(config=_STORAGE) as db:
        if history.exists():
            # A file that cannot be opened for another reason than being in use is what a rebuild is for.
            with suppress(ValueError, duckdb.Error):
                _attach(db, history, wait_seconds)
                db.execute("CHECKPOINT history")
        # Once the new file has the name, this log would be taken for its own.
        history.with_name(f"{HISTORY}.wal").unlink(missing_ok=True)
        yield


def _attach(db: Connection, history: Path, wait_seconds: float) -> None:
    place = str(history).replace("'", "''")
    _when_free(history, lambda: db.execute(f"ATTACH '{place}' AS history"), wait_seconds)


def _when_free(history: Path, use: Callable[[], T], wait_seconds: float) -> T:
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            return use()
        except duckdb.Error as error:
            holder = _holder(error)
            if not holder:
                raise InputError(f"{history} cannot be opened: {error}; {_REBUILD}") from error
            if time.monotonic() >= deadline:
                raise HistoryLocked(f"{history} is in use: {holder}") from error
        time.sleep(random.uniform(0.01, 0.1))  # uneven, so that two who wait do not keep meeting


def _holder(error: duckdb.Error) -> str:
    """Who has the file, in DuckDB's words; empty when that is not the trouble."""
    if isinstance(error, (duckdb.ConnectionException, duckdb.ResourceInUseException)):
        return f"this process (PID {os.getpid()})"
    sentence = re.search(r"Could not set lock on file .*?: (?:Conflicting lock is held in )?(.+?)(?:\. |$)", str(error))
    return sentence[1] if sentence else ""
