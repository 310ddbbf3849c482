"""Rows of the history, loaded from the files of ledgers.

A run's rows replace those that the history has of it; each ledger has its own transaction. `landing` finds the due
ledgers, `judging.results` computes results from one.
"""

import errno
import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any

import duckdb
from duckdb import DuckDBPyConnection as Connection
from pydantic import ValidationError

from tasks.errors import InputError
from tasks.history.database import Master, quoted
from tasks.judging.results import results_of
from tasks.ledger import run_files as ledger
from tasks.ledger.evaluations import evaluation_folders, judge_key
from tasks.records import Record, RunEnd, RunStart

_OF_RUNS = ("runs", "judgments", "outcomes", "controls", "anchor_outcomes", "aspect_scores")
_OF_EVALUATIONS = ("scores", "rates")
_OUTDATED = (
    """DELETE FROM nights WHERE (flow, candidate, series_key, protocol_key) IN (
        SELECT (flow, candidate, series_key, protocol_key) FROM nights WHERE run_id = $1)""",
    "DELETE FROM anchor_nights WHERE run_id = $1",
    "DELETE FROM corrections WHERE run_id = $1",
    "DELETE FROM versus_best WHERE list_contains(runs, $1)",
)
"""Deletion of results that depend on an evaluation and others, and are due again once it has changed."""
_REPEATED = """UPDATE judgments SET last_attempt = false
    FROM (SELECT candidate, sample_id, "control", dimension, "order", vote, max(attempt) AS last
        FROM judgments WHERE run_id = $1 AND attempt > 1 GROUP BY ALL) AS repeated
    WHERE run_id = $1 AND attempt < last
        AND (judgments.candidate, judgments.sample_id, judgments."control", judgments.dimension, judgments."order",
            judgments.vote)
        IS NOT DISTINCT FROM (repeated.candidate, repeated.sample_id, repeated."control", repeated.dimension,
            repeated."order", repeated.vote)"""
"""Update of repeated calls only: a window over all rows would hold all of them in memory, with their texts."""
_ASPECTS = """INSERT INTO aspect_scores BY NAME
    SELECT run_id, flow, candidate, sample_id, dimension AS tag, vote, unnest(scores).aspect AS aspect,
           unnest(scores).score AS score, unnest(scores).explanation AS explanation
    FROM judgments WHERE run_id = $1 AND last_attempt AND len(scores) > 0 AND coalesce("control", '') = ''"""
_REPLIES_FROM = """SELECT if(reused_from = '', run_id, reused_from) AS origin, count(*) FROM judgments
    WHERE run_id = $1 AND last_attempt AND status = 'ok' AND coalesce("control", '') = ''
    GROUP BY ALL ORDER BY origin"""
_PICTURES = """INSERT INTO pictures BY NAME
    FROM (
        SELECT DISTINCT picture.*, 'pictures/' || picture.source_sha256 || '.jpg' AS picture_path
        FROM (SELECT unnest(map_values(pictures)) AS picture FROM outcomes WHERE run_id = $1)
    ) NATURAL ANTI JOIN pictures"""
_PORTION_ROWS, _PORTION_BYTES = 1024, 8_000_000
"""Maximum rows and bytes that are inserted together: DuckDB holds the texts of all these rows at once."""
_LINE = re.compile(r"\bin line (\d+)")
"""Line number in DuckDB's message about a wrong row."""
_REFUSED = (duckdb.DataError, duckdb.IntegrityError, duckdb.InvalidInputException)
"""Errors that DuckDB raises for a wrong row, rather than for the disk or the memory."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class LeftOut(InputError):
    """Part of the history that could not be made, with the reason; all other parts can."""


def put_run(master: Master, run: Path, ledger_bytes: int) -> None:
    """Load the ledger of a run, finished or not, in place of the rows that the history has of it.

    Args:
        ledger_bytes: its size before it is read here: rows appended meanwhile make the run due again.

    Raises:
        LeftOut: it is unreadable, or DuckDB refuses a row; nothing of it is loaded.
        duckdb.Error: the disk has no room.
    """
    with all_or_nothing(master.db, f"The ledger {run} was left out"):
        start = ledger.read_start(run)
        is_known = _remove_run(master.db, run.name, start.evaluation_id)
        _insert_run(master, run, start, ledger_bytes, is_known)


def copy_runs(db: Connection, runs: Sequence[str]) -> None:
    """Copy the rows of runs, and the results of evaluations without any other, from `present` into an empty history."""
    for table in _OF_RUNS:
        db.execute(f"INSERT INTO {table} FROM present.{table} WHERE run_id IN (SELECT unnest($1))", [runs])
    db.execute("""CREATE OR REPLACE TEMP TABLE whole AS
        SELECT evaluation_id FROM runs EXCEPT SELECT evaluation_id FROM present.runs ANTI JOIN runs USING (run_id)""")
    for table in _OF_EVALUATIONS:
        db.execute(f"INSERT INTO {table} FROM present.{table} WHERE run_id IN (FROM whole)")
    db.execute("""INSERT INTO pictures FROM present.pictures
        WHERE source_sha256 IN (SELECT unnest(map_values(pictures)).source_sha256 FROM outcomes)""")


def put_rows(master: Master, table: str, rows: Callable[[Path], Iterable[Mapping[str, Any]]], place: Path) -> None:
    """Load a ledger that is written once: labels, the card of a passport, a bridge, or other calls.

    Args:
        rows: reader of the rows of a folder.

    Raises:
        LeftOut: it is unreadable, or DuckDB refuses a row; nothing of it is loaded.
        duckdb.Error: the disk has no room.
    """
    with all_or_nothing(master.db, f"The ledger {place} was left out"):
        insert_rows(master, table, rows(place), place)


@contextmanager
def all_or_nothing(db: Connection, failure: str) -> Generator[None]:
    """Commit what is written in the context, or nothing of it.

    Args:
        failure: beginning of the sentence if it fails, such as `The ledger PLACE was left out`.

    Raises:
        LeftOut: this part is damaged or larger than the memory, or the program is at fault.
        duckdb.Error: the disk has no room, or the file of the history is at fault.
    """
    db.begin()
    try:
        yield
        db.commit()
    except BaseException as error:
        with suppress(duckdb.Error):  # after a failed commit there is nothing to roll back
            db.rollback()
        if _is_of_one_part(error):
            raise LeftOut(f"{failure}: {_words(error)}") from error
        raise


def _is_of_one_part(error: BaseException) -> bool:
    """Return whether an error concerns one part, damaged or larger than the memory, so that others can be made."""
    if isinstance(error, OSError):
        return error.errno not in _NO_ROOM
    if isinstance(error, duckdb.TransactionException):  # the commit failed
        return "Could not write" not in str(error)
    if isinstance(error, duckdb.Error):
        return isinstance(error, (duckdb.OutOfMemoryException, *_REFUSED))
    return isinstance(error, Exception)  # also a fault of this program, which must not keep the others from loading


def _words(error: BaseException) -> str:
    if isinstance(error, InputError):
        return str(error)
    first = str(error).partition("\n")[0]
    if isinstance(error, duckdb.OperationalError):
        return f"it does not fit into memory: {first}"
    if isinstance(error, (OSError, ValidationError, duckdb.Error)):
        return first
    return f"a fault of Image Jury, {type(error).__name__}: {first}"


def _remove_run(db: Connection, run_id: str, evaluation_id: str) -> bool:
    """Remove what the history has of a run; return whether it has anything of its evaluation."""
    with_these_ids = "SELECT run_id FROM runs WHERE run_id = ? OR evaluation_id = ?"
    known = db.execute(with_these_ids, [run_id, evaluation_id]).fetchall()
    if (run_id,) in known:
        for table in _OF_RUNS:
            db.execute(f"DELETE FROM {table} WHERE run_id = ?", [run_id])
    if known:
        for sql in _OUTDATED:
            db.execute(sql, [evaluation_id])
    return bool(known)


def _insert_run(master: Master, run: Path, start: RunStart, size: int, is_known: bool) -> None:
    end, judgments, outcomes = ledger.read_end(run), run / ledger.JUDGMENTS, run / ledger.OUTCOMES
    judged = _all_told(ledger.read_rows(judgments), end, judgments)
    decided = _all_told(ledger.read_rows(outcomes), end, outcomes)
    due = set[str]()
    insert_rows(master, "judgments", _with_due(due, judged), judgments)
    if _REPEATED in due:
        master.db.execute(_REPEATED, [run.name])
    replies_from = dict(master.db.execute(_REPLIES_FROM, [run.name]).fetchall())
    row = {**_run_row(start, end, size, ledger.is_waiting(run)), "replies_from": replies_from or None}
    insert_rows(master, "runs", [row], run / ledger.RUN)
    insert_rows(master, "outcomes", (row for row in decided if not row.get("control")), outcomes)
    found = results_of(start, [run])
    insert_rows(master, "controls", _under(run.name, found.controls), outcomes)
    insert_rows(master, "anchor_outcomes", _under(run.name, found.anchors), outcomes)
    shards = evaluation_folders(run) if _has_all_shards(master.db, start) else []
    if len(shards) == start.shards:
        results = results_of(start, shards)
        for table, rows in zip(_OF_EVALUATIONS, (results.scores, results.rates), strict=True):
            if is_known:
                master.db.execute(f"DELETE FROM {table} WHERE run_id = ?", [start.evaluation_id])
            insert_rows(master, table, _under(start.evaluation_id, rows), outcomes)
    if _ASPECTS in due:
        master.db.execute(_ASPECTS, [run.name])
    master.db.execute(_PICTURES, [run.name])


def _with_due(due: set[str], judged: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield judgments as last attempts; add the SQL that only some need, as its plan takes longer than loading them."""
    for row in judged:
        if row.get("attempt") != 1:
            due.add(_REPEATED)
        if row.get("scores"):
            due.add(_ASPECTS)
        row["last_attempt"] = True
        yield row


def _has_all_shards(db: Connection, start: RunStart) -> bool:
    """Return whether a run is not sharded, or all shards of its evaluation are loaded: each reads all others then."""
    if start.shards == 1:
        return True
    loaded = """SELECT count(DISTINCT shard) FROM runs
        WHERE evaluation_id = $1 AND dataset_key = $2 AND status = 'finished'"""
    return db.execute(loaded, [start.evaluation_id, start.dataset_key]).fetchone() == (start.shards,)


def _all_told(rows: Iterable[dict[str, Any]], end: RunEnd | None, file: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file; raise InputError after the last one if the run's end record counts more."""
    missing = told = end.ledger_rows.get(file.name, 0) if end else 0
    for row in rows:
        missing -= 1
        yield row
    if missing > 0:
        raise InputError(f"{file}: damaged: {missing:,} of the {told:,} rows that {ledger.END} counts are missing")


def _under(run_id: str, rows: Iterable[Record]) -> Iterator[dict[str, Any]]:
    return ({"run_id": run_id, **row.model_dump()} for row in rows)


def _run_row(start: RunStart, end: RunEnd | None, size: int, waits: bool) -> dict[str, Any]:
    row = {**start.model_dump(mode="json"), "ledger_bytes": size}
    if end:
        return {**row, "status": "finished", "judge_key": judge_key(end.protocol), **end.model_dump(mode="json")}
    without_end = "quote" if start.parameters.get("quote") else "unfinished"
    return {**row, "status": "waiting" if waits else without_end}


def insert_rows(master: Master, table: str, rows: Iterable[Mapping[str, Any]], source: Path) -> None:
    """Insert rows by name, through files of JSON lines: the fastest way in that needs no further package.

    DuckDB plans COPY in half the time of an INSERT from such a file, longer than it takes to read a few rows.

    Memory use does not grow with the number of rows. Rows before a refused one stay inserted, unless the caller rolls
    them back.

    Args:
        source: origin of the rows, for the message about a refused one.

    Raises:
        InputError: DuckDB refuses a row.
    """
    # Without escapes, which make a long reply six times as long: DuckDB reads no row above 16 MB.
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    portion, inserted = master.scratch / f"{table}.jsonl", 0
    while first := next(lines, None):
        with portion.open("w", encoding="utf-8") as file:
            number = _write_portion(file.write, chain([first], lines))
        try:
            master.db.execute(f"COPY {table} FROM {quoted(portion)} (FORMAT json)")
        except _REFUSED as error:
            words = str(error).partition("\n")[0].replace(str(portion), str(source))
            raise InputError(_further_down(words, inserted)) from error
        inserted += number


def _write_portion(write: Callable[[str], object], lines: Iterator[str]) -> int:
    """Write lines, at least one, up to the size of a portion; return their number."""
    size = number = 0
    for line in islice(lines, _PORTION_ROWS):
        write(line)
        size, number = size + len(line), number + 1
        if size >= _PORTION_BYTES:
            break
    return number


def _further_down(words: str, lines: int) -> str:
    """Change the line number of a portion in a message to that of the whole file."""
    return _LINE.sub(lambda line: f"in line {int(line[1]) + lines}", words)
