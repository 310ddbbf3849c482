"""The records of a Parquet file: found one after another, and read again one at a time.

Owns how many rows are decoded together, since Polars decodes a row group for each query however few are asked for: few
rows where pictures come with them, many where they are small. Where records are kept is for `rows`.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from tasks.errors import InputError

if TYPE_CHECKING:
    from polars import LazyFrame

PARQUET_ROWS, MOST_PARQUET_ROWS = 16, 1024
"""Rows of a Parquet file read together, since each query decodes a row group: few where pictures are held with them,
more where they turn out to be small."""
PARQUET_BYTES = 8 << 20
"""What rows that are read together should come to."""
PARQUET_KEPT = 32 << 20
"""Bytes of rows that are kept for whoever asks for the next."""


class _Collected(NamedTuple):
    """Rows of a Parquet file."""

    dicts: list[dict[str, object]]
    bytes: int


class _Group(NamedTuple):
    """Rows of a Parquet file that are read together, and of these some fields."""

    path: Path
    fields: tuple[str, ...]
    number: int


_Key = tuple[_Group, int]
"""With the time of the file's last change, in nanoseconds: what was read before says nothing of what is there now."""


class _Groups:
    """Groups of rows kept for whoever asks for the next row: samples are read in their order, several at a time, and
    to read one row alone would decode its whole row group for it."""

    def __init__(self) -> None:
        self._kept: OrderedDict[_Key, _Collected] = OrderedDict()
        self._lock = Lock()

    def get(self, key: _Key) -> _Collected | None:
        with self._lock:
            if found := self._kept.get(key):
                self._kept.move_to_end(key)
            return found

    def keep(self, key: _Key, rows: _Collected) -> _Collected:
        with self._lock:
            self._kept[key] = rows
            while len(self._kept) > 1 and sum(each.bytes for each in self._kept.values()) > PARQUET_KEPT:
                self._kept.popitem(last=False)
        return rows


_groups = _Groups()


def parquet_records(path: Path) -> Iterator[dict[str, object]]:
    """Every record of a file, in its order.

    Raises:
        OSError, InputError: the file, or a value in it, cannot be read.
    """
    table = _scanned(path)
    first, number = 0, PARQUET_ROWS
    while (rows := _collected(table.slice(first, number))).dicts:
        yield from rows.dicts
        first += len(rows.dicts)
        fitting = PARQUET_BYTES * len(rows.dicts) // max(rows.bytes, 1)
        number = min(max(fitting, PARQUET_ROWS), 4 * number, MOST_PARQUET_ROWS)


def parquet_record(path: Path, row: int, fields: Sequence[str]) -> dict[str, object]:
    """These fields of the record in a row, counted from 0.

    Raises:
        OSError, InputError: the file cannot be read, or has no such row or field.
    """
    number, place = divmod(row, PARQUET_ROWS)
    group = _Group(path, tuple(fields), number)
    key = group, path.stat().st_mtime_ns
    rows = _groups.get(key) or _groups.keep(key, _read_group(group))
    if place >= len(rows.dicts):
        raise InputError(f"row {row + 1} is no longer there")
    return rows.dicts[place]


def _read_group(group: _Group) -> _Collected:
    table = _scanned(group.path).select(group.fields)
    return _collected(table.slice(group.number * PARQUET_ROWS, PARQUET_ROWS))


def _scanned(path: Path) -> "LazyFrame":
    import polars  # takes a quarter of a second, which no other format needs

    return polars.scan_parquet(path, glob=False)


def _collected(table: "LazyFrame") -> _Collected:
    from polars.exceptions import PolarsError

    try:
        frame = table.collect()
        return _Collected(frame.to_dicts(), int(frame.estimated_size()))
    except PolarsError as error:
        raise InputError(str(error)) from error
    except (ValueError, OverflowError) as error:  # a date that Python has none for
        raise InputError(f"holds a value that cannot be read: {error}") from error
