"""The checksum that ends every row of a ledger, made over the bytes before it, just as they were written.

It tells rows that a disk, a transfer or an editor has changed. It is no signature: who forges a row can seal it, too.
"""

from zlib import crc32

CHECKSUM = "crc32"
"""Name of the field, the last of its row."""
SINCE = 4
"""The first schema whose rows all have it."""

_BEGINS, _ENDS = b',"%b":"' % CHECKSUM.encode(), b'"}\n'
_LENGTH = len(_BEGINS) + 8 + len(_ENDS)


def sealed(row: str) -> bytes:
    """A row, a JSON object, as its line in a ledger."""
    body = row.rstrip().removesuffix("}").rstrip().encode()
    return b"%b%b%08x%b" % (body, _BEGINS, crc32(body), _ENDS)


def changed(line: bytes, old: bytes, new: bytes) -> bytes:
    """A line with other bytes in the place of some; sealed again, if its checksum held."""
    if not holds(line):
        return line.replace(old, new)
    return sealed(line[:-_LENGTH].replace(old, new).decode() + "}")


def holds(line: bytes) -> bool:
    """Whether a line bears a checksum, and the bytes before it are those that it was made over."""
    body, seal = line[:-_LENGTH], line[-_LENGTH:]
    return seal == b"%b%08x%b" % (_BEGINS, crc32(body), _ENDS)
