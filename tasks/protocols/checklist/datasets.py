"""Datasets of checklists: prompts with their checks, and the images of each candidate."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import cast

from tasks.datasets.benchmark import PICTURE_ENDINGS, preferred, read_labels
from tasks.datasets.dataset import (
    Dataset,
    candidate_and_picture,
    make_dataset,
    met_before,
    require_picture,
    select_images,
)
from tasks.datasets.entries import id_fault
from tasks.datasets.geneval import Image, Images, absent_image
from tasks.datasets.paths import Folder, plain_name
from tasks.datasets.rows import LONGEST, Columns, Row, find_rows, json_object
from tasks.errors import InputError, Problems
from tasks.files import read_regular, real_place
from tasks.protocols.checklist.parameters import ChecklistParameters
from tasks.protocols.checklist.prompts import Broken, ChecklistPrompt, build_prompt, values_of
from tasks.protocols.checklist.published import PUBLISHED, Published, files_in, set_of
from tasks.records import PictureSource, Sample
from tasks.text import listed, natural, number_of, quoted, well_formed

MANIFEST = "manifest"
"""Form of our own files."""
COLUMNS = ("id", "prompt", "checks", "image")
"""Columns that some row of a manifest must have, the last one unless its images come from elsewhere."""
DRAFTED_BY, HUMAN = "drafted_by", "Human"
"""Column with the model that drafted the checks of a figure from its text, and the candidate that tried them first."""
DEEPEST = 4
"""Folders within each other that are searched for images."""
_NUMBERED = re.compile(r"(.+)[-_/][0-9]+", re.DOTALL)

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
    root = source if source.is_dir() else source.parent
    within = Folder(root, parameters.follow_links).within
    name, files = _files(source, parameters.format)
    if name == MANIFEST:
        prompts, images, warnings = _read_manifest(files[0], parameters, problems, broken)
    else:
        places = within if source.is_dir() else (real_place(source),)
        prompts = _read_published(PUBLISHED[name], files, places, problems, broken)
        _check_some(prompts, source, problems, broken)
        images, strange = _find_images(prompts, parameters, problems)
        licence = f"{PUBLISHED[name].name} comes under the licence of its authors: {PUBLISHED[name].licence}"
        warnings = [licence, *strange]
    _check_some(prompts, source, problems, broken)
    samples = list(_samples(prompts, images, parameters.instrument))
    require_picture(source, "image", samples)
    selected, missing = select_images(samples, parameters, read_labels(root, flow, within))
    tried = HUMAN in images and any(prompt.drafted_by for prompt in prompts.values())
    drafts = _draft_warnings(prompts, tried, parameters.judge.model)
    left_out = broken.in_words() if isinstance(broken, Broken) else ""
    warnings = [*warnings, *drafts, *_all_alike(prompts), *filter(None, [left_out]), *missing]
    key, series_key = (_checklists_key(prompts, parameters, checked, tried) for checked in (True, False))
    return make_dataset(source.name, key, selected, warnings, series_key)


def _check_some(prompts: Prompts, source: Path, problems: Problems, broken: Problems) -> None:
    """Raise InputError for a dataset with problems, or one without a prompt that can be read."""
    problems.stop(f"dataset {source.name}")
    if not prompts and isinstance(broken, Broken):
        raise InputError(f"dataset {source.name} has no prompt that can be read: {broken.in_words()}")


def _files(source: Path, asked: str) -> tuple[str, list[Path]]:
    """Return the form of a dataset and its files. Raises InputError if a folder holds no known file, or several."""
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


def _read_manifest(path: Path, parameters: ChecklistParameters, problems: Problems, broken: Problems) -> Found:
    """Read the images of all rows, by candidate in order of appearance.

    A row without `prompt_id` is a prompt of its own, named by its id, which other candidates share. A row without a
    candidate belongs to `parameters.candidate_name`, or else to the file's stem. Rows of one prompt must agree. With
    `parameters.images` these are judged in place of the images in the rows.
    """
    name, folder = parameters.candidate_name or path.stem, Folder(path.parent, parameters.follow_links)
    optional = ("candidate", "prompt_id", "category", DRAFTED_BY, *COLUMNS[-1:])
    columns = Columns(COLUMNS[:-1] if parameters.images else COLUMNS, optional)
    prompts, first_of_id = Prompts(), dict[str, tuple[str, str]]()
    met, images = dict[tuple[str, str], str](), dict[str, dict[str, list[Image]]]()
    for row in find_rows(path, problems, (real_place(path),)):
        if not columns.meet(row, problems):
            continue
        prompt = build_prompt([row], broken, _draw)
        elsewhere = (str(row.values.get("candidate")), PictureSource()) if parameters.images else None
        found = elsewhere or candidate_and_picture(row, "image", folder, name, broken)
        if not prompt or not found:
            continue
        candidate, sample_id = found[0], str(row.values["id"])
        if (before := met.setdefault((candidate, sample_id), row.where)) != row.where:
            problems.add(row.where, met_before(candidate, sample_id, before))
        if (other := first_of_id.setdefault(sample_id, (prompt.prompt_id, row.where)))[0] != prompt.prompt_id:
            problems.add(row.where, f"id {quoted(sample_id)} is an image of another prompt in {other[1]}")
        first = prompts.setdefault(prompt.prompt_id, prompt)
        for what in ("text", "checks", "category"):
            if getattr(first, what) != getattr(prompt, what):
                words = f"{what} of prompt {quoted(prompt.prompt_id)} differs from that in {first.where}"
                problems.add(row.where, words)
        image = Image(sample_id, found[1], row.place)
        images.setdefault(candidate, {}).setdefault(prompt.prompt_id, []).append(image)
    folder.check_named(problems)
    columns.check(path.name, problems)
    if not parameters.images:
        return prompts, images, []
    problems.stop(f"dataset {path.name}")
    return prompts, *_find_images(prompts, parameters, problems)


def _draw(rows: Sequence[Row]) -> ChecklistPrompt:
    values = rows[0].values
    prompt_id, category = values.get("prompt_id") or values.get("id"), cast(str, values.get("category") or "")
    if fault := id_fault(values.get("id")) or id_fault(prompt_id):
        raise fault
    drafted_by = cast(str, values.get(DRAFTED_BY) or "")
    return ChecklistPrompt(str(prompt_id), "prompt", values["checks"], category, drafted_by=drafted_by)


def _samples(prompts: Prompts, images: Images, instrument: str) -> Iterator[Sample]:
    """Yield the samples by candidate, then prompt, then image; a prompt without an image has one."""
    for candidate, its in images.items():
        for prompt in prompts.values():
            for image in its.get(prompt.prompt_id) or [absent_image(prompt.prompt_id, prompt.place, candidate)]:
                yield Sample(
                    sample_id=image.sample_id,
                    candidate=candidate,
                    tag=instrument,
                    prompt_id=prompt.prompt_id,
                    category=prompt.category,
                    record=image.record,
                    texts={"prompt": prompt.key},
                    pictures={"image": image.picture},
                    checks=prompt.checks,
                    notes=prompt.notes,
                )


def _all_alike(prompts: Prompts) -> Iterator[str]:
    """Yield a warning if a judge that always gives the same answer would be right."""
    checks = [check for prompt in prompts.values() for check in prompt.checks]
    if len(answers := {check.expected for check in checks}) == 1 and len(checks) > 1:
        answer = " or ".join(answers.pop())
        yield f"each of the {len(checks):,} checks expects {answer}: a judge that always says so would seem right"


def _checklists_key(prompts: Prompts, parameters: ChecklistParameters, checked: bool, tried: bool) -> str:
    """Return the SHA-256 (hex) over the prompts of a whole dataset, and the selection from it.

    Args:
        checked: with the checks of the prompts, or without, as in the key of a series.
        tried: the pictures chose the checks, so that nothing may be compared with them.
    """
    parts = sorted((each.prompt_id, each.text, [*map(values_of, each.checks)] * checked) for each in prompts.values())
    chosen = {"limit": parameters.limit or 0} | parameters.model_dump(include={"ids", "category"})
    chosen |= {"tried": True} if tried else {}
    return sha256(json.dumps([parts, chosen], sort_keys=True).encode()).hexdigest()


def _draft_warnings(prompts: Prompts, tried: bool, judge: str) -> Iterator[str]:
    """Yield sentences about checks that a model drafted.

    Args:
        tried: the pictures are the Human figures that chose among the checks.
    """
    drafted = [prompt for prompt in prompts.values() if prompt.drafted_by]
    if not drafted:
        return
    checks, confirmed = sum(len(prompt.checks) for prompt in drafted), sum(prompt.confirmed for prompt in drafted)
    yield f"a model drafted {checks:,} checks, people confirmed {confirmed:,} of them ({confirmed / checks:.0%})"
    if judge in {prompt.drafted_by for prompt in drafted}:
        yield f"{judge} drafted the checks that it answers: it may look for what it expects"
    if tried:
        yield (
            "the Human figures chose these checks, since those that they failed at first were dropped: their score is "
            "high by construction, and no other score can be compared with it"
        )


def _find_images(prompts: Prompts, parameters: ChecklistParameters, problems: Problems) -> tuple[Images, list[str]]:
    """Return candidate -> prompt id -> images, and a warning of those of no prompt.

    `parameters.images` is a folder of one candidate, a folder of such folders, or a map of one candidate.

    Raises:
        InputError: there is no image of any prompt.
    """
    path = Path(parameters.images).expanduser().absolute()
    if not parameters.images or not path.exists():
        found = f"images {path} does not exist" if parameters.images else "images is empty"
        raise InputError(f"{found}: name the folder of the images, or a file that maps prompts to them")
    named = {name: prompt_id for prompt_id, prompt in prompts.items() for name in (prompt.text, *prompt.names)}
    names = {plain_name(name): prompt_id for name, prompt_id in (named | {each: each for each in prompts}).items()}
    folder = Folder(path if path.is_dir() else path.parent, parameters.follow_links)
    found, strange = _in_folder(path, names) if path.is_dir() else _in_map(path, names, problems)
    if not found:
        sought = listed((quoted(f"{name}.png") for name in prompts), 3)
        there = f"found {listed(map(quoted, strange), 3)}, looked for names such as {sought}"
        raise InputError(f"images {path.name} has none of any prompt: {there}")
    if parameters.candidate_name and len(found) > 1:
        raise InputError(
            f"candidate_name can name one candidate, {path.name} holds several: {listed(found)}; choose among them "
            "with `candidate`"
        )
    images: dict[str, dict[str, list[Image]]] = {}
    for candidate, its in found.items():
        of_prompts = images.setdefault(parameters.candidate_name or candidate, defaultdict(list))
        for sample_id in sorted(its, key=natural):
            prompt_id, files = its[sample_id]
            try:
                picture = _picture(files, prompt_id, folder)
                of_prompts[prompt_id].append(Image(sample_id, picture, prompts[prompt_id].place))
            except InputError as error:
                problems.add(f"images of {candidate}, {sample_id}", error)
    folder.check_named(problems)
    many = f"{path.name} has {number_of(len(strange), 'image')} of no prompt of the dataset"
    return images, [f"{many}: {listed(map(quoted, strange), 5)}"] if strange else []


Files = dict[str, tuple[str, list[Path]]]
"""Sample id -> prompt id and files of the image."""


def _picture(files: list[Path], prompt_id: str, folder: Folder) -> PictureSource:
    kept = preferred(files)
    if len(kept) > 1:
        raise InputError(f"{listed(path.as_posix() for path in kept)} are files of one image: keep one")
    return folder.picture(str(kept[0]), prompt_id)


def _in_folder(root: Path, names: Mapping[str, str]) -> tuple[dict[str, Files], list[str]]:
    """Return the images of a folder or, if its own are no prompt's, of each folder in it; and the names of others.

    The images of a prompt are `<id>`, `<id>_<n>`, `<id>-<n>` or `<id>/<n>`, with any ending of a picture.
    """
    pictures = _pictures(root)
    found = {root.name: _matched(root, pictures, names)}
    if not any(found.values()):
        folders = defaultdict[str, list[Path]](list)
        for path in pictures:
            if path.parent != root:
                folders[path.relative_to(root).parts[0]].append(path)
        each = {well_formed(name): _matched(root / name, its, names) for name, its in folders.items()}
        found = {name: its for name, its in each.items() if its}
    taken = {path for its in found.values() for _, files in its.values() for path in files}
    return found, [path.relative_to(root).as_posix() for path in pictures if path not in taken]


def _matched(root: Path, pictures: Iterable[Path], names: Mapping[str, str]) -> Files:
    found: Files = {}
    for path in pictures:
        name = plain_name(path.relative_to(root).with_suffix("").as_posix())
        numbered = _NUMBERED.fullmatch(name)
        if prompt_id := names.get(name) or (names.get(numbered[1]) if numbered else None):
            found.setdefault(f"{prompt_id}/{plain_name(path.stem)}", (prompt_id, []))[1].append(path)
    return found


def _pictures(folder: Path) -> list[Path]:
    found = (path for depth in range(DEEPEST + 1) for path in folder.glob("*/" * depth + "*"))
    return sorted(path for path in found if path.suffix.lower() in PICTURE_ENDINGS and not path.is_dir())


def _in_map(path: Path, names: Mapping[str, str], problems: Problems) -> tuple[dict[str, Files], list[str]]:
    """Return the images in a JSON object of files, and the names of no prompt. Raises InputError for other files."""
    try:
        named = json_object(read_regular(path, LONGEST, (real_place(path),)))
    except InputError as error:
        raise InputError(f"images {path.name}: {error}") from error
    found: Files = {}
    for name, value in named.items():
        given = cast(list[object], value) if isinstance(value, list) else [value] if value else []
        files = [file for file in given if isinstance(file, str)]
        if len(files) < len(given):
            problems.add(path.name, f"{quoted(name)} must be the name of a file, or a list of names")
        stems, key = [Path(file).stem for file in files], plain_name(name)
        if len({*stems}) < len(stems) or any(map(id_fault, stems)):
            stems = [*map(str, range(len(files)))]
        for stem, file in zip(stems, files, strict=True) if key in names else ():
            found[f"{names[key]}/{stem}"] = (names[key], [Path(file)])
    return {path.stem: found} if found else {}, [name for name in named if plain_name(name) not in names]
