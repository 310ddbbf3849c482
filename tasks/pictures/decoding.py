"""Decoding of a file's bytes to pixels, or to the reason for a refusal; a separate process reads rare formats."""

import json
import os
import re
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from io import BytesIO
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from PIL import Image
from PIL.AvifImagePlugin import AvifImageFile
from PIL.ExifTags import Base
from PIL.GifImagePlugin import GifImageFile
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.WebPImagePlugin import WebPImageFile

from tasks.errors import InputError
from tasks.text import one_line

MAX_MEGAPIXELS = 64


class BadPicture(InputError):
    """Bytes that cannot be judged as a picture; the message names the content found and the formats allowed."""


class NoReader(BadPicture):
    """A file of a known kind that cannot be shown here: its format has no reader, or it is only a pointer.

    The user must install a program, fetch the file or convert it; the picture's author is not at fault.
    """


def check_megapixels(size: tuple[int, int]) -> float:
    """Return the picture's megapixels, from its width and height. Raises BadPicture above `MAX_MEGAPIXELS`."""
    width, height = size
    pixels = width * height / 1e6
    if pixels > MAX_MEGAPIXELS:
        raise BadPicture(f"{pixels:g} megapixels ({width}x{height}), allowed are {MAX_MEGAPIXELS}")
    return pixels


PACKAGES = {"PDF": "pypdfium2", "SVG": "resvg_py"}
"""Format -> package that draws it; both come with the extra `vector`."""
CONVERSIONS = {
    "PDF": "pdftoppm -png -singlefile -r 200 FILE.pdf FILE",
    "SVG": "rsvg-convert --width 2048 FILE.svg -o FILE.png",
}
SECONDS = 20
"""Seconds of processor time for one picture."""
LONGEST_WAIT = 600
"""Seconds in which even a busy machine provides that processor time."""
MEMORY = 2 << 30
"""Bytes of address space, including the libraries."""

BAD, UNSHOWABLE, FAILED = 3, 4, 5
"""Exit codes of the process: its output is the message of a `BadPicture` or of a `NoReader`, or the reader failed."""
_BY_ITSELF = {getattr(signal, name, 0) for name in ("SIGABRT", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP")}
"""Signals that end a reader because of its input or of the memory limit."""


def require_reader(name: str) -> None:
    """Raise NoReader, with the fix, if the package that reads a format cannot be imported."""
    if not (package := PACKAGES.get(name)):
        return
    try:
        import_module(package)
    except Exception as error:  # A package without its native library raises nearly anything.
        raise NoReader(
            f"{name}, which is drawn by the package {package}, and that cannot be imported ({one_line(str(error))}): "
            f"install the extra `vector` (pip install -e '.[vector]'), or convert the file ({CONVERSIONS[name]})"
        ) from error


def decoded_apart(name: str, data: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Return the first frame or page of such a file as a PNG that looks the same, and the changes made to it.

    Raises:
        BadPicture: the file is damaged, too large, or takes too much time or memory.
        NoReader: the format has no reader here, or the file needs more than its own bytes to be shown.
        ChildProcessError: something else ended the process, such as a machine without memory; the file may be good.
    """
    command = [sys.executable, "-P", "-m", "tasks.pictures.rare_reader", name, str(SECONDS)]
    with TemporaryDirectory() as folder:  # the system may kill the process, whose temporary files would stay
        # A separate session, so that Ctrl-C in the terminal is not taken for a fault of the picture.
        ran = subprocess.run(
            command,
            input=data,
            env={**os.environ, "TMPDIR": folder},
            capture_output=True,
            timeout=LONGEST_WAIT,
            start_new_session=True,
            check=False,
        )
    if ran.returncode == 0:
        notes, _, png = ran.stdout.partition(b"\n")
        return png, tuple(json.loads(notes))
    raise _error(name, ran.returncode, ran.stderr.decode(errors="replace").strip())


def _error(name: str, code: int, words: str) -> Exception:
    if code in (BAD, UNSHOWABLE):
        return (NoReader if code == UNSHOWABLE else BadPicture)(words)
    if code == -getattr(signal, "SIGXCPU", 0):
        return BadPicture(f"{name} that takes more than {SECONDS} s to be shown, the most allowed")
    if code == FAILED or -code in _BY_ITSELF:
        return BadPicture(f"{name} that its reader fails on, or that takes more than {MEMORY >> 30} GB of memory")
    why = words or "the machine may lack memory"
    return ChildProcessError(f"the process that reads {name} was ended from outside (exit code {code}): {why}")


MAX_SCANNED_MEGAPIXELS = 1280
"""Limit for a progressive JPEG, counted over all scans, which are decoded one by one at about a thousand megapixels a
second. Ten scans are usual, and twenty of the largest picture are allowed."""
MAX_FRAMES = 20_000
"""Limit for a GIF, whose frames are counted by walking through them, at about fifty thousand a second."""
MAX_CHUNKS = 200_000
"""Limit for a PNG, whose chunks are read one by one, and each may be empty."""
END_OF_JPEG = b"\xff\xd9"
EXIF_TEXTS = (b"Raw profile type exif", b"XML:com.adobe.xmp")
"""Keywords of text chunks of a PNG that may rotate it, as the chunk `eXIf` may. All of them may follow the pixels."""

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


def decode(data: bytes, least: int | None = None, unless_plain: bool = False) -> Decoded:
    """Decode every byte of the first frame: a valid header does not prove that a file is whole.

    Args:
        least: a JPEG may be decoded at a fraction of its size, with at least so many pixels on its longest side.
        unless_plain: leave pixels unread that are not needed. A PNG is then checked by its structure and checksums, a
            JPEG by its header and its end. Pixels of a PNG that do not inflate although their checksum is valid, and
            damage in the middle of a JPEG, are not detected.

    Raises:
        BadPicture: not a whole picture within the limits on pixels, scans, frames and time; NoReader if the user can
            fix that.
    """
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
        width, height = size = image.size
        plain = unless_plain and _is_plain(name, data, image)
        if least and not plain and name == "JPEG" and image.mode in ("RGB", "L"):
            share = least / max(size)
            image.draft(image.mode, (max(1, int(width * share)), max(1, int(height * share))))
        if not plain:
            image.load()
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
        return name == "JPEG" and data.endswith(END_OF_JPEG) and image.mode in ("RGB", "L") and orientation(image) == 1
    PngImageFile(BytesIO(data)).verify()  # a separate object, since verify() makes it unreadable
    wide, animated = data[24] > 8, getattr(image, "is_animated", False)
    may_be_rotated = any(chunk.startswith(b"eXIf") or chunk.startswith(EXIF_TEXTS, 4) for chunk in _chunks(data))
    return not (wide or animated or image.has_transparency_data or may_be_rotated)


def orientation(image: Image.Image) -> int:
    """Return the EXIF orientation of a picture; 1: upright, 0: unknown."""
    try:
        return image.getexif().get(Base.Orientation, 1)
    except Exception:  # Damaged EXIF does not affect the pixels, and its reader raises nearly anything.
        return 0


def _check_parts(name: str, data: bytes) -> None:
    """Refuse files that take long to open even with few pixels. Parts are counted by their marks, never too few."""
    frames = data.count(b"\0,") if name == "GIF" else 0
    if frames > MAX_FRAMES:
        raise BadPicture(f"GIF of about {frames:,} frames, allowed are {MAX_FRAMES:,}")
    if name == "PNG" and any(number >= MAX_CHUNKS for number, _ in enumerate(_chunks(data))):
        raise BadPicture(f"PNG of more than {MAX_CHUNKS:,} chunks, the most allowed")


def _chunks(data: bytes) -> Iterator[bytes]:
    """Yield the name of each chunk of a PNG and its first bytes, as one, from the lengths alone."""
    place = 8
    while place + 12 <= len(data):
        yield data[place + 4 : place + 40]
        place += 12 + int.from_bytes(data[place : place + 4], "big")


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
