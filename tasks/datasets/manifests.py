"""Manifests: one row for each figure or generated image of a candidate (JSON Lines, JSON, CSV or Parquet)."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from tasks.datasets.coverage import Asked, Generated, Image, covered, read_asked
from tasks.datasets.entries import Entry, Layout, Loaded, id_fault, picture_in, read_entry, uncut
from tasks.datasets.folders import Folder
from tasks.datasets.rows import BENCHMARK, PROMPTS, Columns, Other, Row, find_rows
from tasks.errors import Habitual, InputError, Problems
from tasks.files import real_place
from tasks.parameters import PAIRWISE, T2I, PairwiseParameters, RubricParameters
from tasks.records import PictureSource
from tasks.text import kind, listed, quoted, well_formed

LAYOUT = Layout({"context": "context", "caption": "caption"}, human="human_image")
FIGURES = ("id", "task", "context", "caption", "human_image", "model_image")
IMAGES = ("id", "tag", "prompt", "image")
"""Columns that some row of each kind of manifest must have."""
OF_FIGURES = Other(
    ("context", "human_image", "model_image"), f"a manifest of figures, for the flows {' and '.join(PAIRWISE)}"
)
OF_IMAGES = Other(("tag", "prompt", "image"), f"a manifest of generated images, for the flows {listed(T2I)}")


def read_figure_manifest(path: Path, flow: str, parameters: PairwiseParameters, problems: Problems) -> Loaded:
    """Read the rows of this flow in order; candidates are in the order of their first rows.

    A row without a candidate belongs to `parameters.candidate_name`, or else to the file's stem. Problems are unknown
    columns, required columns that no row has, unknown tasks, and ids repeated for one candidate.

    Raises:
        InputError: `results`, `images` or `stage` is given, too.
    """
    if parameters.results or parameters.images or parameters.stage:
        raise InputError(f"manifest {path.name} names the Model figures itself: give no `results`, `images` or `stage`")
    name, folder = parameters.candidate_name or path.stem, Folder(path.parent, parameters.follow_links)
    columns = Columns(FIGURES, ("candidate", "category", "difficulty"), OF_IMAGES, BENCHMARK)
    keep_links, tasks = uncut(parameters), set[str]()
    met: dict[str, dict[str, tuple[Entry, str]]] = {}
    for row in find_rows(path, problems, (real_place(path),)):
        if not columns.meet(row, problems):
            continue
        task = str(row.values.get("task", ""))
        if task not in PAIRWISE:
            found = f"task is {quoted(task)}" if "task" in row.values else "key 'task' is missing"
            problems.add(row.where, Habitual(f"{found}, allowed are {' and '.join(PAIRWISE)}", f"task {task}"))
        tasks.add(task)
        entry = _figure(row, flow, name, folder, keep_links, problems) if task == flow else None
        if entry:
            candidate, sample_id = entry.sample.candidate, entry.sample.sample_id
            _, first = met.setdefault(candidate, {}).setdefault(sample_id, (entry, row.where))
            if first != row.where:
                problems.add(row.where, _met_before(candidate, sample_id, first))
    folder.check_named(problems)
    if columns.check(path.name, problems) and tasks and flow not in tasks:
        problems.add(path.name, f"has no row of task {flow!r}, its tasks are {listed(sorted(tasks))}")
    return Loaded([entry for its in met.values() for entry, _ in its.values()], [])


def _figure(row: Row, flow: str, name: str, folder: Folder, keep_links: bool, problems: Problems) -> Entry | None:
    entry = read_entry(row, flow, LAYOUT, folder, problems, keep_links)
    found = _candidate_and_picture(row, "model_image", folder, name, problems)
    if not entry or not found:
        return None
    candidate, model = found
    pictures = {**entry.sample.pictures, "model": model}
    return entry._replace(sample=replace(entry.sample, candidate=candidate, pictures=pictures))


class _ImageRow(NamedTuple):
    """A row that is valid by itself but may contradict others."""

    candidate: str
    sample_id: str
    asked: Asked
    picture: PictureSource

    @property
    def text(self) -> tuple[str, str]:
        """Tag and prompt, which all rows of one prompt share."""
        return self.asked.tag, self.asked.prompt


def read_image_manifest(path: Path, parameters: RubricParameters, problems: Problems) -> Generated:
    """Read the images of all rows, by candidate in order of appearance; equal tag and text mean the same prompt.

    The id of a prompt is that of its first row. A row without a candidate belongs to `parameters.candidate_name`, or
    else to the file's stem. Problems are unknown columns, required columns that no row has, and ids repeated for one
    candidate or used for two prompts. A prompt whose rows ask for different objects is one, too. Raises InputError if
    `metadata` is given, too.
    """
    if parameters.metadata:
        raise InputError(f"manifest {path.name} names the prompts itself: give no `metadata`")
    rows = list(_image_rows(path, parameters, problems))
    first = {row.text: row for row in reversed(rows)}
    _check_ids(rows, problems)
    asked: dict[str, Asked] = {}
    images: dict[str, dict[str, list[Image]]] = {}
    for row in rows:
        prompt_id, one = first[row.text].sample_id, first[row.text].asked
        asked.setdefault(prompt_id, one)
        if (row.asked.required, row.asked.excluded) != (one.required, one.excluded):
            problems.add(row.asked.where, f"include or exclude differ from those of the same prompt in {one.where}")
        image = Image(row.sample_id, row.picture, row.asked.place)
        images.setdefault(row.candidate, {}).setdefault(prompt_id, []).append(image)
    return covered(asked, images, parameters.prompt_set)


def _image_rows(path: Path, parameters: RubricParameters, problems: Problems) -> Iterator[_ImageRow]:
    name, folder = parameters.candidate_name or path.stem, Folder(path.parent, parameters.follow_links)
    columns = Columns(IMAGES, ("candidate", "include", "exclude"), OF_FIGURES, PROMPTS)
    for row in find_rows(path, problems, (real_place(path),)):
        if columns.meet(row, problems) and (image := _image(row, name, folder, problems)):
            yield image
    folder.check_named(problems)
    columns.check(path.name, problems)


def _image(row: Row, name: str, folder: Folder, problems: Problems) -> _ImageRow | None:
    asked = read_asked(row, problems)
    sample_id = row.values.get("id")
    if fault := id_fault(sample_id):
        problems.add(row.where, fault)
    found = _candidate_and_picture(row, "image", folder, name, problems)
    if fault or not asked or not found:
        return None
    candidate, picture = found
    return _ImageRow(well_formed(candidate), str(sample_id), asked, picture)


def _check_ids(rows: Iterable[_ImageRow], problems: Problems) -> None:
    """Check that an id is one image of each candidate and one prompt for all of them: prompts are named after ids."""
    met: dict[tuple[str, str], _ImageRow] = {}
    first: dict[str, _ImageRow] = {}
    for row in rows:
        if (same := met.setdefault((row.candidate, row.sample_id), row)) is not row:
            problems.add(row.asked.where, _met_before(row.candidate, row.sample_id, same.asked.where))
        elif (other := first.setdefault(row.sample_id, row)).text != row.text:
            problems.add(row.asked.where, f"id {row.sample_id!r} has another tag or prompt than in {other.asked.where}")


def _candidate_and_picture(
    row: Row, key: str, folder: Folder, name: str, problems: Problems
) -> tuple[str, PictureSource] | None:
    """Return the candidate of a row, `name` by default, and its figure or image; None if the picture is a problem."""
    candidate = row.values.get("candidate") or name
    if not isinstance(candidate, str):
        problems.add(row.where, f"'candidate' is {kind(candidate)}, must be text")
    try:
        return str(candidate), picture_in(row, key, folder)
    except InputError as error:
        problems.add(row.where, error)
        return None


def _met_before(candidate: str, sample_id: str, where: str) -> str:
    """Describe the problem of a manifest row whose id is already in the row at `where`."""
    return (
        f"id {quoted(sample_id)} of {quoted(candidate)} is already in {where}: give one of them another id or, "
        "if they are from two systems, name these in the column candidate"
    )
