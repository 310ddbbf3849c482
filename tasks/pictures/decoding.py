"""Decoding: from the bytes of a file, which may be damaged or hostile, to pixels, or to the reason why not.

Owns the formats that may be shown to a judge and the defence against harmful files. What is then changed about a
picture stands in `prepare`.
"""

import re
import warnings
from collections.abc import Callable
from io import BytesIO
from typing import Any, NamedTuple

from PIL import Image
from PIL.GifImagePlugin import GifImageFile
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.WebPImagePlugin import WebPImageFile

from tasks.errors import InputError

MAX_MEGAPIXELS = 64

# Pillow warns of decompression bombs, which are refused here at a lower size, and of damaged metadata, of which only
# the orientation is used here. `catch_warnings` at the call would not be safe in threads.
warnings.filterwarnings("ignore", module=r"PIL\.")

# The format classes are called directly, not through `Image.open`: that tries all 43 plugins on a file it does not
# know, checks the size by a warning, and takes a JPEG with a second picture behind it for another format (MPO).
FORMATS: dict[str, tuple[re.Pattern[bytes], Callable[[BytesIO], ImageFile]]] = {
    "PNG": (re.compile(rb"\x89PNG\r\n\x1a\n"), PngImageFile),
    "JPEG": (re.compile(rb"\xff\xd8\xff"), JpegImageFile),
    "WEBP": (re.compile(rb"RIFF....WEBP", re.DOTALL), WebPImageFile),
    "GIF": (re.compile(rb"GIF8[79]a"), GifImageFile),
}
OTHER_FORMATS = {
    "SVG or XML": re.compile(rb"\s*<(svg|\?xml)", re.IGNORECASE),
    "HTML": re.compile(rb"\s*<(!doctype html|html)", re.IGNORECASE),
    "a Git LFS pointer in place of the file": re.compile(rb"version https://git-lfs"),
    "PDF": re.compile(rb"%PDF"),
    "PostScript (EPS)": re.compile(rb"%!PS|\xc5\xd0\xd3\xc6"),
    "TIFF": re.compile(rb"II\*\0|MM\0\*"),
    "AVIF or HEIC": re.compile(rb"....ftyp(avi|hei|mif|msf)", re.DOTALL),
    "BMP": re.compile(rb"BM.{4}\0{4}", re.DOTALL),
}


class BadPicture(InputError):
    """The bytes are no picture that can be judged; says what was found and what is allowed."""


class Decoded(NamedTuple):
    """The first frame of a file, with what its header says."""

    image: Image.Image
    """Smaller than the picture where a reduced scale was asked for."""
    size: tuple[int, int]
    """Width and height of the picture, in pixels."""
    format: str
    bits: int
    """Bits per sample; 8 unless a PNG says otherwise."""
    frames: int


def _format(data: bytes) -> str:
    """Name of the format, by content: a file's name says nothing."""
    for name, (signature, _) in FORMATS.items():
        if signature.match(data):
            return name
    if not data:
        raise BadPicture("not a picture: the file is empty")
    found = next(
        (name for name, signature in OTHER_FORMATS.items() if signature.match(data)), f"first bytes {data[:12]!r}"
    )
    raise BadPicture(f"not a picture that can be judged: found {found}; allowed are PNG, JPEG, WebP and GIF")


def decode(data: bytes, least: int = 0) -> Decoded:
    """The first frame, from every byte of it: a header alone is no proof that a file is whole.

    Args:
        least: with this, an upright JPEG in color or grey is decoded at a fraction of its size that has at least so
            many pixels on its longest side: as sure a check, at less cost.

    Raises:
        BadPicture: not a whole PNG, JPEG, WebP or GIF of at most 64 megapixels.
    """
    name = _format(data)
    try:
        image = FORMATS[name][1](BytesIO(data))
        _check_size(image)
        bits = data[24] if name == "PNG" else 8
        frames = int(getattr(image, "n_frames", 1))
        size = image.size
        if least and name == "JPEG" and image.mode in ("RGB", "L"):
            share = least / max(size)
            image.draft(image.mode, (max(1, int(size[0] * share)), max(1, int(size[1] * share))))
        image.load()
    except (BadPicture, MemoryError):
        raise
    except Image.DecompressionBombError as error:
        raise BadPicture(f"more than {MAX_MEGAPIXELS} megapixels, which is the most allowed") from error
    except Exception as error:  # On hostile bytes the decoders raise nearly anything.
        raise BadPicture(f"{name} file is damaged or cut short: {error}") from error
    _widen_transparent_color(image, bits)
    return Decoded(image, size, name, bits, frames)


def _check_size(image: Image.Image) -> None:
    width, height = image.size
    if width * height > MAX_MEGAPIXELS * 1_000_000:
        raise BadPicture(f"{width * height / 1e6:g} megapixels ({width}x{height}), allowed are {MAX_MEGAPIXELS}")


def _widen_transparent_color(image: Image.Image, bits: int) -> None:
    """Bring a PNG's transparent color to the 8 bits of the pixels: Pillow leaves it in the bits of the file."""
    color: Any = image.info.get("transparency")
    if color is not None and image.mode == "L" and bits in (2, 4):
        image.info["transparency"] = color * 255 // (2**bits - 1)
    elif color is not None and image.mode == "RGB" and bits == 16:
        image.info["transparency"] = tuple(sample >> 8 for sample in color)


def on_white(image: Image.Image) -> tuple[Image.Image, bool]:
    """The picture on white paper, and whether the paper shows: plain conversion shows the color that was hidden."""
    layer = image if image.mode == "RGBA" else image.convert("RGBA")
    if layer.getchannel("A").getextrema() == (255, 255):
        return layer.convert("RGB"), False
    paper = Image.new("RGB", layer.size, "white")
    paper.paste(layer, mask=layer)
    return paper, True
