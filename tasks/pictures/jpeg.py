"""Proof from its structure that a JPEG file is whole, without decoding its pixels.

The proof covers the common case: one scan of all components, Huffman-coded, without restarts. Other files may be whole,
too: `decoding` checks them and reports their faults. A JPEG has no checksums, so the decoder detects no more damage
inside a scan than this check does; the tests compare the two. Markers and segments are those of ITU-T T.81, annex B.
"""

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from PIL import Image
from PIL.ExifTags import Base

START, END = b"\xff\xd8", b"\xff\xd9"
FRAME, TABLES, QUANTIZERS, SCAN, COMMENT = 0xC0, 0xC4, 0xDB, 0xDA, 0xFE
APPLICATION = range(0xE0, 0xF0)
MARK = re.compile(rb"\xff[^\0]")
"""Marker within coded pixels, where 0xFF is data only before a zero byte."""
LARGEST_UNIT = 10
"""Most blocks of all components that are coded together (B.2.3)."""
MOST_SAMPLES = 4
LONGEST_CODE = 16
MOST_CODES = 256
MOST_DC_BITS = 15
"""Most bits of a difference, as a symbol of a DC table; the decoder accepts no more."""
WHOLE_SPECTRUM = b"\0\x3f\0"


class _Component(NamedTuple):
    name: int
    across: int
    down: int
    quantizer: int


class _Tables(NamedTuple):
    """Tables defined so far."""

    quantizers: set[int]
    codes: set[tuple[int, int]]
    """Class (0: DC, 1: AC) and number."""


def is_plain(data: bytes, opened: Image.Image) -> bool:
    """Return whether this JPEG can certainly be decoded to its end, is in color or gray, and is upright.

    Args:
        opened: the same file, opened by Pillow, with its pixels unread.
    """
    if opened.mode not in ("RGB", "L") or not _is_upright(opened):
        return False
    try:
        return _is_whole(data)
    except (IndexError, struct.error):  # the file ends within a segment
        return False


def _is_upright(opened: Image.Image) -> bool:
    try:
        return opened.getexif().get(Base.Orientation, 1) == 1
    except Exception:  # damaged EXIF, whose reader raises nearly anything
        return False


def _is_whole(data: bytes) -> bool:
    tables, frame = _Tables(set(), set()), list[_Component]()
    for kind, segment, end in _segments(data):
        if kind == SCAN:
            mark = MARK.search(data, end)
            return _is_decodable(segment, frame, tables) and mark is not None and mark[0] == END
        if kind == FRAME:
            if frame:
                return False
            frame = _frame(segment)
        elif kind in _READ:
            if not _READ[kind](segment, tables):
                return False
        elif kind != COMMENT and kind not in APPLICATION:
            return False
    return False


def _segments(data: bytes) -> Iterator[tuple[int, bytes, int]]:
    """Yield marker, content and end of each segment, up to the first place without one."""
    place = len(START)
    while data[place] == 0xFF:
        length = struct.unpack_from(">H", data, place + 2)[0]
        end = place + 2 + length
        if length < 2 or end > len(data):
            return
        yield data[place + 1], data[place + 4 : end], end
        place = end


def _frame(segment: bytes) -> list[_Component]:
    """Return the components of an 8-bit picture; none if they are invalid or unusual."""
    bits, height, width, count = struct.unpack_from(">BHHB", segment)
    found = [
        _Component(name, sampling >> 4, sampling & 15, quantizer)
        for name, sampling, quantizer in struct.iter_unpack("3B", segment[6:])
    ]
    names = {component.name for component in found}
    blocks = sum(component.across * component.down for component in found)
    fits = bits == 8 and height and width and count == len(found) == len(names) and blocks <= LARGEST_UNIT
    sampled = _are_sampled([each.across for each in found]) and _are_sampled([each.down for each in found])
    return found if fits and sampled and count in (1, 3) else []


def _are_sampled(samples: Sequence[int]) -> bool:
    """Return whether the sampling factors of the components in one direction are valid and divide the largest one."""
    return all(0 < each <= MOST_SAMPLES and max(samples) % each == 0 for each in samples)


def _read_quantizers(segment: bytes, tables: _Tables) -> bool:
    if len(segment) % 65:
        return False
    numbers = set(segment[::65])  # a number below 16 means entries of 8 bits
    tables.quantizers.update(numbers)
    return max(numbers, default=0) < 4


def _read_codes(segment: bytes, tables: _Tables) -> bool:
    place = 0
    while place < len(segment):
        table, counts = segment[place], segment[place + 1 : place + 1 + LONGEST_CODE]
        symbols = segment[place + 1 + LONGEST_CODE : place + 1 + LONGEST_CODE + sum(counts)]
        kind, number = table >> 4, table & 15
        known = kind < 2 and number < 4 and len(counts) == LONGEST_CODE and len(symbols) == sum(counts) <= MOST_CODES
        if not known or not _is_prefix_code(counts) or (not kind and max(symbols, default=0) > MOST_DC_BITS):
            return False
        tables.codes.add((kind, number))
        place += 1 + LONGEST_CODE + sum(counts)
    return True


def _is_prefix_code(counts: bytes) -> bool:
    """Return whether so many codes of 1 to 16 bits form a prefix code that leaves the code of all ones free."""
    code = 0
    for bits, count in enumerate(counts, 1):
        code = 2 * code + count
        if count and code >= 1 << bits:
            return False
    return True


def _is_decodable(segment: bytes, frame: list[_Component], tables: _Tables) -> bool:
    """Return whether a scan has all components, each with its whole spectrum, and every table that it needs."""
    if not frame or len(segment) != 4 + 2 * len(frame) or segment[0] != len(frame) or segment[-3:] != WHOLE_SPECTRUM:
        return False
    asked = [*struct.iter_unpack("2B", segment[1:-3])]
    in_order = [name for name, _ in asked] == [component.name for component in frame]
    coded = {pair for _, each in asked for pair in ((0, each >> 4), (1, each & 15))} <= tables.codes
    return in_order and coded and {component.quantizer for component in frame} <= tables.quantizers


_READ: dict[int, Callable[[bytes, _Tables], bool]] = {QUANTIZERS: _read_quantizers, TABLES: _read_codes}
