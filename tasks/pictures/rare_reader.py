"""Process that reads one picture of a rare format from its input, and writes a line of notes in JSON, then a PNG.

It runs as a module, with limits on time and memory from `decoding`, and prints a fault of the file on its error
output.
"""

import contextlib
import json
import os
import re
import resource
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable
from contextlib import chdir
from importlib import import_module
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes
from xml.etree import ElementTree

from PIL import Image, ImageFont
from PIL.BmpImagePlugin import BmpImageFile
from PIL.ImageFile import ImageFile
from PIL.TiffImagePlugin import BITSPERSAMPLE, TiffImageFile

from tasks.pictures.decoding import BAD, CONVERSIONS, FAILED, MEMORY, UNSHOWABLE, BadPicture, NoReader, check_megapixels

SIDE = 2048
"""Longest side of drawings, in pixels: they have no pixels of their own, and judges look at no more."""
PNG_MODES = {"1", "L", "LA", "P", "RGB", "RGBA", "I;16"}
"""Pillow's modes that PNG supports."""
_CONVERTED = {"CMYK": "RGB", "YCbCr": "RGB", "RGBX": "RGB", "PA": "RGBA", "I;16B": "I;16", "I;16L": "I;16"}
_FAMILIES = ("font", "serif", "sans_serif", "monospace", "cursive", "fantasy")
_RASTER = re.compile(r"data:image/(?:png|jpe?g|gif|webp)[;,]")
_NESTED = re.compile(r"data:image/svg\+xml[;,]")
"""Pictures that a drawing may contain: the renderer decodes the first by declared type, and reads the second as SVG."""
_FONT = re.compile(r"data:(?:font/|application/(?:x-)?font)")
"""Fonts, which a style sheet may contain beside pictures."""
_REFERENCES = {"href", "src", "base"}
"""Attributes that name another place, in every namespace: if two have one name, the renderer may use either."""
_CSS_REFERENCE = re.compile(r"(?:url|src|image|image-set)\(\s*[\"']?\s*([^)\"']*)|(@import)", re.IGNORECASE)
_CSS_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|(.))", re.DOTALL)
_CSS_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


class _Shown(NamedTuple):
    png: bytes
    notes: tuple[str, ...] = ()


def _pdf(data: bytes) -> _Shown:
    """Draw the first page."""
    pdfium: Any = import_module("pypdfium2")
    document = pdfium.PdfDocument(data)
    pages = len(document)
    if not pages:
        raise BadPicture("PDF without a page")
    page = document[0]
    image = page.render(scale=SIDE / max(page.get_size())).to_pil()
    return _Shown(_png(image), (f"first of {pages} pages",) if pages > 1 else ())


def _svg(data: bytes) -> _Shown:
    renderer: Any = import_module("resvg_py")
    text = self_contained(data)
    # Text is left out if neither the requested font nor this one exists. Fonts of the machine are used for the names
    # that they have and for the letters that this one lacks.
    font: Any = ImageFont.load_default(12)
    families = dict.fromkeys((f"{kind}_family" for kind in _FAMILIES), font.getname()[0])
    with TemporaryDirectory() as folder, TemporaryDirectory() as nothing, chdir(nothing):
        # The renderer looks for names without a folder in the working directory, which is therefore an empty one.
        file = Path(folder, "font")
        file.write_bytes(font.font_bytes)
        fonts = {"font_files": [str(file)], **families}
        return _Shown(renderer.svg_to_bytes(svg_string=text, width=SIDE, height=SIDE, **fonts))


def self_contained(data: bytes) -> str:
    """Return the drawing as this parser reads it, so that the renderer gets the checked content.

    Entities are resolved, everything outside of the elements is left out, and nested drawings are checked and
    rewritten, too.

    Raises:
        NoReader: it shows anything outside of its own bytes, or anything that only a browser shows.
        BadPicture: it is not an SVG.
    """
    try:
        root = ElementTree.fromstring(data)
        if _name(root.tag) != "svg":
            raise BadPicture(f"XML whose outermost element is {_name(root.tag)!r}, and no SVG")
        for element in root.iter():
            _check_element(element)
        return ElementTree.tostring(root, encoding="unicode")
    except (ElementTree.ParseError, ValueError, LookupError, RecursionError) as error:
        if isinstance(error, BadPicture):
            raise
        raise BadPicture(f"SVG file is damaged or cut short: {error}") from error


def _check_element(element: ElementTree.Element) -> None:
    tag = _name(element.tag)
    if tag == "foreignObject":
        words = "SVG with text in HTML (foreignObject), which only a browser shows"
        raise NoReader(f"{words}: save it as PNG with a browser or with the program that made it")
    if tag == "style":
        _check_css("".join(element.itertext()))
    for key, value in element.attrib.items():
        if _name(key).lower() in _REFERENCES and tag != "a":  # a clickable link shows nothing
            element.set(key, _checked_reference(value.strip()))
        elif _name(key) == "attributeName" and value.rpartition(":")[2].strip().lower() in _REFERENCES:
            raise _outside(f"{value} that changes")
        else:
            _check_css(value)


def _checked_reference(value: str) -> str:
    """Return a reference that stays inside; a nested drawing is checked like the one around it."""
    if value.startswith("#") or _RASTER.match(value):
        return value
    if not _NESTED.match(value):
        raise _outside(value)
    head, _, body = value.partition(",")
    text = unquote_to_bytes(body)
    drawing = b64decode(text) if head.rstrip().endswith(";base64") else text
    return f"data:image/svg+xml;base64,{b64encode(self_contained(drawing).encode()).decode()}"


def _check_css(text: str) -> None:
    """Check the style sheet of an element or an attribute, as written, with escapes decoded, and without comments."""
    if "(" not in text and "@" not in text and "\\" not in text:
        return
    plain = _CSS_ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else found[2], text)
    for form in (text, plain, _CSS_COMMENT.sub("", plain)):
        for target, imported in _CSS_REFERENCE.findall(form):
            if imported or not (target.startswith("#") or _RASTER.match(target) or _FONT.match(target)):
                raise _outside(imported or target)


def _outside(reference: str) -> NoReader:
    return NoReader(
        f"SVG that shows another file, {reference[:80]!r}, and nothing outside of it is read: embed that file as PNG, "
        f"JPEG, GIF, WebP or SVG, or convert the SVG ({CONVERSIONS['SVG']})"
    )


def _name(tag: str) -> str:
    """Return the name of an element or an attribute without its namespace."""
    return tag.rpartition("}")[2]


def _tiff(data: bytes) -> _Shown:
    image = TiffImageFile(BytesIO(data))
    bits = max(image.tag_v2.get(BITSPERSAMPLE, (1,)))
    turned = image.getexif().get(0x0112, 1) in range(2, 9)
    # Counting the frames would mean walking through all of them.
    found = {
        "first of several frames": image.is_animated,
        "EXIF orientation applied": turned,  # by Pillow, on loading
        # Gray keeps its 16 bits in the PNG, which are scaled as in any other PNG.
        "16 bits scaled to 8": bits == 16 and not image.mode.startswith("I;16"),
        "CMYK to RGB": image.mode == "CMYK",
    }
    return _Shown(_raster(image), tuple(words for words, holds in found.items() if holds))


def _bmp(data: bytes) -> _Shown:
    return _Shown(_raster(BmpImageFile(BytesIO(data))))


def _raster(image: ImageFile) -> bytes:
    check_megapixels(image.size)
    mode = _CONVERTED.get(image.mode, image.mode)
    if mode not in PNG_MODES:
        raise NoReader(f"{image.format} with pixels of another kind ({image.mode}) than a PNG has: save it as PNG")
    image.load()
    return _png(image if image.mode == mode else image.convert(mode))


def _png(image: Image.Image) -> bytes:
    image.info.clear()  # A profile, a resolution and a comment are not part of the visible picture.
    buffer = BytesIO()
    image.save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


_READERS: dict[str, Callable[[bytes], _Shown]] = {"PDF": _pdf, "SVG": _svg, "TIFF": _tiff, "BMP": _bmp}


def _bound(seconds: int) -> None:
    """Set the system's limits for this process, where they exist: macOS has none on memory."""
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def _main(name: str, seconds: int) -> int:
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # Output of a library is not part of the picture.
    data = sys.stdin.buffer.read()
    _bound(seconds)
    try:
        shown = _READERS[name](data)
    except BadPicture as error:
        print(error, file=sys.stderr)
        return UNSHOWABLE if isinstance(error, NoReader) else BAD
    except MemoryError:
        return FAILED
    except Exception as error:  # On hostile bytes the readers raise nearly anything.
        print(f"{name} file is damaged or cut short: {error}", file=sys.stderr)
        return BAD
    except BaseException:  # A panic in a Rust library is not an Exception.
        return FAILED
    output.write(json.dumps(shown.notes).encode() + b"\n" + shown.png)
    output.flush()
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1], int(sys.argv[2])))
