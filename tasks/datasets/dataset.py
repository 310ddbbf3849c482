"""Datasets: the samples to judge, from manifests or folders, checked before the first call."""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from tasks.datasets.benchmark import read_benchmark, read_labels
from tasks.datasets.entries import Layout, Loaded, id_fault, picture_in, picture_sha256, read_figure, uncut
from tasks.datasets.geneval import Asked, Generated, Image, covered, gaps, read_asked, read_geneval
from tasks.datasets.paths import NO_PICTURE, Folder, dataset_root
from tasks.datasets.rows import Columns, Row, find_rows
from tasks.errors import Habitual, InputError, Problems
from tasks.files import real_place
from tasks.records import PictureSource, Record, Sample
from tasks.records.parameters import PAIRWISE, PairwiseParameters, Parameters, RubricParameters
from tasks.rubrics.rubric import tags_of
from tasks.text import cut, kind, listed, natural, quoted, well_formed

LAYOUT = Layout({"context": "context", "caption": "caption"}, human="human_image")
FIGURES = ("id", "task", "context", "caption", "human_image", "model_image")
IMAGES = ("id", "tag", "prompt", "image")
"""Columns that some row of each kind of manifest must have."""


def read_figure_manifest(path: Path, flow: str, parameters: PairwiseParameters, problems: Problems) -> Loaded:
    """Read the rows of this flow in order; candidates are in the order of their first rows.

    A row without a candidate belongs to `parameters.candidate_name`, or else to the file's stem. Problems are unknown
    columns, required columns that no row has, unknown tasks, and ids repeated for one candidate or used for two
    figures.

    Raises:
        InputError: `results`, `images` or `stage` is given, too; or the file is the list of a PaperBananaBench folder.
    """
    if (path.parent.name, path.name) == (flow, f"{parameters.split}.json"):
        raise InputError(
            f"dataset {path} is the list of a PaperBananaBench folder, and no manifest: give the folder that holds it, "
            f"{path.parent}, and the Model figures as `results` or `images`"
        )
    if parameters.results or parameters.images or parameters.stage:
        raise InputError(f"manifest {path.name} names the Model figures itself: give no `results`, `images` or `stage`")
    name, folder = parameters.candidate_name or path.stem, Folder(path.parent, parameters.follow_links)
    columns = Columns(FIGURES, ("candidate", "category", "difficulty"))
    keep_links, tasks = uncut(parameters), set[str]()
    met: dict[str, dict[str, tuple[Sample, str]]] = {}
    for row in find_rows(path, problems, (real_place(path),)):
        if not columns.meet(row, problems):
            continue
        task = str(row.values.get("task", ""))
        if task not in PAIRWISE:
            found = f"task is {quoted(task)}" if "task" in row.values else "key 'task' is missing"
            problems.add(row.where, Habitual(f"{found}, allowed are {' and '.join(PAIRWISE)}", f"task {task}"))
        tasks.add(task)
        sample = _figure(row, flow, name, folder, keep_links, problems) if task == flow else None
        if sample:
            _, first = met.setdefault(sample.candidate, {}).setdefault(sample.sample_id, (sample, row.where))
            if first != row.where:
                problems.add(row.where, met_before(sample.candidate, sample.sample_id, first))
    _check_alike(met.values(), problems)
    folder.check_named(problems)
    if columns.check(path.name, problems) and tasks and flow not in tasks:
        problems.add(path.name, f"has no row of task {flow!r}, its tasks are {listed(sorted(tasks))}")
    return Loaded([sample for its in met.values() for sample, _ in its.values()], [])


def _check_alike(met: Iterable[Mapping[str, tuple[Sample, str]]], problems: Problems) -> None:
    """Check that an id is one figure for all candidates, because these are compared on it."""
    first: dict[str, tuple[Sample, str]] = {}
    for its in met:
        for sample_id, (sample, where) in its.items():
            one, named = first.setdefault(sample_id, (sample, where))
            if sample.texts_key != one.texts_key or _human(sample) != _human(one):
                what = f"id {quoted(sample_id)} has another text or Human picture than in {named}"
                problems.add(where, f"{what}: give different figures different ids")


def _human(sample: Sample) -> str:
    return picture_sha256(sample.pictures["human"])


def _figure(row: Row, flow: str, name: str, folder: Folder, keep_links: bool, problems: Problems) -> Sample | None:
    sample = read_figure(row, flow, LAYOUT, folder, problems, keep_links)
    found = candidate_and_picture(row, "model_image", folder, name, problems)
    if not sample or not found:
        return None
    candidate, model = found
    return replace(sample, candidate=candidate, pictures={**sample.pictures, "model": model})


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

    The id of a prompt is the lowest of its rows, so that their order does not matter. A row without a candidate belongs
    to `parameters.candidate_name`, or else to the file's stem. Problems are unknown columns, required columns that no
    row has, and ids repeated for one candidate or used for two prompts. A prompt whose rows ask for different objects
    is one, too. Raises InputError if `metadata` is given, too.
    """
    if parameters.metadata:
        raise InputError(f"manifest {path.name} names the prompts itself: give no `metadata`")
    rows = list(_image_rows(path, parameters, problems))
    first = {row.text: row for row in sorted(rows, key=lambda row: natural(row.sample_id), reverse=True)}
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
    columns = Columns(IMAGES, ("candidate", "include", "exclude"))
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
    found = candidate_and_picture(row, "image", folder, name, problems)
    if fault or not asked or not found:
        return None
    candidate, picture = found
    return _ImageRow(candidate, str(sample_id), asked, picture)


def _check_ids(rows: Iterable[_ImageRow], problems: Problems) -> None:
    """Check that an id is one image of each candidate and one prompt for all of them: prompts are named after ids."""
    met: dict[tuple[str, str], _ImageRow] = {}
    first: dict[str, _ImageRow] = {}
    for row in rows:
        if (same := met.setdefault((row.candidate, row.sample_id), row)) is not row:
            problems.add(row.asked.where, met_before(row.candidate, row.sample_id, same.asked.where))
        elif (other := first.setdefault(row.sample_id, row)).text != row.text:
            problems.add(row.asked.where, f"id {row.sample_id!r} has another tag or prompt than in {other.asked.where}")


def candidate_and_picture(
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


def met_before(candidate: str, sample_id: str, where: str) -> str:
    """Describe the problem of a manifest row whose id is already in the row at `where`."""
    return (
        f"id {quoted(sample_id)} of {quoted(candidate)} is already in {where}: give one of them another id or, "
        "if they are from two systems, name these in the column candidate"
    )


FILTERS = ("ids", "candidate", "category", "difficulty", "tag")
"""Filter parameters. A sample passes if it has one of the listed values; an empty list passes every sample."""


class Dataset(Record):
    """Samples that one run judges."""

    name: str
    """Name of its folder or file."""
    key: str
    """SHA-256 of ids, texts and Human pictures, or of the text-to-image prompts: equal keys make runs comparable."""
    series_key: str = ""
    """SHA-256 of the same without questions that may be edited one by one; empty: there are no such questions."""
    samples: tuple[Sample, ...]
    """Samples by candidate, then in the order of the dataset."""
    candidates: tuple[str, ...]
    warnings: tuple[str, ...]
    """Warnings to read before trusting the numbers."""
    carried: bool = False
    """True if any sample, in this shard or another, is judged by the picture of an earlier stage."""
    own_order: bool = False
    """True if any sample, in this shard or another, has data whose keys are not in alphabetical order."""


def read_figures(source: Path, flow: str, parameters: PairwiseParameters) -> Dataset:
    """Read the figures of a PaperBananaBench folder or a manifest file, before they are split into shards.

    Raises InputError that lists all problems, and OSError if the file system fails.
    """
    problems = Problems()
    read = read_benchmark if source.is_dir() else read_figure_manifest
    samples, warnings = read(source, flow, parameters, problems)
    problems.stop(f"dataset {source.name}")
    require_picture(source, "model", samples)
    selected = select(samples, parameters)
    return make_dataset(dataset_root(source, flow).name, dataset_key(selected), selected, warnings)


def read_images(source: Path, flow: str, parameters: RubricParameters) -> Dataset:
    """Read the generated images of a folder in GenEval's layout or a manifest, before they are split into shards.

    Raises InputError that lists all problems, and OSError if the file system fails.
    """
    problems = Problems()
    read = read_geneval if source.is_dir() else read_image_manifest
    found = read(source, parameters, problems)
    problems.stop(f"dataset {source.name}")
    require_picture(source, "image", found.samples)
    ours = _of_flow(found, flow, source.name, tags_of(flow, parameters.prompt_set))
    within = Folder(source, parameters.follow_links).within if source.is_dir() else ()
    selected, missing = select_images(ours, parameters, read_labels(source, flow, within))
    chosen = {"limit": parameters.limit or 0} | parameters.model_dump(include={"ids", "tag"})
    return make_dataset(source.name, images_key(found.prompts, chosen), selected, [*found.warnings, *missing])


def require_picture(source: Path, role: str, samples: Sequence[Sample]) -> None:
    """Raise InputError if there is no picture to judge: a wrong choice of files must not become a low score."""
    sources = [(sample.sample_id, sample.pictures[role]) for sample in samples]
    if sources and all(picture.problem for _, picture in sources):
        sample_id, picture = sources[0]
        what = "Model picture" if role == "model" else "image"
        why = f"{len(sources):,} looked for, of {sample_id!r} {picture.problem.removeprefix(NO_PICTURE)}"
        raise InputError(f"dataset {source.name} has no {what} at all: {why}; name the file or folder that holds them")


def _of_flow(found: Generated, flow: str, name: str, tags: Sequence[str]) -> list[Sample]:
    """Return the images of prompts whose tags the flow judges."""
    ours = [sample for sample in found.samples if sample.tag in tags]
    if not ours:
        there = Counter(prompt.tag for prompt in found.prompts.values())
        has = ", ".join(f"{tag} ({n} prompt{'s' * (n > 1)})" for tag, n in there.items())
        judged = f"the tag{'s' * (len(tags) > 1)} {listed(tags)}"
        only = f"the dataset has only {has}" if has else "the dataset has no prompts"
        raise InputError(f"dataset {name} has no prompt for {flow}: {flow} judges {judged}; {only}")
    return ours


def select_images(
    samples: Sequence[Sample], parameters: Parameters, labels: Mapping[str, str]
) -> tuple[list[Sample], list[str]]:
    """Return the images that pass all filters, each with its known defect, and a sentence about each gap among them.

    All images of their prompts count: if `ids` selects some of them, the others are not missing. Raises InputError as
    `select` does.
    """
    selected = select(samples, parameters)
    judged = {(sample.candidate, sample.prompt_id) for sample in selected}
    missing = gaps([sample for sample in samples if (sample.candidate, sample.prompt_id) in judged])
    return [replace(each, injected=labels.get(f"{each.candidate}/{each.sample_id}", "")) for each in selected], missing


def make_dataset(
    name: str, key: str, samples: Sequence[Sample], warnings: Sequence[str], series_key: str = ""
) -> Dataset:
    """Return the dataset of these samples, with warnings about them after the given ones."""
    return Dataset(
        name=name,
        key=key,
        series_key=series_key,
        samples=tuple(samples),
        candidates=tuple(dict.fromkeys(sample.candidate for sample in samples)),
        warnings=tuple(cut(well_formed(words)) for words in (*warnings, *_warnings(samples))),
        carried=any(sample.carried_from for sample in samples),
        own_order=any(sample.own_order for sample in samples),
    )


def dataset_key(samples: Sequence[Sample]) -> str:
    """Return the SHA-256 (hex) over id, texts and Human picture of each sample.

    Samples are sorted by id, so that neither file order nor candidates matter. If rows of several candidates share an
    id, the first counts.
    """
    first = {sample.sample_id: sample for sample in reversed(samples)}
    parts = [(name, sample.texts_key, _human(sample)) for name, sample in sorted(first.items())]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def images_key(prompts: Mapping[str, Asked], chosen: Mapping[str, object]) -> str:
    """Return the SHA-256 (hex) over the prompts of a whole dataset, all tags, and the selection from it.

    The key is the same for all four flows, so that their runs can be joined; candidates and their images do not matter.
    """
    parts = sorted((prompt_id, prompt.tag, prompt.prompt) for prompt_id, prompt in prompts.items())
    return hashlib.sha256(json.dumps([parts, dict(chosen)], sort_keys=True).encode()).hexdigest()


def _warnings(samples: Sequence[Sample]) -> Iterator[str]:
    """Yield each note, missing picture and incomplete coverage once, with the samples that it concerns."""
    about: dict[str, dict[str, str]] = defaultdict(dict)
    for sample in samples:
        for note in sample.notes:
            about[note][sample.sample_id] = sample.sample_id
        for role, source in sample.pictures.items():
            # Without the Human picture there is no reference, and a missing Model picture decides nothing.
            if source.problem and (role == "human" or (role == "model" and not sample.pictures["human"].problem)):
                absent = "no" if source.problem.startswith(NO_PICTURE) else "unreadable"
                whose = f"{absent} Model picture of candidate {sample.candidate}: a forfeit"
                what = f"{absent} Human picture" if role == "human" else whose
                about[what][sample.sample_id] = f"{sample.sample_id} ({source.problem.removeprefix(NO_PICTURE)})"
    figures = [sample for sample in samples if not sample.tag]  # `gaps` does this for generated images
    for candidate, ids in _without_row(figures):
        about[f"no row of candidate {candidate}: not judged"] = dict(zip(ids, ids, strict=True))
    for what, where in about.items():
        yield in_samples(what, where)


def in_samples(what: str, where: Mapping[str, str]) -> str:
    """Describe a finding by the number of its samples and the first of them, from sample id -> words about it."""
    return f"{what} in {len(where)} sample{'s' * (len(where) > 1)}: {listed(where.values(), 5)}"


def _without_row(samples: Sequence[Sample]) -> Iterator[tuple[str, list[str]]]:
    """Return each candidate that lacks samples of other candidates, with the missing ids."""
    ids = dict.fromkeys(sample.sample_id for sample in samples)
    of: dict[str, set[str]] = defaultdict(set)
    for sample in samples:
        of[sample.candidate].add(sample.sample_id)
    return ((candidate, [one for one in ids if one not in its]) for candidate, its in of.items() if len(its) < len(ids))


def select(samples: Sequence[Sample], parameters: Parameters) -> list[Sample]:
    """Return the samples that pass all filters.

    `limit` counts ids (prompt ids of generated images), so that every candidate is judged on the same ones. `ids` may
    also name prompts.

    Raises InputError that lists every filter value missing from the dataset, or reports that no sample is left.
    """
    wanted: dict[str, list[str]] = {name: given for name in FILTERS if (given := getattr(parameters, name, []))}
    _check_values(samples, wanted)
    sets = {name: set(values) for name, values in wanted.items()}
    left = [each for each in samples if all(_values(each, name) & values for name, values in sets.items())]
    if not left:
        raise InputError("no sample is left: each filter matches some samples, but no sample matches all filters")
    kept = set(list(dict.fromkeys(sample.subject for sample in left))[: parameters.limit or None])
    return [sample for sample in left if sample.subject in kept]


def _check_values(samples: Sequence[Sample], wanted: Mapping[str, list[str]]) -> None:
    problems = Problems()
    for name, values in wanted.items():
        there = dict.fromkeys(value for sample in samples for value in sorted(_values(sample, name)))
        known = listed(filter(None, there))
        for value in values:
            if value not in there:
                problems.add(name, f"{value!r} is not in the part of the dataset that this flow judges: {known}")
    problems.stop("the filter")


def _values(sample: Sample, name: str) -> set[str]:
    return {sample.sample_id, sample.prompt_id} if name == "ids" else {getattr(sample, name)}


def of_shard(samples: Sequence[Sample], shard: int, shards: int) -> tuple[Sample, ...]:
    """Return the samples that a shard judges: every `shards`-th id, with all its candidates and images.

    Args:
        shard: its number, from 1; 0: the dataset is not split.
        shards: number of shards.
    """
    if not shard:
        return tuple(samples)
    ours = set(sorted({sample.subject for sample in samples})[shard - 1 :: shards])
    return tuple(sample for sample in samples if sample.subject in ours)
