"""The ledger of a run, appended to as replies arrive and never changed.

Owns how rows reach the disk. Where they lie, and how they are read, is `reading`'s.
"""

from pathlib import Path
from typing import BinaryIO

from tasks.files import keep_private, private_folder, write_whole
from tasks.ledger.reading import END, JUDGMENTS, OUTCOMES, RUN, folder
from tasks.records import Judgment, Outcome, Record, RunEnd, RunStart


class Ledger:
    """The folder of one run, written by the one process that makes the run.

    Each row is handed to the operating system before the next call returns: a killed process loses the calls in
    flight and nothing else.
    """

    def __init__(self, store: Path, start: RunStart) -> None:
        self.folder = folder(store, start.run_id)
        self._start = start
        self._files: dict[str, BinaryIO] = {}

    def append(self, row: Judgment | Outcome) -> None:
        """Add one row to the file of its kind. The first row makes the folder: a run refused before it leaves none."""
        self._open()
        file = self._files[JUDGMENTS if isinstance(row, Judgment) else OUTCOMES]
        file.write(row.model_dump_json().encode() + b"\n")
        file.flush()

    def end(self, end: RunEnd) -> None:
        """Mark the run as finished. From here on nothing in the folder changes."""
        self._open()
        self.close()
        write_record(self.folder / END, end)

    def close(self) -> None:
        """Release the files; without `end` the run stays unfinished."""
        for file in self._files.values():
            file.close()

    def _open(self) -> None:
        if not self._files:
            private_folder(self.folder.parent)
            self.folder.mkdir()
            keep_private(self.folder)
            write_record(self.folder / RUN, self._start)
            self._files = {name: (self.folder / name).open("ab") for name in (JUDGMENTS, OUTCOMES)}


def write_record(path: Path, record: Record) -> None:
    """Write the one record that a file holds, whole or not at all; `reading.read_record` reads it."""
    write_whole(path, (record.model_dump_json(indent=1) + "\n").encode())
