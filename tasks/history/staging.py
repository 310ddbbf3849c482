"""One ledger folder as rows of the history's tables, in a database of its own.

So a damaged ledger shows before the history is held, and the history is held no longer than it takes to copy rows. Owns
how rows come out of files; what is computed of them is for `judging.results`.
"""

import json
import re
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any

import duckdb
from duckdb import DuckDBPyConnection as Connection
from pydantic import ValidationError

from tasks.errors import InputError
from tasks.history.database import VECTOR_ROWS
from tasks.history.layout import make_tables
from tasks.judging.results import results_of
from tasks.kinds import kind_of
from tasks.ledger import label_sets as labels
from tasks.ledger import passports
from tasks.ledger import reading as ledger
from tasks.ledger.bridges import BRIDGES
from tasks.ledger.evaluations import evaluation_folders
from tasks.ledger.forgotten import Gone, forgotten_rows
from tasks.ledger.layout_checks import LAYOUT_CHECKS
from tasks.ledger.other_calls import OTHER_CALLS
from tasks.ledger.protocol_keys import judge_key
from tasks.records import Record, RunEnd, RunStart

_LAST_UNLESS_REPEATED = "* REPLACE (true AS last_attempt)"
_REPEATED = """UPDATE judgments SET last_attempt = false
    FROM (SELECT candidate, sample_id, "control", dimension, "order", vote, max(attempt) AS last
        FROM judgments WHERE attempt > 1 GROUP BY ALL) AS repeated
    WHERE attempt < last
        AND (judgments.candidate, judgments.sample_id, judgments."control", judgments.dimension, judgments."order",
            judgments.vote)
        IS NOT DISTINCT FROM (repeated.candidate, repeated.sample_id, repeated."control", repeated.dimension,
            repeated."order", repeated.vote)"""
"""Only calls that were repeated: a window over all rows would hold all of them in memory, with their texts."""
_PORTION_ROWS = 1024
"""Rows that are inserted together: of a long file DuckDB reads 32 MB at once."""
_LINE = re.compile(r"\bin line (\d+)")
"""Of a file of rows, where DuckDB tells what is wrong in it."""
_ASPECTS = """INSERT INTO aspect_scores BY NAME
    SELECT run_id, flow, candidate, sample_id, dimension AS tag, vote, unnest(scores, recursive := true)
    FROM judgments WHERE last_attempt AND len(scores) > 0 AND coalesce("control", '') = ''"""
_REPLIES_FROM = """UPDATE runs SET replies_from = (
    SELECT map(list(origin ORDER BY origin), list(n ORDER BY origin)) FROM (
        SELECT if(reused_from = '', run_id, reused_from) AS origin, count(*) AS n FROM judgments
        WHERE last_attempt AND status = 'ok' AND coalesce("control", '') = '' GROUP BY ALL))"""
_PICTURES = """INSERT INTO pictures BY NAME
    SELECT DISTINCT picture.*, 'pictures/' || picture.source_sha256 || '.jpg' AS thumbnail
    FROM (SELECT unnest(map_values(pictures)) AS picture FROM outcomes)"""


class DamagedLedger(InputError):
    """The ledger of a run, of labels, of a passport or of a bridge cannot be read."""


def vector_bytes(run: Path) -> int:
    """Bytes of those judgments of a ledger that DuckDB handles together, at their largest; no other rows are larger."""
    largest = 0
    with suppress(InputError, OSError):  # a file that cannot be read is told when it is staged
        sizes = (len(line) for _, line in ledger.whole_lines(run / ledger.JUDGMENTS))
        while vector := list(islice(sizes, VECTOR_ROWS)):
            largest = max(largest, sum(vector))
    return largest


def stage_run(db: Connection, run: Path, ledger_bytes: int) -> None:
    """Fill tables like those of the history with what the ledger of a run holds, finished or not.

    Args:
        ledger_bytes: its size before it is read here: what is appended meanwhile makes the run due again.

    Raises:
        DamagedLedger: it cannot be read.
    """
    make_tables(db)
    try:
        with _all_or_none(db):
            _insert_run(db, run, ledger_bytes)
    except (InputError, ValidationError, OSError, duckdb.Error) as error:
        raise _damaged(run, error) from error


_KEPT: Mapping[str, tuple[Callable[[Path], Iterable[Mapping[str, Any]]], str]] = {
    "labels": (labels.history_rows, labels.LABELS),
    "passports": (passports.history_rows, passports.CARD),
    "bridges": (BRIDGES.history_rows, BRIDGES.file),
    "layout_checks": (LAYOUT_CHECKS.history_rows, LAYOUT_CHECKS.file),
    "other_calls": (OTHER_CALLS.history_rows, OTHER_CALLS.file),
}
"""Table of what is written once -> the rows of a folder, and the file that they are in."""


def stage_kept(db: Connection, table: str, place: Path) -> None:
    """Fill a table with the labels, the card of a passport, the bridge or the layout check in a folder.

    Raises:
        DamagedLedger: it cannot be read.
    """
    rows, file = _KEPT[table]
    make_tables(db)
    try:
        insert_rows(db, table, rows(place), place / file)
    except (InputError, ValidationError, OSError, duckdb.Error) as error:
        raise _damaged(place, error) from error


def stage_other_calls(db: Connection, store: Path, since: str) -> None:
    """Fill the table of other calls with those that were written down since; what cannot be read `sync` tells.

    Args:
        since: the beginning of a name, such as the id of a run.
    """
    for place in OTHER_CALLS.folders(store):
        if place.name >= since:
            with suppress(InputError, ValidationError, OSError, duckdb.Error), _all_or_none(db):
                insert_rows(db, "other_calls", [*OTHER_CALLS.history_rows(place)], place / OTHER_CALLS.file)


@contextmanager
def _all_or_none(db: Connection) -> Generator[None]:
    """One transaction, in which many portions also take less memory than each in its own."""
    db.begin()
    try:
        yield
        db.commit()
    except BaseException:
        with suppress(duckdb.Error):  # where to commit has failed there is nothing to roll back
            db.rollback()
        raise


def _damaged(place: Path, error: Exception) -> DamagedLedger:
    return DamagedLedger(f"The ledger {place} was left out: {error}")


def _insert_run(db: Connection, run: Path, ledger_bytes: int) -> None:
    start, end = ledger.read_start(run), ledger.read_end(run)
    judgments, outcomes = run / ledger.JUDGMENTS, run / ledger.OUTCOMES
    insert_rows(
        db,
        "runs",
        [_run_row(start, end, [*forgotten_rows(run)], ledger_bytes, ledger.is_waiting(run))],
        run / ledger.RUN,
    )
    judged = _all_told(ledger.read_rows(judgments, kind_of(start.flow).confirms), end, judgments)
    decided = _all_told(ledger.read_rows(outcomes), end, outcomes)
    insert_rows(db, "judgments", judged, judgments, _LAST_UNLESS_REPEATED)
    db.execute(_REPEATED)
    insert_rows(db, "outcomes", (row for row in decided if not row.get("control")), outcomes)
    found = results_of(start, [run])
    insert_rows(db, "controls", _under(run.name, found.controls), outcomes)
    insert_rows(db, "anchor_outcomes", _under(run.name, found.anchors), outcomes)
    shards = evaluation_folders(run) if end else []
    if len(shards) == start.shards:
        results = results_of(start, shards)
        insert_rows(db, "scores", _under(start.evaluation_id, results.scores), outcomes)
        insert_rows(db, "rates", _under(start.evaluation_id, results.rates), outcomes)
    db.execute(_REPLIES_FROM)
    db.execute(_ASPECTS)
    db.execute(_PICTURES)


def _all_told(rows: Iterable[dict[str, Any]], end: RunEnd | None, file: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file; InputError after the last where the end of the run tells of more."""
    missing = told = ledger.rows_told(end, file.name) if end else 0
    for row in rows:
        missing -= 1
        yield row
    if missing > 0:
        raise InputError(f"{file}: damaged: {missing:,} of the {told:,} rows that {ledger.END} tells of are missing")


def _under(run_id: str, rows: Iterable[Record]) -> Iterator[dict[str, Any]]:
    return ({"run_id": run_id, **row.model_dump()} for row in rows)


def _run_row(
    start: RunStart, end: RunEnd | None, gone: Sequence[Gone], ledger_bytes: int, waits: bool
) -> dict[str, Any]:
    ended: dict[str, Any] = {"status": _without_end(start, waits)}
    if end:
        ended = {"status": "finished", "judge_key": judge_key(end.protocol), **end.model_dump(mode="json")}
    lost = {
        "forgotten": sum(each.samples for each in gone),
        "warnings": [*ended.get("warnings", ()), *(each.sentence for each in gone)],
    }
    return {**start.model_dump(mode="json"), **ended, **lost, "ledger_bytes": ledger_bytes}


def _without_end(start: RunStart, waits: bool) -> str:
    if waits:
        return "waiting"
    return "quote" if start.parameters.get("quote") else "unfinished"


def insert_rows(db: Connection, table: str, rows: Iterable[Mapping[str, Any]], source: Path, values: str = "*") -> None:
    """Insert rows by name, through files of JSON lines: the fastest way in that needs no further package.

    What it holds in memory does not grow with the number of rows. Rows before one that is refused stay inserted, unless
    the caller rolls them back.

    Args:
        source: where the rows come from, for what is said of one that DuckDB refuses.
        values: what becomes of a row's columns.

    Raises:
        InputError: DuckDB refuses a row.
    """
    given, inserted, columns = iter(rows), 0, ""
    with tempfile.TemporaryDirectory() as place:
        lines = Path(place) / f"{table}.jsonl"
        while first := next(given, None):
            columns = columns or _columns(db, table)  # not asked for a table without rows, as half of them are
            with lines.open("w", encoding="utf-8") as file:
                # As it is: escapes would make a long reply six times as long, and DuckDB reads no row above 16 MB.
                portion = chain([first], islice(given, _PORTION_ROWS - 1))
                file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in portion)
            read = f"read_json($lines, format = 'newline_delimited', columns = {{{columns}}})"
            try:
                db.execute(f"INSERT INTO {table} BY NAME SELECT {values} FROM {read}", {"lines": str(lines)})
            except duckdb.Error as error:
                words = str(error).partition("\n")[0].replace(str(lines), str(source))
                raise InputError(_further_down(words, inserted)) from error
            inserted += _PORTION_ROWS


def _further_down(words: str, lines: int) -> str:
    """What is said of a line of a portion, said of that line of the whole."""
    return _LINE.sub(lambda line: f"in line {int(line[1]) + lines}", words)


def _columns(db: Connection, table: str) -> str:
    found = db.execute(f"SELECT column_name, column_type FROM (DESCRIBE {table})").fetchall()
    return ", ".join(f"'{name}': '{kind}'" for name, kind in found)
