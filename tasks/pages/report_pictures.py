"""The pictures of a report, taken from the store's thumbnails and made smaller where there are many."""

import base64
import math
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BytesIO
from pathlib import Path

from PIL import Image

from tasks.pages.size_limits import picture_limit
from tasks.pictures.bad_picture import BadPicture
from tasks.pictures.decoding import decode
from tasks.pictures.thumbnails import SIDES, made, scaled

ROUNDS = 6
"""Tries to get a picture below its limit; most get there in one or two."""
QUALITY = 70


def thumbnails(store: Path, hashes: Iterable[str]) -> dict[str, str]:
    """SHA-256 of a picture -> its thumbnail, a JPEG in base64; those not kept, or not whole, are left out."""
    wanted = sorted(set(hashes))
    with ThreadPoolExecutor() as threads:
        found = zip(wanted, threads.map(partial(made, store), wanted), strict=True)
        kept = {sha256: path for sha256, path in found if path}
        limit = picture_limit([path.stat().st_size for path in kept.values()])
        embedded = zip(kept, threads.map(partial(_embedded, limit=limit), kept.values()), strict=True)
        return {sha256: picture for sha256, picture in embedded if picture}


def _embedded(path: Path, limit: int) -> str:
    try:
        return base64.b64encode(bounded(path.read_bytes(), limit)).decode("ascii")
    except (BadPicture, OSError):  # begins like a JPEG and is none, or one of more pixels than a thumbnail has
        return ""


def bounded(data: bytes, limit: int) -> bytes:
    """The JPEG itself where it has at most so many bytes, else one of fewer pixels: file size goes with the area.

    Raises:
        BadPicture: it would have to be made smaller, and is no whole picture within the bounds on pixels and scans.
    """
    if len(data) <= limit:
        return data
    picture = decode(data, SIDES[1]).image.convert("RGB")
    small, scale = data, 1.0
    for _ in range(ROUNDS):
        scale *= min(0.9, math.sqrt(limit / len(small)))
        small = _encoded(scaled(picture, scale, Image.Resampling.LANCZOS))
        if len(small) <= limit:
            break
    return small


def _encoded(picture: Image.Image) -> bytes:
    buffer = BytesIO()
    picture.save(buffer, "JPEG", quality=QUALITY, optimize=True)
    return buffer.getvalue()
