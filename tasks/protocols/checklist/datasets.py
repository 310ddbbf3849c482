"""Datasets of checklists: prompts with their checks, and the images of each candidate."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import cast

from pydantic import BaseModel, Field, StrictBool, StrictFloat, StrictInt, StrictStr, ValidationError, field_validator

from tasks.datasets.benchmark import read_labels
from tasks.datasets.dataset import (
    Dataset,
    candidate_and_picture,
    labelled,
    make_dataset,
    met_before,
    require_picture,
    select,
)
from tasks.datasets.entries import Entry, id_fault
from tasks.datasets.geneval import Image, Images, absent_image, gaps
from tasks.datasets.paths import Folder
from tasks.datasets.rows import Columns, Row, find_rows
from tasks.errors import InputError, Problems, first_fault
from tasks.files import real_place
from tasks.protocols.checklist.images import find_images
from tasks.protocols.checklist.prompts import Broken, ChecklistPrompt, as_number, build_prompt, values_of
from tasks.protocols.checklist.published import PUBLISHED, Published, files_in, set_of
from tasks.records import Check, PictureSource, Sample
from tasks.records.check import Form
from tasks.records.parameters import ChecklistParameters
from tasks.text import json_fault, kind, listed, quoted, well_formed

MANIFEST = "manifest"
"""Form of our own files."""
COLUMNS = ("id", "prompt", "checks", "image")
"""Columns that some row of a manifest must have, the last one unless its images come from elsewhere."""
DRAFTED_BY, HUMAN = "drafted_by", "Human"
"""Column with the model that drafted the checks of a figure from its text, and the candidate that tried them first."""


Prompts = dict[str, ChecklistPrompt]
"""All prompts by id, in their own order."""
Found = tuple[Prompts, Images, list[str]]
"""Prompts, the images of each candidate, and warnings."""


def read_checklists(source: Path, flow: str, parameters: ChecklistParameters) -> Dataset:
    """Read prompts with checks and the images of each candidate, before they are split into shards.

    Raises InputError that lists all problems, and OSError if the file system fails.
    """
    problems = Problems()
    broken = Broken() if parameters.skip_broken else problems
    name, files = _files(source, parameters.format)
    if name == MANIFEST:
        prompts, images, warnings = read_manifest(files[0], parameters, problems, broken)
    else:
        within = Folder(source, parameters.follow_links).within if source.is_dir() else (real_place(source),)
        prompts = _read_published(PUBLISHED[name], files, within, problems, broken)
        problems.stop(f"dataset {source.name}")
        images, strange = find_images(prompts, parameters, problems)
        licence = f"{PUBLISHED[name].name} comes under the licence of its authors: {PUBLISHED[name].licence}"
        warnings = [licence, *strange]
    problems.stop(f"dataset {source.name}")
    left_out = broken.warnings() if isinstance(broken, Broken) else ()
    entries = list(_entries(prompts, images, parameters.instrument))
    require_picture(source, "image", entries)
    root = source if source.is_dir() else source.parent
    labels = read_labels(root, flow, Folder(root, parameters.follow_links).within)
    selected = [labelled(entry, labels) for entry in select(entries, parameters)]
    judged = {(sample.candidate, sample.prompt_id) for sample, *_ in selected}
    missing = gaps([sample for sample, *_ in entries if (sample.candidate, sample.prompt_id) in judged])
    drafts = _draft_warnings(prompts, images, parameters.judge.model)
    warnings = [*warnings, *drafts, *_all_alike(prompts), *left_out, *missing]
    tried = _are_tried(prompts, images)
    key, series_key = (checklists_key(prompts, parameters, checked, tried) for checked in (True, False))
    return make_dataset(source.name, key, selected, warnings, series_key)


def _files(source: Path, asked: str) -> tuple[str, list[Path]]:
    """Return the form of a dataset and its files.

    Raises:
        InputError: a folder holds no known file, or several of which one must be chosen.
    """
    if source.is_file():
        return asked or set_of(source) or MANIFEST, [source]
    names = [asked] if asked else [*PUBLISHED, MANIFEST]
    found = [(name, files) for name in names if (files := files_in(source, name))]
    if len(found) == 1 and (len(found[0][1]) == 1 or found[0][0] == "corebench"):
        return found[0]
    if not found:
        known = listed([*(each.file for each in PUBLISHED.values()), "manifest.jsonl"])
        raise InputError(f"dataset {source} holds no checklists; looked for {known}: name the file")
    several = listed(path.relative_to(source).as_posix() for _, files in found for path in files)
    raise InputError(f"dataset {source} holds several lists of prompts, {several}: name one of these files")


def _read_published(
    published: Published, files: Sequence[Path], within: tuple[str, ...], problems: Problems, broken: Problems
) -> Prompts:
    prompts: Prompts = {}
    for path in files:
        for rows in published.rows(path, within, broken):
            prompt = build_prompt(rows, broken, published.draw)
            if prompt and (same := prompts.setdefault(prompt.prompt_id, prompt)) is not prompt:
                problems.add(prompt.where, f"prompt {quoted(prompt.prompt_id)} is already in {same.where}")
    return prompts


def _all_alike(prompts: Prompts) -> Iterator[str]:
    """Yield a warning if a judge that always gives the same answer would be right."""
    checks = [check for prompt in prompts.values() for check in prompt.checks]
    if len(answers := {check.expected for check in checks}) == 1 and len(checks) > 1:
        answer = " or ".join(answers.pop())
        yield f"each of the {len(checks):,} checks expects {answer}: a judge that always says so would seem right"


def checklists_key(prompts: Prompts, parameters: ChecklistParameters, checked: bool, tried: bool) -> str:
    """Return the SHA-256 (hex) over the prompts of a whole dataset, and the selection from it.

    Args:
        checked: with the checks of the prompts, or without, as in the key of a series.
        tried: the pictures chose the checks, so that nothing may be compared with them.
    """
    parts = sorted(
        (each.prompt_id, each.text, [values_of(check) for check in each.checks] if checked else [])
        for each in prompts.values()
    )
    chosen = {"limit": parameters.limit or 0} | parameters.model_dump(include={"ids", "category"})
    chosen |= {"tried": True} if tried else {}
    return sha256(json.dumps([parts, chosen], sort_keys=True).encode()).hexdigest()


def _entries(prompts: Prompts, images: Images, instrument: str) -> Iterator[Entry]:
    """Yield the entries by candidate, then prompt, then image; a prompt without an image has one."""
    for candidate, its in images.items():
        for prompt in prompts.values():
            text_sha256 = sha256(prompt.text.encode()).hexdigest()
            for image in its.get(prompt.prompt_id) or [absent_image(prompt.prompt_id, prompt.place, candidate)]:
                sample = Sample(
                    sample_id=image.sample_id,
                    candidate=candidate,
                    tag=instrument,
                    prompt_id=prompt.prompt_id,
                    category=prompt.category,
                    record=image.record,
                    texts={"prompt": prompt.key},
                    pictures={"image": image.picture},
                    checks=tuple(prompt.checks),
                    notes=prompt.notes,
                )
                yield Entry(sample, text_sha256, "")


def read_manifest(path: Path, parameters: ChecklistParameters, problems: Problems, broken: Problems) -> Found:
    """Read the images of all rows, by candidate in order of appearance.

    A row without `prompt_id` is a prompt of its own, named by its id, which other candidates share. A row without a
    candidate belongs to `parameters.candidate_name`, or else to the file's stem. Rows of one prompt must agree. With
    `parameters.images` these are judged in place of the images in the rows.
    """
    name, folder = parameters.candidate_name or path.stem, Folder(path.parent, parameters.follow_links)
    optional = ("candidate", "prompt_id", "category", DRAFTED_BY, *COLUMNS[-1:])
    columns = Columns(COLUMNS[:-1] if parameters.images else COLUMNS, optional)
    prompts, first_of_id = dict[str, ChecklistPrompt](), dict[str, ChecklistPrompt]()
    met, images = dict[tuple[str, str], str](), dict[str, dict[str, list[Image]]]()
    for row in find_rows(path, problems, (real_place(path),)):
        if not columns.meet(row, problems):
            continue
        prompt = build_prompt([row], broken, _draw)
        elsewhere = (name, PictureSource()) if parameters.images else None
        found = elsewhere or candidate_and_picture(row, "image", folder, name, broken)
        if not prompt or not found:
            continue
        candidate, sample_id = well_formed(found[0]), str(row.values["id"])
        if (before := met.setdefault((candidate, sample_id), row.where)) != row.where:
            problems.add(row.where, met_before(candidate, sample_id, before))
        if (other := first_of_id.setdefault(sample_id, prompt)).prompt_id != prompt.prompt_id:
            problems.add(row.where, f"id {quoted(sample_id)} is an image of another prompt in {other.where}")
        first = prompts.setdefault(prompt.prompt_id, prompt)
        for what in ("text", "checks", "category"):
            if getattr(first, what) != getattr(prompt, what):
                problems.add(
                    row.where, f"{what} of prompt {quoted(prompt.prompt_id)} differs from that in {first.where}"
                )
        image = Image(sample_id, found[1], row.place)
        images.setdefault(candidate, {}).setdefault(prompt.prompt_id, []).append(image)
    folder.check_named(problems)
    columns.check(path.name, problems)
    if parameters.images:
        problems.stop(f"dataset {path.name}")
        return prompts, *find_images(prompts, parameters, problems)
    return prompts, images, []


def _are_tried(prompts: Prompts, images: Images) -> bool:
    """Return whether the pictures are the Human figures that chose among drafted checks."""
    return HUMAN in images and any(prompt.drafted_by for prompt in prompts.values())


def _draft_warnings(prompts: Prompts, images: Images, judge: str) -> Iterator[str]:
    """Yield sentences about checks that a model drafted."""
    drafted = [prompt for prompt in prompts.values() if prompt.drafted_by]
    if not drafted:
        return
    checks, confirmed = sum(len(prompt.checks) for prompt in drafted), sum(prompt.confirmed for prompt in drafted)
    yield f"a model drafted {checks:,} checks, people confirmed {confirmed:,} of them ({confirmed / checks:.0%})"
    if judge in {prompt.drafted_by for prompt in drafted}:
        yield f"{judge} drafted the checks that it answers: it may look for what it expects"
    if _are_tried(prompts, images):
        yield (
            "the Human figures chose these checks, since those that they failed at first were dropped: their score is "
            "high by construction, and no other score can be compared with it"
        )


def _draw(rows: Sequence[Row]) -> ChecklistPrompt:
    values = rows[0].values
    prompt_id, category = values.get("prompt_id") or values.get("id"), cast(str, values.get("category") or "")
    if fault := id_fault(values.get("id")) or id_fault(prompt_id):
        raise fault
    written, drafted_by = _written_checks(values["checks"]), cast(str, values.get(DRAFTED_BY) or "")
    return ChecklistPrompt(
        prompt_id=str(prompt_id),
        key="prompt",
        checks=[each.check() for each in written],
        category=category,
        drafted_by=drafted_by,
        confirmed=sum(each.confirmed for each in written),
    )


class _WrittenCheck(BaseModel, extra="forbid"):
    """A check as a manifest has it."""

    id: StrictStr = Field(min_length=1)
    question: StrictStr
    expected: tuple[str, ...]
    form: Form = "yes_no"
    options: dict[str, StrictStr] = {}
    group: StrictStr = ""
    parents: tuple[StrictStr, ...] = ()
    weight: StrictInt | StrictFloat = 1.0
    absence: StrictBool | None = None
    confirmed: StrictBool = False
    """True once a person agrees with a check that a model drafted; only counted."""

    @field_validator("expected", mode="before")
    @classmethod
    def _texts(cls, value: object) -> tuple[str, ...]:
        answers = cast(list[object], value) if isinstance(value, list) else [value]
        if any(isinstance(answer, bool) or not isinstance(answer, str | int | float) for answer in answers):
            raise ValueError("must be text, a number or a list of these")
        return tuple(f"{answer:g}" if isinstance(answer, float) else str(answer).strip() for answer in answers)

    def check(self) -> Check:
        expected = tuple(map(str.casefold, self.expected)) if self.form == "yes_no" else self.expected
        absence = {*expected} == {"no"} or all(as_number(answer) == 0 for answer in expected)
        return Check(
            check_id=self.id,
            question=self.question,
            expected=expected,
            form=self.form,
            options=tuple(sorted(self.options.items())),
            group=self.group,
            parents=self.parents,
            weight=float(self.weight),
            absence=absence if self.absence is None else self.absence,
        )


def read_checks(value: object) -> tuple[Check, ...]:
    """Return the checks in a manifest's column, a list of objects or its JSON text.

    Without `absence`, a check that expects no or 0 alone has it.

    Raises:
        ValueError: a check cannot be read; names the check and the reason.
    """
    return tuple(each.check() for each in _written_checks(value))


def _written_checks(value: object) -> list[_WrittenCheck]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except json.JSONDecodeError as error:
            raise ValueError(f"'checks' is no JSON: {json_fault(error)}") from error
        except RecursionError as error:
            raise ValueError("'checks' is nested too deeply") from error
    if not isinstance(value, list):
        raise ValueError(f"'checks' is {kind(value)}, must be a list of objects")
    found: list[_WrittenCheck] = []
    for number, written in enumerate(cast(list[object], value), 1):
        try:
            if isinstance(written, dict):  # Parquet cannot leave out a key: it has null there
                written = {key: each for key, each in cast(dict[str, object], written).items() if each is not None}
            found.append(_WrittenCheck.model_validate(written))
        except ValidationError as error:
            raise ValueError(f"check {number}: {first_fault(error)}") from error
    return found


def written_check(check: Check) -> dict[str, object]:
    """Return a check as a manifest has it."""
    fields = asdict(check)
    return {"id": fields.pop("check_id"), **fields, "options": dict(check.options)}
