"""Ledger of a run: rows are appended as replies arrive and never changed. `reading` has the paths and readers."""

import errno
import os
from collections import Counter, defaultdict
from io import FileIO
from pathlib import Path
from threading import Lock

from tasks.files import in_use, keep_private, private_folder, write_whole
from tasks.ledger.reading import END, JUDGMENTS, OUTCOMES, RUN, folder, parse_row, whole_lines
from tasks.records import Judgment, Outcome, Record, RunEnd, RunStart


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
        self._cost, self._unpriced = defaultdict[str, float](float), Counter[str]()

    def append(self, row: Judgment | Outcome) -> None:
        """Append one row to the file of its kind. The first row makes the folder: a run refused before it leaves none.

        Raises:
            OSError: with the file's name; the file has nothing of the row.
        """
        self.begin()
        name = JUDGMENTS if isinstance(row, Judgment) else OUTCOMES
        append_line(self._files[name], line_of(row))
        self._rows[name] += 1
        if isinstance(row, Judgment) and not row.reused_from:
            self._count(row.judged_at, row.price, row.estimated)

    def _count(self, judged_at: str, price: float | None, estimated: float | None) -> None:
        """Add the cost of a call to its month."""
        month = judged_at[:7]
        self._cost[month] += (price or 0.0) + (estimated or 0.0)
        self._unpriced[month] += price is None or estimated is None

    def set_limit(self, amount: float) -> None:
        """Write the amount that the run may spend of the month's budget; nothing changes once the run has ended."""
        self._start = self._start.model_copy(update={"spending_limit": amount})
        if not self._files:
            self.begin()
        elif not (self.folder / END).exists():
            write_record(self.folder / RUN, self._start)

    def end(self, end: RunEnd) -> None:
        """Mark the run as finished, with its row counts and costs. From here on nothing in the folder changes."""
        self.begin()
        self.close()
        told = {"ledger_rows": self._rows, "cost": {**self._cost}, "unpriced": {**+self._unpriced}}
        write_record(self.folder / END, end.model_copy(update=told))

    def close(self) -> None:
        """Close the files; without `end` the run is unfinished."""
        for file in self._files.values():
            file.close()

    def go_on(self) -> None:
        """Open the folder of a run that another process began, after its last whole rows.

        Raises:
            InputError: one of its files is not a regular file.
        """
        for name in self._rows:
            path = self.folder / name
            length = 0
            for self._rows[name], (start, line) in enumerate(whole_lines(path), 1):
                length = start + len(line)
                row = parse_row(line, path, self._rows[name]) if name == JUDGMENTS else {}
                if row and not row["reused_from"]:
                    self._count(row["judged_at"], row["price"], row["estimated"])
            self._files[name] = file = FileIO(path, "ab")
            file.truncate(length)  # drops a last row that a kill cut off
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
    """Write a file with one record, whole or not at all; `reading.read_record` reads it."""
    write_whole(path, record_bytes(record), private=True)


def line_of(record: Record) -> bytes:
    """Return a record as a line of a file of rows."""
    return record.model_dump_json().encode() + b"\n"


def record_bytes(record: Record) -> bytes:
    """Return the bytes of a file that holds one record."""
    return record.model_dump_json(indent=1).encode() + b"\n"
