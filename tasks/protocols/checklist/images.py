"""Images of published prompts: folders of candidates, or a file that maps prompts to images."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import cast

from tasks.datasets.benchmark import PICTURE_ENDINGS, preferred
from tasks.datasets.entries import id_fault
from tasks.datasets.geneval import Image
from tasks.datasets.paths import Folder
from tasks.datasets.rows import LONGEST, find_rows, json_object
from tasks.errors import InputError, Problems
from tasks.files import read_regular, real_place
from tasks.protocols.checklist.prompts import ChecklistPrompt
from tasks.records import PictureSource
from tasks.records.parameters import ChecklistParameters
from tasks.text import listed, natural, number_of, quoted

DEEPEST = 4
"""Folders within each other that are searched for images."""
_NUMBERED = re.compile(r"(.+)[-_/][0-9]+", re.DOTALL)

Images = dict[str, dict[str, list[Image]]]


def find_images(
    prompts: Mapping[str, ChecklistPrompt], parameters: ChecklistParameters, problems: Problems
) -> tuple[Images, list[str]]:
    """Return candidate -> prompt id -> images, and a warning of those of no prompt.

    `parameters.images` is a folder of one candidate, a folder of such folders, or a map of one candidate.

    Raises:
        InputError: there is no image of any prompt.
    """
    path = Path(parameters.images).expanduser().absolute()
    if not parameters.images or not path.exists():
        found = f"images {path} does not exist" if parameters.images else "images is empty"
        raise InputError(f"{found}: name the folder of the images, or a file that maps prompts to them")
    names = {name: prompt_id for prompt_id, prompt in prompts.items() for name in (prompt.text, *prompt.names)}
    names |= {prompt_id: prompt_id for prompt_id in prompts}
    folder = Folder(path if path.is_dir() else path.parent, parameters.follow_links)
    found, strange = _in_folder(path, names) if path.is_dir() else _in_map(path, names, problems)
    if not found:
        sought = listed((quoted(f"{name}.png") for name in prompts), 3)
        there = f"found {listed(map(quoted, strange), 3)}, looked for names such as {sought}"
        raise InputError(f"images {path.name} has none of any prompt: {there}")
    if parameters.candidate_name and len(found) > 1:
        raise InputError(f"candidate_name can name one candidate, {path.name} holds several: {listed(found)}")
    images: Images = {}
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


Found = dict[str, tuple[str, list[Path]]]
"""Sample id -> prompt id and files of the image."""


def _picture(files: list[Path], prompt_id: str, folder: Folder) -> PictureSource:
    kept = preferred(files)
    if len(kept) > 1:
        raise InputError(f"{listed(path.as_posix() for path in kept)} are files of one image: keep one")
    return folder.picture(str(kept[0]), prompt_id)


def _in_folder(root: Path, names: Mapping[str, str]) -> tuple[dict[str, Found], list[str]]:
    """Return the images of a folder or, if its own are no prompt's, of each folder in it; and the names of others.

    The images of a prompt are `<id>`, `<id>_<n>`, `<id>-<n>` or `<id>/<n>`, with any ending of a picture.
    """
    pictures = list(_pictures(root))
    found = {root.name: _matched(root, pictures, names)}
    if not any(found.values()):
        folders = sorted({root / path.relative_to(root).parts[0] for path in pictures})
        each = {path.name: _matched(path, (one for one in pictures if path in one.parents), names) for path in folders}
        found = {name: its for name, its in each.items() if its}
    taken = {path for its in found.values() for _, files in its.values() for path in files}
    return found, [path.relative_to(root).as_posix() for path in pictures if path not in taken]


def _matched(root: Path, pictures: Iterable[Path], names: Mapping[str, str]) -> Found:
    found: Found = {}
    for path in pictures:
        name = path.relative_to(root).with_suffix("").as_posix()
        numbered = _NUMBERED.fullmatch(name)
        if prompt_id := names.get(name) or (names.get(numbered[1]) if numbered else None):
            found.setdefault(f"{prompt_id}/{path.stem}", (prompt_id, []))[1].append(path)
    return found


def _pictures(folder: Path, depth: int = DEEPEST) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in PICTURE_ENDINGS and not path.is_dir():
            yield path
        elif depth and path.is_dir():
            yield from _pictures(path, depth - 1)


def _in_map(path: Path, names: Mapping[str, str], problems: Problems) -> tuple[dict[str, Found], list[str]]:
    """Return the images in a JSON object of files or in a generator's records, and the names of no prompt."""
    found: Found = {}
    read = _records if path.suffix.lower() in (".jsonl", ".ndjson") else _members
    named = read(path, problems)
    for name, files in named.items():
        stems = [Path(file).stem for file in files]
        for number, file in enumerate(files if name in names else ()):
            fits = stems.count(stems[number]) == 1 and not id_fault(stems[number])
            stem = stems[number] if fits else str(number)
            found[f"{names[name]}/{stem}"] = (names[name], [Path(file)])
    return {path.stem: found} if found else {}, [name for name in named if name not in names]


def _members(path: Path, problems: Problems) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in json_object(read_regular(path, LONGEST, (real_place(path),))).items():
        files = cast(list[object], value) if isinstance(value, list) else [value] if value else []
        found[name] = [file for file in files if isinstance(file, str)]
        if len(found[name]) < len(files):
            problems.add(path.name, f"{quoted(name)} must be the name of a file, or a list of names")
    return found


def _records(path: Path, problems: Problems) -> dict[str, list[str]]:
    """Return the files in records as AIBench's generator writes them: the last success counts."""
    rows = find_rows(path, problems, (real_place(path),))
    done = (row.values for row in rows if row.values.get("status") == "success" and row.values.get("image_path"))
    return {str(values.get("prompt_id")): str(values["image_path"]).split(";") for values in done}
