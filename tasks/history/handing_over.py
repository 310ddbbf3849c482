"""Ledgers handed over to the history: each staged by itself, then taken in by a transaction of its own.

Owns which table a kind of ledger goes into, how many are loaded by one opening of the history, and what a run's rows
take the place of. Which ledgers are due is for `loading`, what their rows are for `staging`.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
from duckdb import DuckDBPyConnection as Connection

from tasks.errors import InputError
from tasks.history.database import HISTORY, attach, staging, told
from tasks.history.layout import drop_tables, is_laid_out, lay_out
from tasks.ledger import label_sets as labels
from tasks.ledger import passports
from tasks.ledger import reading as ledger
from tasks.ledger.bridges import BRIDGES
from tasks.ledger.kept_rows import Kept
from tasks.ledger.layout_checks import LAYOUT_CHECKS
from tasks.ledger.other_calls import OTHER_CALLS

_OF_RUNS = ("runs", "judgments", "outcomes", "controls", "anchor_outcomes", "aspect_scores")
_OF_EVALUATIONS = ("scores", "rates")
_SMALL_BYTES, _MOST_TOGETHER = 1_000_000, 10
"""Ledgers smaller than this are loaded by one opening of the history, so many that it is held for about a second."""


class Once(NamedTuple):
    """A ledger that is written once, never changed, and loaded into one table: such as labels, or a passport."""

    table: str
    column: str
    """That which holds the name of the folder."""
    mark: str
    """File that is there once all is."""
    folders: Callable[[Path], list[Path]]


def _kept(table: str, kept: Kept[Any]) -> Once:
    return Once(table, kept.column, kept.file, kept.folders)


LABELS_ONCE = Once("labels", "name", labels.ABOUT, labels.label_folders)
PASSPORTS_ONCE = Once("passports", "passport_id", passports.CARD, passports.passport_folders)
BRIDGES_ONCE = _kept("bridges", BRIDGES)
LAYOUTS_ONCE = _kept("layout_checks", LAYOUT_CHECKS)
CALLS_ONCE = _kept("other_calls", OTHER_CALLS)
ONCE = (LABELS_ONCE, PASSPORTS_ONCE, BRIDGES_ONCE, LAYOUTS_ONCE, CALLS_ONCE)
"""In the order in which `Synced` tells them."""


class NotLoaded(InputError):
    """DuckDB could not bring one ledger into the history: no room on the disk, rows too large for its memory."""


def kind_of_ledger(place: Path) -> Once | None:
    """What a folder holds; None: a run."""
    return next((kind for kind in ONCE if (place / kind.mark).exists()), None)


def ledger_bytes(run: Path) -> int:
    """Bytes of a run's ledger, by which one that has grown since it was loaded is known."""
    files = (run / name for name in (ledger.RUN, ledger.JUDGMENTS, ledger.OUTCOMES, ledger.END))
    return sum(file.stat().st_size for file in files if file.exists())


def make_history(store: Path, wait_seconds: float = 2.0) -> None:
    """Make an empty history where a store has none: to make tables, views and comments takes longer than to load a run.

    Raises:
        HistoryLocked: another run made it, and kept it for `wait_seconds`.
        InputError: it cannot be written.
    """
    history = store / HISTORY
    if history.exists():
        return
    with staging() as db, told():
        attach(db, history, wait_seconds)
        if not is_laid_out(db):
            db.begin()
            lay_out(db)
            db.commit()


def load(history: Path, place: Path, wait_seconds: float) -> None:
    """Load one folder: that of a run in place of what the history has of it, any other where the history has it not.

    Raises:
        HistoryLocked: the history stayed in use for `wait_seconds`.
        InputError: the ledger is damaged, DuckDB could not take it, or the history was made by another version.
    """
    with _opened_for(history, [place], wait_seconds) as take_in:
        take_in(place)


def load_each(history: Path, places: list[Path], wait_seconds: float) -> Iterator[tuple[Path, str]]:
    """Load folders, few by one opening of the history; yields each with why it was left out, empty where it was loaded.

    Raises:
        HistoryLocked: the history stayed in use for `wait_seconds`.
        InputError: the history was made by another version.
    """
    for few in _together(places):
        while few:
            tried = _tried(history, few, wait_seconds)
            yield from tried
            few = few[len(tried) :]


def _tried(history: Path, places: list[Path], wait_seconds: float) -> list[tuple[Path, str]]:
    """What one opening of the history made of these folders, up to the first that DuckDB refused: that may have cost it
    more than one ledger.
    """
    from tasks.history.staging import DamagedLedger

    tried: list[tuple[Path, str]] = []
    with _opened_for(history, places, wait_seconds) as take_in:
        for place in places:
            try:
                take_in(place)
                tried.append((place, ""))
            except DamagedLedger as error:
                tried.append((place, str(error)))
            except NotLoaded as error:
                tried.append((place, str(error)))
                break
    return tried


def _together(places: list[Path]) -> Iterator[list[Path]]:
    """Those that are loaded by one opening of the history: a few small ones, or a large one by itself."""
    few: list[Path] = []
    for place in places:
        small = kind_of_ledger(place) is not None or ledger_bytes(place) < _SMALL_BYTES
        if few and (not small or len(few) == _MOST_TOGETHER):
            yield few
            few = []
        if small:
            few.append(place)
        else:
            yield [place]
    if few:
        yield few


@contextmanager
def _opened_for(history: Path, places: list[Path], wait_seconds: float) -> Generator[Callable[[Path], None]]:
    """What loads one of these ledgers, each in a transaction of its own. The history is attached when the first is
    staged, and until the context ends: to open and to close it takes as long as to load a small one."""
    # Brings numpy and scipy, which whoever only asks what is pending does without.
    from tasks.history.staging import stage_kept, stage_other_calls, stage_run, vector_bytes

    staged = attached = False

    def take_in(place: Path) -> None:
        nonlocal staged, attached
        once = kind_of_ledger(place)
        try:
            if staged:
                drop_tables(db)
            staged = True
            if once:
                stage_kept(db, once.table, place)
            else:
                stage_run(db, place, ledger_bytes(place))
                stage_other_calls(db, place.parents[1], place.name)
            if not attached:
                attach(db, history, wait_seconds)
                attached = True
            _hand_over(db, place, once)
        except duckdb.Error as error:
            words = str(error).partition("\n")[0]
            raise NotLoaded(f"{history} cannot be written: {words}; {place.name} was left out") from error

    largest = max(0 if kind_of_ledger(place) else vector_bytes(place) for place in places)
    with staging(largest) as db:
        yield take_in


def _hand_over(db: Connection, place: Path, once: Once | None) -> None:
    laid_out = is_laid_out(db)
    db.begin()
    try:
        if not laid_out:
            lay_out(db)
        if once is None:
            _hand_over_run(db, place)
        _hand_over_once(db, once or CALLS_ONCE)  # a run brings those that were asked beside it
        db.commit()
    except duckdb.Error:
        with suppress(duckdb.Error):  # where to commit has failed there is nothing to roll back
            db.rollback()
        raise


def _hand_over_once(db: Connection, kind: Once) -> None:
    kept = f"SELECT {kind.column} FROM history.{kind.table}"
    db.execute(f"INSERT INTO history.{kind.table} FROM {kind.table} WHERE {kind.column} NOT IN ({kept})")


def _hand_over_run(db: Connection, run: Path) -> None:
    for table in _OF_RUNS:
        db.execute(f"DELETE FROM history.{table} WHERE run_id = ?", [run.name])
    for table in ("nights", "anchor_nights", "corrections"):
        db.execute(f"DELETE FROM history.{table} WHERE run_id IN (SELECT evaluation_id FROM runs)")
    for table in _OF_EVALUATIONS:
        # A shard that is not the last to finish has none of an evaluation's rows, and takes none away.
        db.execute(f"DELETE FROM history.{table} WHERE run_id IN (SELECT run_id FROM {table})")
    for table in (*_OF_RUNS, *_OF_EVALUATIONS):
        db.execute(f"INSERT INTO history.{table} FROM {table}")
    db.execute("DELETE FROM history.versus_best WHERE list_has_any(runs, (SELECT list(evaluation_id) FROM runs))")
    db.execute("INSERT INTO history.pictures (FROM pictures EXCEPT FROM history.pictures)")
