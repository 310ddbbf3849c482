"""Checks and changes that make a picture fit for a judge, and a comparison of both sides' pictures as sent."""

import base64
import hashlib
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from statistics import median
from typing import NamedTuple

from PIL import Image
from pydantic import Field

from tasks.pictures.decoding import BadPicture, Decoded, decode, on_white, orientation
from tasks.pictures.thumbnails import SIDES, Thumbnails, scaled
from tasks.records import Outcome, PictureNote, Record

SHRINK_ROUNDS = 12
"""Tries to get below the largest file: each takes at least a tenth off the sides, and most succeed in two or three."""
ON_WHITE = "transparency composited on white"
"""Note for a picture whose transparent background showed."""

SENT = ("PNG", "JPEG", "WEBP")
"""Formats that judges accept."""

TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""EXIF orientation -> operation that sets the picture upright. 1 is upright; other values have no meaning."""


class Policy(Record):
    """Limits for pictures sent unchanged. Part of the protocol key: another policy shows the judge other pictures."""

    max_bytes: int = Field(gt=0)
    """Largest file, in bytes."""
    max_side: int = Field(gt=0)
    """Longest side, in pixels."""
    normalize: bool
    """True if every picture becomes an RGB PNG, even one that needs no change."""


class Picture(NamedTuple):
    """A picture ready to be judged."""

    note: PictureNote
    encoded: bytes
    """File as sent, in base64."""

    @property
    def media_type(self) -> str:
        """Media type of the file as sent."""
        return f"image/{self.note.sent_format.lower()}"


def prepare(data: bytes, policy: Policy, thumbnails: Thumbnails | None = None) -> Picture:
    """Check a whole picture file, make it fit to be judged, and ensure that it gets a thumbnail.

    A PNG, JPEG or WebP within the policy that looks the same in every reader is sent byte for byte. Any other file
    becomes an RGB PNG without metadata, and the note lists the changes. Without `thumbnails`, none is made. Raises
    BadPicture, which does not name the file.
    """
    source = decode(data, SIDES[0], unless_plain=True)  # most pictures are sent unchanged
    image, changes = (source.image, []) if source.plain else _repaired(source)
    if len(data) > policy.max_bytes:
        changes.append(f"{len(data)} bytes, allowed {policy.max_bytes}")
    if policy.normalize:
        changes.append("normalized to RGB PNG")
    if changes or source.format not in SENT or max(source.size) > policy.max_side:
        if source.plain or source.image.size != source.size:
            image, _ = _repaired(decode(data))
        picture, image = _changed(data, source, image, policy, changes)
    else:
        picture = _picture(data, source, source.size, data, source.format, changes)
        if thumbnails and source.plain:
            thumbnails.put_by(picture.note.source_sha256, data)
            return picture
    if thumbnails:
        thumbnails.keep(picture.note.source_sha256, image)
    return picture


def _changed(
    data: bytes, source: Decoded, image: Image.Image, policy: Policy, changes: list[str]
) -> tuple[Picture, Image.Image]:
    """Return the picture as an RGB PNG within the policy, and its pixels."""
    shown, sent = _png_within(image, policy)
    if shown.size != image.size:
        reason = "" if max(shown.size) == policy.max_side else f" to stay within {policy.max_bytes} bytes"
        changes.append(f"resized {image.width}x{image.height} to {shown.width}x{shown.height}{reason}")
    if source.format != "PNG" and not policy.normalize:
        changes.append(f"{source.format} to PNG")
    return _picture(data, source, shown.size, sent, "PNG", changes), shown


def as_shown(data: bytes) -> Image.Image:
    """Return the picture in RGB as any reader should show it, whole, upright, without metadata. Raises BadPicture."""
    return _repaired(decode(data))[0]


def _repaired(source: Decoded) -> tuple[Image.Image, list[str]]:
    """Return the picture in RGB as any reader should show it, without metadata, and the changes made for that."""
    image, changes = source.image, list(source.notes)
    if source.frames > 1:
        changes.append(f"first of {source.frames} frames")
    if (turn := TURNS.get(orientation(image))) is not None:
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
            changes.append(ON_WHITE)
    image = image if image.mode == "RGB" else image.convert("RGB")
    image.info.clear()  # A CMYK profile does not fit RGB, and no profile of megabytes belongs in a thumbnail.
    return image, changes


def _eight_bits(image: Image.Image) -> Image.Image:
    """Scale gray of 16 bits to 8, including the transparent value. Pillow scales the other modes on decoding."""
    if image.mode != "I;16":
        return image
    wide = image.convert("I")  # Its conversion to 8 bits would clip; a table for each of the 65,536 values does not.
    grey = wide.point([round(value / 257) for value in range(65_536)], "L")
    if (transparent := image.info.get("transparency")) is not None:
        grey.putalpha(wide.point([255 * (value != transparent) for value in range(65_536)], "L"))
    return grey


def _png_within(image: Image.Image, policy: Policy) -> tuple[Image.Image, bytes]:
    """Return the largest picture found within both limits, and its file. File size grows roughly with the area."""
    scale = min(1.0, policy.max_side / max(image.size))
    for _ in range(SHRINK_ROUNDS):
        shown = scaled(image, scale, Image.Resampling.LANCZOS)
        buffer = BytesIO()
        shown.save(buffer, "PNG", compress_level=3)
        sent = buffer.getvalue()
        if len(sent) <= policy.max_bytes:
            return shown, sent
        scale *= min(0.9, 0.95 * math.sqrt(policy.max_bytes / len(sent)))
    raise BadPicture(f"{image.width}x{image.height} cannot be made small enough for {policy.max_bytes} bytes")


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
    return Picture(note, base64.b64encode(sent))


BOTH_SIDES = ("human", "model")
LEAST_SHARE = 0.25
"""Share of pictures in which the sides must differ. A bias in one sample of four moves a score of 0-100 by up to 25
points, more than candidates usually differ. Rarer differences, such as a few odd files, cause no warning."""
LEAST_RATIO = 2.0
"""Ratio of the pixels (median over pairs) at which the sides count as different in size. Twice the pixels are about
twice the image tokens, and small print that is legible on one side only."""


@dataclass
class _Pairs:
    """Counts over the pairs of one candidate."""

    formats: dict[str, Counter[str]] = field(default_factory=lambda: {side: Counter[str]() for side in BOTH_SIDES})
    """Side -> format sent -> pictures."""
    transparent: Counter[str] = field(default_factory=Counter[str])
    ratios: list[float] = field(default_factory=list[float])
    """Pixels of the Model picture as sent, divided by those of the Human one."""

    def differences(self) -> Iterator[str]:
        """Yield each difference that is large enough to decide verdicts, as the end of a sentence."""
        n, (human, model) = len(self.ratios), (self.formats[side] for side in BOTH_SIDES)
        if sum(abs(human[name] - model[name]) for name in human | model) / 2 >= LEAST_SHARE * n:
            sides = f"Model {_shares(model)}; Human {_shares(human)}"
            cure = "`normalize: true` (`--normalize`) sends both sides as PNG"
            yield f"formats ({sides}): compression may decide verdicts; {cure}"
        ratio = median(self.ratios)
        if max(ratio, 1 / ratio) >= LEAST_RATIO:
            yield f"size (Model has {ratio:.2g} times the pixels of Human, in the median): detail may decide verdicts"
        if abs(self.transparent["human"] - self.transparent["model"]) >= LEAST_SHARE * n:
            sides = f"Model in {self.transparent['model'] / n:.0%}, Human in {self.transparent['human'] / n:.0%}"
            yield f"transparency (shown on white: {sides}): the background may decide verdicts"


@dataclass
class Comparability:
    """Counts of a run's pictures by their form, updated as its samples are decided."""

    pairs: dict[str, _Pairs] = field(default_factory=dict[str, _Pairs])
    """Pairs by candidate."""

    def add(self, outcome: Outcome) -> None:
        """Count the pair of a sample, unless a picture is missing (not judged) or the sample is one generated image."""
        if not all(side in outcome.pictures for side in BOTH_SIDES):
            return
        pairs, pixels = self.pairs.setdefault(outcome.candidate, _Pairs()), dict[str, int]()
        for side in BOTH_SIDES:
            note = outcome.pictures[side]
            pairs.formats[side][note.sent_format] += 1
            pairs.transparent[side] += ON_WHITE in note.changes
            pixels[side] = note.sent_width * note.sent_height
        pairs.ratios.append(pixels["model"] / pixels["human"])

    def warnings(self) -> list[str]:
        """Return a sentence for each difference between candidate and Human pictures that may decide verdicts.

        The limits are a quarter of the pictures for format and transparency, and a factor of two for pixels.
        """
        return [
            f"The pictures of {candidate} and the Human ones differ in {words}"
            for candidate, pairs in self.pairs.items()
            for words in pairs.differences()
        ]


def _shares(formats: Counter[str]) -> str:
    return ", ".join(f"{name} {n / formats.total():.0%}" for name, n in formats.most_common())
