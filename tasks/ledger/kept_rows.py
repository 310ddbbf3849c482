"""Rows that are written once, whole, and never changed: one folder for each comparison or set of calls.

The files `<store>/<folder>/<id>/<file>` are the source of the history's tables with the same rows, and the machines of
a remote store share them whole. `bridges` and `other_calls` define rows and folders.
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
    """Location of rows of one type.

    Args:
        what: name of one folder of rows in messages, such as bridge.
        folder: folder of the store that contains the folders of the rows.
        file: name of the file with the rows of a folder.
        column: column of the rows with the name of their folder; names sort by time.
    """

    def __init__(self, rows: type[R], what: str, folder: str, file: str, column: str) -> None:
        self._rows, self._what = rows, what
        self.folder, self.file, self.column = folder, file, column

    def keep(self, store: Path, rows: Sequence[R]) -> Path:
        """Write the rows of one folder, at least one; return the folder."""
        place = store / self.folder / self._name(rows[0])
        private_folder(place)
        write_whole(place / self.file, b"".join(line_of(row) for row in rows))
        return place

    def folders(self, store: Path) -> list[Path]:
        """Return all folders of such rows in the store, oldest first."""
        return sorted(path.parent for path in (store / self.folder).glob(f"*/{self.file}"))

    def read(self, place: Path) -> Iterator[R]:
        """Yield the rows of a folder; InputError if one is damaged, of a newer version, or of another folder."""
        file = place / self.file
        for number, row in enumerate(ledger.read_rows(file), 1):
            found = ledger.validate_row(self._rows, row, file, number)
            if self._name(found) != place.name:
                raise InputError(f"{file}, line {number}: refused: it is of another {self._what}")
            yield found

    def history_rows(self, place: Path) -> Iterator[dict[str, Any]]:
        """Return the rows of a folder as rows of their table in the history; InputError as in `read`."""
        return (row.model_dump(mode="json") for row in self.read(place))

    def _name(self, row: R) -> str:
        return getattr(row, self.column)
