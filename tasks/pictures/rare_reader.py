"""The process that reads one picture of a rare format, from its input; it writes a line of notes in JSON, then a PNG.

Owns how each of these formats is shown. Run as a module, with bounds on time and memory that `rare_formats` sets; what
is wrong with the file it says on its error output.
"""

import contextlib
import json
import os
import re
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

from tasks.pictures.bad_picture import BadPicture, NoReader, check_megapixels
from tasks.pictures.rare_formats import BAD, CONVERSIONS, FAILED, MEMORY, UNSHOWABLE

SIDE = 2048
"""Longest side, in pixels, of what is drawn: a drawing has no pixels of its own, and judges look at no more."""
_WRITTEN = {"1", "L", "LA", "P", "RGB", "RGBA", "I;16"}
"""Modes that a PNG has."""
_CONVERTED = {"CMYK": "RGB", "YCbCr": "RGB", "RGBX": "RGB", "PA": "RGBA", "I;16B": "I;16", "I;16L": "I;16"}
_FAMILIES = ("font", "serif", "sans_serif", "monospace", "cursive", "fantasy")
_RASTER = re.compile(r"data:image/(?:png|jpe?g|gif|webp)[;,]")
_NESTED = re.compile(r"data:image/svg\+xml[;,]")
"""Pictures that a drawing may hold: the renderer decodes the first as what they name, and reads the second as SVG."""
_FONT = re.compile(r"data:(?:font/|application/(?:x-)?font)")
"""What a style sheet may hold beside pictures."""
_REFERENCES = {"href", "src", "base"}
"""Attributes that name another place, in every namespace: of two of one name, the renderer takes the one it likes."""
_CSS_REFERENCE = re.compile(r"(?:url|src|image|image-set)\(\s*[\"']?\s*([^)\"']*)|(@import)", re.IGNORECASE)
_CSS_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|(.))", re.DOTALL)
_CSS_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


class _Shown(NamedTuple):
    png: bytes
    notes: tuple[str, ...] = ()


def _pdf(data: bytes) -> _Shown:
    """The first page."""
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
    # Without a font of the name asked for, and without this one, text would be left out. Fonts of the machine serve for
    # the names they have and for the letters that this one lacks.
    font: Any = ImageFont.load_default(12)
    families = dict.fromkeys((f"{kind}_family" for kind in _FAMILIES), font.getname()[0])
    with TemporaryDirectory() as folder, TemporaryDirectory() as nothing, chdir(nothing):
        # Names without a folder would be looked for in the working directory.
        file = Path(folder, "font")
        file.write_bytes(font.font_bytes)
        fonts = {"font_files": [str(file)], **families}
        return _Shown(renderer.svg_to_bytes(svg_string=text, width=SIDE, height=SIDE, **fonts))


def self_contained(data: bytes) -> str:
    """Return the drawing as this parser understands it, so that the renderer sees what was checked: entities are
    resolved, what stands beside the elements is left out, and drawings within are checked and written anew, too.

    Raises:
        NoReader: it shows anything outside of its own bytes, or what only a browser shows.
        BadPicture: it is no SVG.
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
        if _name(key).lower() in _REFERENCES and tag != "a":  # a link to click on shows nothing
            element.set(key, _checked_reference(value.strip()))
        elif _name(key) == "attributeName" and value.rpartition(":")[2].strip().lower() in _REFERENCES:
            raise _outside(f"{value} that changes")
        else:
            _check_css(value)


def _checked_reference(value: str) -> str:
    """Return a reference that stays inside; a drawing that it holds is checked like the one around it."""
    if value.startswith("#") or _RASTER.match(value):
        return value
    if not _NESTED.match(value):
        raise _outside(value)
    head, _, body = value.partition(",")
    text = unquote_to_bytes(body)
    drawing = b64decode(text) if head.rstrip().endswith(";base64") else text
    return f"data:image/svg+xml;base64,{b64encode(self_contained(drawing).encode()).decode()}"


def _check_css(text: str) -> None:
    """Check the style sheet of an element or of an attribute, as it is and as one reads it who knows escapes."""
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
    """Of an element or an attribute, without its namespace."""
    return tag.rpartition("}")[2]


def _tiff(data: bytes) -> _Shown:
    image = TiffImageFile(BytesIO(data))
    bits = max(image.tag_v2.get(BITSPERSAMPLE, (1,)))
    turned = image.getexif().get(0x0112, 1) in range(2, 9)
    # To count the frames would be to walk through all of them.
    found = {
        "first of several frames": image.is_animated,
        "EXIF orientation applied": turned,  # on loading
        # Grey keeps its 16 bits in the PNG, where they are scaled like those of any other.
        "16 bits scaled to 8": bits == 16 and not image.mode.startswith("I;16"),
        "CMYK to RGB": image.mode == "CMYK",
    }
    return _Shown(_raster(image), tuple(words for words, holds in found.items() if holds))


def _bmp(data: bytes) -> _Shown:
    return _Shown(_raster(BmpImageFile(BytesIO(data))))


def _raster(image: ImageFile) -> bytes:
    check_megapixels(image.size)
    mode = _CONVERTED.get(image.mode, image.mode)
    if mode not in _WRITTEN:
        raise NoReader(f"{image.format} with pixels of another kind ({image.mode}) than a PNG has: save it as PNG")
    image.load()
    return _png(image if image.mode == mode else image.convert(mode))


def _png(image: Image.Image) -> bytes:
    image.info.clear()  # What a profile, a resolution or a comment says is not what is seen.
    buffer = BytesIO()
    image.save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


_READERS: dict[str, Callable[[bytes], _Shown]] = {"PDF": _pdf, "SVG": _svg, "TIFF": _tiff, "BMP": _bmp}


def _bound(seconds: int) -> None:
    """Bounds that the system holds this process to, where it has them: Windows has none, and macOS none on memory."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def _main(name: str, seconds: int) -> int:
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # Whatever a library prints is no part of the picture.
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
    except BaseException:  # A panic of a library in Rust is no Exception.
        return FAILED
    output.write(json.dumps(shown.notes).encode() + b"\n" + shown.png)
    output.flush()
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1], int(sys.argv[2])))
