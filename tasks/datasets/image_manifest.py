"""A manifest of generated images: one row for each image, with its prompt (JSON Lines, JSON, CSV or Parquet).

Owns the columns, and which rows share a prompt. Leaves what a row asks for to `requirements`, what is missing to
`coverage`, and filters to `filters`.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tasks.datasets.coverage import Generated, Image, covered
from tasks.datasets.entries import candidate_and_picture, id_fault, met_before
from tasks.datasets.folders import Folder
from tasks.datasets.requirements import Asked, read_asked
from tasks.datasets.rows import PROMPTS, Columns, Other, Row, find_rows
from tasks.errors import InputError, Problems
from tasks.parameters import PAIRWISE, RubricParameters
from tasks.records import PictureSource
from tasks.text import well_formed

REQUIRED = ("id", "tag", "prompt", "image")
OPTIONAL = ("candidate", "include", "exclude")
FIGURES = Other(
    ("context", "human_image", "model_image"), f"a manifest of figures, for the flows {' and '.join(PAIRWISE)}"
)


class _ImageRow(NamedTuple):
    """A row that is right by itself; it may still contradict others."""

    candidate: str
    sample_id: str
    asked: Asked
    picture: PictureSource

    @property
    def text(self) -> tuple[str, str]:
        """What rows of one prompt have in common."""
        return self.asked.tag, self.asked.prompt


def read_image_manifest(path: Path, parameters: RubricParameters, problems: Problems) -> Generated:
    """The images of all rows, by candidate in the order met; rows of equal tag and prompt text are of one prompt.

    A prompt has the id of its first row. A row without a candidate is of `parameters.candidate_name`, else of the
    file's stem. Problems are columns that no manifest has or that no row has, an id met twice for one candidate or for
    two prompts, and one prompt that asks for different objects. Raises InputError when `metadata` is given with it.
    """
    if parameters.metadata:
        raise InputError(f"manifest {path.name} names the prompts itself: give no `metadata`")
    rows = list(_rows(path, parameters, problems))
    first = {row.text: row for row in reversed(rows)}
    _check_ids(rows, problems)
    for row in rows:
        _check_objects(row.asked, first[row.text].asked, problems)
    images: dict[str, dict[str, list[Image]]] = {}
    for row in rows:
        image = Image(row.sample_id, row.picture, row.asked.place)
        images.setdefault(row.candidate, {}).setdefault(first[row.text].sample_id, []).append(image)
    prompts = dict.fromkeys(row.text for row in rows)
    return covered({first[text].sample_id: first[text].asked for text in prompts}, images)


def _rows(path: Path, parameters: RubricParameters, problems: Problems) -> Iterator[_ImageRow]:
    name, folder = parameters.candidate_name or path.stem, Folder(path.parent, parameters.follow_links)
    columns = Columns(REQUIRED, OPTIONAL, FIGURES, PROMPTS)
    for row in find_rows(path, problems):
        if columns.meet(row, problems) and (image := _read(row, name, folder, problems)):
            yield image
    folder.check_named(problems)
    columns.check(path.name, problems)


def _read(row: Row, name: str, folder: Folder, problems: Problems) -> _ImageRow | None:
    asked = read_asked(row, problems)
    sample_id = row.values.get("id")
    if fault := id_fault(sample_id):
        problems.add(row.where, fault)
    found = candidate_and_picture(row, "image", folder, name, problems)
    if fault or not asked or not found:
        return None
    candidate, picture = found
    return _ImageRow(well_formed(candidate), str(sample_id), asked, picture)


def _check_ids(rows: Iterable[_ImageRow], problems: Problems) -> None:
    """An id is one image of each candidate, and the same prompt for all of them: prompts are named after ids."""
    met: dict[tuple[str, str], _ImageRow] = {}
    first: dict[str, _ImageRow] = {}
    for row in rows:
        if (same := met.setdefault((row.candidate, row.sample_id), row)) is not row:
            problems.add(row.asked.where, met_before(row.candidate, row.sample_id, same.asked.where))
        elif (other := first.setdefault(row.sample_id, row)).text != row.text:
            problems.add(row.asked.where, f"id {row.sample_id!r} has another tag or prompt than in {other.asked.where}")


def _check_objects(asked: Asked, first: Asked, problems: Problems) -> None:
    if (asked.required, asked.excluded) != (first.required, first.excluded):
        problems.add(asked.where, f"include or exclude differ from those of the same prompt in {first.where}")
