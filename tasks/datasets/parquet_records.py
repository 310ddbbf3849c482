"""Records of a Parquet file, found one after another and read again one at a time.

Polars decodes a whole row group for each query, so rows are decoded together: few rows with pictures, many small ones.
A file of a few kilobytes may have pages of gigabytes, and Polars unpacks all pages of a row group for any of its rows.
The unpacked size is therefore bounded first, from the page headers, which are in Thrift's compact protocol.

Source: https://parquet.apache.org/docs/file-format/ and parquet.thrift in apache/parquet-format, looked up 2026-11-24.
"""

import os
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from tasks.errors import InputError
from tasks.files import open_regular
from tasks.records import Place
from tasks.text import quoted

if TYPE_CHECKING:
    from polars import DataFrame, LazyFrame

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
LONGEST_FOOTER = 32_000_000
_MAGIC = b"PAR1"

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_ROW_GROUPS, _COLUMNS, _ROWS, _META_DATA = 4, 1, 3, 3
_PATH, _PACKED, _DATA_PAGE, _DICTIONARY_PAGE = 3, 7, 9, 11
_PAGE_UNPACKED, _PAGE_PACKED = 2, 3
_VALUES, _ENCODING_OF = 1, {5: 2, 8: 4}
"""Field numbers in the footer, a row group, one of its columns, and a page header. The last line has the number of
values of a data page, and the header field of a data page (of either version) -> its encoding."""
_SHARED_PREFIXES = 7
"""Encoding DELTA_BYTE_ARRAY: each value may repeat the one before it, so the size of the page sets no bound."""


class _Rows(NamedTuple):
    """Rows of a Parquet file."""

    dicts: list[dict[str, object]]
    bytes: int


class _Group(NamedTuple):
    """Some fields of the rows of a Parquet file that are read together."""

    place: Place
    """The file; its row number is ignored."""
    fields: tuple[str, ...]
    number: int


_Key = tuple[_Group, int]
"""Group and modification time of the file, in nanoseconds: rows read before a change must not be reused."""


class _Groups:
    """Groups of rows kept for the next reads: samples are read in order, several at a time, and reading one row alone
    would decode its whole row group."""

    def __init__(self) -> None:
        self._kept: OrderedDict[_Key, _Rows] = OrderedDict()
        self._checked: set[tuple[int, int, int, int]] = set()
        self._lock = Lock()

    def read(self, group: _Group, at: int, file: BinaryIO) -> dict[str, object]:
        """Return a row of a group. One group is decoded at a time, even if many threads read.

        Raises:
            IndexError: the row does not exist.
            InputError: the file, or a value in it, cannot be read.
        """
        status = os.fstat(file.fileno())
        with self._lock:
            if found := self._kept.get(key := (group, status.st_mtime_ns)):
                self._kept.move_to_end(key)
                return found.dicts[at]
            self._drop(PARQUET_KEPT)
            identity = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
            if identity not in self._checked:
                check_pages(file)
                self._checked.add(identity)
            first = group.number * PARQUET_ROWS
            frame = _collected(_scanned(file).select(group.fields).slice(first, PARQUET_ROWS), first)
            if (size := int(frame.estimated_size())) > MOST_TOGETHER:
                return _dicts(frame.slice(at, 1))[0]
            self._kept[key] = _Rows(_dicts(frame), size)
            return self._kept[key].dicts[at]

    def _drop(self, most: int) -> None:
        while sum(each.bytes for each in self._kept.values()) > most:
            self._kept.popitem(last=False)


_groups = _Groups()


def parquet_records(place: Place) -> Iterator[dict[str, object]]:
    """Yield every record of a file in order.

    Raises:
        OSError, InputError: the file, or a value in it, cannot be read.
    """
    first, number = 0, PARQUET_ROWS
    with _opened(place) as file:
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
    number, at = divmod(place.row, PARQUET_ROWS)
    group = _Group(replace(place, row=-1), tuple(fields), number)
    with _opened(place) as file:
        try:
            return _groups.read(group, at, file)
        except IndexError:
            raise InputError(f"row {place.row + 1} is no longer there") from None


def _opened(place: Place) -> BinaryIO:
    return open_regular(Path(place.path), within=place.within)


def _scanned(file: BinaryIO) -> "LazyFrame":
    import polars  # the import takes a quarter of a second, and no other format needs it

    file.seek(0)
    return polars.scan_parquet(file)


def _collected(table: "LazyFrame", first: int) -> "DataFrame":
    """Collect rows as a Polars frame: as Python objects, each row would repeat the value that a dictionary stores once.

    Args:
        first: number of the first row, from 0.
    """
    from polars.exceptions import PolarsError

    try:
        frame = table.collect()
    except PolarsError as error:
        raise InputError(str(error)) from error
    if frame.estimated_size() > LARGEST_CELL:
        _check_cells(frame, first)
    return frame


def _check_cells(frame: "DataFrame", first: int) -> None:
    for at in range(frame.height):
        sizes = {column.name: int(column.slice(at, 1).estimated_size()) for column in frame}
        name = max(sizes, key=lambda name: sizes[name])
        if sizes[name] > LARGEST_CELL:
            found = f"column {quoted(name)} has {sizes[name]:,} bytes, allowed are {LARGEST_CELL:,}"
            raise InputError(f"row {first + at + 1}, {found}")
        if sum(sizes.values()) > LARGEST_ROW:
            raise InputError(f"row {first + at + 1} has {sum(sizes.values()):,} bytes, allowed are {LARGEST_ROW:,}")


def _dicts(frame: "DataFrame") -> list[dict[str, object]]:
    try:
        return frame.to_dicts()
    except (ValueError, OverflowError) as error:  # a date outside of Python's range
        raise InputError(f"holds a value that cannot be read: {error}") from error


class _Column(NamedTuple):
    """A column of a row group."""

    name: str
    start: int
    packed: int


def check_pages(file: BinaryIO) -> None:
    """Check the unpacked size of each row group of a file.

    Raises:
        InputError: a row group is too large (with its rows and largest column), a column has an encoding of
            unbounded size, or the file is damaged, cut short or not Parquet.
    """
    size = os.fstat(file.fileno()).st_size
    first, left = 1, size
    try:
        for rows, columns in _row_groups(_footer(file, size)):
            packed = sum(column.packed for column in columns)
            left -= packed
            if left < 0:
                raise ValueError("columns share pages, so that to look through them takes as long as there are columns")
            unpacked = {column.name: _unpacked(file, column, size) for column in columns}
            if sum(unpacked.values()) > max(MOST_UNPACKED, USUAL_PACKING * packed):
                name = max(unpacked, key=lambda name: unpacked[name])
                raise InputError(
                    f"rows {first:,} to {first + rows - 1:,} become {sum(unpacked.values()):,} bytes when they are "
                    f"read, {unpacked[name]:,} of them in column {quoted(name)}, allowed are {MOST_UNPACKED:,}: write "
                    "fewer rows to a row group"
                )
            first += rows
    except (LookupError, ValueError, OverflowError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("is no Parquet file, or it is damaged or cut short") from error


def _footer(file: BinaryIO, size: int) -> "_Reader":
    file.seek(max(size - 8, 0))
    end = file.read(8)
    length = int.from_bytes(end[:4], "little")
    if end[4:] != _MAGIC or length > size - 8:
        raise InputError("is no Parquet file, or it is damaged or cut short")
    if length > LONGEST_FOOTER:
        raise InputError(f"has {length:,} bytes about its columns, allowed are {LONGEST_FOOTER:,}")
    file.seek(size - 8 - length)
    return _Reader(BytesIO(file.read(length)))


def _row_groups(footer: "_Reader") -> Iterator[tuple[int, list[_Column]]]:
    """Yield the number of rows and the columns of each row group."""
    for number, kind in footer.fields():
        if number != _ROW_GROUPS:
            footer.skip(kind)
            continue
        for _ in footer.elements():
            yield _row_group(footer)


def _row_group(footer: "_Reader") -> tuple[int, list[_Column]]:
    rows, columns = 0, list[_Column]()
    for number, kind in footer.fields():
        if number == _COLUMNS:
            columns = [_column(footer) for _ in footer.elements()]
        elif number == _ROWS:
            rows = footer.integer()
        else:
            footer.skip(kind)
    return rows, columns


def _column(footer: "_Reader") -> _Column:
    found: dict[int, int] = {}
    name = ""
    for outer, outer_kind in footer.fields():
        if outer != _META_DATA:
            footer.skip(outer_kind)
            continue
        for number, kind in footer.fields():
            if number == _PATH:
                name = ".".join(footer.binary().decode("utf-8", "replace") for _ in footer.elements())
            elif number in (_PACKED, _DATA_PAGE, _DICTIONARY_PAGE):
                found[number] = footer.integer()
            else:
                footer.skip(kind)
    return _Column(name, found.get(_DICTIONARY_PAGE) or found[_DATA_PAGE], found[_PACKED])


def _unpacked(file: BinaryIO, column: _Column, size: int) -> int:
    """Return the unpacked size of a column from its page headers: the sum in the footer may be wrong."""
    total, place, end = 0, column.start, column.start + column.packed
    if not 0 < place <= end <= size:
        raise ValueError("a column stands outside of the file")
    while place < end:
        file.seek(place)
        header, sizes, values = _Reader(file), dict[int, int](), 0
        for number, kind in header.fields():
            if number in (_PAGE_UNPACKED, _PAGE_PACKED):
                sizes[number] = header.integer()
            elif number in _ENCODING_OF:
                values = _values(header, _ENCODING_OF[number], column.name)
            else:
                header.skip(kind)
        if min(sizes[_PAGE_UNPACKED], sizes[_PAGE_PACKED], values) < 0:
            raise ValueError("a page has less than no bytes or values")
        total += sizes[_PAGE_UNPACKED] + BYTES_OF_A_VALUE * values
        place = file.tell() + sizes[_PAGE_PACKED]
    return total


def _values(header: "_Reader", encoding: int, column: str) -> int:
    """Return the number of values of a page, after a check of its encoding, which is the field `encoding`."""
    values = 0
    for number, kind in header.fields():
        if number == _VALUES:
            values = header.integer()
        elif number == encoding and header.integer() == _SHARED_PREFIXES:
            raise InputError(
                f"has column {quoted(column)} in the encoding DELTA_BYTE_ARRAY, whose size is unknown before it is "
                "read: write it in another encoding, as Polars, pandas and DuckDB do by default"
            )
        elif number != encoding:
            header.skip(kind)
    return values


class _Reader:
    """Reader for Thrift's compact protocol, one value after another."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def fields(self) -> Iterator[tuple[int, int]]:
        """Yield number and kind of each field of a struct; the caller reads or skips its value before the next."""
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self.integer()
            yield number, head & 15

    def elements(self) -> Iterator[int]:
        """Yield the kind of each element of a list; the caller reads or skips it before the next."""
        head = self._byte()
        count = self._number() if head >> 4 == 15 else head >> 4
        for _ in range(count):
            yield head & 15

    def integer(self) -> int:
        """Read a whole number of any width."""
        value = self._number()
        return (value >> 1) ^ -(value & 1)

    def binary(self) -> bytes:
        """Read bytes or a text."""
        return self._file.read(self._number())

    def skip(self, kind: int) -> None:
        """Skip a value of a struct."""
        if kind in (_TRUE, _FALSE):  # the kind contains the value
            return
        if kind in (_BYTE, _DOUBLE):
            self._file.read(1 if kind == _BYTE else 8)
        elif kind == _BINARY:
            self._file.seek(self._number(), os.SEEK_CUR)
        elif kind in (_LIST, _SET):
            for each in self.elements():
                self._skip_element(each)
        elif kind == _MAP:
            self._skip_map()
        elif kind == _STRUCT:
            for _, each in self.fields():
                self.skip(each)
        else:
            self._number()

    def _skip_element(self, kind: int) -> None:
        if kind in (_TRUE, _FALSE):  # one byte each outside of a struct
            self._byte()
        else:
            self.skip(kind)

    def _skip_map(self) -> None:
        count = self._number()
        kinds = self._byte() if count else 0
        for _ in range(count):
            self._skip_element(kinds >> 4)
            self._skip_element(kinds & 15)

    def _number(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a number is too long")

    def _byte(self) -> int:
        return self._file.read(1)[0]
