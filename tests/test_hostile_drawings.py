"""SVG files of strangers: no file of this machine is shown, however a drawing refers to it."""

import base64
import gzip
from pathlib import Path
from urllib.parse import quote

import pytest
from PIL import Image
from png_files import POLICY, RED, WHITE
from written_datasets import png

from tasks.pictures.decoding import BadPicture, NoReader
from tasks.pictures.preparation import as_shown, prepare
from tasks.pictures.rare_reader import self_contained

SIZE = 'width="60" height="40"'
SHOWS = f'<image href="FILE" {SIZE}/>'


def svg(inner: str, around: str = "", attributes: str = "") -> str:
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:z="urn:z"'
    return f"{around}<svg {names} {SIZE} {attributes}>{inner}</svg>"


def embedded(drawing: str, head: str = "data:image/svg+xml;base64,") -> str:
    return head + base64.b64encode(drawing.encode()).decode()


FILTERED = f'<rect {SIZE} filter="url(#f)"/>'
ATTACKS = {
    "an absolute path": svg(SHOWS),
    "an absolute path in xlink:href": svg(f'<image xlink:href="FILE" {SIZE}/>'),
    "a path from the working directory": svg(f'<image href="NAME" {SIZE}/>'),
    "a web address": svg(f'<image href="https://example.org/a.png" {SIZE}/>'),
    "a harmless attribute of the same name": svg(f'<image href="FILE" z:href="#a" {SIZE}/>'),
    "a filter that reads a file": svg(f'<filter id="f"><feImage href="FILE"/></filter>{FILTERED}'),
    "a path from an entity": svg(f'<image href="&where;" {SIZE}/>', '<!DOCTYPE svg [<!ENTITY where "FILE">]>'),
    "an attribute default in a DTD": svg(f"<image {SIZE}/>", '<!DOCTYPE svg [<!ATTLIST image href CDATA "FILE">]>'),
    "xml:base": svg('<use href="#a"/>', attributes='xml:base="file:///secret.svg"'),
    "spaces before the path": svg(f'<image href="&#10; FILE" {SIZE}/>'),
    "a part of another drawing": svg('<use href="FILE#a"/>'),
    "a paint of another drawing": svg(f'<rect {SIZE} fill="url(FILE#a)"/>'),
    "a quoted paint of another drawing": svg(f"<rect {SIZE} style=\"fill: url( 'FILE#a' )\"/>"),
    "a style sheet with @import": svg('<style>@import "FILE";</style>'),
    "a style sheet with escapes": svg(f"<style>rect {{ fill: \\75 rl(FILE) }}</style><rect {SIZE}/>"),
    "a style sheet with a comment": svg(f"<style>rect {{ fill: url(/*#*/FILE) }}</style><rect {SIZE}/>"),
    "a local font": svg('<style>@font-face { src: url("file://FILE") }</style>'),
    "a reference in an animation": svg(f'<image href="#a" {SIZE}><set attributeName="xlink:href" to="FILE"/></image>'),
    "an embedded drawing in base64": svg(f'<image href="{embedded(svg(SHOWS))}" {SIZE}/>'),
    "doubly embedded": svg(f'<image href="{embedded(svg(SHOWS.replace("FILE", embedded(svg(SHOWS)))))}" {SIZE}/>'),
    "an embedded drawing as text": svg(f'<image href="data:image/svg+xml,{quote(svg(SHOWS))}" {SIZE}/>'),
    "an embedded drawing called text": svg(f'<image href="{embedded(svg(SHOWS), "data:text/plain;base64,")}" {SIZE}/>'),
    "a paint after a harmless one": svg(f'<rect {SIZE} fill="url(#a) url(FILE)"/>'),
    "a paint in capitals": svg(f'<rect {SIZE} fill="URL(FILE)"/>'),
    "a style sheet in parts": svg("<style>rect { fill: u<a/>rl(FILE) }</style>"),
    "image-set": svg('<style>rect { fill: image-set("FILE" 1x) }</style>'),
    "an attribute in capitals": svg(f'<image HREF="FILE" {SIZE}/>'),
    "an HTML attribute": svg(f'<image src="FILE" {SIZE}/>'),
    "an image in a definition": svg(f'<defs><g id="a">{SHOWS}</g></defs><use href="#a"/>'),
    "an embedded drawing with a charset": svg(
        f'<image href="{embedded(svg(SHOWS), "data:image/svg+xml;charset=utf-8;base64,")}" {SIZE}/>'
    ),
}
PACKED = base64.b64encode(gzip.compress(svg(SHOWS).encode(), mtime=0)).decode()
BROKEN = {
    "an external entity": svg("<text>&words;</text>", '<!DOCTYPE svg [<!ENTITY words SYSTEM "file://FILE">]>'),
    "external parameter entity": svg("<text>&words;</text>", '<!DOCTYPE svg [<!ENTITY % more SYSTEM "FILE"> %more;]>'),
    "a compressed embedded drawing": svg(f'<image href="data:image/svg+xml;base64,{PACKED}" {SIZE}/>'),
}


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A red picture outside of the drawing, in the working directory."""
    place = tmp_path / "secret.png"
    Image.new("RGB", (60, 40), RED).save(place)
    monkeypatch.chdir(tmp_path)
    return place


def aim(drawing: str, secret: Path) -> bytes:
    """Insert the path of the secret picture into a drawing, also in parts embedded as base64."""
    parts = {part.partition('"')[0] for part in drawing.split(";base64,")[1:]}
    for each in sorted((each for each in parts if base64.b64decode(each).startswith(b"<svg")), key=len):
        drawing = drawing.replace(each, base64.b64encode(aim(base64.b64decode(each).decode(), secret)).decode())
    return drawing.replace("FILE", str(secret)).replace("NAME", secret.name).encode()


@pytest.mark.parametrize("drawing", ATTACKS.values(), ids=ATTACKS)
def test_drawing_that_refers_to_another_file_is_refused(drawing: str, secret: Path) -> None:
    with pytest.raises(NoReader, match="SVG that shows another file"):
        self_contained(aim(drawing, secret))


@pytest.mark.parametrize("drawing", BROKEN.values(), ids=BROKEN)
def test_drawing_that_needs_another_file_is_damaged(drawing: str, secret: Path) -> None:
    with pytest.raises(BadPicture, match="SVG file is damaged"):
        self_contained(aim(drawing, secret))


@pytest.mark.parametrize("name", ["a harmless attribute of the same name", "a filter that reads a file"])
def test_drawing_is_refused_when_rendered_too(name: str, secret: Path) -> None:
    pytest.importorskip("resvg_py")
    with pytest.raises(NoReader):
        prepare(aim(ATTACKS[name], secret), POLICY)


INSIDE = f"data:image/png;base64,{base64.b64encode(png(200)).decode()}"
ALLOWED = {
    "a hyperlink": svg(f'<a xlink:href="https://example.org/a"><rect {SIZE}/></a>'),
    "a part of itself": svg(f'<defs><rect id="a" {SIZE}/></defs><use xlink:href="#a"/>'),
    "a paint of its own": svg(f'<rect {SIZE} style="fill: url(\'#a\') red" transform="rotate(0)"/>'),
    "a document type and metadata": svg(
        '<metadata><z:type z:resource="http://purl.org/dc/dcmitype/StillImage"/></metadata><rect/>',
        '<?xml version="1.0"?><!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" '
        '"http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">',
    ),
    "an embedded font": svg("<style>@font-face { src: url(data:font/woff2;base64,AAAA) }</style>"),
    "an embedded picture": svg(f'<image href="{INSIDE}" {SIZE}/>'),
}


@pytest.mark.parametrize("drawing", ALLOWED.values(), ids=ALLOWED)
def test_references_within_a_drawing_are_allowed(drawing: str) -> None:
    self_contained(drawing.encode())


def test_external_style_sheet_is_removed_before_rendering(secret: Path) -> None:
    drawing = aim(svg("<rect/>", '<?xml-stylesheet href="FILE"?><!DOCTYPE svg SYSTEM "FILE">'), secret)
    assert secret.name not in self_contained(drawing)


@pytest.mark.parametrize("head", ["data:image/svg+xml;base64,", "data:image/svg+xml;charset=utf-8,"])
def test_drawing_within_a_drawing_is_shown(head: str) -> None:
    pytest.importorskip("resvg_py")
    inner = svg(f'<rect {SIZE} fill="#f00"/>')
    within = embedded(inner, head) if head.endswith("base64,") else head + quote(inner)
    shown = as_shown(svg(f'<image href="{within}" width="30" height="40"/>').encode())
    assert (shown.getpixel((9, shown.height // 2)), shown.getpixel((shown.width - 9, 9))) == (RED, WHITE)
