"""Records of a JSON file, either an array or one object per line, with their positions.

An array is split by brackets, strings and commas, and never parsed or held as a whole: files of several gigabytes are
normal. `rows` keeps the positions of records and reads them again.
"""

import json
import re
from collections.abc import Iterator
from functools import partial
from typing import BinaryIO, NamedTuple, cast

from tasks.errors import Habitual, InputError
from tasks.text import json_fault, kind

BLOCK = 4 << 20
"""Bytes per read."""
LONGEST = 256 << 20
"""Longest record, in bytes: an unclosed record must not bring the rest of the file into memory."""

# A string is one token, so that brackets inside it do not count; possessive, so that no input causes backtracking. The
# end of the block may cut a string: the whole record is matched again when more has been read.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[][{}]', re.DOTALL)
_OPENING, _CLOSING = frozenset(b"[{"), frozenset(b"]}")


class BrokenJson(InputError):
    """Error for text that is not JSON: the place and the content found there."""

    def __init__(self, error: json.JSONDecodeError) -> None:
        super().__init__(json_fault(error))
        self.fault = str(self).partition(": ")[2]
        """Fault without its place: a program that writes one such line writes them all alike."""


class Span(NamedTuple):
    """Bytes of a file and their offset in it."""

    start: int
    raw: bytes


def json_spans(file: BinaryIO) -> Iterator[tuple[str, Span]]:
    """Yield each record of a file after its byte order mark, with its number counted from 1 (`record 9`).

    Records are the elements of an array. Any other file is read as lines, without the blank ones, also if its first
    line is a list without an object. Raises InputError on reaching a broken array or a record longer than `LONGEST`.
    """
    start = file.tell()
    head = file.read(1 << 16)
    if head.lstrip().startswith(b"[") and not _is_row(head.lstrip().partition(b"\n")[0]):
        file.seek(start + head.index(b"[") + 1)
        yield from ((f"record {number}", span) for number, span in enumerate(array_spans(file), 1))
    else:
        file.seek(start)
        yield from ((f"line {number}", span) for number, span in _line_spans(file) if span.raw.strip())


def _is_row(line: bytes) -> bool:
    """Return whether a line is a complete list, `[1, 2]`, rather than the beginning of an array of records."""
    try:
        values: object = json.loads(line)
    except (ValueError, RecursionError):
        return False
    found = cast(list[object], values) if isinstance(values, list) else []
    return bool(found) and not any(isinstance(value, dict) for value in found)


def check_one_object(raw: bytes) -> None:
    """Raise InputError if the first line of a file begins a single object in place of a list of objects.

    Such an object spans several lines, or contains only objects and lists: a record has texts, its id first.
    """
    line = raw.strip()
    if not line.startswith(b"{"):
        return
    try:
        values = json_object(line).values()
    except InputError:
        single = line.endswith((b"{", b"[", b",", b":"))
    else:
        single = bool(values) and all(isinstance(value, dict | list) for value in values)
    if single:
        raise InputError("is one JSON object, must be a list of objects, [{…}, {…}], or one object a line")


def json_object(raw: bytes) -> dict[str, object]:
    """Parse a JSON object. Raises InputError, with the content found, for anything else."""
    try:
        value: object = json.loads(raw.rstrip())
    except UnicodeDecodeError as error:
        what = f"is not a JSON object in UTF-8 (byte {error.start + 1} cannot be read): save the file as UTF-8"
        raise Habitual(what, "another encoding than UTF-8") from error
    except json.JSONDecodeError as error:
        raise BrokenJson(error) from error
    except ValueError as error:
        raise InputError("found a number of thousands of digits") from error
    except RecursionError as error:
        raise InputError("found brackets nested too deeply") from error
    if not isinstance(value, dict):
        raise InputError(f"found {kind(value)}")
    return cast(dict[str, object], value)


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
