"""Text-to-image prompts with the images of each candidate, also from GenEval's folders, and missing images."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

from pydantic import BaseModel, Field, StrictInt, TypeAdapter, ValidationError

from tasks.datasets.benchmark import PICTURE_ENDINGS, preferred
from tasks.datasets.entries import clean_text, links_note, text_fault
from tasks.datasets.paths import NO_PICTURE, Folder, is_allowed
from tasks.datasets.rows import LONGEST, Row, find_rows, json_object
from tasks.errors import InputError, Problems, first_fault
from tasks.files import read_regular, real_place
from tasks.records import PictureSource, Place, Requirement, Sample
from tasks.records.parameters import T2I, RubricParameters
from tasks.rubrics.rubric import tags_of
from tasks.text import listed, well_formed

_TEXTS = {"prompt": "prompt"}
NONE = "none"
"""Image name in the sample id of a prompt without images."""


class Asked(NamedTuple):
    """A prompt, its place in a file, and the objects that it asks for."""

    where: str
    """File and row, for messages."""
    place: Place
    tag: str
    prompt: str
    """Prompt text as the judge reads it."""
    required: tuple[Requirement, ...]
    excluded: tuple[Requirement, ...]
    notes: tuple[str, ...]


class _Excluded(BaseModel, extra="forbid"):
    """An entry of `exclude`; GenEval uses no other keys there."""

    name: str = Field(alias="class", min_length=1)
    count: StrictInt = Field(ge=1)


class _Included(_Excluded):
    """An entry of `include`. Null means an absent key."""

    color: str | None = None
    position: tuple[Literal["left of", "right of", "above", "below"], StrictInt] | None = None
    """Relation to another entry of `include`, and its index there, from 0."""

    def requirement(self) -> Requirement:
        relation, target = self.position or ("", None)
        return Requirement(name=self.name, count=self.count, color=self.color or "", relation=relation, target=target)


_Entry = TypeVar("_Entry", bound=_Excluded)
_INCLUDE = TypeAdapter(list[_Included])
_EXCLUDE = TypeAdapter(list[_Excluded])


class Image(NamedTuple):
    """One image of a prompt."""

    sample_id: str
    picture: PictureSource
    record: Place
    """Row that contains the text of the prompt."""
    note: str = ""
    """Note for the user; empty: none."""


class Generated(NamedTuple):
    """Contents of a text-to-image dataset."""

    samples: list[Sample]
    """Samples of all tags, by candidate, then prompt, then image."""
    prompts: Mapping[str, Asked]
    """All expected prompts by id, in their own order."""
    warnings: list[str]
    """Warnings about the whole dataset, one sentence each."""


Images = Mapping[str, Mapping[str, Sequence[Image]]]
"""Candidate -> prompt id -> its images."""


def covered(asked: Mapping[str, Asked], images: Images, prompt_set: str) -> Generated:
    """Combine the prompts (by id) with the images of each candidate; warn of tags that no flow judges.

    If a candidate has no image of a prompt, it gets one sample, `<prompt_id>/none`, whose picture has that problem.

    Args:
        prompt_set: defines the tags of the flows.
    """
    samples = [
        _sample(image, prompt_id, prompt, candidate)
        for candidate, its in images.items()
        for prompt_id, prompt in asked.items()
        for image in its.get(prompt_id) or [absent_image(prompt_id, prompt.place, candidate)]
    ]
    return Generated(samples, asked, list(_unknown_tags(asked, prompt_set)))


def gaps(samples: Sequence[Sample]) -> list[str]:
    """Return a sentence for each candidate that has no image of some prompts of these samples."""
    prompts: defaultdict[str, set[str]] = defaultdict(set)
    absent: defaultdict[str, list[str]] = defaultdict(list)
    for sample in samples:
        prompts[sample.candidate].add(sample.prompt_id)
        if sample.sample_id == f"{sample.prompt_id}/{NONE}":  # no other sample has such an id
            absent[sample.candidate].append(sample.prompt_id if sample.checks else f"{sample.prompt_id} ({sample.tag})")
    return [
        f"{len(missing)} of {len(prompts[candidate])} prompts {'have' if len(missing) > 1 else 'has'} no image of "
        f"{candidate}: {listed(missing)}"
        for candidate, missing in absent.items()
    ]


def _sample(image: Image, prompt_id: str, asked: Asked, candidate: str) -> Sample:
    return Sample(
        sample_id=image.sample_id,
        candidate=candidate,
        tag=asked.tag,
        prompt_id=prompt_id,
        record=image.record,
        texts=_TEXTS,
        pictures={"image": image.picture},
        required=asked.required,
        excluded=asked.excluded,
        notes=(*asked.notes, *filter(None, [image.note])),
    )


def absent_image(prompt_id: str, record: Place, candidate: str) -> Image:
    """Return what stands for the images of a prompt that a candidate has none of."""
    problem = f"{NO_PICTURE}{candidate} has no image of prompt {prompt_id}"
    return Image(f"{prompt_id}/{NONE}", PictureSource(problem=problem), record)


def _unknown_tags(asked: Mapping[str, Asked], prompt_set: str) -> Iterator[str]:
    known = {tag for flow in T2I for tag in tags_of(flow, prompt_set)}
    unknown = Counter(prompt.tag for prompt in asked.values() if prompt.tag not in known)
    if unknown:
        found = listed(f"{tag} ({number} prompt{'s' * (number > 1)})" for tag, number in unknown.items())
        yield f"tags not judged by any flow: {found}"


def read_asked(row: Row, problems: Problems) -> Asked | None:
    """Read the prompt of a row with `tag`, `prompt` and optional `include` and `exclude`; None if it has problems.

    `include` and `exclude` are lists, or the JSON text of a list. Each problem names the value found.
    """
    faults = [fault for key in ("tag", "prompt") if (fault := text_fault(row.values, key))]
    included = _entries(row.values, "include", _INCLUDE, faults)
    excluded = _entries(row.values, "exclude", _EXCLUDE, faults)
    faults += _target_faults(included)
    for fault in faults:
        problems.add(row.where, fault)
    if faults:
        return None
    prompt, links = clean_text(row.values["prompt"])
    return Asked(
        where=row.where,
        place=row.place,
        tag=str(row.values["tag"]),
        prompt=prompt,
        required=tuple(entry.requirement() for entry in included),
        excluded=tuple(Requirement(name=entry.name, count=entry.count) for entry in excluded),
        notes=links_note(links, "prompt"),
    )


def _entries(
    values: Mapping[str, object], key: str, adapter: TypeAdapter[list[_Entry]], faults: list[str]
) -> list[_Entry]:
    """Return the entries of one of the two lists; if it is malformed, return none and add the reason to `faults`."""
    value = values.get(key)
    if value in (None, ""):
        return []
    try:
        return adapter.validate_json(value) if isinstance(value, str) else adapter.validate_python(value)
    except ValidationError as error:
        faults.append(f"{key}: {first_fault(error)}")
    return []


def _target_faults(included: list[_Included]) -> Iterator[str]:
    for number, entry in enumerate(included):
        target = entry.position[1] if entry.position else None
        if target is not None and (target == number or target not in range(len(included))):
            yield f"include: {number}.position: points to entry {target}, must be another of {len(included)} from 0"


LIST = "evaluation_metadata.jsonl"
"""GenEval's list of prompts: the line number of a prompt, from 0, is the number of its folder."""
OWN = "metadata.jsonl"
"""File with the row of a prompt, in its own folder."""
SAMPLES = "samples"
NO_LIST = f"no {LIST} in the dataset or beside it: a prompt without any folder goes unnoticed"


class _PromptFolder(NamedTuple):
    """Folder of one prompt and one candidate."""

    candidate: str
    prompt_id: str
    path: Path
    where: str
    """Path in the dataset."""


def read_geneval(source: Path, parameters: RubricParameters, problems: Problems) -> Generated:
    """Read the images of each candidate, for the prompts of the list or, without a list, for those with a folder.

    `source` is one candidate's folder of prompt folders, or contains several of them. The list is
    `parameters.metadata`, or `evaluation_metadata.jsonl` in `source` or beside it. Raises InputError if images and
    prompts cannot be matched, and for a list with problems, since all images compared with it would seem wrong.
    """
    roots = _candidates(source, parameters.candidate_name)
    path, dataset = _list_path(source, parameters.metadata), Folder(source, parameters.follow_links)
    prompts = _read_list(path, _list_places(path, parameters, dataset), problems) if path else {}
    folders = [folder for name, root in roots.items() for folder in _prompt_folders(name, root, source, problems)]
    asked = _settled(folders, prompts, dataset, problems)
    images: dict[str, dict[str, list[Image]]] = {candidate: {} for candidate in roots}
    for folder in folders:
        if prompt := asked.get(folder.prompt_id):
            images[folder.candidate][folder.prompt_id] = list(_images(folder, prompt.place, dataset, problems))
    if asked and not any(any(of_prompts.values()) for of_prompts in images.values()):
        problems.add(source.name, f"holds no image: they are {SAMPLES}/0000.png, 0001.png (or .jpg …) in each folder")
    found = covered(asked, images, parameters.prompt_set)
    return found if path else found._replace(warnings=[NO_LIST, *found.warnings])


def _candidates(source: Path, name: str) -> dict[str, Path]:
    """Return name -> folder of prompt folders, sorted by name."""
    if _holds_prompts(source):
        return {name or source.name: source}
    found = {
        well_formed(path.name): path for path in sorted(source.iterdir()) if path.is_dir() and _holds_prompts(path)
    }
    if not found:
        raise InputError(
            f"dataset {source} holds no GenEval images: neither it nor a folder in it has folders 00000, 00001, …, "
            f"with {OWN} and {SAMPLES}/"
        )
    if name and len(found) > 1:
        raise InputError(
            f"candidate_name {name!r} can name one candidate, {source} holds several: {listed(found)}; choose among "
            "them with `candidate`"
        )
    return {name: next(iter(found.values()))} if name else found


def _holds_prompts(folder: Path) -> bool:
    """Return whether a folder contains prompt folders. A name of digits alone may be the date of a candidate."""
    return any((path / OWN).is_file() or (path / SAMPLES).is_dir() for path in _numbered(folder.iterdir()))


def _list_path(source: Path, metadata: str) -> Path | None:
    if metadata:
        path = Path(metadata).expanduser().absolute()
        if not path.exists():
            raise InputError(f"metadata {path} does not exist; it is GenEval's {LIST}")
        if not path.is_file():
            raise InputError(f"metadata {path} is not a file; it must be GenEval's {LIST}")
        return path
    folders = [folder for folder in (source, source.parent) if folder == source or is_allowed(str(folder))]
    return next((folder / LIST for folder in folders if (folder / LIST).is_file()), None)


def _list_places(path: Path, parameters: RubricParameters, dataset: Folder) -> tuple[str, ...]:
    """Return the places where the list may be: a named file may be a link to anywhere, a found one may not."""
    if parameters.metadata:
        return (real_place(path),)
    found = dataset if path.parent.resolve() == dataset.root else Folder(path.parent, parameters.follow_links)
    found.check(path)
    return found.within


def _read_list(path: Path, within: tuple[str, ...], problems: Problems) -> dict[str, Asked]:
    """Return prompt id -> row of the list; never empty."""
    rows = [read_asked(row, problems) for row in find_rows(path, problems, within)]
    problems.stop(f"metadata {path}")
    return {_prompt_id(number): row for number, row in enumerate(rows) if row}


def _prompt_folders(candidate: str, root: Path, source: Path, problems: Problems) -> list[_PromptFolder]:
    """Return one folder for each number; a second one with the same number is a problem."""
    found: dict[str, _PromptFolder] = {}
    for path in sorted(_numbered(root.iterdir())):
        folder = _PromptFolder(candidate, _prompt_id(int(path.name)), path, path.relative_to(source).as_posix())
        first = found.setdefault(folder.prompt_id, folder)
        if first is not folder:
            problems.add(folder.where, f"has the same number as {first.where}: keep one")
    return list(found.values())


def _settled(
    folders: Iterable[_PromptFolder], prompts: dict[str, Asked], dataset: Folder, problems: Problems
) -> dict[str, Asked]:
    """Return prompt id -> row of the list or, without a list, of the first folder; other rows must agree."""
    asked = dict(prompts)
    for folder in folders:
        own = _own_prompt(folder, bool(prompts), dataset, problems)
        if prompts and folder.prompt_id not in prompts:
            problems.add(folder.where, f"is beyond the list, which has {len(prompts)} prompts from {_prompt_id(0)}")
        elif own:
            _compare(own, asked.setdefault(folder.prompt_id, own), problems)
    return dict(sorted(asked.items(), key=lambda item: int(item[0])))


def _own_prompt(folder: _PromptFolder, optional: bool, dataset: Folder, problems: Problems) -> Asked | None:
    """Read the one row of the folder's own metadata.jsonl; None if the file is absent or has problems."""
    path, where = folder.path / OWN, f"{folder.where}/{OWN}"
    if not path.is_file():
        if not optional:
            problems.add(folder.where, f"has no {OWN}, and there is no {LIST} with its prompt")
        return None
    try:
        dataset.check(path)
    except InputError as error:
        problems.add(where, error)
        return None
    try:
        raw = read_regular(path, LONGEST, dataset.within)
        values = json_object(raw)
    except InputError as error:
        problems.add(where, f"must hold exactly one row: {error}")
        return None
    return read_asked(Row(where, Place(path=str(path), length=len(raw), within=dataset.within), values), problems)


def _compare(own: Asked, known: Asked, problems: Problems) -> None:
    for key, found, expected in (("tag", own.tag, known.tag), ("prompt", own.prompt, known.prompt)):
        if found != expected:
            problems.add(own.where, f"{key!r} is {found!r}, in {known.where} it is {expected!r}")


def _images(folder: _PromptFolder, prompt: Place, dataset: Folder, problems: Problems) -> Iterator[Image]:
    note = "" if (folder.path / OWN).is_file() else f"{folder.candidate} has no {OWN}: the list's prompt is taken"
    for path in _numbered_images(folder, problems):
        try:
            picture = dataset.at(path)
        except InputError as error:
            problems.add(f"{folder.where}/{SAMPLES}", error)
            continue
        yield Image(f"{folder.prompt_id}/{path.stem}", picture, prompt, note)


def _numbered_images(folder: _PromptFolder, problems: Problems) -> list[Path]:
    """Return the images of a folder by number; two with the same number are a problem."""
    samples = folder.path / SAMPLES
    found: defaultdict[int, list[Path]] = defaultdict(list)
    for path in sorted(_pictures(samples)) if samples.is_dir() else ():
        found[int(path.stem)].append(path)
    for number, paths in found.items():
        found[number] = preferred(paths)
        for path in found[number][1:]:
            first = found[number][0].name
            problems.add(f"{folder.where}/{SAMPLES}", f"{path.name} has the same number as {first}: keep one")
    return [paths[0] for _, paths in sorted(found.items())]


def _pictures(samples: Path) -> Iterator[Path]:
    for path in samples.iterdir():
        if _is_number(path.stem) and path.suffix.lower() in PICTURE_ENDINGS and (path.is_file() or path.is_symlink()):
            yield path


def _numbered(paths: Iterable[Path]) -> Iterator[Path]:
    return (path for path in paths if _is_number(path.name) and path.is_dir())


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit()


def _prompt_id(number: int) -> str:
    """Return the number in the form of GenEval's folder names."""
    return f"{number:05}"
