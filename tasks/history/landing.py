"""Landing of ledgers in the history: its tables and views, and the records that it lacks."""

import re
import shutil
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
from duckdb import DuckDBPyConnection as Connection

from tasks.errors import InputError
from tasks.files import keep_private
from tasks.history.database import (
    FRESH,
    HISTORY,
    VIEWS,
    Master,
    alone_with_master,
    attached,
    is_laid_out,
    is_published,
    layout_mark,
    layout_sql,
    opened_master,
    publish,
    remove_history,
    replace_master,
    views_sql,
    what_is_due,
)
from tasks.history.queries import opened
from tasks.ledger import labels, passports
from tasks.ledger import run_files as ledger
from tasks.ledger.side_records import BRIDGES, OTHER_CALLS, Restart, read_restart, restart_files
from tasks.text import number_of, print_aside

TELL_SECONDS = 5.0
"""Seconds between two lines about a landing of many ledgers: thousands take minutes."""


def lay_out(db: Connection) -> None:
    """Make tables, views, comments and the mark in the attached, empty `history`."""
    # Records of statistics import numpy and scipy, which readers of a history do not need.
    from tasks.history.columns import comment, with_definitions

    db.execute(with_definitions(layout_sql("tables")))
    uncommented = """SELECT table_name, column_name FROM duckdb_columns()
        WHERE database_name = 'history' AND NOT internal AND comment IS NULL"""
    named = db.execute(uncommented).fetchall()
    db.execute("\n".join(_comment(table, column, comment(table, column)) for table, column in named))
    db.execute(f"{views_sql()} CREATE MACRO layout() AS '{layout_mark()}'")
    db.execute("\n".join(_view_comments(db)))


def _view_comments(db: Connection) -> Iterator[str]:
    """Yield comments on the columns of views: a line `-- column: words` at the end of the view's file, or the comment
    that the first of its tables and views with such a column has."""
    found = db.execute("SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal").fetchall()
    comments = {(table, column): words for table, column, words in found}
    places = {table for table, *_ in found}
    for view in VIEWS:
        sql = layout_sql(f"views/{view}")
        own = dict(re.findall(r"^-- (\w+): (.+)$", sql.partition("COMMENT ON VIEW")[2], re.MULTILINE))
        sources = [word for word in dict.fromkeys(re.findall(r"\w+", sql)) if word in places and word != view]
        for column in [column for place, column in comments if place == view]:
            words = own.get(column) or next(filter(None, (comments.get((each, column)) for each in sources)), "")
            comments[view, column] = words
            yield _comment(view, column, words)


def _comment(place: str, column: str, words: str) -> str:
    return """COMMENT ON COLUMN {}."{}" IS '{}';""".format(place, column, words.replace("'", "''"))


class _Once(NamedTuple):
    """Kind of ledger that is written once, never changed, and loaded into one table."""

    column: str
    """Column with the name of the folder."""
    folder: str
    """Folder of the store that contains the folders with rows."""
    last: str
    """Name of the file whose presence means that a folder is complete."""
    rows: Callable[[Path], Iterable[Mapping[str, Any]]]
    """Reader of the rows of a folder."""

    def folders(self, store: Path) -> list[Path]:
        """Return all complete folders of this kind in a store, sorted by name."""
        return ledger.folders_with(store, self.folder, self.last)


_WRITTEN_ONCE = {
    "labels": _Once("name", "labels", labels.ABOUT, labels.history_rows),
    "passports": _Once("passport_id", passports.PASSPORTS, passports.CARD, passports.history_rows),
    "bridges": _Once(BRIDGES.column, BRIDGES.folder, BRIDGES.file, BRIDGES.history_rows),
    "other_calls": _Once(OTHER_CALLS.column, OTHER_CALLS.folder, OTHER_CALLS.file, OTHER_CALLS.history_rows),
}
"""Table -> ledgers that are loaded into it."""


class Landed(NamedTuple):
    """Result of a landing."""

    loaded: tuple[str, ...]
    """Ids of the runs that were loaded, oldest first."""
    left_out: tuple[str, ...]
    """Sentence for each ledger that could not be read or loaded."""
    besides: Mapping[str, tuple[str, ...]] = {}
    """Table -> names of the other ledgers that were loaded into it."""
    corrected: tuple[str, ...] = ()
    """Ids of the evaluations whose corrections by people's labels have changed."""

    def sentence_about(self, run_id: str) -> str:
        """Return the sentence about a run that was left out; empty: it was not left out."""
        return next((each for each in self.left_out if f"{run_id} was left out" in each), "")


def has_ledgers(store: Path) -> bool:
    """Return whether a store holds any ledger that the history loads."""
    return bool(ledger.run_folders(store)) or any(kind.folders(store) for kind in _WRITTEN_ONCE.values())


def land(store: Path) -> Landed:
    """Load all ledgers of the store that the history lacks. No run is ever removed, even if its ledger is gone.

    Raises:
        InputError: another version made the history, or it cannot be written; it is unchanged.
    """
    with _writing(store) as master:
        _make_master(master, store)
        in_step = is_published(master, store)
        landed, changed = _append(store, master, in_step)
        if changed:
            publish(master, store)
        return landed


def rebuild(store: Path, kept: Sequence[str] = ()) -> Landed:
    """Rebuild the history from all ledgers; the present one serves meanwhile, and is kept if no run can be read.

    Args:
        kept: runs that are copied from the present history, unless their ledgers have changed.

    Raises:
        InputError: the history cannot be written; it is unchanged.
    """
    with _writing(store) as master:
        fresh = master.with_name(FRESH)
        if kept:
            _copy_runs(store, fresh, kept)
        landed, _ = _append(store, fresh, in_step=False)
        if landed.loaded or kept or not (store / HISTORY).exists():
            replace_master(fresh, master)
            publish(master, store)
        return landed


def _copy_runs(store: Path, fresh: Path, runs: Sequence[str]) -> None:
    """Copy runs of the history into a fresh master, which has no byte of the others."""
    from tasks.history.rows import copy_runs

    with opened_master(fresh) as made:
        _lay_out(made.db)
        with attached(made.db, store / HISTORY, "present"):
            copy_runs(made.db, runs)


def make_anew(store: Path, outdated: Collection[str] | None = None) -> None:
    """Rebuild the history without any byte of removed data; remove it if no run is left.

    Args:
        outdated: runs to load anew; all others are kept, also those whose ledgers are gone or damaged. None: the
            ledgers alone make the history.

    Raises:
        InputError: as in `rebuild`, and in `check_none_lost` where another version made the history.
    """
    kept = [] if outdated is None else _kept(store, outdated)
    if not (rebuild(store, kept).loaded or kept):
        with _writing(store) as master:
            remove_history(master, store)


def _kept(store: Path, outdated: Collection[str]) -> list[str]:
    try:
        with opened(store) as db:
            is_laid_out(db)
    except InputError:  # its tables may have other columns, or cannot be read
        check_none_lost(store)
        return []
    return sorted(_in_history(store).difference(outdated))


def prepare(store: Path) -> None:
    """Prepare a store for its next run: import what loads it, and make an empty master if there is none.

    To make tables, views and comments takes longer than to load a run.

    Raises:
        InputError: the master cannot be written.
    """
    import_module("tasks.history.rows")
    with _writing(store) as master:
        _make_master(master, store)


def load_missing(store: Path) -> tuple[str, ...]:
    """Load what the history lacks, such as a run whose process was killed; return sentences about what is left out.

    Raises:
        InputError: another version made the history, or it cannot be written; it is unchanged.
    """
    if not (store / HISTORY).exists():
        due = has_ledgers(store)
    else:
        with opened(store) as db:
            due = is_laid_out(db) and any((*_due_runs(store, _known_runs(db)), *_due_once(store, db)))
    return land(store).left_out if due else ()


def missing(store: Path) -> list[str]:
    """Return the ids of finished runs that the history lacks, or has in an earlier state.

    Raises:
        InputError: the history cannot be opened, or was made by another version.
    """
    if not (store / HISTORY).exists():
        known: Mapping[str, int] = {}
    else:
        with opened(store) as db:
            known = _known_runs(db) if is_laid_out(db) else {}
    return [run.name for _, run in _due_runs(store, known) if (run / ledger.END).exists()]


def only_in_history(store: Path) -> list[str]:
    """Return the ids of the runs that a rebuilt history would lack, because their ledgers are gone; oldest first."""
    return sorted(_in_history(store).difference(run.name for run in ledger.run_folders(store)))


def check_none_lost(store: Path) -> None:
    """Raise InputError if a history that is rebuilt from the ledgers alone would lack runs."""
    if lost := only_in_history(store):
        raise InputError(
            f"{store / HISTORY} has {number_of(len(lost), 'run')} without a ledger, the last {lost[-1]}: a rebuilt "
            "one would lack them. Bring the ledgers back; or move that file to another folder, where it still answers "
            "queries, or remove it, and give the command again"
        )


def _in_history(store: Path) -> set[str]:
    """Return the ids of the runs that the history has, without removed ones; none if it cannot be read."""
    known: Mapping[str, int] = {}
    if (store / HISTORY).exists():
        with suppress(InputError), opened(store) as db:  # a rebuild mends a damaged file
            known = _known_runs(db)
    return {*known}.difference(run.name for run in ledger.folders_with(store, "ledger", ledger.REMOVED))


@contextmanager
def _writing(store: Path) -> Generator[Path]:
    """Hold the master's lock, and raise disk errors as an InputError in the words of a user."""
    try:
        with alone_with_master(store) as master:
            yield master
    except (duckdb.OperationalError, duckdb.FatalException, OSError) as error:
        words = str(error).partition("\n")[0]
        raise InputError(
            f"{store / HISTORY} is unchanged, because it cannot be written: {words}; the next run or `jury store sync` "
            "loads what it lacks"
        ) from error


def _append(store: Path, place: Path, in_step: bool) -> tuple[Landed, bool]:
    """Append missing data to the master in this file, and compute the results that depend on them.

    Args:
        in_step: all data in the master are published; otherwise an earlier landing did not finish.

    Returns:
        The result, and whether the master must be published.
    """
    with opened_master(place) as master:
        db = master.db
        _lay_out(db)
        dropped = _drop_labels(db, store)
        restarts, damaged = _new_restarts(db, store)
        loaded: dict[str, list[str]] = {table: [] for table in ("runs", *_WRITTEN_ONCE)}
        left_out: list[str] = []
        for table, name, why in _put_due(master, store):
            if why:
                left_out.append(why)
            else:
                loaded[table].append(name)
        corrected: list[str] = []
        changed = dropped or bool(restarts) or any(loaded.values()) or not in_step
        if changed:
            corrected, faults = _compute(master, restarts)
            db.execute("CHECKPOINT history")
            left_out += faults
    runs = tuple(loaded.pop("runs"))
    besides = {table: tuple(names) for table, names in loaded.items() if names}
    return Landed(runs, (*left_out, *damaged), besides, tuple(corrected)), changed


def _make_master(place: Path, store: Path) -> None:
    """Make a master if there is none, or nothing: a full disk or a kill would leave a damaged one.

    A history that somebody brought or kept alone becomes the master: it may have the only rows of runs whose ledgers
    are elsewhere. Otherwise the master is empty.
    """
    if place.exists():
        return
    history, fresh = store / HISTORY, place.with_name(FRESH)
    if history.exists():
        shutil.copyfile(history, fresh)
        keep_private(fresh)
    else:
        with opened_master(fresh) as master:
            _lay_out(master.db)
    replace_master(fresh, place)


def _lay_out(db: Connection) -> None:
    if not is_laid_out(db):
        db.begin()
        lay_out(db)
        db.commit()


def _put_due(master: Master, store: Path) -> Iterator[tuple[str, str, str]]:
    """Load each due ledger; yield its table and name, and the reason if it was left out (empty: it was loaded)."""
    due = [*_due_runs(store, _known_runs(master.db)), *_due_once(store, master.db)]
    if not due:
        return
    # Imports numpy and scipy, which callers that only look for missing runs do not need.
    from tasks.history.rows import LeftOut, put_rows, put_run

    told_at = time.monotonic()
    for done, (table, place) in enumerate(due):
        if time.monotonic() - told_at > TELL_SECONDS:
            told_at = time.monotonic()
            print_aside(f"{done:,} of {len(due):,} ledgers loaded into {store / HISTORY} …")
        try:
            if table == "runs":
                put_run(master, place, ledger_bytes(place))
            else:
                put_rows(master, table, _WRITTEN_ONCE[table].rows, place)
            yield table, place.name, ""
        except LeftOut as error:
            yield table, place.name, str(error)


def ledger_bytes(run: Path) -> int:
    """Return the bytes of a run's ledger; a changed number shows that the ledger has grown since it was loaded."""
    files = (run / name for name in (ledger.RUN, ledger.JUDGMENTS, ledger.OUTCOMES, ledger.END))
    return sum(file.stat().st_size for file in files if file.exists())


def _known_runs(db: Connection) -> dict[str, int]:
    return dict(db.execute("SELECT run_id, ledger_bytes FROM runs").fetchall())


def _due_runs(store: Path, known: Mapping[str, int]) -> Iterator[tuple[str, Path]]:
    return (("runs", run) for run in ledger.run_folders(store) if known.get(run.name) != ledger_bytes(run))


def _due_once(store: Path, db: Connection) -> Iterator[tuple[str, Path]]:
    for table, kind in _WRITTEN_ONCE.items():
        if places := kind.folders(store):
            known = {name for (name,) in db.execute(f"SELECT DISTINCT {kind.column} FROM {table}").fetchall()}
            yield from ((table, place) for place in places if place.name not in known)


def _drop_labels(db: Connection, store: Path) -> bool:
    """Delete labels from the history that were removed from the store; return whether there were any."""
    known = db.execute("SELECT DISTINCT name, source_sha256 FROM labels").fetchall()
    gone = sorted(labels.removed_labels(store).intersection(known)) if known else []
    for name, sha256 in gone:
        db.execute("DELETE FROM labels WHERE name = ? AND source_sha256 = ?", [name, sha256])
    return bool(gone)


def _new_restarts(db: Connection, store: Path) -> tuple[list[Restart], list[str]]:
    """Return restarted baselines that the history lacks, and a sentence for each unreadable one."""
    files, found, damaged = restart_files(store), list[Restart](), list[str]()
    known = db.execute("SELECT restart_id FROM baselines").fetchall() if files else []
    for file in files:
        try:
            found += [read_restart(file)] if (file.stem,) not in known else []
        except InputError as error:
            damaged.append(f"A restarted baseline was left out: {error}")
    return found, damaged


def _compute(master: Master, restarts: list[Restart]) -> tuple[list[str], list[str]]:
    """Compute due results of several runs.

    A fault in one table must not keep the history from users: the table stays due, and the others are computed.

    Returns:
        The evaluations whose corrections are new, and a sentence for each table that could not be computed.
    """
    nights_due, corrections_due, best_due = what_is_due(master.db)
    corrected, faults = list[str](), list[str]()
    if not (restarts or nights_due or corrections_due or best_due):
        return corrected, faults
    # Imports numpy, which callers that only look for missing runs do not need.
    from tasks.history import derived_tables
    from tasks.history.rows import LeftOut, all_or_nothing

    works: list[tuple[str, bool, Callable[[], object]]] = [
        ("nights", bool(restarts or nights_due), lambda: derived_tables.bring_up_to_date(master, restarts)),
        ("corrections", bool(corrections_due), lambda: corrected.extend(derived_tables.correct(master))),
        ("versus_best", bool(best_due), lambda: derived_tables.compare_with_best(master)),
    ]
    for table, is_due, compute in works:
        if is_due:
            try:
                with all_or_nothing(master.db, f"The table {table} could not be computed"):
                    compute()
            except LeftOut as error:
                faults.append(str(error))
    return corrected, faults
