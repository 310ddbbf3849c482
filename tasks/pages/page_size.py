"""Size of a page: pictures and reasons share a fixed number of bytes, and large pictures become smaller."""

import base64
import math
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BytesIO
from pathlib import Path

from PIL import Image

from tasks.pictures.bad_picture import BadPicture
from tasks.pictures.decoding import decode
from tasks.pictures.thumbnails import SIDES, made, scaled

PICTURES = 16_000_000
"""Bytes of all pictures together, unless they are so many that each gets only its least.

In base64 they are 21.4 MB, so a page of 292 samples with two pictures each stays under 30 MB.
"""
LEAST_PICTURE = 8_000
"""Bytes allowed to each picture, however many there are: about 300 pixels of a figure."""
REASONS = 6_000_000
"""Bytes of all the judge's words together."""
ROUNDS = 6
"""Most tries to get a picture below its limit; most get there in one or two."""


def fair_share(sizes: Sequence[int], budget: int) -> int:
    """Return the largest limit for which all sizes, each cut to it, stay within the budget.

    A size below its share leaves the rest to the others. Where all fit, the limit is the largest size.
    """
    left = budget
    ordered = sorted(sizes)
    for at, size in enumerate(ordered):
        others = len(ordered) - at
        if size * others > left:
            return left // others
        left -= size
    return ordered[-1] if ordered else budget


def picture_limit(sizes: Sequence[int]) -> int:
    """Return the bytes that each of these pictures may have."""
    return max(LEAST_PICTURE, fair_share(sizes, PICTURES))


def thumbnails(store: Path, hashes: Iterable[str]) -> dict[str, str]:
    """Return SHA-256 of a picture -> its thumbnail, a JPEG in base64, without those not kept or not whole."""
    wanted = sorted(set(hashes))
    with ThreadPoolExecutor() as threads:
        found = zip(wanted, threads.map(partial(made, store), wanted), strict=True)
        kept = {sha256: path for sha256, path in found if path}
        limit = picture_limit([path.stat().st_size for path in kept.values()])
        embedded = zip(kept, threads.map(partial(_embedded, limit=limit), kept.values()), strict=True)
        return {sha256: picture for sha256, picture in embedded if picture}


def _embedded(path: Path, limit: int) -> str:
    try:
        data = path.read_bytes()
        if len(data) > limit:
            data = bounded(decode(data, SIDES[1]).image.convert("RGB"), limit, quality=70)
        return base64.b64encode(data).decode("ascii")
    except (BadPicture, OSError):  # begins like a JPEG and is none, or has more pixels than a thumbnail
        return ""


def bounded(picture: Image.Image, limit: int, quality: int) -> bytes:
    """Return the picture as a JPEG of at most `limit` bytes; it may lose pixels, in at most `ROUNDS` tries."""
    data, scale = _jpeg(picture, quality), 1.0
    for _ in range(ROUNDS):
        if len(data) <= limit:
            break
        scale *= min(0.9, math.sqrt(limit / len(data)))  # file size is proportional to the area
        data = _jpeg(scaled(picture, scale, Image.Resampling.LANCZOS), quality)
    return data


def _jpeg(picture: Image.Image, quality: int) -> bytes:
    buffer = BytesIO()
    picture.save(buffer, "JPEG", quality=quality, optimize=True)
    return buffer.getvalue()
