"""What the first bytes of a picture tell before any call: whether it is one, and whether anything here reads it.

Owns the look at them, wherever the picture stands. What the formats look like is in `tasks.pictures`, and what becomes
of a sample without a picture is for `kinds`.
"""

import base64
import binascii
from dataclasses import replace
from pathlib import Path

from tasks.errors import InputError
from tasks.files import open_regular
from tasks.pictures.bad_picture import BadPicture, NoReader
from tasks.pictures.decoding import format_of, is_svg
from tasks.pictures.rare_reader import self_contained
from tasks.records import PictureSource

ENOUGH = 4096
"""Bytes that tell the format of any picture."""
LARGEST_DRAWING = 16_000_000
"""Bytes of an SVG that is looked at whole: what it shows beside itself may stand anywhere in it."""


def looked_at(source: PictureSource, head: bytes) -> PictureSource:
    """The source of a picture that begins like this, with its problem where it is no picture.

    It keeps its place: a Human picture is part of the dataset's key, whatever its bytes.

    Raises:
        NoReader: a format that is known and that nothing here reads, which says nothing of whoever made the picture.
    """
    try:
        if format_of(head) == "SVG" and len(head) < LARGEST_DRAWING:
            self_contained(head)
    except NoReader:
        raise
    except BadPicture as error:
        return replace(source, problem=str(error))
    return source


def of_file(path: Path) -> bytes:
    """The first bytes of a file.

    Raises:
        InputError: it may not be read, or cannot be.
    """
    try:
        with open_regular(path, follow_link=True) as file:
            head = file.read(ENOUGH)
            return head + file.read(LARGEST_DRAWING) if is_svg(head) else head
    except OSError as error:
        raise InputError(f"picture {path} cannot be read: {error.strerror}") from error


def of_value(value: bytes | str) -> bytes:
    """The first bytes of a picture in a record, as bytes or as text in base64; of other text its own."""
    if isinstance(value, bytes):
        return value[: LARGEST_DRAWING if is_svg(value[:ENOUGH]) else ENOUGH]
    text = value.partition(",")[2] if value.startswith("data:") else value
    found = _decoded(text[: 2 * ENOUGH])[:ENOUGH]
    if is_svg(found):
        return _decoded(text[: 2 * LARGEST_DRAWING])
    return found or value[:ENOUGH].encode("utf-8", "replace")


def _decoded(text: str) -> bytes:
    kept = "".join(text.split()).encode("ascii", "replace")
    try:
        return base64.b64decode(kept[: len(kept) // 4 * 4], validate=True)
    except binascii.Error:
        return b""


def is_bare_base64(text: str) -> bool:
    """Whether a text that should be a path is a picture itself, without the words that say so."""
    try:
        return len(text) > 40 and bool(format_of(of_value(text)))
    except NoReader:
        return True
    except BadPicture:
        return False
