"""Lines of large files, found by what they are called, without the files or the names in memory.

Owns the index: a temporary database of SQLite's, on the disk, which is gone with the process. What lines are called,
and what they say, is for those who ask.
"""

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class Line(NamedTuple):
    """Where a line stands."""

    path: Path
    number: int
    """In its file, from 1."""
    start: int
    length: int
    """In bytes, its end included."""

    def read(self) -> bytes:
        """What it says."""
        with self.path.open("rb") as file:
            file.seek(self.start)
            return file.read(self.length)


class Index:
    """Where the lines of some files stand. To be used by one thread at a time."""

    def __init__(self, lines: Iterable[tuple[str, Line]]) -> None:
        self._paths: list[Path] = []
        self._rows = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._rows.execute(
            "CREATE TABLE lines (name BLOB, path INTEGER, number INTEGER, start INTEGER, length INTEGER)"
        )
        self._rows.execute("BEGIN")
        self._rows.executemany("INSERT INTO lines VALUES (?, ?, ?, ?, ?)", map(self._row, lines))
        self._rows.execute("COMMIT")
        self._rows.execute("CREATE INDEX names ON lines (name)")

    def find(self, name: str) -> list[Line]:
        """The lines of this name, in the order of the files."""
        found = self._rows.execute(
            "SELECT path, number, start, length FROM lines WHERE name = ? ORDER BY rowid", (_stored(name),)
        )
        return [Line(self._paths[path], number, start, length) for path, number, start, length in found]

    def __del__(self) -> None:
        self._rows.close()

    def _row(self, named: tuple[str, Line]) -> tuple[bytes, int, int, int, int]:
        name, line = named
        if not self._paths or self._paths[-1] != line.path:
            self._paths.append(line.path)
        return _stored(name), len(self._paths) - 1, line.number, line.start, line.length


def _stored(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")  # names in a provider's files may be any
