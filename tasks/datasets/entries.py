"""Conversion of a dataset record to a sample, whose texts and pictures are read only when needed."""

import base64
import binascii
import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from sys import intern
from types import NoneType
from typing import NamedTuple

from tasks.datasets.paths import NO_PICTURE, Folder, looked_at, of_value
from tasks.datasets.rows import Row, read_row
from tasks.errors import Habitual, InputError, Problems
from tasks.files import LeadsOut, read_regular
from tasks.pictures.decoding import NoReader
from tasks.records import PictureSource, Sample
from tasks.records.parameters import PairwiseParameters, Parameters
from tasks.rubrics.rubric import is_imported
from tasks.text import JSON_KINDS, cut, kind, number_of, quoted

# One level of brackets inside, as Markdown allows. The alternatives exclude each other, so no text causes backtracking.
_IMAGE_LINK = re.compile(r"!\[(?:[^][\\]|\\.|\[[^][]*\])*+\]\((?:[^()\\\n]|\\.|\([^()\n]*\))*+\)")


class Layout(NamedTuple):
    """Keys of a format for the fields that every sample has."""

    texts: dict[str, str]
    """`context` and `caption` -> key; one dictionary for all samples."""
    human: str


class Loaded(NamedTuple):
    """Contents of a dataset: samples by candidate, then in the dataset's order, and warnings."""

    samples: list[Sample]
    warnings: list[str]


def uncut(parameters: Parameters) -> bool:
    """Return whether figure texts keep image links: on the user's request, or if the prompt set is a published one."""
    if not isinstance(parameters, PairwiseParameters):
        return False
    return parameters.keep_image_links or is_imported(parameters.prompt_set)


def read_figure(
    row: Row, flow: str, layout: Layout, folder: Folder, problems: Problems, keep_links: bool = False
) -> Sample | None:
    """Return the sample of a record, without candidate and Model picture; None, with problems noted, if it has any."""
    human, faults = PictureSource(), list(_faults(row.values, flow, layout))
    try:
        human = picture_in(row, layout.human, folder)
    except InputError as error:
        faults.append(error)
    for fault in faults:
        problems.add(row.where, fault)
    if faults:
        return None
    keys = layout.texts
    cleaned = {name: clean_text(row.values[key], keep_links) for name, key in keys.items()}
    identities = {name: _identity(row.values[key]) for name, key in keys.items()}
    data = [name for name, key in keys.items() if not isinstance(row.values[key], str | NoneType)]
    return Sample(
        sample_id=str(row.values["id"]),
        candidate="",
        category=intern(str(row.values.get("category") or "")),
        difficulty=intern(str(row.values.get("difficulty") or "")),
        record=row.place,
        texts=keys,
        uncut=keep_links,
        texts_key=hashlib.sha256(json.dumps(identities, sort_keys=True).encode()).hexdigest(),
        own_order=any(identities[name] != cleaned[name][0] for name in data),
        pictures={"human": human},
        notes=tuple(note for name, (text, links) in cleaned.items() for note in _notes(name, text, links)),
    )


def picture_in(row: Row, key: str, folder: Folder) -> PictureSource:
    """Return the picture under a key: a `data:` URL in the record itself, or the path of a file in the folder.

    Raises InputError for any other type, and for the user mistakes listed at `Folder.picture`.
    """
    if absent := absence(row, key):
        return absent
    value = row.values[key]
    if not isinstance(value, str):
        raise InputError(f"key {key!r} is {kind(value)}, must be the path of a picture or a data: URL")
    if value.startswith("data:"):
        return in_record(row, key, value)
    return folder.picture(value, str(row.values.get("id") or ""))


def in_record(row: Row, key: str, value: str) -> PictureSource:
    """Return the picture that a record itself contains under a key, with its problem if it is not a picture.

    Raises InputError if no reader here supports it.
    """
    try:
        return looked_at(PictureSource(place=row.place, field=key), of_value(value))
    except NoReader as error:
        raise Habitual(f"{key!r} is {error}", str(error)) from error


def absence(row: Row, key: str) -> PictureSource | None:
    """Return why a record has no picture under a key (missing, null or empty); None if there is a value."""
    value = row.values.get(key)
    if value is not None and value != "":
        return None
    state = "missing" if key not in row.values else "null" if value is None else "empty"
    return PictureSource(problem=f"{NO_PICTURE}key {quoted(key)} is {state} in {row.where}")


def clean_text(value: object, keep_links: bool = False) -> tuple[str, int]:
    """Return a text field as the judge reads it, and the number of Markdown image links removed from it.

    Links are removed unless `keep_links` is set, because they may point at the answer. An object or a list is written
    as JSON, once, with its keys in their own order: the order of weekdays, for example, has a meaning.
    """
    if isinstance(value, str):
        return (value, 0) if keep_links else _IMAGE_LINK.subn("", value)
    return "" if value is None else json.dumps(value, ensure_ascii=False), 0


def _identity(value: object) -> str:
    """Return a text as it enters the dataset key, however it is sent: without image links; data with sorted keys."""
    if isinstance(value, str | NoneType):
        return clean_text(value)[0]
    return clean_text(json.dumps(value, ensure_ascii=False, sort_keys=True), keep_links=True)[0]


def id_fault(value: object) -> InputError | None:
    """Return why a value cannot be a sample id, which later names files and folders; None if it can."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Habitual(f'id is a number, must be text: write "{value}", in every file that names it', "ids as numbers")
    if not isinstance(value, str):
        return InputError(f"id is {kind(value)}, must be text")
    if not value.strip() or value in (".", ".."):
        return InputError(f"id {value!r} names nothing")
    if any(c in "/\\" or unicodedata.category(c) in ("Cc", "Cs") for c in value):
        return InputError(f"id {quoted(value)} holds a path separator or a control character")
    return None


def _faults(values: Mapping[str, object], flow: str, layout: Layout) -> Iterator[InputError]:
    if fault := id_fault(values.get("id")):
        yield fault
    context = (str, type(None), dict, list) if flow == "plot" else (str, type(None))
    for key, allowed in ((layout.texts["context"], context), (layout.texts["caption"], (str,))):
        if key not in values:
            yield InputError(f"key {key!r} is missing")
        elif not isinstance(values[key], allowed):
            must = " or ".join(JSON_KINDS[one] for one in allowed)
            yield InputError(f"{key!r} is {kind(values[key])}, must be {must}")
    for key in ("category", "difficulty"):
        if not isinstance(values.get(key), str | None):
            yield InputError(f"{key!r} is {kind(values[key])}, must be text or null")


def text_fault(values: Mapping[str, object], key: str) -> str:
    """Return what is wrong with a text that must not be empty; empty: nothing."""
    if key not in values:
        return f"key {key!r} is missing"
    if not isinstance(values[key], str):
        return f"{key!r} is {kind(values[key])}, must be text"
    return "" if clean_text(values[key])[0].strip() else f"{key!r} is empty, must be text"


def links_note(links: int, name: str) -> tuple[str, ...]:
    """Return the note on image links that were dropped from a text, if there were any."""
    return (f"{number_of(links, 'image link')} dropped from the {name}",) if links else ()


def _notes(name: str, text: str, links: int) -> Iterator[str]:
    yield from links_note(links, name)
    if text.strip() in ("", "{}", "[]"):
        yield f"empty {name}"


LARGEST = 256_000_000
"""Largest picture file, in bytes: more than the 64 megapixels allowed take in any format in use."""
LOST = "lost since the dataset was loaded: "
"""Prefix of the error when a picture disappears after loading, which is not the candidate's fault."""


def read_texts(sample: Sample) -> dict[str, str]:
    """Read the sample's texts (`context` and `caption`, or `prompt`) from its own record, as the judge reads them.

    Raises InputError if the file has changed since the run started.
    """
    # GenEval's rows have no ids, and those of published checklists have nothing in common.
    known = {} if sample.checks else {"tag": sample.tag} if sample.tag else {"id": sample.sample_id}
    values = read_row(sample.record, [*known, *sample.texts.values()])
    if any(values[key] != expected for key, expected in known.items()):
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
        value = read_row(source.place, [source.field])[source.field]
    except InputError as error:
        raise InputError(f"{LOST}{error}") from error
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
    plain = "".join(text.split()).encode("ascii", "replace")
    try:
        return base64.b64decode(plain + b"=" * (-len(plain) % 4), validate=True)  # some programs leave the end out
    except binascii.Error as error:
        raise InputError(str(error)) from error
