"""Ledgers read: where the files of a run lie, and their rows as records of the present schema.

Owns the layout `<store>/ledger/<run_id>/` with `run.json`, `judgments.jsonl`, `outcomes.jsonl` and `end.json`, and what
becomes of a ledger that is not to be believed: an `InputError` with file and line, whatever is wrong. A ledger may be a
stranger's, or have lain on a bad disk: a row needs its checksum, a run the folder of its own name. Rows of schemas 1 to
3 have no checksum; whether such a judgment is what its reply says, the kinds of judging know (`Confirms`).
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import ValidationError
from pydantic_core import from_json

from tasks.errors import InputError
from tasks.files import open_regular, read_regular
from tasks.ledger.checksums import CHECKSUM, SINCE, holds
from tasks.records import MOST_COUNTED, SCHEMA, Judgment, Outcome, Record, RunEnd, RunStart
from tasks.text import one_line

RUN, JUDGMENTS, OUTCOMES, END = "run.json", "judgments.jsonl", "outcomes.jsonl", "end.json"
BATCHES = "batches.jsonl"
"""Of a run whose calls are bought as batches: what was handed in; see `tasks.batches`."""

FORGOTTEN = "forgotten.jsonl"
"""Of a run that lost rows at somebody's request: how many; see `forgotten`."""

_BLOCK = 1 << 20
"""Bytes read at once: a line that several reads put together takes three times as long."""
_MOST_BYTES = 2**26
"""Of a row, or of the record of a file; what is longer is damaged, and is not read whole to find that out."""
_TOKENS = ("tokens_in", "tokens_out", "tokens_cached", "tokens_written", "tokens_pictures", "tokens_reasoning")

R = TypeVar("R", bound=Record)

Confirms = Callable[[Judgment], bool]
"""Whether the raw reply of an ok judgment, read again, says what the judgment says."""


def folder(store: Path, run_id: str) -> Path:
    """Where the run with this id is kept."""
    return store / "ledger" / run_id


def run_folders(store: Path) -> list[Path]:
    """Folders of all runs in the store, oldest first (run ids begin with their time)."""
    return sorted(path.parent for path in (store / "ledger").glob(f"*/{RUN}"))


def read_start(run: Path) -> RunStart:
    """What the run set out to do.

    Raises:
        InputError: the record is damaged, or the run of another folder.
    """
    if run.is_symlink():
        raise InputError(f"{run}: refused: it is a link; allowed is the folder of a run")
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


def is_waiting(run: Path) -> bool:
    """Whether a run waits for its batches."""
    return (run / BATCHES).exists() and not (run / END).exists()


def rows_told(end: RunEnd, name: str) -> int:
    """Rows that the end of a run tells of in `judgments.jsonl` or `outcomes.jsonl`; 0 where it tells none."""
    before_4 = end.calls + end.reused if name == JUDGMENTS else sum(end.outcomes.values())
    return end.ledger_rows.get(name, 0) if end.ledger_rows else before_4


def read_judgments(run: Path) -> Iterator[Judgment]:
    """Judgments of a run in the order of their arrival, those of control samples (`control`) included."""
    path = run / JUDGMENTS
    return (validate_row(Judgment, row, path, number) for number, row in _numbered_rows(path))


def read_outcomes(run: Path) -> Iterator[Outcome]:
    """Outcomes of a run in the order in which they were decided, those of control samples (`control`) included."""
    path = run / OUTCOMES
    return (validate_row(Outcome, row, path, number) for number, row in _numbered_rows(path))


def read_rows(path: Path, confirms: Confirms | None = None) -> Iterator[dict[str, Any]]:
    """Rows of a ledger file, lifted to the present schema; none where the file is absent.

    Args:
        confirms: asked of judgments without a checksum, which are believed only then; None: no judgments are read.

    Raises:
        InputError: a row that a newer version wrote, or one that is not to be believed, with file and line.
    """
    return (row for _, row in _numbered_rows(path, confirms))


def read_record(path: Path, kind: type[R]) -> R:
    """The one record that a file holds, lifted to the present schema.

    Raises:
        InputError: a newer version wrote it, or it is damaged.
    """
    return validate_row(kind, parse_row(read_regular(path, _MOST_BYTES), path), path)


def moment_of(text: str) -> datetime | None:
    """The moment that a ledger names; None where it is no time in ISO 8601 with a time zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def whole_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Offset and bytes of each whole line: a last line without its end was cut by a crash and is left out.

    After a line that is longer than any row nothing is read. Raises InputError where something else than a file is.
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


def parse_row(text: bytes, path: Path, line: int = 1, confirms: Confirms | None = None) -> dict[str, Any]:
    """A row from its text, lifted to the present schema.

    Raises:
        InputError: it is no JSON object, of a newer schema, or not to be believed; with file and line.
    """
    try:
        row = from_json(text)
    except ValueError as error:  # what pydantic_core raises for any text that is no JSON
        raise InputError(f"{path}, line {line}: damaged: {error}") from None
    if not isinstance(row, dict):
        raise InputError(f"{path}, line {line}: damaged: found a {type(row).__name__}, expected an object")
    return _lifted(cast("dict[str, Any]", row), text, f"{path}, line {line}", path.parent.name, confirms)


def _lifted(row: dict[str, Any], text: bytes, where: str, run_id: str, confirms: Confirms | None) -> dict[str, Any]:
    """A row of any known schema as one of the present, without its checksum, if it is to be believed."""
    found, checksum = row.get("schema"), row.pop(CHECKSUM, None)
    if not isinstance(found, int) or found not in range(1, SCHEMA + 1):
        raise InputError(f"{where}: ledger schema {found!r}, known here are 1 to {SCHEMA}: upgrade Image Jury")
    if (checksum is not None or found >= SINCE) and not holds(text):
        raise InputError(f"{where}: damaged: it is not as it was written, for its checksum does not hold")
    if row.get("run_id", run_id) != run_id:
        raise InputError(f"{where}: of the run {one_line(str(row['run_id']))!r}; its folder is that of another")
    # 2 added what text-to-image rubrics say, 3 shards, controls and what votes and orders tell: all of it absent here.
    # 4 added the checksum, 5 what tells one state of a judge from another, 6 what a call really cost.
    lifted = {**row, "schema": SCHEMA, **_unknown(row)}
    if found < SINCE and row.get("status") == "ok" and confirms and not confirms(_valid(Judgment, lifted, where)):
        raise InputError(f"{where}: damaged: its reply, read again, does not say what the row says")
    return lifted


def _unknown(row: dict[str, Any]) -> dict[str, Any]:
    """What a row tells that cannot be, as unknown: rows were once written as the judge counted, and no table has room.

    That is more tokens, and so a price, or more objects in an image, than there can be.
    """
    cannot_be: dict[str, Any] = {name: 0 for name in _TOKENS if not _can_be(row.get(name))}
    if cannot_be:
        cannot_be["price"] = None
    if not all(_can_be(each.get("count")) for each in _objects_seen(row.get("seen"))):
        cannot_be["seen"] = None
    return cannot_be


def _objects_seen(seen: Any) -> list[dict[str, Any]]:
    """Those of a row's check; of what has another form, validation tells."""
    objects = cast("dict[str, Any]", seen).get("objects") if isinstance(seen, dict) else None
    return [each for each in cast("list[Any]", objects) if isinstance(each, dict)] if isinstance(objects, list) else []


def _can_be(count: object) -> bool:
    """Whether there can be so many; of what is no number, validation tells."""
    return not isinstance(count, int) or 0 <= count <= MOST_COUNTED


def validate_row(kind: type[R], row: dict[str, Any], path: Path, line: int = 1) -> R:
    """A lifted row as a record.

    Raises:
        InputError: the row is damaged; with file, line and the first field that is wrong.
    """
    return _valid(kind, row, f"{path}, line {line}")


def _valid(kind: type[R], row: dict[str, Any], where: str) -> R:
    try:
        return kind.model_validate(row)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = one_line(".".join(map(str, first["loc"])))
        raise InputError(f"{where}: damaged: {field}: {first['msg']}") from None


def _numbered_rows(path: Path, confirms: Confirms | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    return ((number, parse_row(line, path, number, confirms)) for number, (_, line) in enumerate(whole_lines(path), 1))


def _check_time(moment: str, path: Path) -> None:
    """Runs are ordered by their times: one that is no time would fail each reader in a way of its own."""
    if moment_of(moment) is None:
        raise InputError(f"{path}: damaged: {one_line(moment)!r} is no time in ISO 8601 with a time zone")
