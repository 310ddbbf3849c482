"""Files of a ledger and their rows as records.

A damaged row or file raises an `InputError` with file and line. A ledger may be a stranger's.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import ValidationError
from pydantic_core import from_json

from tasks.errors import InputError
from tasks.files import open_regular, read_regular
from tasks.records import SCHEMA, Judgment, Outcome, Record, RunEnd, RunStart
from tasks.text import one_line

RUN, JUDGMENTS, OUTCOMES, END = "run.json", "judgments.jsonl", "outcomes.jsonl", "end.json"
BATCHES = "batches.jsonl"
"""Batches that a run handed in, if its calls are bought as batches; see `tasks.batches`."""

REMOVED = "removed.json"
"""Replacement for the files of a run that was removed at a request; see `removed`."""

_BLOCK = 1 << 20
"""Bytes read at once: a line assembled from several reads takes three times as long."""
_MOST_BYTES = 2**26
"""Maximum bytes of a row, or of a file with one record; longer ones are damaged, and are not read whole."""
_SCHEMA = re.compile(rb'\s*\{\s*"schema":\s*(\d{1,4})')
"""Beginning of a record, with the version of its rows."""

R = TypeVar("R", bound=Record)


def folder(store: Path, run_id: str) -> Path:
    """Return the folder of the run with this id."""
    return store / "ledger" / run_id


def run_folders(store: Path) -> list[Path]:
    """Return the folders of all runs in the store but removed ones, oldest first (run ids begin with their time)."""
    runs = (path.parent for path in (store / "ledger").glob(f"*/{RUN}"))
    return sorted(run for run in runs if not (run / REMOVED).exists())


def read_start(run: Path) -> RunStart:
    """Return the start record of a run.

    Raises:
        InputError: the folder is a link, or the record is damaged or belongs to another run.
    """
    if run.is_symlink():
        raise InputError(f"{run}: refused: it is a link; allowed is the folder of a run")
    start = read_record(run / RUN, RunStart)
    _check_time(start.started_at, run / RUN)
    return start


def read_end(run: Path) -> RunEnd | None:
    """Return the end record of a run; None while it is unfinished."""
    if not (run / END).exists():
        return None
    end = read_record(run / END, RunEnd)
    _check_time(end.finished_at, run / END)
    return end


def is_waiting(run: Path) -> bool:
    """Return whether a run waits for its batches."""
    return (run / BATCHES).exists() and not (run / END).exists()


def check_schema(store: Path) -> None:
    """Raise InputError for a store with a run of an earlier version, before anything is asked or written there."""
    for run in run_folders(store):
        if (schema := _schema_of(run)) < SCHEMA:
            raise InputError(
                f"{store} is the store of an earlier version: run {run.name} has ledger schema {schema}, and this "
                f"version reads {SCHEMA}. {store / 'history.duckdb'} stays readable (`jury query`, or DuckDB with "
                "read_only). Choose another folder for new runs: --store NEW, or JURY_STORE"
            )


def _schema_of(run: Path) -> int:
    """Return the schema of a run; the present one if it is unreadable, since loading reports unreadable runs."""
    with suppress(InputError, OSError), open_regular(run / RUN) as file:
        if found := _SCHEMA.match(file.read(64)):
            return int(found[1])
    return SCHEMA


def read_judgments(run: Path) -> Iterator[Judgment]:
    """Return the judgments of a run in order of arrival, including those of control samples (`control`)."""
    path = run / JUDGMENTS
    return (validate_row(Judgment, row, path, number) for number, row in _numbered_rows(path))


def read_outcomes(run: Path) -> Iterator[Outcome]:
    """Return the outcomes of a run in order of decision, including those of control samples (`control`)."""
    path = run / OUTCOMES
    return (validate_row(Outcome, row, path, number) for number, row in _numbered_rows(path))


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Return the rows of a ledger file; none if the file is absent.

    Raises:
        InputError: a row is damaged; with file and line.
    """
    return (row for _, row in _numbered_rows(path))


def read_record(path: Path, kind: type[R]) -> R:
    """Return the record of a file with one record.

    Raises:
        InputError: it is damaged, or another version wrote it.
    """
    return validate_row(kind, parse_row(read_regular(path, _MOST_BYTES), path), path)


def moment_of(text: str) -> datetime | None:
    """Parse a time of a ledger; None if it is not in ISO 8601 with a time zone."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else None
    except (ValueError, OverflowError):  # OverflowError: in UTC, the year is before 1 or after 9999
        return None


def whole_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield offset and bytes of each whole line; a last line without its end was cut off by a crash and is left out.

    Reading stops after a line longer than any row. Raises InputError if the path is not a regular file.
    """
    if not path.exists() and not path.is_symlink():
        return
    offset = 0
    with open_regular(path, _BLOCK) as file:
        for line in iter(partial(file.readline, _MOST_BYTES), b""):
            if line.endswith(b"\n") or len(line) == _MOST_BYTES:
                yield offset, line
            if len(line) == _MOST_BYTES:
                return
            offset += len(line)


def parse_row(text: bytes, path: Path, line: int = 1) -> dict[str, Any]:
    """Return a row from its text.

    Raises:
        InputError: it is not a JSON object, or has another schema or run; with file and line.
    """
    where = f"{path}, line {line}"
    try:
        row = from_json(text)
    except ValueError as error:  # pydantic_core raises it for any text that is not JSON
        raise InputError(f"{where}: damaged: {error}") from None
    if not isinstance(row, dict):
        raise InputError(f"{where}: damaged: found a {type(row).__name__}, expected an object")
    found = cast("dict[str, Any]", row)
    if (schema := found.get("schema")) != SCHEMA:
        raise InputError(f"{where}: ledger schema {one_line(str(schema))}; this version reads {SCHEMA} alone")
    if found.get("run_id", path.parent.name) != path.parent.name:
        raise InputError(f"{where}: of the run {one_line(str(found['run_id']))!r}; its folder is that of another")
    return found


def validate_row(kind: type[R], row: dict[str, Any], path: Path, line: int = 1) -> R:
    """Return a row as a record.

    Raises:
        InputError: the row is damaged; with file, line and the first wrong field.
    """
    try:
        return kind.model_validate(row)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = one_line(".".join(map(str, first["loc"])))
        raise InputError(f"{path}, line {line}: damaged: {field}: {first['msg']}") from None


def _numbered_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    return ((number, parse_row(line, path, number)) for number, (_, line) in enumerate(whole_lines(path), 1))


def _check_time(moment: str, path: Path) -> None:
    """Raise InputError for an invalid time: runs are ordered by time, and each reader would fail in its own way."""
    if moment_of(moment) is None:
        raise InputError(f"{path}: damaged: {one_line(moment)!r} is no time in ISO 8601 with a time zone")
