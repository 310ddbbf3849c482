"""PNG files proven whole, and opaque, from their bytes alone, without their pixels being reconstructed.

Owns the sure and common case. A file that is not proven here may be fine as well: `decoding` finds out, and has the
words for what is wrong with it. Chunks and filters are those of the PNG specification (ISO/IEC 15948, 5.3 and 9.2).
"""

import struct
from typing import NamedTuple

from isal import isal_zlib
from PIL import Image

MOST_BYTES = 64_000_000
"""Largest picture proven here, in bytes of its rows: they are in memory at once."""
CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Color type -> samples of a pixel."""
WITH_ALPHA = (4, 6)
PALETTE = 3

ANIMATED_OR_TRANSPARENT = frozenset({b"tRNS", b"acTL", b"fcTL", b"fdAT"})
TEXT_OR_TURNED = frozenset({b"eXIf", b"tEXt", b"zTXt", b"iTXt", b"iCCP"})
"""Before the pixels Pillow reads them on opening, within its limits; behind the pixels nobody has read them yet."""
ORIENTATION = frozenset({"exif", "Raw profile type exif", "XML:com.adobe.xmp"})
"""What Pillow notes of a file on opening that may say which way is up."""

OPAQUE_FIRST = {0: (255, 255), 1: (255, 0), 2: (255, 255), 3: (255, 128), 4: (255, 0)}
OPAQUE = {0: (255, 255), 1: (255, 0), 2: (0, 0), 3: (128, 0), 4: (0, 0)}
"""Filter of a row -> the filtered alpha of its first pixel, and of all others, where every alpha in this row and in the
one above is 255; `OPAQUE_FIRST` is for the first row, above which all are 0. A filtered byte is the difference from
what the filter predicts: so a picture is opaque just if all of its rows have these bytes."""


class _Header(NamedTuple):
    width: int
    height: int
    bits: int
    color: int
    compression: int
    filtering: int
    interlaced: int

    @property
    def row_bytes(self) -> int:
        """A row's filter, then its samples."""
        return 1 + (self.width * CHANNELS[self.color] * self.bits + 7) // 8

    @property
    def provable(self) -> bool:
        known = self.color in CHANNELS and self.bits <= 8 and not (self.compression or self.filtering)
        return known and not self.interlaced and 0 < self.height * self.row_bytes <= MOST_BYTES


def is_plain(data: bytes, opened: Image.Image) -> bool:
    """Whether this PNG is surely whole, upright, opaque, not animated, and of 8 bits at most.

    All checksums hold, and the pixels inflate to every row that the header promises, each with a filter that exists.

    Args:
        opened: the same file as Pillow has opened it, with its pixels unread.
    """
    header = _Header(*struct.unpack_from(">IIBBBBB", data, 16))
    if not header.provable or ORIENTATION & opened.info.keys():
        return False
    compressed = _compressed_pixels(data, header.color == PALETTE)
    rows = _inflated(compressed, header.height * header.row_bytes)
    if not rows or max(rows[:: header.row_bytes]) not in OPAQUE:
        return False
    return header.color not in WITH_ALPHA or _opaque(rows, header)


def count_chunks(data: bytes, most: int) -> int:
    """Number of chunks, by their lengths alone; counted until there are more than `most`."""
    place, count = 8, 0
    while place + 12 <= len(data) and count <= most:
        place += 12 + int.from_bytes(data[place : place + 4], "big")
        count += 1
    return count


def _compressed_pixels(data: bytes, needs_palette: bool) -> bytes:
    """The compressed pixels where every chunk is in its place and undamaged; else nothing."""
    view, place = memoryview(data), 8
    pixels, names = list[memoryview](), list[bytes]()
    while place + 12 <= len(data):
        length, name = struct.unpack_from(">I4s", data, place)
        end = place + 8 + length
        crc = isal_zlib.crc32(view[place + 4 : end])  # pyright: ignore[reportUnknownMemberType]
        if crc.to_bytes(4, "big") != data[end : end + 4] or not _expected(name, names):
            return b""
        if name == b"IEND":
            return b"" if needs_palette and b"PLTE" not in names else b"".join(pixels)
        if name == b"IDAT":
            pixels.append(view[place + 8 : end])
        if names[-1:] != [name]:
            names.append(name)
        place = end + 4
    return b""


def _expected(name: bytes, before: list[bytes]) -> bool:
    """Whether a chunk may follow those before it (a row of equal ones is named once) without anything to be decoded."""
    behind = b"IDAT" in before
    if name == b"IDAT":
        return not behind or before[-1] == b"IDAT"
    if name in (b"IHDR", b"PLTE", b"IEND"):
        return name == b"IEND" or (not behind and name not in before)
    ancillary = bool(name[0] & 0x20)
    return ancillary and name not in ANIMATED_OR_TRANSPARENT and not (behind and name in TEXT_OR_TURNED)


def _inflated(compressed: bytes, size: int) -> bytes:
    """The first bytes of the rows, so many at most; nothing where they are fewer or damaged."""
    try:
        rows = isal_zlib.decompressobj().decompress(compressed, size)  # pyright: ignore[reportUnknownMemberType]
    except isal_zlib.error:  # pyright: ignore[reportGeneralTypeIssues]
        return b""
    return rows if len(rows) == size else b""


def _opaque(rows: bytes, header: _Header) -> bool:
    channels, size, expected = CHANNELS[header.color], header.row_bytes, OPAQUE_FIRST
    for start in range(0, len(rows), size):
        first, other = expected[rows[start]]
        alphas = rows[start + channels : start + size : channels]
        if alphas[0] != first or alphas.count(other, 1) != len(alphas) - 1:
            return False
        expected = OPAQUE
    return True
