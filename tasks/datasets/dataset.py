"""Datasets: the samples to judge, checked before the first call; texts and pictures stay in their files."""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tasks.datasets.benchmark import dataset_root, read_benchmark, read_labels
from tasks.datasets.contents import picture_sha256
from tasks.datasets.coverage import Asked, Generated, gaps
from tasks.datasets.entries import Entry
from tasks.datasets.folders import NO_PICTURE, Folder
from tasks.datasets.geneval import read_geneval
from tasks.datasets.manifests import read_figure_manifest, read_image_manifest
from tasks.errors import InputError, Problems
from tasks.parameters import PairwiseParameters, Parameters, RubricParameters
from tasks.records import Record, Sample
from tasks.rubrics.rubric import tags_of
from tasks.text import cut, listed, well_formed

FILTERS = ("ids", "candidate", "category", "difficulty", "tag")
"""Filter parameters. A sample passes if it has one of the listed values; an empty list passes every sample."""


class Dataset(Record):
    """Samples that one run judges."""

    name: str
    """Name of its folder or file."""
    key: str
    """SHA-256 of ids, texts and Human pictures, or of the text-to-image prompts: equal keys make runs comparable."""
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
    entries, warnings = read(source, flow, parameters, problems)
    problems.stop(f"dataset {source.name}")
    _require_picture(source, "model", entries)
    selected = select(entries, parameters)
    return _dataset(dataset_root(source, flow).name, dataset_key(selected), selected, warnings)


def read_images(source: Path, flow: str, parameters: RubricParameters) -> Dataset:
    """Read the generated images of a folder in GenEval's layout or a manifest, before they are split into shards.

    Raises InputError that lists all problems, and OSError if the file system fails.
    """
    problems = Problems()
    read = read_geneval if source.is_dir() else read_image_manifest
    found = read(source, parameters, problems)
    problems.stop(f"dataset {source.name}")
    _require_picture(source, "image", found.entries)
    ours = _of_flow(found, flow, source.name, tags_of(flow, parameters.prompt_set))
    within = Folder(source, parameters.follow_links).within if source.is_dir() else ()
    labels = read_labels(source, flow, within)
    selected = [_labelled(entry, labels) for entry in select(ours, parameters)]
    # Count all images of these prompts: if `ids` selects some of them, the others are not missing.
    judged = {(sample.candidate, sample.prompt_id) for sample, *_ in selected}
    uneven = gaps([sample for sample, *_ in ours if (sample.candidate, sample.prompt_id) in judged])
    chosen = parameters.model_dump(include={"limit", "ids", "tag"})
    return _dataset(source.name, images_key(found.prompts, chosen), selected, [*found.warnings, *uneven])


def _require_picture(source: Path, role: str, entries: Sequence[Entry]) -> None:
    """Raise InputError if there is no picture to judge: a wrong choice of files must not become a low score."""
    sources = [(entry.sample.sample_id, entry.sample.pictures[role]) for entry in entries]
    if sources and all(picture.problem for _, picture in sources):
        sample_id, picture = sources[0]
        what = "Model picture" if role == "model" else "image"
        why = f"{len(sources):,} looked for, of {sample_id!r} {picture.problem.removeprefix(NO_PICTURE)}"
        raise InputError(f"dataset {source.name} has no {what} at all: {why}; name the file or folder that holds them")


def _of_flow(found: Generated, flow: str, name: str, tags: Sequence[str]) -> list[Entry]:
    """Return the images of prompts whose tags the flow judges."""
    ours = [entry for entry in found.entries if entry.sample.tag in tags]
    if not ours:
        there = Counter(prompt.tag for prompt in found.prompts.values())
        has = ", ".join(f"{tag} ({n} prompt{'s' * (n > 1)})" for tag, n in there.items())
        judged = f"the tag{'s' * (len(tags) > 1)} {listed(tags)}"
        only = f"the dataset has only {has}" if has else "the dataset has no prompts"
        raise InputError(f"dataset {name} has no prompt for {flow}: {flow} judges {judged}; {only}")
    return ours


def _labelled(entry: Entry, labels: Mapping[str, str]) -> Entry:
    sample = entry.sample
    injected = labels.get(f"{sample.candidate}/{sample.sample_id}", "")
    return entry._replace(sample=replace(sample, injected=injected)) if injected else entry


def _dataset(name: str, key: str, entries: Sequence[Entry], warnings: Sequence[str]) -> Dataset:
    samples = tuple(entry.sample for entry in entries)
    return Dataset(
        name=name,
        key=key,
        samples=samples,
        candidates=tuple(dict.fromkeys(sample.candidate for sample in samples)),
        warnings=tuple(cut(well_formed(words)) for words in (*warnings, *_warnings(samples))),
        carried=any(sample.carried_from for sample in samples),
        own_order=any(entry.own_order for entry in entries),
    )


def dataset_key(entries: Sequence[Entry]) -> str:
    """Return the SHA-256 (hex) over id, texts and Human picture of each sample.

    Samples are sorted by id, so that neither file order nor candidates matter. If rows of several candidates share an
    id, the first counts.
    """
    first = {entry.sample.sample_id: entry for entry in reversed(entries)}
    parts = [
        (name, entry.text_sha256, entry.human_sha256 or picture_sha256(entry.sample.pictures["human"]))
        for name, entry in sorted(first.items())
    ]
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


def select(entries: Sequence[Entry], parameters: Parameters) -> list[Entry]:
    """Return the entries that pass all filters.

    `limit` counts ids (prompt ids of generated images), so that every candidate is judged on the same ones. `ids` may
    also name prompts.

    Raises InputError that lists every filter value missing from the dataset, or reports that no sample is left.
    """
    wanted: dict[str, list[str]] = {name: given for name in FILTERS if (given := getattr(parameters, name, []))}
    _check_values(entries, wanted)
    sets = {name: set(values) for name, values in wanted.items()}
    left = [entry for entry in entries if _passes(entry.sample, sets)]
    if not left:
        raise InputError("no sample is left: each filter matches some samples, but no sample matches all filters")
    counted = [entry.sample.prompt_id or entry.sample.sample_id for entry in left]
    kept = set(list(dict.fromkeys(counted))[: parameters.limit or None])
    return [entry for entry, one in zip(left, counted, strict=True) if one in kept]


def _check_values(entries: Sequence[Entry], wanted: Mapping[str, list[str]]) -> None:
    problems = Problems()
    for name, values in wanted.items():
        there = dict.fromkeys(value for entry in entries for value in sorted(_values(entry.sample, name)))
        known = listed(filter(None, there))
        for value in values:
            if value not in there:
                problems.add(name, f"{value!r} is not in the part of the dataset that this flow judges: {known}")
    problems.stop("the filter")


def _passes(sample: Sample, wanted: Mapping[str, set[str]]) -> bool:
    return all(_values(sample, name) & values for name, values in wanted.items())


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
    ids = sorted({sample.prompt_id or sample.sample_id for sample in samples})
    ours = set(ids[shard - 1 :: shards])
    return tuple(sample for sample in samples if (sample.prompt_id or sample.sample_id) in ours)
