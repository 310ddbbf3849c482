"""Which PNG files are proven whole and opaque without their pixels, beside what Pillow makes of their pixels."""

import random
import struct
import zlib
from collections.abc import Iterable
from io import BytesIO

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngImageFile, PngInfo
from png_files import chunk, png

from tasks.pictures.bad_picture import BadPicture
from tasks.pictures.decoding import decode
from tasks.pictures.png import is_plain

MODES = {"L": (0, 8), "1": (0, 1), "RGB": (2, 8), "P": (3, 8), "LA": (4, 8), "RGBA": (6, 8)}


def filtered(pixels: Iterable[bytes], sample_bytes: int, filters: Iterable[int]) -> bytes:
    """Rows as the PNG specification filters them (9.2), each by the filter that is named for it."""
    rows, above = b"", b""
    for row, kind in zip(pixels, filters, strict=True):
        above = above or bytes(len(row))
        rows += bytes([kind]) + bytes(
            (row[i] - predicted(kind, row, above, i, sample_bytes)) % 256 for i in range(len(row))
        )
        above = row
    return rows


def predicted(kind: int, row: bytes, above: bytes, i: int, back: int) -> int:
    left = row[i - back] if i >= back else 0
    up, corner = above[i], above[i - back] if i >= back else 0
    paeth = min((left, up, corner), key=lambda value: abs(left + up - corner - value))
    return (0, left, up, (left + up) // 2, paeth)[kind]


def opened(data: bytes) -> PngImageFile:
    return PngImageFile(BytesIO(data))


def saved(image: Image.Image, **options: object) -> bytes:
    buffer = BytesIO()
    image.save(buffer, "PNG", **options)
    return buffer.getvalue()


def noise(mode: str) -> Image.Image:
    return Image.effect_noise((60, 40), 80).convert("RGB").convert(mode)


@pytest.mark.parametrize("mode", MODES)
def test_what_generators_write_is_plain(mode: str):
    data = saved(noise(mode), pnginfo=_text(), icc_profile=bytes(3000), dpi=(300, 300))
    assert is_plain(data, opened(data))


@pytest.mark.parametrize(("kind", "channels"), [(4, 2), (6, 4)])
@pytest.mark.parametrize("seed", range(40))
def test_alpha_is_read_through_every_filter(kind: int, channels: int, seed: int):
    chance = random.Random(seed)
    width, height = chance.randint(1, 6), chance.randint(1, 6)
    pixels = [bytearray(chance.randbytes(width * channels)) for _ in range(height)]
    for row in pixels:
        row[channels - 1 :: channels] = b"\xff" * width
    rows = [chance.randrange(5) for _ in range(height)]
    opaque = png(width, height, 8, kind, filtered(pixels, channels, rows))
    assert decode(opaque).image.getchannel("A").getextrema() == (255, 255)
    assert is_plain(opaque, opened(opaque))
    chance.choice(pixels)[channels * (chance.randrange(width) + 1) - 1] = chance.choice([0, 1, 127, 128, 254])
    seen_through = png(width, height, 8, kind, filtered(pixels, channels, rows))
    assert decode(seen_through).image.getchannel("A").getextrema() != (255, 255)
    assert not is_plain(seen_through, opened(seen_through))


def test_what_the_pixels_must_be_known_for_is_not_plain():
    palette = chunk(b"PLTE", bytes(range(6)))
    turned = Image.Exif()
    turned[0x0112] = 6
    unsure = {
        "transparent": saved(Image.new("RGBA", (9, 9))),
        "transparent color": saved(Image.new("RGB", (9, 9)), transparency=(0, 0, 0)),
        "palette with alpha": png(2, 1, 8, 3, b"\0\0\1", palette + chunk(b"tRNS", b"\0")),
        "16 bits": saved(Image.new("I;16", (9, 9))),
        "turned": saved(noise("RGB"), exif=turned),
        "turned, said behind the pixels": png(1, 1, 8, 0, b"\0\1", behind=chunk(b"eXIf", turned.tobytes()[6:])),
        "turned, said in XMP": saved(noise("RGB"), pnginfo=_text("XML:com.adobe.xmp")),
        "animated": saved(noise("RGB"), save_all=True, append_images=[noise("RGB")]),
        "interlaced": _interlaced(),
        "text behind the pixels": png(1, 1, 8, 0, b"\0\1", behind=chunk(b"zTXt", b"key\0\0" + zlib.compress(b"x"))),
    }
    assert [name for name, data in unsure.items() if is_plain(data, opened(data))] == []


BROKEN = {
    "too few rows": png(2, 3, 8, 0, b"\0\1\2"),
    "a filter that does not exist": png(1, 1, 8, 0, b"\5\1"),
    "pixels that do not inflate": png(1, 1, 8, 0, b"").replace(
        chunk(b"IDAT", zlib.compress(b"")), chunk(b"IDAT", b"no pixels at all")
    ),
    "no end": png(1, 1, 8, 0, b"\0\1")[:-12],
    "a chunk between the pixels": png(1, 2, 8, 0, b"\0\1", behind=chunk(b"tIME", bytes(7)) + chunk(b"IDAT", b"")),
    "no palette": png(1, 1, 8, 3, b"\0\0"),
    "a critical chunk that nobody knows": png(1, 1, 8, 0, b"\0\1", chunk(b"ODDS", b"")),
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_what_is_broken_is_not_plain(data: bytes):
    assert not is_plain(data, opened(data))


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P"])
def test_no_single_wrong_byte_makes_a_plain_file_that_cannot_be_decoded(mode: str):
    data = saved(Image.linear_gradient("L").resize((8, 8)).convert(mode))
    wrong = 0
    for place in range(8, len(data)):
        torn = data[:place] + bytes([data[place] ^ 0x41]) + data[place + 1 :]
        try:
            plain = is_plain(torn, opened(torn))
        except (SyntaxError, ValueError, OSError):
            plain = False
        wrong += not plain
        if plain:
            decode(torn)
    assert wrong > len(data) // 2


@pytest.mark.parametrize("end", range(30, 60, 7))
def test_what_is_cut_short_is_refused_with_its_reason(end: int):
    data = saved(noise("RGB"))
    with pytest.raises(BadPicture, match="damaged or cut short"):
        decode(data[:-end])
    assert not is_plain(data[:-end], opened(data))


def _text(name: str = "Software") -> PngInfo:
    text = PngInfo()
    text.add_itxt(name, "words " * 50)
    text.add_text("prompt", "words " * 50, zip=True)
    return text


def _interlaced() -> bytes:
    data = bytearray(png(1, 1, 8, 0, b"\0\1"))
    data[28] = 1
    data[29:33] = struct.pack(">I", zlib.crc32(data[12:29]))
    return bytes(data)
