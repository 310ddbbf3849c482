"""Preparing pictures for the judge: unchanged, changed with a note, or refused."""

import base64
import hashlib
import struct
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from png_files import BLUE, POLICY, RED, WHITE, chunk, file, noise, oriented, png, refusal

from tasks.pictures.preparation import Picture, Policy, prepare


def plain(mode: str, colour: object = "white") -> Image.Image:
    return Image.new(mode, (30, 20), colour)


def with_exif(jpeg: bytes, exif: bytes) -> bytes:
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 8) + b"Exif\0\0" + exif + jpeg[2:]


def animation(name: str, **options: object) -> bytes:
    later = [plain("RGB", BLUE), plain("RGB", WHITE)]
    return file(plain("RGB", RED), name, save_all=True, append_images=later, **options)


def sent_bytes(picture: Picture) -> bytes:
    return base64.b64decode(picture.encoded, validate=True)


def sent_pixels(data: bytes, policy: Policy = POLICY) -> list[object]:
    image = Image.open(BytesIO(sent_bytes(prepare(data, policy))))
    return [image.getpixel((x, y)) for y in range(image.height) for x in range(image.width)]


TURNED = PngInfo()
TURNED.add_itxt("XML:com.adobe.xmp", '<x tiff:Orientation="6"/>')


def damaged(data: bytes) -> bytes:
    """Return the bytes of a PNG with one wrong bit amid its pixels."""
    place = data.index(b"IDAT") + 400
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def captioned(name: str) -> PngInfo:
    """Return a text chunk of this name, and a compressed one."""
    text = PngInfo()
    text.add_itxt(name, "words " * 50)
    text.add_text("prompt", "words " * 50, zip=True)
    return text


JPEG = file(noise(60, 40), "JPEG")
PNG = file(noise(60, 40), "PNG")
OPAQUE_PNG = file(noise(60, 40, "RGBA"), "PNG")
EMPTY_PIXELS = chunk(b"IDAT", zlib.compress(b""))
TORN_EXIF = with_exif(JPEG, b"II*\0\x08\0\0\0\x05\0torn")

CLEAN = {
    "JPEG": ("image/jpeg", JPEG),
    "JPEG that is upright by its EXIF": ("image/jpeg", file(plain("RGB"), "JPEG", exif=oriented(1))),
    "JPEG with a large EXIF block": ("image/jpeg", with_exif(JPEG, b"II*\0\x08\0\0\0\0\0" + bytes(65_000))),
    "JPEG with a second picture behind it": ("image/jpeg", animation("MPO")),
    "JPEG in ten scans": ("image/jpeg", file(noise(600, 400), "JPEG", progressive=True)),
    "JPEG with garbage behind it": ("image/jpeg", JPEG + b"garbage" * 99),
    "PNG": ("image/png", PNG),
    "PNG with text, a profile and its resolution": ("image/png", file(noise(60, 40), "PNG",
         pnginfo=captioned("Software"), icc_profile=bytes(3000), dpi=(300, 300))),
    "PNG with text behind its pixels": ("image/png", png(1, 1, 8, 0, b"\0\1",
         behind=chunk(b"zTXt", b"key\0\0" + zlib.compress(b"x")))),
    "PNG with XMP but no orientation": ("image/png", file(noise(60, 40), "PNG",
         pnginfo=captioned("XML:com.adobe.xmp"))),
    "interlaced PNG": ("image/png", png(1, 1, 8, 0, b"\0\1", interlaced=True)),
    # Sent unchanged: its encoder wrote it so, and nothing damaged it later. The endpoint will report it.
    "PNG whose checksums hold and whose pixels do not inflate": ("image/png",
         png(1, 1, 8, 0, b"").replace(EMPTY_PIXELS, chunk(b"IDAT", b"no pixels"))),
    "PNG of one pixel": ("image/png", file(Image.new("RGB", (1, 1)), "PNG")),
    "PNG with a palette": ("image/png", file(noise(60, 40, "P"), "PNG")),
    "PNG with an opaque alpha channel": ("image/png", OPAQUE_PNG),
    "PNG with an opaque palette": ("image/png", file(plain("P", 0), "PNG", transparency=b"\xff\xff")),
    "PNG with a transparent colour nowhere in it": ("image/png", file(plain("RGB"), "PNG", transparency=RED)),
    "PNG with damaged EXIF": ("image/png", png(1, 1, 8, 0, b"\0\7", chunk(b"eXIf", b"torn"))),
    "WebP": ("image/webp", file(noise(60, 40), "WEBP")),
    "WebP with an opaque alpha channel": ("image/webp", file(noise(60, 40, "RGBA"), "WEBP", lossless=True, exact=True)),
}  # fmt: skip


@pytest.mark.parametrize(("media_type", "data"), CLEAN.values(), ids=CLEAN)
def test_clean_picture_is_sent_unchanged_with_its_media_type(media_type: str, data: bytes):
    picture = prepare(data, POLICY)
    assert (picture.media_type, picture.encoded) == (media_type, base64.b64encode(data))
    assert picture.note.changes == ()
    assert picture.note.source_sha256 == picture.note.sent_sha256 == hashlib.sha256(data).hexdigest()


def test_benchmark_figures_are_sent_unchanged(figure_benchmark: Path):
    figures = list((figure_benchmark / "diagram" / "images").iterdir())
    assert len(figures) == 12
    assert {prepare(figure.read_bytes(), POLICY).note.changes for figure in figures} == {()}


WHITENED = "transparency composited on white"
SMALL = POLICY.model_copy(update={"max_side": 50})
NORMALIZED = POLICY.model_copy(update={"normalize": True})

CHANGED = {
    "GIF": (file(plain("RGB"), "GIF"), POLICY, ("GIF to PNG",)),
    "animated GIF": (animation("GIF"), POLICY, ("first of 3 frames", "GIF to PNG")),
    "animated PNG": (animation("PNG"), POLICY, ("first of 3 frames",)),
    "animated WebP": (animation("WEBP"), POLICY, ("first of 3 frames", "WEBP to PNG")),
    "turned JPEG": (file(plain("RGB"), "JPEG", exif=oriented(6)), POLICY, ("EXIF orientation applied", "JPEG to PNG")),
    "PNG turned by EXIF behind its pixels": (
        png(2, 1, 8, 0, b"\0\1\2", behind=chunk(b"eXIf", oriented(6).tobytes())),
        POLICY,
        ("EXIF orientation applied",),
    ),
    "PNG turned by XMP": (file(plain("RGB"), "PNG", pnginfo=TURNED), POLICY, ("EXIF orientation applied",)),
    "CMYK JPEG": (file(plain("CMYK", 0), "JPEG"), POLICY, ("CMYK to RGB", "JPEG to PNG")),
    "transparent PNG": (file(plain("RGBA", (0, 0, 0, 9)), "PNG"), POLICY, (WHITENED,)),
    "16 bits": (file(plain("I;16", 40_000), "PNG"), POLICY, ("16 bits scaled to 8",)),
    "16 bits RGB": (png(1, 1, 16, 2, b"\0" + bytes(6)), POLICY, ("16 bits scaled to 8",)),
    "too wide": (file(noise(90, 30), "PNG"), SMALL, ("resized 90x30 to 50x17",)),
    "too high once turned": (
        file(noise(90, 30), "JPEG", exif=oriented(6)),
        SMALL,
        ("EXIF orientation applied", "resized 30x90 to 17x50", "JPEG to PNG"),
    ),
    "normalized PNG": (file(noise(60, 40, "P"), "PNG"), NORMALIZED, ("normalized to RGB PNG",)),
    "normalized GIF": (animation("GIF"), NORMALIZED, ("first of 3 frames", "normalized to RGB PNG")),
}


@pytest.mark.parametrize(("data", "policy", "changes"), CHANGED.values(), ids=CHANGED)
def test_changed_picture_becomes_rgb_png_with_a_note(data: bytes, policy: Policy, changes: tuple[str, ...]):
    picture = prepare(data, policy)
    sent = sent_bytes(picture)
    image = Image.open(BytesIO(sent))
    assert picture.note.changes == changes
    assert picture.media_type == "image/png"
    assert (image.format, image.mode, image.info) == ("PNG", "RGB", {})
    assert (picture.note.sent_format, picture.note.sent_bytes) == ("PNG", len(sent))
    assert (picture.note.sent_width, picture.note.sent_height) == image.size
    assert picture.note.sent_sha256 == hashlib.sha256(sent).hexdigest()
    assert picture.note.source_sha256 == hashlib.sha256(data).hexdigest()


def test_note_describes_the_source():
    data = file(Image.new("CMYK", (30, 20)), "JPEG", exif=oriented(6))
    note = prepare(data, POLICY).note
    assert (note.format, note.mode, note.width, note.height, note.bytes) == ("JPEG", "CMYK", 30, 20, len(data))
    assert (note.sent_width, note.sent_height) == (20, 30)


@pytest.mark.parametrize(
    ("orientation", "upright"),
    [
        (2, [[2, 1], [4, 3], [6, 5]]),
        (3, [[6, 5], [4, 3], [2, 1]]),
        (4, [[5, 6], [3, 4], [1, 2]]),
        (5, [[1, 3, 5], [2, 4, 6]]),
        (6, [[5, 3, 1], [6, 4, 2]]),
        (7, [[6, 4, 2], [5, 3, 1]]),
        (8, [[2, 4, 6], [1, 3, 5]]),
    ],
)
def test_exif_orientation_is_applied_to_every_pixel(orientation: int, upright: list[list[int]]):
    stored = png(2, 3, 8, 0, b"\0\1\2\0\3\4\0\5\6", chunk(b"eXIf", oriented(orientation).tobytes()))
    assert sent_pixels(stored) == [(grey, grey, grey) for row in upright for grey in row]
    assert prepare(stored, POLICY).note.sent_width == len(upright[0])


PALETTE = chunk(b"PLTE", bytes((*RED, *BLUE)))
PIXELS = {
    "hidden colour under alpha 0": (file(plain("RGBA", (9, 9, 9, 0)), "PNG"), {WHITE}),
    "half transparent black": (file(plain("RGBA", (0, 0, 0, 128)), "PNG"), {(127, 127, 127)}),
    "transparent WebP": (file(plain("RGBA", (0, 0, 0, 0)), "WEBP"), {WHITE}),
    "transparent GIF": (file(plain("P", 0), "GIF", transparency=0), {WHITE}),
    "one transparent palette entry": (png(2, 1, 8, 3, b"\0\0\1", PALETTE + chunk(b"tRNS", b"\0")), {WHITE, BLUE}),
    "palette of alphas": (png(2, 1, 8, 3, b"\0\0\1", PALETTE + chunk(b"tRNS", b"\x80\xff")), {(255, 127, 127), BLUE}),
    "transparent RGB colour": (file(plain("RGB", RED), "PNG", transparency=RED), {WHITE}),
    "transparent grey of 1 bit": (png(2, 1, 1, 0, b"\0\x40", chunk(b"tRNS", b"\0\0")), {WHITE}),
    "transparent grey of 4 bits": (png(2, 1, 4, 0, b"\0\x12", chunk(b"tRNS", b"\0\1")), {WHITE, (34, 34, 34)}),
    "16 bits grey": (file(plain("I;16", 40_000), "PNG"), {(156, 156, 156)}),
    "16 bits grey, one of two neighbours transparent": (
        png(2, 1, 16, 0, b"\0" + struct.pack(">HH", 40_000, 40_001), chunk(b"tRNS", struct.pack(">H", 40_001))),
        {(156, 156, 156), WHITE},
    ),
    "16 bits grey with alpha": (png(1, 1, 16, 4, b"\0" + struct.pack(">HH", 40_000, 0)), {WHITE}),
    "16 bits RGB": (png(1, 1, 16, 2, b"\0" + struct.pack(">HHH", 40_000, 0, 65_535)), {(156, 0, 255)}),
    "16 bits RGB, transparent colour": (
        png(2, 1, 16, 2, b"\0" + struct.pack(">6H", 40_000, 0, 0, 0, 0, 65_535), chunk(b"tRNS", b"\x9c\x40\0\0\0\0")),
        {WHITE, BLUE},
    ),
    "CMYK without ink": (file(plain("CMYK", 0), "JPEG"), {WHITE}),
    "first GIF frame": (animation("GIF"), {RED}),
    "first PNG frame": (animation("PNG"), {RED}),
    "first WebP frame": (animation("WEBP", lossless=True), {RED}),
}  # fmt: skip


@pytest.mark.parametrize(("data", "colours"), PIXELS.values(), ids=PIXELS)
def test_judge_sees_the_expected_colours(data: bytes, colours: set[tuple[int, int, int]]):
    assert set(sent_pixels(data)) == colours


@pytest.mark.parametrize(("name", "max_bytes"), [("PNG", 20_000), ("JPEG", 20_000), ("GIF", 20_000), ("PNG", 90)])
def test_picture_over_the_byte_limit_is_resized_to_fit(name: str, max_bytes: int):
    data = file(noise(400, 200), name)
    note = prepare(data, POLICY.model_copy(update={"max_bytes": max_bytes})).note
    size = f"{note.sent_width}x{note.sent_height}"
    assert note.sent_bytes <= max_bytes
    assert f"{len(data)} bytes, allowed {max_bytes}" in note.changes
    assert f"resized 400x200 to {size} to stay within {max_bytes} bytes" in note.changes


def test_resizing_uses_at_least_half_the_byte_limit():
    limit = 100_000
    note = prepare(file(noise(400, 300), "PNG"), POLICY.model_copy(update={"max_bytes": limit})).note
    assert limit / 2 < note.sent_bytes <= limit


def test_bloated_png_is_rewritten_at_its_own_size():
    data = file(plain("RGB"), "PNG") + bytes(50_000)
    note = prepare(data, POLICY.model_copy(update={"max_bytes": 20_000})).note
    assert note.changes == (f"{len(data)} bytes, allowed 20000",)
    assert (note.sent_width, note.sent_height) == (30, 20)


def test_byte_limit_too_small_for_any_size_is_refused():
    message = refusal(file(noise(40, 30), "PNG"), policy=POLICY.model_copy(update={"max_bytes": 20}))
    assert message == "40x30 cannot be made small enough for 20 bytes"


BLANK = zlib.compress(bytes(900_000))
TEXT_BOMB = b"".join(chunk(b"zTXt", b"key%d\0\0" % i + BLANK) for i in range(80))
HUGE_WEBP = b"RIFF\x40\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\xff\x3f\0\xff\x3f\0" + bytes(40)
HUGE_GIF = b"GIF89a\xff\xff\xff\xff\0\0\0,\0\0\0\0\1\0\1\0\0\2\2\x44\1\0;"
REFUSED = {
    "empty": (b"", "the file is empty"),
    "text": (b"no picture at all", "found first bytes b'no picture a'; allowed are PNG, JPEG, WebP, GIF"),
    "HTML": (b"<!DOCTYPE html><title>404</title>", "found HTML"),
    "PNG of no size": (png(0, 0, 8, 0, b""), "PNG file is damaged or cut short"),
    "PNG with a damaged chunk": (png(1, 1, 8, 0, b"\0\1").replace(b"IDAT", b"IDAX"), "PNG file is damaged"),
    "PNG with a wrong bit": (damaged(PNG), "bad header checksum in b'IDAT'"),
    "PNG with a wrong bit that must be decoded": (damaged(OPAQUE_PNG), "bad header checksum in b'IDAT'"),
    "PNG with a wrong header": (PNG[:30] + b"\0" + PNG[31:], "bad header checksum in b'IHDR'"),
    "PNG without pixels": (png(1, 1, 8, 0, b"").replace(EMPTY_PIXELS, b""), "PNG file is damaged or cut short"),
    "PNG without its palette": (png(1, 1, 8, 3, b"\0\0"), "PNG file is damaged or cut short: a part of it is missing"),
    "PNG text bomb": (png(1, 1, 8, 0, b"\0\1", TEXT_BOMB), "Too much memory used in text chunks"),
    "PNG bomb": (png(30_000, 30_000, 8, 0, b""), "900 megapixels (30000x30000), allowed are 64"),
    "PNG a line over the limit": (png(8000, 8001, 1, 0, b""), "64.008 megapixels (8000x8001), allowed are 64"),
    "PNG of 16 bits at the limit, without pixels": (png(8000, 8000, 16, 0, b""), "PNG file is damaged or cut short"),
    "WebP bomb": (HUGE_WEBP, "more than 64 megapixels"),
    "GIF bomb": (HUGE_GIF, "4294.84 megapixels (65535x65535), allowed are 64"),
    **{f"{name} cut short": (file(noise(60, 40), name)[:-60], f"{name} file is damaged or cut short")
       for name in ("PNG", "JPEG", "WEBP", "GIF")},
}  # fmt: skip


@pytest.mark.parametrize(("data", "sentence"), REFUSED.values(), ids=REFUSED)
def test_invalid_file_is_refused_with_the_reason(data: bytes, sentence: str):
    assert sentence in refusal(data)


@pytest.mark.parametrize("cut", [9, 20, 33, 37, 41, 45, 400, len(PNG) // 2, len(PNG) - 14, len(PNG) - 12, len(PNG) - 5])
def test_truncated_png_is_refused(cut: int):
    assert "PNG file is damaged or cut short" in refusal(PNG[:cut])
    assert "PNG file is damaged or cut short" in refusal(OPAQUE_PNG[:cut])


@pytest.mark.parametrize("cut", [3, 30, JPEG.index(b"\xff\xc4") + 9, len(JPEG) * 3 // 4, len(JPEG) - 2, len(JPEG) - 1])
def test_truncated_jpeg_is_refused(cut: int):
    assert "JPEG file is damaged or cut short" in refusal(JPEG[:cut])


BOUNDED = {
    "300 scans": (
        file(Image.new("RGB", (2100, 2100)), "JPEG", progressive=True).replace(b"\xff\xd9", b"\xff\xda" * 300),
        "scans with 4.41 megapixels (2100x2100) each, allowed are 1,280 megapixels in all scans together",
    ),
    "a million frames": (animation("GIF")[:-1] + b"\0," * 1_000_000, "GIF of about 1,000,0"),
    "a million chunks": (png(1, 1, 8, 0, b"\0\1", chunk(b"prIv", b"") * 1_000_000), "more than 200,000 chunks"),
}


@pytest.mark.parametrize(("data", "sentence"), BOUNDED.values(), ids=BOUNDED)
def test_expensive_picture_is_refused_before_decoding(data: bytes, sentence: str, monkeypatch: pytest.MonkeyPatch):
    opened = list[object]()
    monkeypatch.setattr(Image.Image, "load", opened.append)
    assert sentence in refusal(data)
    assert not opened


def test_prepare_is_thread_safe():
    files = [data for _, data in CLEAN.values()] + [data for data, _ in PIXELS.values()]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda data: prepare(data, POLICY), files * 3))
    assert together == [prepare(data, POLICY) for data in files] * 3


def test_damaged_metadata_and_bombs_print_no_warnings(tmp_path: Path):
    (tmp_path / "torn.jpg").write_bytes(TORN_EXIF)
    (tmp_path / "bomb.png").write_bytes(png(10_000, 9_000, 8, 0, b""))
    script = """
import sys
from pathlib import Path
from tasks.pictures.decoding import BadPicture, NoReader
from tasks.pictures.preparation import Picture, Policy, prepare
policy = Policy(max_bytes=20_000_000, max_side=8000, normalize=False)
print(prepare(Path(sys.argv[1], "torn.jpg").read_bytes(), policy).note.changes)
try:
    prepare(Path(sys.argv[1], "bomb.png").read_bytes(), policy)
except BadPicture as error:
    print(error)
"""
    command = [sys.executable, "-W", "always", "-c", script, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1], check=True)
    assert ran.stdout.splitlines() == ["()", "90 megapixels (10000x9000), allowed are 64"]
    assert ran.stderr == ""
