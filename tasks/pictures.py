"""Pictures: what may be shown to a judge, what is changed for it, and the thumbnail that stays.

Owns the limits and the repairs. Leaves to others where a picture's bytes come from, how they are decoded, which
side of a pair it is, and the threads: all here is plain CPU work on bytes and safe in any thread.
"""

import base64
import hashlib
import math
from io import BytesIO
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from PIL import Image
from PIL.ExifTags import Base
from pydantic import Field

from tasks.decoding import BadPicture, Decoded, decode
from tasks.records import PictureNote, Record

THUMBNAIL_SIDE = 512
SHRINK_ROUNDS = 12
"""Tries to get below the largest file: each takes at least a tenth off the sides, most get there in two or three."""

TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""EXIF orientation -> what sets the picture upright. 1 is upright; other values mean nothing."""


class Policy(Record):
    """What is sent as it is. Part of the protocol key: another policy shows the judge other pictures."""

    max_bytes: int = Field(gt=0)
    """Largest file, in bytes."""
    max_side: int = Field(gt=0)
    """Longest side, in pixels."""
    normalize: bool
    """Every picture becomes an RGB PNG, not only those that must change."""


class Picture(NamedTuple):
    """A picture ready to be judged."""

    note: PictureNote
    data_url: str
    thumbnail: bytes
    """WebP of what is sent, longest side 512 pixels at most."""


def prepare(data: bytes, policy: Policy) -> Picture:
    """Check a PNG, JPEG, WebP or GIF file whole and make it fit to be judged.

    A file within the policy that shows the same to every reader is sent byte for byte. Any other becomes an RGB PNG
    without metadata, and the note lists what was done. Raises BadPicture, which does not name the file.
    """
    source = decode(data)
    image, changes = _repaired(source)
    if len(data) > policy.max_bytes:
        changes.append(f"{len(data)} bytes, allowed {policy.max_bytes}")
    if policy.normalize:
        changes.append("normalized to RGB PNG")
    if not changes and source.format != "GIF" and max(image.size) <= policy.max_side:
        return _picture(data, source, image, data, source.format, changes)
    shown, sent = _png_within(image, policy)
    if shown.size != image.size:
        reason = "" if max(shown.size) == policy.max_side else f" to stay within {policy.max_bytes} bytes"
        changes.append(f"resized {image.width}x{image.height} to {shown.width}x{shown.height}{reason}")
    if source.format != "PNG" and not policy.normalize:
        changes.append(f"{source.format} to PNG")
    return _picture(data, source, shown, sent, "PNG", changes)


def save_thumbnail(store: Path, picture: Picture) -> None:
    """Keep the thumbnail as `<store>/pictures/<source sha256>.webp`, unless it is there already.

    The file appears whole or not at all, however many processes write the same one.
    """
    target = store / "pictures" / f"{picture.note.source_sha256}.webp"
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(f".{uuid4().hex}.part")
    try:
        part.write_bytes(picture.thumbnail)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _repaired(source: Decoded) -> tuple[Image.Image, list[str]]:
    """The picture in RGB as any reader should see it, without metadata, and what had to be done for that."""
    image, changes = source.image, list[str]()
    if source.frames > 1:
        changes.append(f"first of {source.frames} frames")
    if (turn := _turn(image)) is not None:
        image = image.transpose(turn)
        changes.append("EXIF orientation applied")
    if source.bits == 16:
        image = _eight_bits(image)
        changes.append("16 bits scaled to 8")
    if image.mode == "CMYK":
        changes.append("CMYK to RGB")
    if image.has_transparency_data:
        image, transparent = _on_white(image)
        if transparent:
            changes.append("transparency composited on white")
    image = image if image.mode == "RGB" else image.convert("RGB")
    image.info.clear()  # A CMYK profile does not fit RGB, and no profile of megabytes belongs in a thumbnail.
    return image, changes


def _turn(image: Image.Image) -> Image.Transpose | None:
    try:
        return TURNS.get(image.getexif().get(Base.Orientation, 1))
    except Exception:  # Damaged EXIF says nothing about the pixels, and its reader raises nearly anything.
        return None


def _eight_bits(image: Image.Image) -> Image.Image:
    """Grey of 16 bits in 8, transparent value included. Pillow has scaled the other modes when it decoded them."""
    if image.mode != "I;16":
        return image
    wide = image.convert("I")  # Its conversion to 8 bits would clip; a table for each of the 65,536 values does not.
    grey = wide.point([round(value / 257) for value in range(65_536)], "L")
    if (transparent := image.info.get("transparency")) is not None:
        grey.putalpha(wide.point([255 * (value != transparent) for value in range(65_536)], "L"))
    return grey


def _on_white(image: Image.Image) -> tuple[Image.Image, bool]:
    """The picture on white paper, and whether the paper shows: plain conversion shows the colour that was hidden."""
    layer = image if image.mode == "RGBA" else image.convert("RGBA")
    if layer.getchannel("A").getextrema() == (255, 255):
        return layer.convert("RGB"), False
    paper = Image.new("RGB", layer.size, "white")
    paper.paste(layer, mask=layer)
    return paper, True


def _png_within(image: Image.Image, policy: Policy) -> tuple[Image.Image, bytes]:
    """The largest picture found that keeps both limits, and its file. File size goes roughly with the area."""
    scale = min(1.0, policy.max_side / max(image.size))
    for _ in range(SHRINK_ROUNDS):
        shown = _scaled(image, scale, Image.Resampling.LANCZOS)
        sent = _encoded(shown, "PNG", compress_level=3)
        if len(sent) <= policy.max_bytes:
            return shown, sent
        scale *= min(0.9, 0.95 * math.sqrt(policy.max_bytes / len(sent)))
    raise BadPicture(f"{image.width}x{image.height} cannot be made small enough for {policy.max_bytes} bytes")


def _scaled(image: Image.Image, scale: float, resampling: Image.Resampling, reducing_gap: float = 3.0) -> Image.Image:
    """The picture at that scale, never enlarged, at least 1 px a side."""
    if scale >= 1:
        return image
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.resize(size, resampling, reducing_gap=reducing_gap)


def _picture(
    data: bytes, source: Decoded, shown: Image.Image, sent: bytes, sent_format: str, changes: list[str]
) -> Picture:
    source_sha256 = hashlib.sha256(data).hexdigest()
    note = PictureNote(
        source_sha256=source_sha256,
        sent_sha256=source_sha256 if sent is data else hashlib.sha256(sent).hexdigest(),
        format=source.format,
        mode=source.image.mode,
        width=source.image.width,
        height=source.image.height,
        bytes=len(data),
        sent_format=sent_format,
        sent_width=shown.width,
        sent_height=shown.height,
        sent_bytes=len(sent),
        changes=tuple(changes),
    )
    data_url = f"data:image/{sent_format.lower()};base64,{base64.b64encode(sent).decode('ascii')}"
    return Picture(note, data_url, _thumbnail(shown))


def _thumbnail(image: Image.Image) -> bytes:
    """Bounded WebP, made for speed: a third of the time of Pillow's defaults for a file a third larger."""
    small = _scaled(image, THUMBNAIL_SIDE / max(image.size), Image.Resampling.HAMMING, reducing_gap=1.0)
    return _encoded(small, "WEBP", quality=75, method=0)


def _encoded(image: Image.Image, name: str, **options: int) -> bytes:
    buffer = BytesIO()
    image.save(buffer, name, **options)
    return buffer.getvalue()
