"""Files of a run's ledger: rows are appended as replies arrive, and read as records."""

import errno
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from io import FileIO
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar, cast

from pydantic import ValidationError
from pydantic_core import from_json

from tasks.errors import InputError, first_fault
from tasks.files import in_use, is_locked, keep_private, open_regular, private_folder, read_regular, write_whole
from tasks.records import SCHEMA, Judgment, Outcome, Record, RunEnd, RunStart, known_cost
from tasks.text import one_line

RUN, JUDGMENTS, OUTCOMES, END = "run.json", "judgments.jsonl", "outcomes.jsonl", "end.json"
BATCHES = "batches.jsonl"
"""Batches that a run handed in, if its calls are bought as batches; see `tasks.batches`."""
PROGRESS = "progress.txt"
"""Progress of a run that has not ended, or the reason that stopped it, in words of the machine that judged."""

REMOVED = "removed.json"
"""Replacement for the files of a run that was removed at a request; see `removals`."""

_BLOCK = 1 << 20
"""Bytes read at once: a line assembled from several reads takes three times as long."""
LONGEST_ROW = 2**26
"""Maximum bytes of a row, or of a file with one record; longer ones are damaged, and are not read whole."""
SOURCE = re.compile(rb'"source_sha256":\s*"([0-9a-f]{64})"')
"""Hash of a picture's or label's file in the bytes of a record; quotes inside texts are escaped and never match."""
STOPPED_BY = "Stopped: "
"""Beginning of the last words of a run that an error stopped."""
LONGEST_PROGRESS = 600
R = TypeVar("R", bound=Record)


def folder(store: Path, run_id: str) -> Path:
    """Return the folder of the run with this id."""
    return store / "ledger" / run_id


def run_folders(store: Path) -> list[Path]:
    """Return the folders of all runs in the store but removed ones, oldest first (run ids begin with their time)."""
    return [run for run in folders_with(store, "ledger", RUN) if not (run / REMOVED).exists()]


def folders_with(store: Path, kind: str, file: str) -> list[Path]:
    """Return the folders that have this file among those of a kind, such as `labels`, sorted by name."""
    return sorted(path.parent for path in (store / kind).glob(f"*/{file}"))


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


def start_of(run: Path) -> RunStart | None:
    """Return the start record of a run; None if it is damaged, which `jury store sync` reports."""
    with suppress(InputError, OSError):
        return read_start(run)
    return None


def read_end(run: Path) -> RunEnd | None:
    """Return the end record of a run; None while it is unfinished."""
    if not (run / END).exists():
        return None
    end = read_record(run / END, RunEnd)
    _check_time(end.finished_at, run / END)
    return end


def is_waiting(run: Path) -> bool:
    """Return whether a run waits for its batches; a full disk may have left no row of them.

    If its requests in `batches/` are lost, no reply can be taken in any more: it counts as interrupted.
    """
    batches, requests = run / BATCHES, run.parent.parent / "batches" / run.name
    return batches.exists() and batches.stat().st_size > 0 and requests.is_dir() and not (run / END).exists()


def is_written(run: Path) -> bool:
    """Return whether a process of this machine is writing a run now."""
    rows = run / JUDGMENTS
    return rows.is_file() and not rows.is_symlink() and not (run / END).exists() and is_locked(rows)


def read_progress(run: Path) -> str:
    """Return the last words of a run on its progress or its stop; empty: there are none here."""
    with suppress(InputError, OSError):
        return one_line(read_regular(run / PROGRESS, 100_000).decode("utf-8", "replace"), LONGEST_PROGRESS)
    return ""


def read_judgments(run: Path) -> Iterator[Judgment]:
    """Return the judgments of a run in order of arrival, including those of control samples (`control`)."""
    return read_valid(run / JUDGMENTS, Judgment)


def read_outcomes(run: Path) -> Iterator[Outcome]:
    """Return the outcomes of a run in order of decision, including those of control samples (`control`)."""
    return read_valid(run / OUTCOMES, Outcome)


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Return the rows of a ledger file; none if the file is absent.

    Raises:
        InputError: a row is damaged; with file and line.
    """
    return (parse_row(line, path, number) for number, (_, line) in enumerate(whole_lines(path), 1))


def read_valid(path: Path, kind: type[R]) -> Iterator[R]:
    """Return the rows of a ledger file as records; none if the file is absent.

    Raises:
        InputError: a row is damaged, or another version wrote it; with file and line.
    """
    return (validate_row(kind, row, path, number) for number, row in enumerate(read_rows(path), 1))


def read_record(path: Path, kind: type[R]) -> R:
    """Return the record of a file with one record.

    Raises:
        InputError: it is damaged, or another version wrote it.
    """
    return validate_row(kind, parse_row(read_regular(path, LONGEST_ROW), path), path)


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
        for line in iter(partial(file.readline, LONGEST_ROW), b""):
            if line.endswith(b"\n") or len(line) == LONGEST_ROW:
                yield offset, line
            if len(line) == LONGEST_ROW:
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
        raise InputError(f"{path}, line {line}: damaged: {first_fault(error)}") from None


def _check_time(moment: str, path: Path) -> None:
    """Raise InputError for an invalid time: runs are ordered by time, and each reader would fail in its own way."""
    if moment_of(moment) is None:
        raise InputError(f"{path}: damaged: {one_line(moment)!r} is no time in ISO 8601 with a time zone")


class Ledger:
    """Folder of one run, written only by the process that makes the run.

    Each row is handed to the operating system before the next call returns: a killed process loses only the calls in
    flight.
    """

    def __init__(self, store: Path, start: RunStart) -> None:
        self.folder = folder(store, start.run_id)
        self._start = start
        self._files: dict[str, FileIO] = {}
        self._opening = Lock()
        self._rows = dict.fromkeys((JUDGMENTS, OUTCOMES), 0)
        self._progress = ""
        self._cost, self._unpriced = defaultdict[str, float](float), Counter[str]()

    def append(self, row: Judgment | Outcome) -> None:
        """Append one row to the file of its kind; make the folder if no call did. A run refused before leaves none.

        Raises:
            OSError: with the file's name; the file has nothing of the row.
        """
        self.begin()
        name = JUDGMENTS if isinstance(row, Judgment) else OUTCOMES
        append_line(self._files[name], line_of(row))
        self._rows[name] += 1
        if isinstance(row, Judgment) and not row.reused_from:
            month = row.judged_at[:7]
            amount, is_unknown = known_cost(row.status, row.price, row.estimated)
            self._cost[month] += amount
            self._unpriced[month] += is_unknown

    def set_limit(self, amount: float) -> None:
        """Write the amount that the run may spend of the month's budget; nothing changes once the run has ended."""
        self._start = self._start.model_copy(update={"spending_limit": amount})
        if not self._files:
            self.begin()
        elif not (self.folder / END).exists():
            write_record(self.folder / RUN, self._start)

    def note_progress(self, words: str) -> None:
        """Write the progress of the run, or why it stops, for other processes; nothing before its first row."""
        with suppress(OSError):
            if self._files and words != self._progress:
                write_whole(self.folder / PROGRESS, words.encode("utf-8", "replace"), private=True)
                self._progress = words

    def end(self, end: RunEnd) -> None:
        """Mark the run as finished, with its row counts and costs. From here on nothing in the folder changes."""
        self.begin()
        self.close()
        told = {"ledger_rows": self._rows, "cost": {**self._cost}, "unpriced": {**+self._unpriced}}
        write_record(self.folder / END, end.model_copy(update=told))
        (self.folder / PROGRESS).unlink(missing_ok=True)

    def close(self) -> None:
        """Close the files; without `end` the run is unfinished."""
        for file in self._files.values():
            file.close()

    def begin_anew(self) -> None:
        """Open the folder of a run that another process began, and drop its rows, which are all made again."""
        for name in self._rows:
            (self.folder / name).unlink(missing_ok=True)
            self._files[name] = FileIO(self.folder / name, "xb")
            keep_private(self.folder / name)
        in_use(self._files[JUDGMENTS])

    def begin(self) -> None:
        """Make the folder, unless it exists; the first row does it, too."""
        with self._opening:  # a thread writes the limit
            if self._files:
                return
            private_folder(self.folder.parent)
            self.folder.mkdir()
            keep_private(self.folder)
            write_record(self.folder / RUN, self._start)
            files = {name: FileIO(self.folder / name, "ab") for name in self._rows}
            for name in files:
                keep_private(self.folder / name)
            in_use(files[JUDGMENTS])
            self._files = files


def append_line(file: FileIO, line: bytes) -> None:
    """Append a line whole or not at all: a nearly full disk takes only the beginning of it."""
    before = os.fstat(file.fileno()).st_size
    try:
        if (written := file.write(line)) != len(line):
            file.truncate(before)
            raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)} after {written:,} bytes of a row")
    except OSError as error:
        error.filename = str(file.name)
        raise


def write_record(path: Path, record: Record) -> None:
    """Write a file with one record, whole or not at all; `read_record` reads it."""
    write_whole(path, record_bytes(record), private=True)


def line_of(record: Record) -> bytes:
    """Return a record as a line of a file of rows."""
    return record.model_dump_json().encode() + b"\n"


def record_bytes(record: Record) -> bytes:
    """Return the bytes of a file that holds one record."""
    return record.model_dump_json(indent=1).encode() + b"\n"
