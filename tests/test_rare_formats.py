"""AVIF, TIFF, BMP, PDF and SVG: displayed correctly, within limits, from their own bytes only."""

import base64
import sys
import tempfile
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image
from png_files import BLUE, POLICY, RED, WHITE, file, oriented, refusal

from tasks.datasets.paths import Folder
from tasks.errors import InputError
from tasks.pictures import decoding
from tasks.pictures.decoding import PACKAGES, NoReader, format_of
from tasks.pictures.preparation import Picture, as_shown, prepare

NOT_INSTALLED = "the extra `vector` is not installed: this machine cannot draw PDF and SVG"


def halves(mode: str = "RGB", size: tuple[int, int] = (30, 20)) -> Image.Image:
    """Return a picture with red above and blue below, so that a turned copy differs."""
    image = Image.new("RGB", size, RED)
    image.paste(BLUE, (0, size[1] // 2, *size))
    return image.convert(mode)


def svg(inner: str = "", size: str = 'width="60" height="40"', around: str = "") -> bytes:
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    return f"{around}<svg {names} {size}>{inner}</svg>".encode()


def sent(picture: Picture) -> Image.Image:
    return Image.open(BytesIO(base64.b64decode(picture.encoded)))


def corners(image: Image.Image) -> tuple[object, object]:
    """Return the colors of the first and the last pixel."""
    # Steps of 15: compression may change a color slightly.
    stepped = image.point([round(value / 15) * 15 for value in range(256)] * 3)
    return stepped.getpixel((0, 0)), stepped.getpixel((image.width - 1, image.height - 1))


TWO_RECTANGLES = '<rect width="60" height="20" fill="red"/><rect y="20" width="60" height="20" fill="blue"/>'
SEVERAL = {"save_all": True, "append_images": [Image.new("RGB", (30, 20), WHITE)] * 2}
ALPHA = Image.new("RGBA", (30, 20), (0, 0, 0, 0))
RASTER = {
    "BMP": (file(halves(), "BMP"), ()),
    "TIFF": (file(halves(), "TIFF"), ()),
    "TIFF of several frames": (file(halves(), "TIFF", **SEVERAL), ("first of several frames",)),
    "CMYK TIFF": (file(halves("CMYK"), "TIFF"), ("CMYK to RGB",)),
    "AVIF": (file(halves(), "AVIF", quality=100, subsampling="4:4:4"), ()),
    "AVIF of several frames": (file(halves(), "AVIF", quality=100, subsampling="4:4:4", **SEVERAL),
                               ("first of 3 frames",)),
}  # fmt: skip


@pytest.mark.parametrize(("data", "notes"), RASTER.values(), ids=RASTER)
def test_raster_file_is_sent_as_an_equal_png(data: bytes, notes: tuple[str, ...]):
    picture = prepare(data, POLICY)
    name = picture.note.format
    assert picture.note.changes == (*notes, f"{name} to PNG")
    assert (picture.note.sent_format, picture.note.width, picture.note.height) == ("PNG", 30, 20)
    assert sent(picture).mode == "RGB" and corners(sent(picture)) == (RED, BLUE)


@pytest.mark.parametrize("name", ["TIFF", "AVIF"])
def test_transparency_becomes_white_and_orientation_is_applied(name: str):
    transparent = prepare(file(ALPHA, name), POLICY)
    assert transparent.note.changes == ("transparency composited on white", f"{name} to PNG")
    assert corners(sent(transparent)) == (WHITE, WHITE)
    turned = prepare(file(halves(), name, exif=oriented(6)), POLICY)
    assert turned.note.changes == ("EXIF orientation applied", f"{name} to PNG")
    assert (turned.note.sent_width, turned.note.sent_height) == (20, 30)


def test_16_bit_grey_is_scaled():
    picture = prepare(file(Image.new("I;16", (30, 20), 40_000), "TIFF"), POLICY)
    assert corners(sent(picture)) == ((150, 150, 150), (150, 150, 150))
    assert picture.note.changes == ("16 bits scaled to 8", "TIFF to PNG")


REFUSED = {
    "TIFF cut short": (file(halves(), "TIFF")[:-200], "TIFF file is damaged or cut short"),
    "TIFF bomb": (
        file(Image.new("1", (8, 8)), "TIFF").replace(b"\4\0\1\0\0\0\x08\0\0\0", b"\4\0\1\0\0\0\x30\x75\0\0"),
        "900 megapixels (30000x30000), allowed are 64",
    ),
    "BMP cut short": (file(halves(), "BMP")[:-200], "BMP file is damaged or cut short"),
    "BMP bomb": (b"BM" + bytes(12) + b"\x28\0\0\0\x30\x75\0\0\x30\x75\0\0\x01\0\x18\0" + bytes(40), "900 megapixels"),
    "AVIF cut short": (file(halves(), "AVIF")[:-40], "AVIF file is damaged or cut short"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "words"), REFUSED.values(), ids=REFUSED)
def test_damaged_or_too_large_file_is_refused(data: bytes, words: str):
    assert words in refusal(data)


def test_floating_point_pixels_must_be_converted_by_the_user():
    assert "TIFF with pixels of another kind (F)" in refusal(file(Image.new("F", (3, 3)), "TIFF"), NoReader)


TEN_TIMES = {n: f'<use href="#a{n - 1}"/>' * 10 for n in range(1, 12)}
USES = "".join(f'<g id="a{n}">{uses}</g>' for n, uses in TEN_TIMES.items())
ENTITIES = "".join(f'<!ENTITY e{n} "{10 * f"&e{n - 1};"}">' for n in range(1, 12))
SLOW = '<filter id="f"><feMorphology operator="dilate" radius="400"/><feTurbulence numOctaves="40"/></filter>'


class TestDrawn:
    """PDF and SVG, which the extra `vector` draws."""

    @pytest.fixture(autouse=True)
    def _require_packages(self):
        for package in decoding.PACKAGES.values():
            pytest.importorskip(package, reason=NOT_INSTALLED)

    @pytest.mark.parametrize(
        ("data", "size"),
        [
            (file(halves(), "PDF"), (2048, 1365)),
            (svg(TWO_RECTANGLES), (2048, 1366)),
            (svg(TWO_RECTANGLES, 'viewBox="0 0 20 40"'), (1024, 2048)),
        ],
        ids=["PDF", "SVG", "SVG without a size"],
    )  # fmt: skip
    def test_drawing_is_sent_as_a_png_of_2048_pixels(self, data: bytes, size: tuple[int, int]):
        picture = prepare(data, POLICY)
        note = picture.note
        assert note.changes == (f"{note.format} to PNG",)
        assert max(note.sent_width, note.sent_height) == 2048
        assert abs(note.sent_width - size[0]) <= 1 and abs(note.sent_height - size[1]) <= 1
        assert corners(sent(picture)) == (RED, BLUE)

    def test_first_page_is_judged(self):
        data = file(Image.new("RGB", (9, 9), RED), "PDF", save_all=True, append_images=[Image.new("RGB", (9, 9))] * 2)
        picture = prepare(data, POLICY)
        assert picture.note.changes == ("first of 3 pages", "PDF to PNG")
        assert corners(sent(picture)) == (RED, RED)

    def test_empty_background_is_white(self):
        picture = prepare(svg('<rect width="1" height="1" fill="red"/>'), POLICY)
        assert corners(sent(picture)) == (RED, WHITE)
        assert picture.note.changes == ("transparency composited on white", "SVG to PNG")

    @pytest.mark.parametrize("family", ["", 'font-family="No Such Font"', 'font-family="serif"'])
    def test_text_in_a_missing_font_is_still_drawn(self, family: str):
        shown = as_shown(svg(f'<text x="5" y="30" font-size="20" {family}>Text</text>')).convert("L")
        assert shown.getextrema()[0] < 50

    def test_embedded_picture_is_drawn(self):
        inner = base64.b64encode(file(Image.new("RGB", (6, 4), RED), "PNG")).decode()
        image = f'<image href="data:image/png;base64,{inner}" width="60" height="40"/>'
        assert corners(as_shown(svg(image, 'width="600" height="400"'))) == (RED, WHITE)

    def test_foreign_object_must_be_converted_by_the_user(self):
        assert "only a browser shows" in refusal(svg("<foreignObject><p>words</p></foreignObject>"), NoReader)

    @pytest.mark.parametrize(
        ("data", "words"),
        [
            (svg(f'<defs><g id="a0"><rect width="9" height="9"/></g>{USES}</defs><use href="#a11"/>'), "SVG"),
            (svg("&e11;", around=f'<!DOCTYPE svg [<!ENTITY e0 "ha">{ENTITIES}]>'), "SVG file is damaged"),
            (svg("<g>" * 100_000 + "</g>" * 100_000), "SVG file is damaged"),
            (svg("<rect"), "SVG file is damaged or cut short"),
            (
                svg('<image href="data:image/png;base64,AAAA" width="9" height="9"/>', 'width="0" height="0"'),
                "SVG file",
            ),
            (b'<?xml version="1.0"?><html><svg/></html>', "XML whose outermost element is 'html', and no SVG"),
            (file(halves(), "PDF")[:300], "PDF file is damaged or cut short"),
            (b"%PDF-1.7 nothing", "PDF file is damaged or cut short"),
        ],
        ids=["uses", "entities", "depth", "torn", "no size", "XHTML", "half a PDF", "no PDF"],
    )
    def test_hostile_or_damaged_drawing_is_refused(self, data: bytes, words: str, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(decoding, "SECONDS", 2)
        assert words in refusal(data)

    def test_drawing_time_is_limited_and_leaves_no_files(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(decoding, "SECONDS", 1)
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        monkeypatch.setattr(tempfile, "tempdir", None)
        data = svg(SLOW + 200 * '<rect width="60" height="40" filter="url(#f)"/>')
        assert refusal(data) == "SVG that takes more than 1 s to be shown, the most allowed"
        assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(("name", "data"), [("PDF", b"%PDF-1.7"), ("SVG", svg())])
def test_missing_drawing_package_is_reported_instead_of_the_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: bytes
):
    package = PACKAGES[name]
    (tmp_path / "figure").write_bytes(data)
    cure = "install the extra `vector` (pip install -e '.[vector]'), or convert the file ("
    monkeypatch.setitem(sys.modules, package, None)  # simulate a missing package
    assert cure in refusal(data, NoReader)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / f"{package}.py").write_text("raise OSError('libpdfium.so is not there')")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.delitem(sys.modules, package)
    with pytest.raises(InputError) as caught:
        Folder(tmp_path).picture("figure")
    assert str(caught.value).startswith(
        f"figure is {name}, which is drawn by the package {package}, and that cannot be imported "
        f"(libpdfium.so is not there): {cure}"
    )


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (b"%!PS-Adobe-3.0 EPSF-3.0", "PostScript (EPS): convert it"),
        (b"version https://git-lfs.github.com/spec/v1", "a Git LFS pointer in place of the file: run git lfs pull"),
        (b"/annex/objects/SHA256E-s1--a.png\n", "a git-annex pointer in place of the file: run git annex get"),
        (b"\0\0\0\x1cftypheic\0\0\0\0mif1heic", "HEIC: convert it"),
        (b"\xff\x0a\0\0", "JPEG XL: convert it"),
        (b"\0\0\0\x0cjP  \r\n\x87\n", "JPEG 2000: convert it"),
    ],
)
def test_known_format_without_reader_is_named(head: bytes, words: str):
    with pytest.raises(NoReader) as refused:
        format_of(head)
    assert f"found {words}" in str(refused.value) and "allowed are PNG, JPEG" in str(refused.value)


def test_program_in_the_working_folder_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "json.py").write_text("raise SystemExit('a program of the dataset was run')")
    monkeypatch.chdir(tmp_path)
    assert prepare(file(halves(), "BMP"), POLICY).note.format == "BMP"


def test_killed_decoder_process_does_not_blame_the_picture(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(decoding.sys, "executable", "/bin/false")
    with pytest.raises(OSError, match="was ended from outside"):
        prepare(file(halves(), "BMP"), POLICY)
