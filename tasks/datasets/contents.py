"""Texts and pictures of a sample, read from their files only when they are needed."""

import base64
import binascii
import hashlib
from pathlib import Path

from tasks.datasets.entries import clean_text, inner_picture
from tasks.datasets.rows import read_row
from tasks.errors import InputError
from tasks.files import LeadsOut, read_regular
from tasks.records import PictureSource, Sample
from tasks.text import cut, kind

LARGEST = 256_000_000
"""Largest picture file, in bytes: more than the 64 megapixels allowed take in any format in use."""
LOST = "lost since the dataset was loaded: "
"""Prefix of the error when a picture disappears after loading, which is not the candidate's fault."""


def read_texts(sample: Sample) -> dict[str, str]:
    """Read the sample's texts (`context` and `caption`, or `prompt`) from its own record, as the judge reads them.

    Raises InputError if the file has changed since the run started.
    """
    # GenEval's rows have no ids.
    known, expected = ("tag", sample.tag) if sample.tag else ("id", sample.sample_id)
    values = read_row(sample.record, [known, *sample.texts.values()])
    if values[known] != expected:
        raise InputError(f"{sample.record.path} has changed: sample {sample.sample_id!r} is no longer where it was")
    return {name: clean_text(values[key], sample.uncut)[0] for name, key in sample.texts.items()}


def read_picture(source: PictureSource) -> bytes:
    """Return the picture's bytes as they are in the file, undecoded.

    Raises InputError if there is no picture or its base64 is broken. If its file is gone, leads to another place or no
    longer has the picture's record, the error begins with `LOST`.
    """
    if source.place is None:
        raise InputError(cut(source.problem))
    if not source.field:
        where = f"picture {source.place.path} cannot be read"
        try:
            return read_regular(Path(source.place.path), LARGEST, source.place.within)
        except OSError as error:
            raise InputError(f"{LOST}{where}: {error.strerror}") from error
        except LeadsOut as error:
            raise InputError(f"{LOST}{where}: {error}") from error
        except InputError as error:
            raise InputError(f"{where}: {error}") from error
    try:
        value = inner_picture(read_row(source.place, [source.field])[source.field])
    except InputError as error:
        raise InputError(f"{LOST}{error}") from error
    if isinstance(value, bytes):
        return value
    try:
        return _from_base64(value)
    except InputError as error:
        raise InputError(f"{source.field!r} in {Path(source.place.path).name} is no picture: {error}") from error


def picture_sha256(source: PictureSource) -> str:
    """Return the SHA-256 (hex) of a picture's bytes, or `none` if the picture cannot be read."""
    try:
        return hashlib.sha256(read_picture(source)).hexdigest()
    except InputError:
        return "none"


def _from_base64(value: object) -> bytes:
    if not isinstance(value, str):
        raise InputError(f"found {kind(value)}")
    head, _, text = value.partition(",") if value.startswith("data:") else (";base64", ",", value)
    if not head.endswith(";base64"):
        raise InputError("a data: URL must be in base64")
    try:
        return base64.b64decode("".join(text.split()).encode("ascii", "replace"), validate=True)
    except binascii.Error as error:
        raise InputError(str(error)) from error
