"""Runs, labels, passports, bridges and layout checks loaded from their ledgers into the history.

Owns which of them are due and what is computed anew after them; how they take their place is for `handing_over`. The
ledger is the truth: a run that could not be loaded now is loaded by the next `sync`, and the history can be made anew
at any time.
"""

import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tasks.errors import InputError
from tasks.history.asking import opened
from tasks.history.database import HISTORY, attach, kept_out, staging
from tasks.history.handing_over import (
    BRIDGES_ONCE,
    CALLS_ONCE,
    LABELS_ONCE,
    LAYOUTS_ONCE,
    ONCE,
    PASSPORTS_ONCE,
    Once,
    kind_of_ledger,
    ledger_bytes,
    load,
    load_each,
)
from tasks.history.layout import is_laid_out
from tasks.history.newest import DUE as BEST_DUE
from tasks.history.told_labels import DUE as CORRECTIONS_DUE
from tasks.ledger import label_sets as labels
from tasks.ledger import reading as ledger
from tasks.ledger.alarm_records import Restart, read_restart, restart_files

_Ask = Callable[[str], list[tuple[Any, ...]]]
"""SQL -> its rows."""
_DUE = """
    WITH wanted AS (
        SELECT run_id, flow, unnest(candidates) AS candidate FROM evaluations WHERE scheduled AND measured
    )
    SELECT DISTINCT coalesce(w.flow, n.flow) AS flow FROM wanted w FULL JOIN nights n USING (run_id, candidate)
    WHERE w.run_id IS NULL OR n.run_id IS NULL"""
"""Flows of which nights are missing or too many."""
_NONE_DUE = """
    SELECT NOT EXISTS (FROM runs WHERE scheduled) AND NOT EXISTS (FROM nights),
        NOT EXISTS (FROM labels WHERE page <> '') AND NOT EXISTS (FROM corrections),
        (SELECT count(DISTINCT candidate) < 2 FROM (SELECT unnest(candidates) AS candidate FROM runs))
            AND NOT EXISTS (FROM versus_best)"""
"""Whether there can be no nights, no corrections and no comparisons with the best that are due, by tables alone: to
plan the views that tell what is due takes thirty times as long."""


class Synced(NamedTuple):
    """What a sync did."""

    loaded: tuple[str, ...]
    """Ids of the runs that were loaded, oldest first."""
    left_out: tuple[str, ...]
    """A sentence for every ledger that could not be read, or not be loaded."""
    labels: tuple[str, ...] = ()
    """Names of the labels that were loaded."""
    passports: tuple[str, ...] = ()
    """Ids of the passports that were loaded."""
    bridges: tuple[str, ...] = ()
    """Ids of the bridges that were loaded."""
    layout_checks: tuple[str, ...] = ()
    """Ids of the layout checks that were loaded."""
    other_calls: tuple[str, ...] = ()
    """Ids of the sets of calls that judge no sample that were loaded."""
    corrected: tuple[str, ...] = ()
    """Ids of the evaluations of which people's labels say something else than before."""


class _BroughtUp(NamedTuple):
    """What was computed anew of what the history holds."""

    damaged: list[str]
    """A sentence for every restart that cannot be read."""
    corrected: list[str]
    """Evaluations of which people's labels say something else than before."""


def store_run(store: Path, run_id: str, wait_seconds: float = 2.0) -> None:
    """Load one run, finished or not, in place of what the history has of it.

    Raises:
        HistoryLocked: the history stayed in use for `wait_seconds`.
        InputError: the ledger is damaged, or the history was made by another version.
    """
    load(store / HISTORY, ledger.folder(store, run_id), wait_seconds)
    store_nights(store, wait_seconds)


def store_nights(store: Path, wait_seconds: float = 2.0) -> list[str]:
    """Load restarted baselines, and bring the nights of scheduled runs up to date; returns a sentence for every restart
    that cannot be read.

    Raises:
        HistoryLocked: the history stayed in use for `wait_seconds`.
        InputError: the history was made by another version.
    """
    return _bring_up_to_date(store / HISTORY, store, wait_seconds).damaged


def store_labels(store: Path, name: str, wait_seconds: float = 2.0) -> list[str]:
    """Load the labels of a name, where the history has none of that name; returns the evaluations that they concern.

    Raises:
        HistoryLocked: the history stayed in use for `wait_seconds`.
        InputError: their ledger is damaged, or the history was made by another version.
    """
    _store_once(LABELS_ONCE, store, name, wait_seconds)
    return _bring_up_to_date(store / HISTORY, store, wait_seconds).corrected


def drop_labels(store: Path, wait_seconds: float = 2.0) -> list[str]:
    """Take those labels out of the history that were removed from the store; returns the evaluations concerned.

    Raises:
        HistoryLocked: the history stayed in use for `wait_seconds`.
        InputError: the history was made by another version.
    """
    _drop_labels(store / HISTORY, store, wait_seconds)
    return _bring_up_to_date(store / HISTORY, store, wait_seconds).corrected


def store_passport(store: Path, passport_id: str, wait_seconds: float = 2.0) -> None:
    """Load one finished passport, where the history has it not.

    Raises:
        HistoryLocked: the history stayed in use for `wait_seconds`.
        InputError: its card is damaged, or the history was made by another version.
    """
    _store_once(PASSPORTS_ONCE, store, passport_id, wait_seconds)


def store_bridge(store: Path, bridge_id: str, wait_seconds: float = 2.0) -> None:
    """Load one bridge, where the history has it not.

    Raises:
        HistoryLocked: the history stayed in use for `wait_seconds`.
        InputError: its rows are damaged, or the history was made by another version.
    """
    _store_once(BRIDGES_ONCE, store, bridge_id, wait_seconds)


def store_layout_check(store: Path, check_id: str, wait_seconds: float = 2.0) -> None:
    """Load one layout check, where the history has it not.

    Raises:
        HistoryLocked: the history stayed in use for `wait_seconds`.
        InputError: its rows are damaged, or the history was made by another version.
    """
    _store_once(LAYOUTS_ONCE, store, check_id, wait_seconds)


def store_other_calls(store: Path, wait_seconds: float = 2.0) -> None:
    """Load the calls that judge no sample, where the history has them not.

    Raises:
        HistoryLocked: the history stayed in use for `wait_seconds`.
        InputError: the rows of some are damaged, or the history was made by another version.
    """
    _store_once(CALLS_ONCE, store, "", wait_seconds)


def _store_once(kind: Once, store: Path, name: str, wait_seconds: float) -> None:
    """Load what is new of a kind; only the folder of a name where one is given."""
    with _asking(store / HISTORY, wait_seconds) as ask:
        new = [place for place in _new(kind, store, ask) if name in ("", place.name)]
    for place in new:
        load(store / HISTORY, place, wait_seconds)


def sync(store: Path, rebuild: bool = False, wait_seconds: float = 30.0) -> Synced:
    """Load every run whose ledger is not in the history as it now stands: new, grown or finished since; and new
    labels, passports, bridges and layout checks.

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
        with kept_out(history, wait_seconds):
            late = _load_changed(fresh, store, wait_seconds)
            if fresh.exists():
                fresh.replace(history)
    loaded, *others = (
        tuple(sorted({*getattr(early, what), *getattr(late, what)}))
        for what in ("loaded", "labels", "passports", "bridges", "layout_checks", "other_calls")
    )
    return Synced(loaded, late.left_out, *others)


def make_anew(store: Path, wait_seconds: float = 30.0) -> Synced:
    """Make the history from the ledgers and from nothing else, so that no byte of what went from them is in its file;
    none where no run is left.

    Raises:
        HistoryLocked: the history stayed in use for `wait_seconds`.
        InputError: the history cannot be used.
    """
    if not ledger.run_folders(store):
        with kept_out(store / HISTORY, wait_seconds):
            (store / HISTORY).unlink(missing_ok=True)
    return sync(store, rebuild=True, wait_seconds=wait_seconds)


def pending(store: Path, wait_seconds: float = 30.0) -> list[str]:
    """Ids of finished runs that are not in the history, or not as they ended.

    Raises:
        HistoryLocked: the history stayed in use for `wait_seconds`.
        InputError: the history cannot be opened, or was made by another version.
    """
    with _asking(store / HISTORY, wait_seconds) as ask:
        return [run.name for run in _changed(store, ask) if (run / ledger.END).exists()]


def _load_changed(history: Path, store: Path, wait_seconds: float) -> Synced:
    _drop_labels(history, store, wait_seconds)
    with _asking(history, wait_seconds) as ask:
        missing = [*_changed(store, ask), *(place for kind in ONCE for place in _new(kind, store, ask))]
    tried = list(load_each(history, missing, wait_seconds))
    loaded = [place for place, refusal in tried if not refusal]
    left_out = [refusal for _, refusal in tried if refusal]
    brought = _bring_up_to_date(history, store, wait_seconds)
    runs, *others = (tuple(place.name for place in loaded if kind_of_ledger(place) is kind) for kind in (None, *ONCE))
    return Synced(runs, (*left_out, *brought.damaged), *others, corrected=tuple(brought.corrected))


def _drop_labels(history: Path, store: Path, wait_seconds: float) -> None:
    removed = labels.removed_labels(store)
    if not removed:
        return
    with _asking(history, wait_seconds) as ask:
        gone = removed & {tuple(row) for row in ask("SELECT DISTINCT name, source_sha256 FROM labels")}
    if not gone:
        return
    with staging() as db:
        attach(db, history, wait_seconds)
        for name, sha256 in sorted(gone):
            db.execute("DELETE FROM history.labels WHERE name = ? AND source_sha256 = ?", [name, sha256])


def _bring_up_to_date(history: Path, store: Path, wait_seconds: float) -> _BroughtUp:
    if not history.exists():
        return _BroughtUp([], [])
    with _asking(history, wait_seconds) as ask:
        restarts, damaged = _new_restarts(store, ask)
        nights_due, corrections_due, best_due = _due(ask)
    if restarts or nights_due:
        # Brings numpy, which whoever only asks what is pending does without.
        from tasks.history.watching import bring_up_to_date

        bring_up_to_date(history, restarts, _DUE, wait_seconds)
    corrected: list[str] = []
    if corrections_due:
        from tasks.history.correcting import correct

        corrected = correct(history, wait_seconds)
    if best_due:
        from tasks.history.best import compare_with_best

        compare_with_best(history, wait_seconds)
    return _BroughtUp(damaged, corrected)


def _due(ask: _Ask) -> tuple[bool, ...]:
    """Whether nights, corrections, and comparisons with the best are to be computed anew."""
    none = [*ask(_NONE_DUE), (True, True, True)][0]
    return tuple(
        not is_none and bool(ask(sql)) for is_none, sql in zip(none, (_DUE, CORRECTIONS_DUE, BEST_DUE), strict=True)
    )


def _new_restarts(store: Path, ask: _Ask) -> tuple[list[Restart], list[str]]:
    known = {name for (name,) in ask("SELECT restart_id FROM baselines")}
    found: list[Restart] = []
    damaged: list[str] = []
    for file in restart_files(store):
        try:
            found += [read_restart(file)] if file.stem not in known else []
        except InputError as error:
            damaged.append(f"A restarted baseline was left out: {error}")
    return found, damaged


def _changed(store: Path, ask: _Ask) -> list[Path]:
    known = dict(ask("SELECT run_id, ledger_bytes FROM runs"))
    return [run for run in ledger.run_folders(store) if known.get(run.name) != ledger_bytes(run)]


def _new(kind: Once, store: Path, ask: _Ask) -> list[Path]:
    known = {name for (name,) in ask(f"SELECT DISTINCT {kind.column} FROM {kind.table}")}
    return [place for place in kind.folders(store) if place.name not in known]


@contextmanager
def _asking(history: Path, wait_seconds: float) -> Generator[_Ask]:
    """The history opened once for several questions, for opening takes longer than an answer; there are no rows where
    there is no file, or one whose maker was killed before it had tables.
    """
    if not history.exists():
        yield lambda _: []
        return
    with opened(history.parent, wait_seconds) as db:
        laid_out = is_laid_out(db)
        yield lambda sql: db.execute(sql).fetchall() if laid_out else []
