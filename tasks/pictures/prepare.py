"""Pictures: what may be shown to a judge, what is changed for it, and the thumbnail that stays.

Owns the limits and the repairs. How bytes are decoded is in `decoding`, whether both sides of a pair are comparable in
`comparability`. All here is plain CPU work on bytes and safe in any thread.
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

from tasks.pictures.decoding import BadPicture, Decoded, decode, on_white
from tasks.records import PictureNote, Record

THUMBNAIL_SIDES = (256, 640)
"""Least and most pixels on the longest side of a thumbnail; between them any fraction that JPEG decodes to will do."""
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
    data_url: bytes
    """In ASCII: as it is put into a request."""


def prepare(data: bytes, policy: Policy, store: Path | None = None) -> Picture:
    """Check a PNG, JPEG, WebP or GIF file whole, make it fit to be judged, and keep a thumbnail of it in the store.

    A file within the policy that shows the same to every reader is sent byte for byte. Any other becomes an RGB PNG
    without metadata, and the note lists what was done. The thumbnail is `<store>/pictures/<source sha256>.jpg`, made
    once; without a store there is none. Raises BadPicture, which does not name the file.
    """
    picture, shown = _prepared(data, policy)
    if store:
        _keep_thumbnail(store / "pictures" / f"{picture.note.source_sha256}.jpg", shown)
    return picture


def _prepared(data: bytes, policy: Policy) -> tuple[Picture, Image.Image]:
    """The picture, and what the judge will see of it."""
    # Most pictures are sent as they are and decoded only to be checked and for their thumbnail.
    source = decode(data, THUMBNAIL_SIDES[0])
    image, changes = _repaired(source)
    if len(data) > policy.max_bytes:
        changes.append(f"{len(data)} bytes, allowed {policy.max_bytes}")
    if policy.normalize:
        changes.append("normalized to RGB PNG")
    if not changes and source.format != "GIF" and max(source.size) <= policy.max_side:
        return _picture(data, source, source.size, data, source.format, changes), image
    if source.image.size != source.size:
        image, _ = _repaired(decode(data))
    shown, sent = _png_within(image, policy)
    if shown.size != image.size:
        reason = "" if max(shown.size) == policy.max_side else f" to stay within {policy.max_bytes} bytes"
        changes.append(f"resized {image.width}x{image.height} to {shown.width}x{shown.height}{reason}")
    if source.format != "PNG" and not policy.normalize:
        changes.append(f"{source.format} to PNG")
    return _picture(data, source, shown.size, sent, "PNG", changes), shown


def as_shown(data: bytes) -> Image.Image:
    """The picture in RGB as any reader should see it, whole, upright and without metadata. Raises BadPicture."""
    return _repaired(decode(data))[0]


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
        image, transparent = on_white(image)
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


def _scaled(image: Image.Image, scale: float, resampling: Image.Resampling) -> Image.Image:
    """The picture at that scale, never enlarged, at least 1 px a side."""
    if scale >= 1:
        return image
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.resize(size, resampling, reducing_gap=3.0)


def _picture(
    data: bytes, source: Decoded, sent_size: tuple[int, int], sent: bytes, sent_format: str, changes: list[str]
) -> Picture:
    source_sha256 = hashlib.sha256(data).hexdigest()
    note = PictureNote(
        source_sha256=source_sha256,
        sent_sha256=source_sha256 if sent is data else hashlib.sha256(sent).hexdigest(),
        format=source.format,
        mode=source.image.mode,
        width=source.size[0],
        height=source.size[1],
        bytes=len(data),
        sent_format=sent_format,
        sent_width=sent_size[0],
        sent_height=sent_size[1],
        sent_bytes=len(sent),
        changes=tuple(changes),
    )
    data_url = f"data:image/{sent_format.lower()};base64,".encode() + base64.b64encode(sent)
    return Picture(note, data_url)


def _keep_thumbnail(target: Path, image: Image.Image) -> None:
    """A bounded JPEG, whole or not at all, however many processes make the same one.

    JPEG and not WebP: it takes a tenth of the processor (0.2 ms against 2 ms, more than all else that is done for a
    picture), for a file half as large again, and the Prefect UI shows it as it is.
    """
    if target.exists():
        return
    small = _scaled(image, THUMBNAIL_SIDES[1] / max(image.size), Image.Resampling.BOX)
    part = target.with_suffix(f".{uuid4().hex}.part")
    target.parent.mkdir(parents=True, exist_ok=True)
    small.save(part, "JPEG", quality=75)  # into a file, Pillow encodes without holding Python's lock
    part.replace(target)


def _encoded(image: Image.Image, name: str, **options: int) -> bytes:
    buffer = BytesIO()
    image.save(buffer, name, **options)
    return buffer.getvalue()
