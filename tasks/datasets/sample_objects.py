"""Samples given as Python objects, written as a manifest beside their pictures.

Files and texts are written unchanged, so that the dataset key equals that of the same data read from files. The
contents of samples are checked when the manifest is read.
"""

import json
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from PIL import Image, ImageOps
from pydantic import ConfigDict, Field

from tasks.errors import InputError, Problems
from tasks.pictures.rare_reader import PNG_MODES
from tasks.records import Record
from tasks.records.parameters import PAIRWISE

Picture = Path | str | bytes | Image.Image
"""A file, by its path; the bytes of one; or a picture in memory, written as PNG and upright by its EXIF orientation."""


class FigureSample(Record):
    """A figure of a candidate and the Human figure of the same paper: a row of a manifest for `diagram` or `plot`."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    id: str
    """Id, the same for all candidates."""
    context: str | dict[str, Any] | list[Any]
    """Method section; for a plot its raw data, as text or as a JSON value."""
    caption: str
    """Caption; for a plot a brief description."""
    human_image: Picture | None
    """Human figure; None: there is no reference."""
    model_image: Picture | None
    """Model figure; None: the candidate delivered nothing, a forfeit."""
    candidate: str = ""
    """Candidate; empty: the parameter `candidate_name`, else the name of the dataset."""
    category: str = ""
    difficulty: str = ""


class ImageSample(Record):
    """A generated image and its prompt: a row of a manifest for `object`, `counting`, `colors` or `position`."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    id: str
    """Id of the image, the same for all candidates."""
    tag: str
    """Tag of GenEval: `single_object`, `counting` …"""
    prompt: str
    image: Picture | None
    """Generated image; None: there is none."""
    candidate: str = ""
    """Candidate; empty: the parameter `candidate_name`, else the name of the dataset."""
    include: tuple[dict[str, Any], ...] = Field(default=())
    """Objects that the prompt asks for, in GenEval's form: `{"class": "bench", "count": 1}`."""
    exclude: tuple[dict[str, Any], ...] = Field(default=())
    """Objects that must not be in the image, in the same form."""


Given = FigureSample | ImageSample


def write_samples(folder: Path, flow: str, samples: Sequence[Given], name: str) -> Path:
    """Write samples into an empty folder, in order; return the manifest `<name>.jsonl`.

    Files are linked if the disk supports it, else copied.

    Raises:
        InputError: lists the samples that are not of the flow's kind, and the pictures and data that cannot be written.
            A path without a file is one of these: a program gives None where nothing was delivered.
    """
    wanted = FigureSample if flow in PAIRWISE else ImageSample
    if isinstance(samples, str | Record) or not isinstance(samples, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        found = f"samples are of type {type(samples).__name__}, flow {flow} takes a list of {wanted.__name__}"
        raise InputError(f"{found}; a dataset on disk is named by the parameter dataset")
    if not samples:
        raise InputError("there is nothing to judge: the list of samples is empty")
    if not name or name != Path(name).name or name.startswith("."):
        raise InputError(f"the dataset's name is {name!r}, allowed is any valid file name")
    problems = Problems()
    lines: list[str] = []
    for number, sample in enumerate(samples, 1):
        where = f"sample {number}"
        if type(sample) is not wanted:
            problems.add(where, f"is of type {type(sample).__name__}, flow {flow} takes {wanted.__name__}")
            continue
        lines.append(_line(folder, flow, number, sample, f"{where} ({sample.id!r})", problems))
    problems.stop("the list of samples")
    manifest = folder / f"{name}.jsonl"
    manifest.write_text("".join(lines), encoding="ascii")
    return manifest


def _line(folder: Path, flow: str, number: int, sample: Given, where: str, problems: Problems) -> str:
    always = ("id", "context", "caption", "prompt", "human_image", "model_image", "image")
    row: dict[str, Any] = {name: value for name, value in sample if value or name in always}
    for field in always[4:]:
        if (picture := row.get(field)) is not None:
            try:
                row[field] = _written(picture, folder / f"{number}-{field}").name
            except (InputError, OSError, ValueError) as error:  # ValueError: a path with NUL
                problems.add(where, f"{field} {error}")
                row[field] = None
    if isinstance(sample, FigureSample):
        row["task"] = flow
    try:
        return json.dumps(row, allow_nan=False) + "\n"
    except (ValueError, TypeError, RecursionError) as error:
        problems.add(where, f"has a value that JSON cannot represent: {error}")
        return ""


def _written(picture: Picture, place: Path) -> Path:
    """Write the file of a picture at this place, with the ending of its own file, if it has one."""
    if isinstance(picture, bytes):
        place.write_bytes(picture)
        return place
    if isinstance(picture, Image.Image):
        # Numbers would be cut off at 255, and those from 0 to 1 become black.
        if picture.mode[0] in "IF" and picture.mode not in PNG_MODES:
            raise InputError(f"is of Pillow's mode {picture.mode}, whose values have no fixed range: scale it to L")
        upright = ImageOps.exif_transpose(picture)
        (upright if upright.mode in PNG_MODES else upright.convert("RGB")).save(place, "PNG")
        return place
    source = Path(picture).expanduser().resolve()
    if not source.is_file():
        raise InputError(f"does not lead to a file: {picture}; if nothing was delivered, give None")
    target = place.with_suffix(source.suffix)
    try:
        os.link(source, target)
    except OSError:  # another disk, or one without hard links
        shutil.copyfile(source, target)
    return target
