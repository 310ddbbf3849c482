"""Which JPEG files are proven whole by their structure, beside what Pillow makes of their pixels."""

import random
from collections.abc import Callable, Iterator
from io import BytesIO

import pytest
from PIL.JpegImagePlugin import JpegImageFile
from png_files import file, noise, oriented

from tasks.pictures.decoding import BadPicture, decode, is_plain

SCAN = b"\xff\xda"


def saved(mode: str = "RGB", side: int = 48, **options: object) -> bytes:
    return file(noise(side, side, mode), "JPEG", **options)


def proven(data: bytes) -> bool:
    """Whether it is proven; what Pillow does not even open is not asked about."""
    try:
        opened = JpegImageFile(BytesIO(data))
    except Exception:  # on damaged headers Pillow raises nearly anything
        return False
    return is_plain(data, opened)


def decodes(data: bytes) -> bool:
    try:
        decode(data)
    except BadPicture:
        return False
    return True


def without(data: bytes, marker: bytes) -> bytes:
    """The file without its first segment of this marker."""
    at = data.index(marker)
    return data[:at] + data[at + 2 + int.from_bytes(data[at + 2 : at + 4], "big") :]


def with_short_codes(data: bytes) -> bytes:
    """The file with as many codes in its first table, all of one bit."""
    at = data.index(b"\xff\xc4") + 5
    return data[:at] + bytes([sum(data[at : at + 16]), *bytes(15)]) + data[at + 16 :]


WRITTEN = {
    "color": saved(),
    "grey": saved("L"),
    "full color": saved(subsampling=0, quality=95),
    "half color": saved(subsampling=1),
    "tables of its own": saved(optimize=True, quality=20),
    "not a multiple of a block": saved(side=37),
    "profile, comment and resolution": saved(icc_profile=bytes(90_000), comment=b"by hand", dpi=(300, 300)),
    "upright": saved(exif=oriented(1)),
    "kept as red, green and blue": saved(keep_rgb=True),
    "another file behind it": saved() + saved("L"),
}
UNSURE = {
    "progressive": saved(progressive=True),
    "restarts": saved(restart_marker_blocks=2),
    "four inks": saved("CMYK"),
    "turned": saved(exif=oriented(6)),
}
BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "cut within the pixels": lambda data: data[: len(data) * 3 // 4],
    "no end": lambda data: data[:-2],
    "cut within a table": lambda data: data[: data.index(b"\xff\xc4") + 9],
    "nothing but its beginning": lambda data: data[:2],
    "a restart within the pixels": lambda data: data[:-40] + b"\xff\xd0" + data[-40:],
    "a second frame": lambda data: data.replace(SCAN, data[data.index(b"\xff\xc0") :][:19] + SCAN, 1),
    "no frame": lambda data: without(data, b"\xff\xc0"),
    "no codes": lambda data: without(data, b"\xff\xc4"),
    "codes that cannot be told apart": with_short_codes,
    "no quantizers": lambda data: without(data, b"\xff\xdb"),
    "arithmetic coding": lambda data: data.replace(b"\xff\xc0", b"\xff\xc9", 1),
}


@pytest.mark.parametrize("data", WRITTEN.values(), ids=WRITTEN)
def test_what_is_usually_written_is_proven(data: bytes):
    assert proven(data) and decodes(data)


@pytest.mark.parametrize("data", UNSURE.values(), ids=UNSURE)
def test_what_the_pixels_must_be_known_for_is_not_proven(data: bytes):
    assert decodes(data) and not proven(data)


@pytest.mark.parametrize("make", BROKEN.values(), ids=BROKEN)
def test_what_is_broken_is_not_proven(make: Callable[[bytes], bytes]):
    broken = make(WRITTEN["color"])
    assert broken != WRITTEN["color"]
    assert not proven(broken)


@pytest.mark.parametrize("name", ["codes that cannot be told apart", "no quantizers"])
def test_the_decoder_needs_the_tables(name: str):
    assert not decodes(BROKEN[name](WRITTEN["color"]))


@pytest.mark.parametrize("name", ["color", "grey", "tables of its own"])
def test_no_wrong_byte_before_the_pixels_makes_a_proven_file_that_cannot_be_decoded(name: str):
    data = WRITTEN[name]
    changed = [data[:at] + bytes([value]) + data[at + 1 :] for at in range(_pixels(data)) for value in _wrong(data[at])]
    assert _proven_in_vain(changed) == []


@pytest.mark.parametrize("seed", range(8))
def test_no_damage_makes_a_proven_file_that_cannot_be_decoded(seed: int):
    assert _proven_in_vain(list(_damaged(WRITTEN["color"], random.Random(seed)))) == []


def _pixels(data: bytes) -> int:
    """Where the coded pixels begin."""
    scan = data.index(SCAN)
    return scan + 2 + int.from_bytes(data[scan + 2 : scan + 4], "big")


def _wrong(byte: int) -> Iterator[int]:
    yield from {value & 0xFF for value in (byte ^ 1, byte ^ 0x10, byte ^ 0x80, byte + 1, byte - 1, 0, 0xFF)} - {byte}


def _damaged(data: bytes, chance: random.Random, count: int = 200) -> Iterator[bytes]:
    for _ in range(count):
        start = chance.randrange(2, len(data))
        end = min(len(data), start + chance.choice((0, 1, 2, 16, 200)))
        yield data[:start] + chance.randbytes(chance.choice((0, 1, 2, 30))) + data[end:]


def _proven_in_vain(files: list[bytes]) -> list[bytes]:
    return [data for data in files if proven(data) and not decodes(data)]
