"""Rows that are written once, whole, and never changed: what runs came to beside each other, one folder a comparison.

Owns `<store>/<folder>/<id>/<file>`, and that a row is of the folder that it lies in. What
the rows say, and what the folder is called, is for `bridges` and `other_calls`; such folders are the source of the
history's tables of the same rows, and whole files, which the machines of a remote store share.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from tasks.errors import InputError
from tasks.files import private_folder, write_whole
from tasks.ledger import reading as ledger
from tasks.ledger.writing import line_of
from tasks.records import Record

R = TypeVar("R", bound=Record)


class Kept(Generic[R]):
    """Where rows of one type are kept.

    Args:
        what: one folder of them, in words: a bridge.
        folder: of the store; the folders of the rows are in it.
        file: that the rows of a folder are in.
        column: of the rows, that which holds the name of their folder; names sort by time.
    """

    def __init__(self, rows: type[R], what: str, folder: str, file: str, column: str) -> None:
        self._rows, self._what = rows, what
        self.folder, self.file, self.column = folder, file, column

    def keep(self, store: Path, rows: Sequence[R]) -> Path:
        """Write the rows of one folder, at least one; returns it."""
        place = store / self.folder / self._name(rows[0])
        private_folder(place)
        write_whole(place / self.file, b"".join(line_of(row) for row in rows))
        return place

    def folders(self, store: Path) -> list[Path]:
        """All of them in the store, oldest first."""
        return sorted(path.parent for path in (store / self.folder).glob(f"*/{self.file}"))

    def read(self, place: Path) -> Iterator[R]:
        """The rows of a folder; InputError where one is damaged, of a newer version, or of another folder."""
        file = place / self.file
        for number, row in enumerate(ledger.read_rows(file), 1):
            found = ledger.validate_row(self._rows, row, file, number)
            if self._name(found) != place.name:
                raise InputError(f"{file}, line {number}: refused: it is of another {self._what}")
            yield found

    def history_rows(self, place: Path) -> Iterator[dict[str, Any]]:
        """The rows of a folder as rows of their table in the history; InputError as `read`."""
        return (row.model_dump(mode="json") for row in self.read(place))

    def _name(self, row: R) -> str:
        return getattr(row, self.column)
