"""Records of a Parquet file, found one after another and read again one at a time.

Polars decodes a whole row group for each query, so rows are decoded together: few rows with pictures, many small ones.
A file of a few kilobytes may have pages of gigabytes, and Polars unpacks all pages of a row group for any of its rows.
The unpacked size is therefore bounded first, by the file's footer, which DuckDB reads. A footer that lies is believed.
"""

import os
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import BinaryIO, NamedTuple

import duckdb
import polars
from polars.exceptions import PolarsError

from tasks.datasets.rows import open_place
from tasks.errors import InputError
from tasks.records import Place
from tasks.text import quoted

PARQUET_ROWS, MOST_PARQUET_ROWS = 16, 1024
"""Fewest and most rows read together, since each query decodes a row group: few rows with pictures, more small ones."""
PARQUET_BYTES = 8 << 20
"""Intended size of rows that are read together, in bytes."""
PARQUET_KEPT = 32 << 20
"""Bytes of decoded rows kept for the next reads."""
MOST_TOGETHER = 128 << 20
"""Most bytes of rows held together. A dictionary may expand to many times its size in the file."""
LARGEST_CELL = 64_000_000
LARGEST_ROW = 2 * LARGEST_CELL
"""Largest value and largest row, in bytes."""

MOST_UNPACKED = 200 << 20
"""Unpacked bytes that any row group may have; Polars briefly uses twice as many."""
USUAL_PACKING = 10
"""Allowed ratio of unpacked to packed bytes in larger row groups: texts shrink to a fifth, pictures hardly."""
BYTES_OF_A_VALUE = 16
"""Least bytes of a decoded value: a page of a few bytes may contain millions of equal or empty values."""
MEMORY = "500MB"
"""Most memory for reading a footer."""
_ROW_GROUPS = """
    SELECT any_value(row_group_num_rows), sum(total_compressed_size), sum(unpacked),
        max(unpacked), arg_max(column_path, unpacked),  -- the largest column
        -- a column whose values may each repeat the one before it, so that their size has no bound
        coalesce(any_value(column_path) FILTER (encodings LIKE '%DELTA_BYTE_ARRAY%'), '')
    FROM (
        SELECT *, total_uncompressed_size + $value * num_values AS unpacked,
            replace(path_in_schema, ', ', '.') AS column_path
        FROM parquet_metadata($file)
    )
    GROUP BY row_group_id ORDER BY row_group_id
"""
"""Rows and sizes (in bytes) of each row group, by the footer of a file."""


class _Rows(NamedTuple):
    """Rows of a Parquet file."""

    dicts: list[dict[str, object]]
    bytes: int


class _Groups:
    """Groups of rows kept for the next reads: samples are read in order, several at a time, and reading one row alone
    would decode its whole row group."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[object, ...], _Rows] = OrderedDict()
        self._checked: set[tuple[int, int, int, int]] = set()
        self._lock = Lock()

    def read(self, row: int, fields: Sequence[str], file: BinaryIO) -> dict[str, object]:
        """Return these fields of a row. One group is decoded at a time, even if many threads read.

        Raises:
            IndexError: the row does not exist.
            InputError: the file, or a value in it, cannot be read.
        """
        number, at = divmod(row, PARQUET_ROWS)
        status = os.fstat(file.fileno())
        identity = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
        with self._lock:
            # Rows that were read before the file changed are not used again.
            if found := self._kept.get(key := (identity, *fields, number)):
                self._kept.move_to_end(key)
                return found.dicts[at]
            while sum(each.bytes for each in self._kept.values()) > PARQUET_KEPT:
                self._kept.popitem(last=False)
            if identity not in self._checked:
                check_pages(file)
                self._checked.add(identity)
            first = number * PARQUET_ROWS
            frame = _collected(_scanned(file).select(fields).slice(first, PARQUET_ROWS), first)
            if (size := int(frame.estimated_size())) > MOST_TOGETHER:
                return _dicts(frame.slice(at, 1))[0]
            self._kept[key] = _Rows(_dicts(frame), size)
            return self._kept[key].dicts[at]


_groups = _Groups()


def parquet_records(place: Place) -> Iterator[dict[str, object]]:
    """Yield every record of a file in order.

    Raises:
        OSError, InputError: the file, or a value in it, cannot be read.
    """
    first, number = 0, PARQUET_ROWS
    with open_place(place) as file:
        check_pages(file)
        table = _scanned(file)
        while (frame := _collected(table.slice(first, number), first)).height:
            size = int(frame.estimated_size())
            together = 1 if size > MOST_TOGETHER else frame.height
            for at in range(0, frame.height, together):
                yield from _dicts(frame.slice(at, together))
            first += frame.height
            fitting = PARQUET_BYTES * frame.height // max(size, 1)
            number = min(max(fitting, PARQUET_ROWS), 4 * number, MOST_PARQUET_ROWS)


def parquet_record(place: Place, fields: Sequence[str]) -> dict[str, object]:
    """Read these fields of the record at a place.

    Raises:
        OSError, InputError: the file cannot be read, or has no such row or field.
    """
    with open_place(place) as file:
        try:
            return _groups.read(place.row, fields, file)
        except IndexError:
            raise InputError(f"row {place.row + 1} is no longer there") from None


def _scanned(file: BinaryIO) -> polars.LazyFrame:
    file.seek(0)
    return polars.scan_parquet(file)


def _collected(table: polars.LazyFrame, first: int) -> polars.DataFrame:
    """Collect rows as a Polars frame: as Python objects, each row would repeat the value that a dictionary stores once.

    Args:
        first: number of the first row, from 0.
    """
    try:
        frame = table.collect()
    except PolarsError as error:
        raise InputError(str(error)) from error
    if frame.estimated_size() > LARGEST_CELL:
        _check_cells(frame, first)
    return frame


def _check_cells(frame: polars.DataFrame, first: int) -> None:
    for at in range(frame.height):
        sizes = {column.name: int(column.slice(at, 1).estimated_size()) for column in frame}
        name = max(sizes, key=lambda name: sizes[name])
        if sizes[name] > LARGEST_CELL:
            found = f"column {quoted(name)} has {sizes[name]:,} bytes, allowed are {LARGEST_CELL:,}"
            raise InputError(f"row {first + at + 1}, {found}")
        if sum(sizes.values()) > LARGEST_ROW:
            raise InputError(f"row {first + at + 1} has {sum(sizes.values()):,} bytes, allowed are {LARGEST_ROW:,}")


def _dicts(frame: polars.DataFrame) -> list[dict[str, object]]:
    try:
        return frame.to_dicts()
    except (ValueError, OverflowError) as error:  # a date outside of Python's range
        raise InputError(f"holds a value that cannot be read: {error}") from error


def check_pages(file: BinaryIO) -> None:
    """Check the unpacked size of each row group of a file, by its footer.

    Raises:
        InputError: a row group is too large (with its rows and largest column), a column has an encoding of
            unbounded size, or the file is damaged, cut short or not Parquet.
    """
    try:
        with duckdb.connect(config={"memory_limit": MEMORY, "threads": 1}) as database:
            file_and_value = {"file": f"/dev/fd/{file.fileno()}", "value": BYTES_OF_A_VALUE}
            groups = database.execute(_ROW_GROUPS, file_and_value).fetchall()
    except duckdb.Error as error:
        raise InputError("is no Parquet file, or it is damaged or cut short") from error
    first = 1
    for rows, packed, unpacked, largest, column, shared in groups:
        if shared:
            raise InputError(
                f"has column {quoted(shared)} in the encoding DELTA_BYTE_ARRAY, whose size is unknown before it is "
                "read: write it in another encoding, as Polars, pandas and DuckDB do by default"
            )
        if unpacked > max(MOST_UNPACKED, USUAL_PACKING * packed):
            raise InputError(
                f"rows {first:,} to {first + rows - 1:,} become {unpacked:,} bytes when they are read, {largest:,} of "
                f"them in column {quoted(column)}, allowed are {MOST_UNPACKED:,}: write fewer rows to a row group"
            )
        first += rows
