"""Ledgers read: where the files of a run lie, and their rows as records of the present schema.

Owns the layout `<store>/ledger/<run_id>/` with `run.json`, `judgments.jsonl`, `outcomes.jsonl` and `end.json`, and what
becomes of a ledger that is damaged or of a newer version: an `InputError` with file and line, whatever is wrong.
"""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import ValidationError
from pydantic_core import from_json

from tasks.errors import InputError
from tasks.records import MOST_COUNTED, SCHEMA, Judgment, Outcome, Record, RunEnd, RunStart
from tasks.text import one_line

RUN, JUDGMENTS, OUTCOMES, END = "run.json", "judgments.jsonl", "outcomes.jsonl", "end.json"

_BLOCK = 1 << 20
"""Bytes read at once: a line that several reads put together takes three times as long."""
_TOKENS = ("tokens_in", "tokens_out", "tokens_cached")

R = TypeVar("R", bound=Record)


def folder(store: Path, run_id: str) -> Path:
    """Where the run with this id is kept."""
    return store / "ledger" / run_id


def run_folders(store: Path) -> list[Path]:
    """Folders of all runs in the store, oldest first (run ids begin with their time)."""
    return sorted(path.parent for path in (store / "ledger").glob(f"*/{RUN}"))


def read_start(run: Path) -> RunStart:
    """What the run set out to do."""
    start = read_record(run / RUN, RunStart)
    _check_time(start.started_at, run / RUN)
    return start


def read_end(run: Path) -> RunEnd | None:
    """What came of the run; None while it is unfinished."""
    if not (run / END).exists():
        return None
    end = read_record(run / END, RunEnd)
    _check_time(end.finished_at, run / END)
    return end


def read_judgments(run: Path) -> Iterator[Judgment]:
    """Judgments of a run in the order of their arrival, those of control samples (`control`) included."""
    path = run / JUDGMENTS
    return (validate_row(Judgment, row, path, number) for number, row in _numbered_rows(path))


def read_outcomes(run: Path) -> Iterator[Outcome]:
    """Outcomes of a run in the order in which they were decided, those of control samples (`control`) included."""
    path = run / OUTCOMES
    return (validate_row(Outcome, row, path, number) for number, row in _numbered_rows(path))


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of a ledger file, lifted to the present schema; none where the file is absent.

    Raises:
        InputError: a row that a newer version wrote, or one that is damaged, with file and line.
    """
    return (row for _, row in _numbered_rows(path))


def read_record(path: Path, kind: type[R]) -> R:
    """The one record that a file holds, lifted to the present schema.

    Raises:
        InputError: a newer version wrote it, or it is damaged.
    """
    return validate_row(kind, parse_row(path.read_bytes(), path), path)


def moment_of(text: str) -> datetime | None:
    """The moment that a ledger names; None where it is no time in ISO 8601 with a time zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def whole_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Offset and bytes of each whole line: a last line without its end was cut by a crash and is left out."""
    if not path.exists():
        return
    offset = 0
    with path.open("rb", buffering=_BLOCK) as file:
        for line in file:
            if line.endswith(b"\n"):
                yield offset, line
            offset += len(line)


def parse_row(text: bytes, path: Path, line: int = 1) -> dict[str, Any]:
    """A row from its text, lifted to the present schema.

    Raises:
        InputError: it is no JSON object, or of a newer schema; with file and line.
    """
    try:
        row = from_json(text)
    except ValueError as error:  # what pydantic_core raises for any text that is no JSON
        raise InputError(f"{path}, line {line}: damaged: {error}") from None
    if not isinstance(row, dict):
        raise InputError(f"{path}, line {line}: damaged: found a {type(row).__name__}, expected an object")
    return lift(cast("dict[str, Any]", row), path, line)


def lift(row: dict[str, Any], path: Path, line: int = 1) -> dict[str, Any]:
    """A row of any known schema as a row of the present one.

    Raises:
        InputError: the row's schema is newer than this version knows.
    """
    found = row.get("schema")
    # 2 added what text-to-image rubrics say, 3 shards, controls and what votes and orders tell: all of it absent here.
    if found in (1, 2):
        row = {**row, "schema": SCHEMA}
    elif found != SCHEMA:
        raise InputError(
            f"{path}, line {line}: ledger schema {found!r}, known here are 1 to {SCHEMA}: upgrade Image Jury"
        )
    return {**row, **_unknown(row)}


def _unknown(row: dict[str, Any]) -> dict[str, Any]:
    """What a row tells that cannot be, as unknown: rows were once written as the judge counted, and no table has room.

    That is more tokens, and so a price, or more objects in an image, than there can be.
    """
    cannot_be: dict[str, Any] = {name: 0 for name in _TOKENS if not _can_be(row.get(name))}
    if cannot_be:
        cannot_be["price"] = None
    seen: Any = row.get("seen")
    if seen and not all(_can_be(each.get("count")) for each in seen.get("objects", ())):
        cannot_be["seen"] = None
    return cannot_be


def _can_be(count: object) -> bool:
    """Whether there can be so many; of what is no number, validation tells."""
    return not isinstance(count, int) or 0 <= count <= MOST_COUNTED


def validate_row(kind: type[R], row: dict[str, Any], path: Path, line: int = 1) -> R:
    """A lifted row as a record.

    Raises:
        InputError: the row is damaged; with file, line and the first field that is wrong.
    """
    try:
        return kind.model_validate(row)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = one_line(".".join(map(str, first["loc"])))
        raise InputError(f"{path}, line {line}: damaged: {where}: {first['msg']}") from None


def _numbered_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    return ((number, parse_row(line, path, number)) for number, (_, line) in enumerate(whole_lines(path), 1))


def _check_time(moment: str, path: Path) -> None:
    """Runs are ordered by their times: one that is no time would fail each reader in a way of its own."""
    if moment_of(moment) is None:
        raise InputError(f"{path}: damaged: {one_line(moment)!r} is no time in ISO 8601 with a time zone")
