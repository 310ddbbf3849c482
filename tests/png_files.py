"""Picture files: as Pillow writes them, and PNG files by hand for malformed ones."""

import struct
import zlib
from io import BytesIO

import pytest
from PIL import Image

from tasks.pictures.decoding import BadPicture
from tasks.pictures.preparation import Policy, prepare

POLICY = Policy(max_bytes=20_000_000, max_side=8000, normalize=False)
RED, BLUE, WHITE = (255, 0, 0), (0, 0, 255), (255, 255, 255)


def file(image: Image.Image, name: str, **options: object) -> bytes:
    """Return the picture as a file of this format."""
    buffer = BytesIO()
    image.save(buffer, name, **options)
    return buffer.getvalue()


def refusal(data: bytes, kind: type[BadPicture] = BadPicture, policy: Policy = POLICY) -> str:
    """Return why a picture of this file is refused."""
    with pytest.raises(BadPicture) as refused:
        prepare(data, policy)
    assert type(refused.value) is kind
    return str(refused.value)


def noise(width: int, height: int, mode: str = "RGB") -> Image.Image:
    return Image.effect_noise((width, height), 80).convert("RGB").convert(mode)


def oriented(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


def chunk(name: bytes, body: bytes) -> bytes:
    """Return a PNG chunk with its length and checksum."""
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png(
    width: int,
    height: int,
    bits: int,
    kind: int,
    rows: bytes,
    before: bytes = b"",
    behind: bytes = b"",
    interlaced: bool = False,
) -> bytes:
    """Return a PNG file with these rows, and with chunks before and behind them.

    Args:
        kind: 0 grey, 2 RGB, 3 palette, 4 grey with alpha, 6 RGB with alpha.
    """
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, interlaced))
    pixels = chunk(b"IDAT", zlib.compress(rows))
    return b"\x89PNG\r\n\x1a\n" + header + before + pixels + behind + chunk(b"IEND", b"")
