"""Records of a file, found one after another and read again one at a time, and the checks of their columns."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from tasks.errors import Habitual, InputError, Problems
from tasks.files import open_regular
from tasks.records import Place
from tasks.text import json_fault, kind, listed, quoted

BLOCK = 4 << 20
"""Bytes per read."""
LONGEST = 256 << 20
"""Longest record, in bytes: an unclosed record must not bring the rest of the file into memory."""

# A string is one token, so that brackets inside it do not count; possessive, so that no input causes backtracking. The
# end of the block may cut a string: the whole record is matched again when more has been read.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[][{}]', re.DOTALL)
_OPENING, _CLOSING = frozenset(b"[{"), frozenset(b"]}")


class Span(NamedTuple):
    """Bytes of a file and their offset in it."""

    start: int
    raw: bytes


def json_spans(file: BinaryIO) -> Iterator[tuple[str, Span]]:
    """Yield each record of a file after its byte order mark, with its number counted from 1 (`record 9`).

    Records are the elements of an array. Any other file is read as lines, without the blank ones. Raises InputError on
    reaching a broken array or a record longer than `LONGEST`.
    """
    start = file.tell()
    head = file.read(1 << 16)
    if head.lstrip().startswith(b"["):
        file.seek(start + head.index(b"[") + 1)
        yield from ((f"record {number}", span) for number, span in enumerate(array_spans(file), 1))
    else:
        file.seek(start)
        yield from ((f"line {number}", span) for number, span in _line_spans(file) if span.raw.strip())


def json_object(raw: bytes) -> dict[str, object]:
    """Parse a JSON object, and make its texts whole. Raises Habitual, with the content found, for anything else."""
    try:
        value: object = json.loads(raw.rstrip())
        if any(mark in raw for mark in _MARKS_OF_HALVES):
            value = whole_texts(value)
    except json.JSONDecodeError as error:
        # A program writes such lines all alike, though not at the same position.
        raise Habitual(f"is not a JSON object ({json_fault(error)})", error.msg) from error
    except (ValueError, RecursionError) as error:  # not UTF-8, a number of thousands of digits, or nested too deeply
        raise Habitual(f"is not a JSON object ({error})", type(error).__name__) from error
    if not isinstance(value, dict):
        found = f"found {kind(value)}"
        raise Habitual(f"is not a JSON object ({found})", found)
    return cast(dict[str, object], value)


_MARKS_OF_HALVES = (b"\\ud", b"\\uD", b"\xed")
"""Bytes of which any JSON with half of a surrogate pair has one, as JSON without it may."""


def whole_texts(value: Any) -> Any:
    """Return a JSON value with U+FFFD for each half of a surrogate pair, which no file and no request can contain."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [whole_texts(each) for each in cast(list[Any], value)]
    if isinstance(value, dict):
        return {whole_texts(key): whole_texts(each) for key, each in cast(dict[str, Any], value).items()}
    return value


def _line_spans(file: BinaryIO) -> Iterator[tuple[int, Span]]:
    start = file.tell()
    for number, line in enumerate(iter(partial(file.readline, LONGEST), b""), 1):
        if len(line) == LONGEST:
            raise InputError(f"line {number} is longer than {LONGEST:,} bytes")
        yield number, Span(start, line)
        start += len(line)


def array_spans(file: BinaryIO) -> Iterator[Span]:
    """Yield the objects and lists of a JSON array in order, from a file positioned just after the opening bracket.

    Raises InputError if two records are not separated by exactly one comma, the closing bracket is missing, text
    follows it, or a record is longer than `LONGEST`.
    """
    for number, (between, span) in enumerate(_spans(file)):
        if not span.raw:
            raise InputError(f"after record {number}: the file ends before its array does")
        closing = span.raw in (b"]", b"}")
        if between != (b"," if number and not closing else b"") or span.raw == b"}":
            found = _marks(between or span.raw)
            raise InputError(f"after record {number}: found {found} where a comma and an object must be")
        if closing:
            return _check_nothing_follows(file, span.start + 1)
        yield span


def _spans(file: BinaryIO) -> Iterator[tuple[bytes, Span]]:
    """Yield each value and the closing bracket, with the text before it; last, an empty span at the end of the file."""
    base, buffer = file.tell(), b""
    while block := file.read(max(BLOCK, len(buffer))):
        buffer += block
        done = 0
        for start, end in _closed(buffer):
            yield buffer[done:start].strip(), Span(base + start, buffer[start:end])
            done = end
        base, buffer = base + done, buffer[done:]
        if len(buffer) > LONGEST:
            raise InputError(f"the record at byte {base:,} does not end within {LONGEST:,} bytes")
    yield buffer.strip(), Span(base + len(buffer), b"")


def _closed(buffer: bytes) -> Iterator[tuple[int, int]]:
    """Yield start and end of each bracketed value that ends in the buffer, and of the array's closing bracket."""
    depth = start = 0
    for token in _TOKEN.finditer(buffer):
        mark = buffer[token.start()]
        if mark in _OPENING:
            start = start if depth else token.start()
            depth += 1
        elif mark in _CLOSING:
            depth -= 1
            if depth <= 0:
                yield (token.start() if depth else start), token.end()


def _check_nothing_follows(file: BinaryIO, end: int) -> None:
    file.seek(end)
    while block := file.read(BLOCK):
        if text := block.strip()[:40]:
            raise InputError(f"found {_marks(text)} after the end of the array")


def _marks(found: bytes) -> str:
    """Return misplaced text if it is JSON punctuation alone: the file may contain someone's keys, not a dataset."""
    return "other text" if re.search(rb"[^][{},:\s]", found) else repr(found[:40].decode())


# The csv module refuses cells above 128 KiB, less than the raw data of a large plot; the limit is one per process.
csv.field_size_limit(LONGEST)

_BOM = b"\xef\xbb\xbf"
_NO_CELLS = list[str](), 0, 0


class Row(NamedTuple):
    """One record of a file."""

    where: str
    """File name and number, counted from 1: `results.json, record 9`, `x.jsonl, line 3`, `x.csv, row 2`."""
    place: Place
    values: dict[str, object]


class Columns:
    """Columns found in the rows of one file, compared with the required and the optional ones.

    Any other column is a problem, noted once, in its first row: a misspelled optional column would otherwise be lost
    silently.
    """

    def __init__(self, required: tuple[str, ...], optional: tuple[str, ...]) -> None:
        self._required = required
        self._allowed = required + optional
        self._met: set[str] = set()

    def meet(self, row: Row, problems: Problems) -> bool:
        """Register the columns of a row; return whether the row can be read.

        A row of a table that lacks a required column cannot be read; `check` reports the column once.
        """
        strange, allowed = sorted(row.values.keys() - self._met - {*self._allowed}), ", ".join(self._allowed)
        if strange and not {*row.values} & {*self._allowed}:  # another kind of file, whose contents are not quoted
            problems.add(row.where, f"has none of the columns {allowed}")
            strange = []
        for column in strange:
            problems.add(row.where, f"column {quoted(column)} does not exist, allowed are {allowed}")
        self._met |= row.values.keys()
        if Path(row.place.path).suffix.lower() == ".csv" and {*self._required} - row.values.keys():
            problems.count()
            return False
        return True

    def check(self, name: str, problems: Problems) -> bool:
        """Return whether a file has rows, and every required column in at least one; note the missing columns."""
        absent = [column for column in self._required if column not in self._met]
        if self._met and absent:
            problems.add(name, f"no row has {listed(absent)}")
        return bool(self._met) and not absent


def find_rows(path: Path, problems: Problems, within: tuple[str, ...] = ()) -> Iterator[Row]:
    """Yield every readable record of a file in order; unreadable ones become problems, with file and row.

    The ending selects the format: .json (array or one object a line), .jsonl, .ndjson, .csv. Text is UTF-8,
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
    try:
        values = _read_csv(place) if path.suffix.lower() == ".csv" else json_object(_bytes_at(place))
    except (OSError, InputError) as error:
        raise InputError(f"{path.name} cannot be read as it was when the run started: {error}") from error
    if gone := [field for field in fields if field not in values]:
        raise InputError(f"{path.name} has changed since the run started: {listed(gone)} is no longer in the record")
    return {field: values[field] for field in fields}


def _find_json(place: Place, problems: Problems) -> Iterator[Row]:
    name = Path(place.path).name
    with _open_place(place) as file:
        _skip_bom(file)
        for number, span in json_spans(file):
            where = f"{name}, {number}"
            try:
                values = json_object(span.raw)
            except Habitual as error:
                what = f"{error}; the file must be an array of objects, or one a line, in UTF-8"
                problems.add(where, Habitual(what, error.habit))
                continue
            yield Row(where, replace(place, start=span.start, length=len(span.raw)), values)


def _find_csv(place: Place, problems: Problems) -> Iterator[Row]:
    """Yield rows by their bytes, without Polars, which would parse all earlier rows whenever one is read again."""
    name = Path(place.path).name
    with _open_place(place) as file:
        names = file.readline(LONGEST)
        if b"," not in names and (mark := next((mark for mark in (";", "\t") if mark.encode() in names), "")):
            raise InputError(f"separates its columns by {mark!r}, allowed are commas: save the file as CSV with commas")
        file.seek(0)
        records = _csv_records(file)
        header, *_ = next(records, _NO_CELLS)
        if len(set(header)) < len(header):
            # Columns are listed by number: the file may not be a dataset, and its contents are not quoted.
            first = dict(zip(reversed(header), range(len(header), 0, -1), strict=True))
            twice = [f"{number} as {first[name]}" for number, name in enumerate(header, 1) if first[name] < number]
            raise InputError(f"names a column twice: number {listed(twice)}")
        for number, (cells, start, length) in enumerate(records, 1):
            where = f"{name}, row {number}"
            if len(cells) == len(header):
                own = replace(place, start=start, length=length)
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


def _read_csv(place: Place) -> dict[str, object]:
    with _open_place(place) as file:
        header, *_ = next(_csv_records(file), _NO_CELLS)
    cells, *_ = next(_csv_records(io.BytesIO(_bytes_at(place))), _NO_CELLS)
    if len(cells) != len(header):
        raise InputError(f"the row has {len(cells)} cells, the header names {len(header)}")
    return dict(zip(header, cells, strict=True))


def _skip_bom(file: BinaryIO) -> int:
    """Skip the byte order mark of UTF-8. Raises InputError for UTF-16 and UTF-32, whose text is full of NUL bytes."""
    head = file.read(64)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in head:
        raise InputError("is in UTF-16 or UTF-32, or no text at all; must be UTF-8: save it as UTF-8")
    return file.seek(len(_BOM) if head.startswith(_BOM) else 0)


def _bytes_at(place: Place) -> bytes:
    with _open_place(place) as file:
        file.seek(place.start)
        return file.read(place.length)


def _open_place(place: Place) -> BinaryIO:
    """Open the file of a record; see `open_regular`."""
    return open_regular(Path(place.path), within=place.within)


_FINDERS: dict[str, Callable[[Place, Problems], Iterator[Row]]] = {
    ".json": _find_json,
    ".jsonl": _find_json,
    ".ndjson": _find_json,
    ".csv": _find_csv,
}


class Cells(NamedTuple):
    """One row under check: its cells as text, and the list for its problems."""

    row: Row
    problems: Problems

    def refuse(self, what: str) -> None:
        """Note a problem of this row: the value found and the values allowed."""
        self.problems.add(self.row.where, what)

    def text(self, column: str) -> str:
        """Return the text of a column without surrounding blanks; empty if it has none."""
        value = self.row.values.get(column)
        if value is not None and not isinstance(value, str):
            self.refuse(f"{column!r} is {kind(value)}, must be text")
            return ""
        return (value or "").strip()

    def filled(self, column: str) -> str:
        """Return the text of a column, and note a problem if it is empty."""
        found = self.text(column)
        if not found and isinstance(self.row.values.get(column), str | None):
            self.refuse(f"{column} is empty, must be text")
        return found

    def one_of(self, column: str, allowed: Mapping[str, object] | tuple[str, ...], fallback: str | None = None) -> str:
        """Return the text of a column, which must be an allowed value; for an empty one the fallback, if it is set."""
        found = self.text(column)
        if not found and fallback is not None:
            return fallback
        if found not in allowed:
            self.refuse(f"{column} is {found!r}, allowed are {listed(allowed)}")
        return found

    def number(self, column: str) -> float | None:
        """Return the number in a column (text in CSV); None for any other value, which is not noted as a problem."""
        value = self.row.values.get(column)
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            return None
        try:
            return float(value)
        except (ValueError, OverflowError):
            return None
