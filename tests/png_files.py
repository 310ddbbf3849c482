"""PNG files by hand, for what Pillow would not write."""

import struct
import zlib


def chunk(name: bytes, body: bytes) -> bytes:
    """A chunk with its length and its checksum."""
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png(width: int, height: int, bits: int, kind: int, rows: bytes, before: bytes = b"", behind: bytes = b"") -> bytes:
    """A file with these rows, and with chunks before and behind them.

    Args:
        kind: 0 grey, 2 RGB, 3 palette, 4 grey with alpha, 6 RGB with alpha.
    """
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(rows))
    return b"\x89PNG\r\n\x1a\n" + header + before + pixels + behind + chunk(b"IEND", b"")
