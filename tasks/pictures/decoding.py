"""Decoding of a file's bytes, which may be damaged or hostile, to pixels, or to the reason for a refusal."""

import re
import warnings
from collections.abc import Callable
from functools import partial
from io import BytesIO
from typing import Any, NamedTuple

from PIL import Image
from PIL.AvifImagePlugin import AvifImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.WebPImagePlugin import WebPImageFile

from tasks.pictures import jpeg
from tasks.pictures.bad_picture import MAX_MEGAPIXELS, BadPicture, NoReader, check_megapixels
from tasks.pictures.rare_formats import decoded_apart, require_reader

MAX_SCANNED_MEGAPIXELS = 1280
"""Limit for a progressive JPEG, counted over all scans, which are decoded one by one at about a thousand megapixels a
second. Ten scans are usual, and twenty of the largest picture are allowed."""
MAX_FRAMES = 20_000
"""Limit for a GIF, whose frames are counted by walking through them, at about fifty thousand a second."""
MAX_CHUNKS = 200_000
"""Limit for a PNG, whose chunks are read one by one, and each may be empty."""
ORIENTATION = (b"eXIf", b"Raw profile type exif", b"XML:com.adobe.xmp")
"""Marks of a PNG that may be rotated. All bytes are searched, since the marks may follow the pixels."""

# Pillow warns of decompression bombs, which are refused here at a lower size, and of damaged metadata. Only the
# orientation is used from metadata. `catch_warnings` at the call would not be safe in threads.
warnings.filterwarnings("ignore", module=r"PIL\.")

# The format classes are called directly. `Image.open` would try all 43 plugins on an unknown file, check the size by a
# warning, and take a JPEG with a second picture behind it for another format (MPO).
FORMATS: dict[str, tuple[re.Pattern[bytes], Callable[[BytesIO], ImageFile]]] = {
    "PNG": (re.compile(rb"\x89PNG\r\n\x1a\n"), PngImageFile),
    "JPEG": (re.compile(rb"\xff\xd8\xff"), JpegImageFile),
    "WEBP": (re.compile(rb"RIFF....WEBP", re.DOTALL), WebPImageFile),
    "GIF": (re.compile(rb"GIF8[79]a"), GifImageFile),
    "AVIF": (re.compile(rb"....ftyp(?:avi[fs]|(?:mif1|msf1|miaf)(?:.{4}){1,16}?avi[fs])", re.DOTALL), AvifImageFile),
}
RARE_FORMATS = {
    "TIFF": re.compile(rb"II[*+]\0|MM\0[*+]"),
    "BMP": re.compile(rb"BM.{4}\0{4}", re.DOTALL),
    "PDF": re.compile(rb"%PDF"),
    "SVG": re.compile(
        rb"(?:\xef\xbb\xbf)?\s*(?:<(?:\?xml|!--|!doctype svg).{0,4000}?)?<(?:\w+:)?svg\b", re.IGNORECASE | re.DOTALL
    ),
}
UNREAD: dict[str, tuple[re.Pattern[bytes], str]] = {
    "a Git LFS pointer in place of the file": (re.compile(rb"version https://git-lfs"), "run git lfs pull"),
    "a git-annex pointer in place of the file": (re.compile(rb"/annex/objects/"), "run git annex get"),
    "PostScript (EPS)": (re.compile(rb"%!PS|\xc5\xd0\xd3\xc6"), "convert it to PDF, PNG or JPEG"),
    "HEIC": (re.compile(rb"....ftyp(?:hei|hev|mif|msf)", re.DOTALL), "convert it to PNG or JPEG"),
    "JPEG XL": (re.compile(rb"\xff\x0a|\0\0\0\x0cJXL "), "convert it to PNG or JPEG"),
    "JPEG 2000": (re.compile(rb"\0\0\0\x0cjP  |\xff\x4f\xff\x51"), "convert it to PNG or JPEG"),
}
"""Known kinds of files without a reader: signature and fix."""
HTML = re.compile(rb"\s*<(!doctype html|html)", re.IGNORECASE)
ALLOWED = "allowed are PNG, JPEG, WebP, GIF, AVIF, TIFF, BMP, and PDF and SVG by the extra `vector`"


class Decoded(NamedTuple):
    """First frame of a file, with data from its header."""

    image: Image.Image
    """Picture, smaller if a reduced scale was requested; its pixels are unread if they are not needed."""
    size: tuple[int, int]
    """Width and height of the picture, in pixels."""
    format: str
    bits: int
    """Bits per sample; 8 unless a PNG has another number."""
    frames: int
    plain: bool = False
    """True if the file is whole, upright and opaque, and its pixels were not read."""
    notes: tuple[str, ...] = ()
    """Changes made to show the picture, except those evident from the other fields."""


def format_of(data: bytes) -> str:
    """Return the name of the format, by content: file names are not reliable. The first 4 KB of a file are enough.

    Raises:
        NoReader: a known format without a reader here, with the fix.
        BadPicture: not a picture.
    """
    for name, (signature, _) in FORMATS.items():
        if signature.match(data):
            return name
    if not data:
        raise BadPicture("not a picture: the file is empty")
    for name, signature in RARE_FORMATS.items():
        if signature.match(data):
            require_reader(name)
            return name
    for found, (signature, cure) in UNREAD.items():
        if signature.match(data):
            raise NoReader(f"not a picture that can be judged: found {found}: {cure}; {ALLOWED}")
    found = "HTML" if HTML.match(data) else f"first bytes {data[:12]!r}"
    raise BadPicture(f"not a picture that can be judged: found {found}; {ALLOWED}")


def is_svg(data: bytes) -> bool:
    """Return whether bytes begin like an SVG."""
    return RARE_FORMATS["SVG"].match(data) is not None


def decode(data: bytes, least: int | None = None) -> Decoded:
    """Decode every byte of the first frame: a valid header does not prove that a file is whole.

    Args:
        least: a JPEG may be decoded at a fraction of its size, with at least so many pixels on its longest side.

    Raises:
        BadPicture: not a whole picture within the limits on pixels, scans, frames and time; NoReader if the user can
            fix that.
    """
    return _read(data, partial(_load, least))


def check(data: bytes, least: int) -> Decoded:
    """Check a whole file, and read its pixels only if they are needed.

    A PNG is checked by its structure and checksums, a JPEG of one scan by its tables and its end; others are decoded.
    Pixels that do not inflate although their checksum is valid are the encoder's fault; they are not detected here.

    Args:
        least: as for `decode`.

    Raises:
        BadPicture: as for `decode`.
    """
    return _read(data, lambda name, image: _is_plain(name, data, image) or _load(least, name, image))


def _read(data: bytes, load: Callable[[str, ImageFile], bool]) -> Decoded:
    name = format_of(data)
    if name in RARE_FORMATS:
        drawn, notes = decoded_apart(name, data)
        return decode(drawn)._replace(format=name, notes=notes)
    try:
        _check_parts(name, data)
        image = FORMATS[name][1](BytesIO(data))
        _check_size(name, image, data)
        bits = data[24] if name == "PNG" else 8
        frames = int(getattr(image, "n_frames", 1))
        size = image.size
        plain = load(name, image)
    except (BadPicture, MemoryError):
        raise
    except Image.DecompressionBombError as error:
        raise BadPicture(f"more than {MAX_MEGAPIXELS} megapixels, the most allowed") from error
    except Exception as error:  # On hostile bytes the decoders raise nearly anything.
        reason = str(error) or "a part of it is missing"
        raise BadPicture(f"{name} file is damaged or cut short: {reason}") from error
    _widen_transparent_color(image, bits)
    return Decoded(image, size, name, bits, frames, plain)


def _is_plain(name: str, data: bytes, image: ImageFile) -> bool:
    """Return whether a PNG or JPEG is whole and its pixels are not needed. A damaged PNG raises nearly anything."""
    if name != "PNG":
        return name == "JPEG" and jpeg.is_plain(data, image)
    PngImageFile(BytesIO(data)).verify()  # a separate object, since verify() makes it unreadable
    wide, animated = data[24] > 8, getattr(image, "is_animated", False)
    return not (wide or animated or image.has_transparency_data or any(mark in data for mark in ORIENTATION))


def _load(least: int | None, name: str, image: ImageFile) -> bool:
    """Read the pixels of a picture that is not plain, or whose pixels are wanted; return False for "not plain"."""
    if least and name == "JPEG" and image.mode in ("RGB", "L"):
        width, height = image.size
        share = least / max(image.size)
        image.draft(image.mode, (max(1, int(width * share)), max(1, int(height * share))))
    image.load()
    return False


def _check_parts(name: str, data: bytes) -> None:
    """Refuse files that take long to open even with few pixels. Parts are counted by their marks, never too few."""
    frames = data.count(b"\0,") if name == "GIF" else 0
    if frames > MAX_FRAMES:
        raise BadPicture(f"GIF of about {frames:,} frames, allowed are {MAX_FRAMES:,}")
    if name == "PNG" and _has_too_many_chunks(data):
        raise BadPicture(f"PNG of more than {MAX_CHUNKS:,} chunks, the most allowed")


def _has_too_many_chunks(data: bytes) -> bool:
    """Return whether a PNG has more than `MAX_CHUNKS` chunks, from their lengths alone."""
    place, count = 8, 0
    while place + 12 <= len(data) and count <= MAX_CHUNKS:
        place += 12 + int.from_bytes(data[place : place + 4], "big")
        count += 1
    return count > MAX_CHUNKS


def _check_size(name: str, image: Image.Image, data: bytes) -> None:
    pixels = check_megapixels(image.size)
    scans = data.count(b"\xff\xda") if name == "JPEG" and image.info.get("progressive") else 1
    if scans * pixels > MAX_SCANNED_MEGAPIXELS:
        found = f"JPEG of {scans} scans with {pixels:g} megapixels ({image.width}x{image.height}) each"
        raise BadPicture(f"{found}, allowed are {MAX_SCANNED_MEGAPIXELS:,} megapixels in all scans together")


def _widen_transparent_color(image: Image.Image, bits: int) -> None:
    """Scale a PNG's transparent color to 8 bits, as the pixels are: Pillow leaves it in the bits of the file."""
    color: Any = image.info.get("transparency")
    if color is not None and image.mode == "L" and bits in (2, 4):
        image.info["transparency"] = color * 255 // (2**bits - 1)
    elif color is not None and image.mode == "RGB" and bits == 16:
        image.info["transparency"] = tuple(sample >> 8 for sample in color)


def on_white(image: Image.Image) -> tuple[Image.Image, bool]:
    """Return the picture on white, and whether the white shows: plain conversion would show the hidden color."""
    layer = image if image.mode == "RGBA" else image.convert("RGBA")
    if layer.getchannel("A").getextrema() == (255, 255):
        return layer.convert("RGB"), False
    paper = Image.new("RGB", layer.size, "white")
    paper.paste(layer, mask=layer)
    return paper, True
