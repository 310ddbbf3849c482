"""Records of a file, found one after another and later read again one at a time, and their columns.

CSV and the places of records are handled here, JSON in `json_records`, Parquet in `parquet_records`. Files of many
gigabytes are normal (pictures as base64), so only one record and one block of a file are in memory. Other modules
interpret the fields.
"""

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

from tasks.datasets.json_records import LONGEST, BrokenJson, check_one_object, json_object, json_spans
from tasks.datasets.parquet_records import parquet_record, parquet_records
from tasks.errors import Habitual, InputError, Problems
from tasks.files import open_regular
from tasks.records import Place
from tasks.text import listed, quoted

# The csv module refuses cells above 128 KiB, less than the raw data of a large plot; the limit is one per process.
csv.field_size_limit(LONGEST)

_BOM = b"\xef\xbb\xbf"
TABLES = (".csv", ".parquet")
"""Endings of files whose rows all have the same columns."""
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
"""Column separators of files that are not strict CSV."""
_NO_CELLS = list[str](), 0, 0


class Row(NamedTuple):
    """One record of a file."""

    where: str
    """File name and number, counted from 1: `results.json, record 9`, `x.jsonl, line 3`, `x.csv, row 2`."""
    place: Place
    values: dict[str, object]


class Other(NamedTuple):
    """Another kind of file that is easily given in place of this one."""

    columns: tuple[str, ...]
    """Columns that identify it: it has all of them, and the expected file has others instead."""
    words: str
    """Description of the file, and where to give it."""


BENCHMARK = Other(
    ("visual_intent", "path_to_gt_image"),
    "a list of PaperBananaBench or a generator's result file: give the folder of the benchmark as dataset, and the "
    "result file as results",
)
PROMPTS = Other(
    ("tag", "include", "prompt"),
    "GenEval's list of prompts, without images: give the folder that holds these as dataset, and the list as metadata",
)


class Columns:
    """Columns found in the rows of one file, compared with the required and the optional ones.

    Any other column is a problem, noted once, in its first row: a misspelled optional column would otherwise be lost
    silently.
    """

    def __init__(self, required: tuple[str, ...], optional: tuple[str, ...], *others: Other) -> None:
        self._required = required
        self._others = others
        self._allowed = required + optional
        self._met: set[str] = set()
        self._misspelt: set[str] = set()

    def meet(self, row: Row, problems: Problems) -> bool:
        """Register the columns of a row; return whether the row can be read.

        A row cannot be read if a column is misspelled, or if a table lacks a required one, which `check` reports once.

        Raises:
            InputError: it is a row of another kind of file.
        """
        if not {*self._required} <= row.values.keys():
            for other in (each for each in self._others if {*each.columns} <= row.values.keys()):
                raise InputError(
                    f"{Path(row.place.path).name} is {other.words}; here it takes {listed(self._required)}"
                )
        meant = {column: column.strip().casefold() for column in row.values}
        strange = sorted(row.values.keys() - self._met - {*self._allowed})
        if strange and not {*meant.values()} & {*self._allowed}:  # another kind of file, whose contents are not quoted
            problems.add(row.where, f"has none of the columns {', '.join(self._allowed)}")
            strange = []
        for column in strange:
            if meant[column] in self._allowed:
                problems.add(row.where, f"column {column!r} must be written {meant[column]!r}")
                self._misspelt |= {column, meant[column]}
            else:
                allowed = ", ".join(self._allowed)
                problems.add(row.where, f"column {quoted(column)} does not exist, allowed are {allowed}")
        self._met |= row.values.keys()
        if Path(row.place.path).suffix.lower() in TABLES and {*self._required} - row.values.keys():
            problems.count()
            return False
        return self._misspelt.isdisjoint(row.values)

    def check(self, name: str, problems: Problems) -> bool:
        """Return whether a file has rows, and every required column in at least one; note the missing columns."""
        absent = [column for column in self._required if column not in self._met | self._misspelt]
        if self._met and absent:
            problems.add(name, f"no row has {listed(absent)}")
        return bool(self._met) and not absent


def find_rows(path: Path, problems: Problems, within: tuple[str, ...] = ()) -> Iterator[Row]:
    """Yield every readable record of a file in order; unreadable ones become problems, with file and row.

    The ending selects the format: .json (array or one object a line), .jsonl, .ndjson, .csv, .parquet. Text is UTF-8,
    with or without a byte order mark. A file broken between two records yields those before the break. After too many
    problems, reading ends. A file without records is a problem, too.

    Args:
        within: places where the file may be, now and each time a record is read: see `open_regular`.
    """
    reader = _FINDERS.get(path.suffix.lower())
    if reader is None:
        problems.add(path.name, f"ends in {path.suffix!r}, allowed are {', '.join(_FINDERS)}")
        return
    if path.exists() and not path.is_file():
        problems.add(path.name, "is not a file of rows but a pipe, a device or a folder")
        return
    before, some = problems.number, False
    try:
        for row in reader(Place(path=str(path), within=within), problems):
            if problems.too_many:
                return
            some = True
            yield row
    except InputError as error:
        problems.add(path.name, error)
    except OSError as error:
        problems.add(path.name, f"cannot be read: {error.strerror or error}")
    if not some and problems.number == before:
        problems.add(path.name, f"holds no {'record' if path.suffix.lower() == '.json' else 'row'}")


def read_row(place: Place, fields: Sequence[str]) -> dict[str, object]:
    """Read these fields of the record at a place, and nothing else of the file.

    Raises InputError if the file is gone or no longer has such a record there.
    """
    path = Path(place.path)
    reader = _READERS.get(path.suffix.lower(), _read_json)
    try:
        values = reader(place, fields)
    except (OSError, InputError) as error:
        raise InputError(f"{path.name} cannot be read as it was when the run started: {error}") from error
    if gone := [field for field in fields if field not in values]:
        raise InputError(f"{path.name} has changed since the run started: {listed(gone)} is no longer in the record")
    return {field: values[field] for field in fields}


def _find_json(place: Place, problems: Problems) -> Iterator[Row]:
    name = Path(place.path).name
    with _opened(place) as file:
        _skip_bom(file)
        for count, (number, span) in enumerate(json_spans(file)):
            where = f"{name}, {number}"
            if not count and number.startswith("line"):
                check_one_object(span.raw)
            try:
                values = json_object(span.raw)
            except Habitual as error:
                problems.add(where, error)
                continue
            except BrokenJson as error:
                problems.add(where, Habitual(f"is not a JSON object ({error})", error.fault))
                continue
            except InputError as error:
                problems.add(where, f"is not a JSON object ({error}); the file is an array of objects, or one a line")
                continue
            yield Row(where, replace(place, start=span.start, length=len(span.raw)), values)


def _read_json(place: Place, fields: Sequence[str]) -> dict[str, object]:
    return json_object(_bytes_at(place))


def _find_csv(place: Place, problems: Problems) -> Iterator[Row]:
    """Yield rows by their bytes, without Polars, which would parse all earlier rows whenever one is read again."""
    name = Path(place.path).name
    with _opened(place) as file:
        records = _csv_records(file)
        header, *_ = next(records, _NO_CELLS)
        other = next((words for mark, words in _SEPARATORS.items() if len(header) == 1 and mark in header[0]), "")
        if other:
            raise InputError(f"has {other} between its columns, must have commas: save it as CSV with commas")
        if len(set(header)) < len(header):
            # Columns are listed by number: the file may not be a dataset, and its contents are not quoted.
            first = dict(zip(reversed(header), range(len(header), 0, -1), strict=True))
            twice = [f"{number} as {first[name]}" for number, name in enumerate(header, 1) if first[name] < number]
            raise InputError(f"names a column twice: number {listed(twice)}")
        for row, (cells, start, length) in enumerate(records):
            where = f"{name}, row {row + 1}"
            if len(cells) == len(header):
                own = replace(place, start=start, length=length, row=row)
                yield Row(where, own, dict(zip(header, cells, strict=True)))
            elif cells:
                problems.add(where, f"has {len(cells)} cells, the header names {len(header)}")


def _csv_records(file: BinaryIO) -> Iterator[tuple[list[str], int, int]]:
    """Yield the cells of each record, the header first, with its offset and its length in bytes."""
    start = _skip_bom(file)
    reader = csv.reader((line.decode() for line in file), strict=True)
    try:
        for cells in reader:
            end = file.tell()
            yield cells, start, end - start
            start = end
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(
            f"the row that starts at byte {start:,} is no CSV in UTF-8: {error}; save the file as CSV in UTF-8"
        ) from error


def _read_csv(place: Place, fields: Sequence[str]) -> dict[str, object]:
    with _opened(place) as file:
        header, *_ = next(_csv_records(file), _NO_CELLS)
    cells, *_ = next(_csv_records(io.BytesIO(_bytes_at(place))), _NO_CELLS)
    if len(cells) != len(header):
        raise InputError(f"row {place.row + 1} has {len(cells)} cells, the header names {len(header)}")
    return dict(zip(header, cells, strict=True))


def _find_parquet(place: Place, problems: Problems) -> Iterator[Row]:
    for row, values in enumerate(parquet_records(place)):
        yield Row(f"{Path(place.path).name}, row {row + 1}", replace(place, row=row), values)


def _skip_bom(file: BinaryIO) -> int:
    """Skip the byte order mark of UTF-8. Raises InputError for UTF-16 and UTF-32, whose text is full of NUL bytes."""
    head = file.read(64)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in head:
        raise InputError("is in UTF-16 or UTF-32, or no text at all; must be UTF-8: save it as UTF-8")
    return file.seek(len(_BOM) if head.startswith(_BOM) else 0)


def _bytes_at(place: Place) -> bytes:
    with _opened(place) as file:
        file.seek(place.start)
        return file.read(place.length)


def _opened(place: Place) -> BinaryIO:
    return open_regular(Path(place.path), within=place.within)


_FINDERS: dict[str, Callable[[Place, Problems], Iterator[Row]]] = {
    ".json": _find_json,
    ".jsonl": _find_json,
    ".ndjson": _find_json,
    ".csv": _find_csv,
    ".parquet": _find_parquet,
}
_READERS: dict[str, Callable[[Place, Sequence[str]], dict[str, object]]] = {
    ".csv": _read_csv,
    ".parquet": parquet_record,
}
