"""The ledger of a run, appended to as replies arrive and never changed.

Owns how rows reach the disk. Where they lie, and how they are read, is `reading`'s.
"""

import errno
import os
from io import FileIO
from pathlib import Path

from tasks.files import in_use, keep_private, private_folder, write_whole
from tasks.ledger.checksums import sealed
from tasks.ledger.reading import END, JUDGMENTS, OUTCOMES, RUN, folder, whole_lines
from tasks.records import Judgment, Outcome, Record, RunEnd, RunStart


class Ledger:
    """The folder of one run, written by the one process that makes the run.

    Each row is handed to the operating system before the next call returns: a killed process loses the calls in
    flight and nothing else.
    """

    def __init__(self, store: Path, start: RunStart) -> None:
        self.folder = folder(store, start.run_id)
        self._start = start
        self._files: dict[str, FileIO] = {}
        self._rows = dict.fromkeys((JUDGMENTS, OUTCOMES), 0)

    def append(self, row: Judgment | Outcome) -> None:
        """Add one row to the file of its kind. The first row makes the folder: a run refused before it leaves none.

        Raises:
            OSError: with the file's name; nothing of the row is left in it.
        """
        self._open()
        name = JUDGMENTS if isinstance(row, Judgment) else OUTCOMES
        append_line(self._files[name], sealed(row.model_dump_json()))
        self._rows[name] += 1

    def end(self, end: RunEnd) -> None:
        """Mark the run as finished, with how many rows there are. From here on nothing in the folder changes."""
        self._open()
        self.close()
        write_record(self.folder / END, end.model_copy(update={"ledger_rows": self._rows}))

    def close(self) -> None:
        """Release the files; without `end` the run stays unfinished."""
        for file in self._files.values():
            file.close()

    def begin(self) -> None:
        """Make the folder now, before there is a row: what is asked from here on is asked for this run."""
        self._open()

    def go_on(self) -> None:
        """Open the folder of a run that another process began, behind its last whole rows.

        Raises:
            InputError: a file of it is none.
        """
        for name in self._rows:
            path = self.folder / name
            length = 0
            for self._rows[name], (start, line) in enumerate(whole_lines(path), 1):
                length = start + len(line)
            self._files[name] = file = FileIO(path, "ab")
            file.truncate(length)  # a last row that was cut by a kill is none
        in_use(self._files[JUDGMENTS])

    def _open(self) -> None:
        if not self._files:
            private_folder(self.folder.parent)
            self.folder.mkdir()
            keep_private(self.folder)
            write_record(self.folder / RUN, self._start)
            self._files = {name: FileIO(self.folder / name, "ab") for name in self._rows}
            for name in self._files:
                keep_private(self.folder / name)
            in_use(self._files[JUDGMENTS])


def append_line(file: FileIO, line: bytes) -> None:
    """Append a line whole or not at all: a disk that is nearly full takes the beginning of it."""
    before = os.fstat(file.fileno()).st_size
    try:
        if (written := file.write(line)) != len(line):
            file.truncate(before)
            raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)} after {written:,} bytes of a row")
    except OSError as error:
        error.filename = str(file.name)
        raise


def write_record(path: Path, record: Record) -> None:
    """Write the one record that a file holds, whole or not at all; `reading.read_record` reads it."""
    write_whole(path, sealed(record.model_dump_json(indent=1)), private=True)
