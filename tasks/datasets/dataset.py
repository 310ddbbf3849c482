"""Loading: all there is to judge, checked before the first call, with texts and pictures left where they are.

Owns what a dataset is: which samples the filters leave, its key, what a person should know about it, and reading one
sample's texts and pictures when its turn comes. Leaves formats to `benchmark` and `manifest`, `geneval` and
`image_manifest`, decoding to `pictures`.
"""

import base64
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tasks.datasets.benchmark import dataset_root, read_benchmark
from tasks.datasets.coverage import Prompted, gaps
from tasks.datasets.entries import Entry, clean_text
from tasks.datasets.folders import NO_PICTURE
from tasks.datasets.geneval import read_geneval
from tasks.datasets.image_manifest import read_image_manifest
from tasks.datasets.manifest import read_manifest
from tasks.datasets.rows import read_row
from tasks.errors import InputError, Problems
from tasks.parameters import PairwiseParameters, Parameters, RubricParameters
from tasks.records import PictureSource, Record, Sample
from tasks.rubrics.rubric import holdings
from tasks.synthetic.images import read_image_labels
from tasks.text import listed, well_formed


class Dataset(Record):
    """What one run judges."""

    name: str
    """Its folder or file."""
    key: str
    """SHA-256 of ids, texts and Human pictures, or of the text-to-image prompts: equal keys make runs comparable."""
    samples: tuple[Sample, ...]
    """By candidate, then in the order of the dataset."""
    candidates: tuple[str, ...]
    warnings: tuple[str, ...]
    """What a person should read before trusting the numbers."""


def read_figures(source: Path, flow: str, parameters: PairwiseParameters) -> Dataset:
    """Figures of a PaperBananaBench folder or a manifest."""
    problems = Problems()
    read = read_benchmark if source.is_dir() else read_manifest
    entries, warnings = read(source, flow, parameters, problems)
    problems.stop(f"dataset {source.name}")
    selected = select(entries, parameters)
    return _dataset(dataset_root(source, flow).name, dataset_key(selected), selected, warnings)


def read_images(source: Path, flow: str, parameters: RubricParameters) -> Dataset:
    """Generated images of a GenEval folder or a manifest."""
    problems = Problems()
    read = read_geneval if source.is_dir() else read_image_manifest
    found = read(source, parameters, problems)
    problems.stop(f"dataset {source.name}")
    tags = holdings()[flow]
    ours = [entry for entry in found.entries if entry.sample.tag in tags]
    if not ours:
        there = Counter(prompt.tag for prompt in found.prompts)
        has = ", ".join(f"{tag} ({n} prompt{'s' * (n > 1)})" for tag, n in there.items())
        raise InputError(f"dataset {source.name} has no prompt for {flow}: tags {listed(tags)}; it has {has or 'none'}")
    labels = read_image_labels(source)
    selected = [_labelled(entry, labels) for entry in select(ours, parameters)]
    # All images of the prompts: `ids` may pick some of them, and the others are not missing then.
    judged = {(sample.candidate, sample.prompt_id) for sample, *_ in selected}
    uneven = gaps([sample for sample, *_ in ours if (sample.candidate, sample.prompt_id) in judged])
    chosen = parameters.model_dump(include={"limit", "ids", "tag"})
    return _dataset(source.name, images_key(found.prompts, chosen), selected, [*found.warnings, *uneven])


def _labelled(entry: Entry, labels: Mapping[str, str]) -> Entry:
    sample = entry.sample
    injected = labels.get(f"{sample.candidate}/{sample.sample_id}", "")
    return entry._replace(sample=sample.model_copy(update={"injected": injected})) if injected else entry


def _dataset(name: str, key: str, entries: Sequence[Entry], warnings: Sequence[str]) -> Dataset:
    samples = tuple(entry.sample for entry in entries)
    return Dataset(
        name=name,
        key=key,
        samples=samples,
        candidates=tuple(dict.fromkeys(sample.candidate for sample in samples)),
        warnings=tuple(well_formed(words) for words in (*warnings, *_warnings(samples))),
    )


def select(entries: Sequence[Entry], parameters: Parameters) -> list[Entry]:
    """The entries that all filters leave.

    `limit` counts ids, of generated images those of prompts, so that every candidate is judged on the same ones; `ids`
    may name prompts, too.

    Raises ValueError that lists every filter value the dataset does not have, or says that nothing is left.
    """
    filters: list[tuple[str, list[str], Callable[[Sample], set[str]]]] = [
        ("ids", parameters.ids, lambda sample: {sample.sample_id, sample.prompt_id}),
        ("candidate", parameters.candidate, lambda sample: {sample.candidate}),
    ]
    if isinstance(parameters, PairwiseParameters):
        filters.append(("category", parameters.category, lambda sample: {sample.category}))
        filters.append(("difficulty", parameters.difficulty, lambda sample: {sample.difficulty}))
    if isinstance(parameters, RubricParameters):
        filters.append(("tag", parameters.tag, lambda sample: {sample.tag}))
    problems = Problems()
    left = list(entries)
    for name, wanted, values_of in filters:
        there = dict.fromkeys(value for entry in entries for value in sorted(values_of(entry.sample)))
        known = listed(filter(None, there))
        for value in wanted:
            if value not in there:
                problems.add(name, f"{value!r} is not among what this flow judges of the dataset: {known}")
        left = [entry for entry in left if not wanted or values_of(entry.sample) & set(wanted)]
    problems.stop("the filter")
    if not left:
        raise InputError("no sample is left: each filter matches some, but none matches all of them")
    counted = [entry.sample.prompt_id or entry.sample.sample_id for entry in left]
    kept = set(list(dict.fromkeys(counted))[: parameters.limit or None])
    return [entry for entry, one in zip(left, counted, strict=True) if one in kept]


def dataset_key(entries: Sequence[Entry]) -> str:
    """SHA-256 (hex) over id, texts and Human picture of each sample.

    Sorted by id: neither the order of the file nor the candidates matter. Where the rows of several candidates share an
    id, the first counts.
    """
    first = {entry.sample.sample_id: entry for entry in reversed(entries)}
    parts = [
        (name, entry.text_sha256, entry.human_sha256 or _sha256(entry.sample.pictures["human"]))
        for name, entry in sorted(first.items())
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def images_key(prompts: Sequence[Prompted], chosen: Mapping[str, object]) -> str:
    """SHA-256 (hex) over the prompts of a whole dataset, all tags, and what was chosen of it.

    The same for all four flows, so that their runs can be joined; candidates and their images do not matter.
    """
    parts = sorted((prompt.prompt_id, prompt.tag, prompt.prompt) for prompt in prompts)
    return hashlib.sha256(json.dumps([parts, dict(chosen)], sort_keys=True).encode()).hexdigest()


def read_texts(sample: Sample) -> dict[str, str]:
    """The sample's text fields (`context` and `caption`, or `prompt`) as the judge reads them, from its own record.

    Raises ValueError when the file has changed since the run started.
    """
    # GenEval's rows have no ids.
    known, expected = ("tag", sample.tag) if sample.tag else ("id", sample.sample_id)
    values = read_row(sample.record, [known, *sample.texts.values()])
    if values[known] != expected:
        raise InputError(f"{sample.record.path} has changed: sample {sample.sample_id!r} is no longer where it was")
    return {name: clean_text(values[key])[0] for name, key in sample.texts.items()}


def read_picture(source: PictureSource) -> bytes:
    """The picture's bytes, as they are in the file, undecoded.

    Raises ValueError when there is no picture, its file is gone, or its base64 is broken.
    """
    if source.place is None:
        raise InputError(source.problem)
    if not source.field:
        try:
            return Path(source.place.path).read_bytes()
        except OSError as error:
            raise InputError(f"picture {source.place.path} cannot be read: {error.strerror}") from error
    value = read_row(source.place, [source.field])[source.field]
    if isinstance(value, bytes):
        return value
    try:
        return _from_base64(value)
    except ValueError as error:
        raise InputError(f"{source.field!r} in {Path(source.place.path).name} is no picture: {error}") from error


def _from_base64(value: object) -> bytes:
    if not isinstance(value, str):
        raise InputError(f"found a value of type {type(value).__name__}")
    head, _, text = value.partition(",") if value.startswith("data:") else (";base64", ",", value)
    if not head.endswith(";base64"):
        raise InputError("a data: URL must be in base64")
    return base64.b64decode("".join(text.split()), validate=True)


def _sha256(source: PictureSource) -> str:
    """Hash of a picture's bytes; why it has none does not matter to the key."""
    try:
        return hashlib.sha256(read_picture(source)).hexdigest()
    except ValueError:
        return "none"


def _warnings(samples: Sequence[Sample]) -> Iterator[str]:
    """Notes, missing pictures and unequal coverage, each told once with the samples it is about."""
    told: dict[str, dict[str, str]] = defaultdict(dict)
    for sample in samples:
        for note in sample.notes:
            told[note][sample.sample_id] = sample.sample_id
        for role, source in sample.pictures.items():
            if source.problem and role in ("human", "model"):
                what = "no Human picture" if role == "human" else f"no Model picture of {sample.candidate}: a forfeit"
                told[what][sample.sample_id] = f"{sample.sample_id} ({source.problem.removeprefix(NO_PICTURE)})"
    figures = [sample for sample in samples if not sample.tag]  # of generated images the coverage tells
    for candidate, ids in _without_row(figures):
        told[f"no row of {candidate}: not judged"] = dict(zip(ids, ids, strict=True))
    for what, where in told.items():
        yield f"{what} in {len(where)} sample{'s' * (len(where) > 1)}: {listed(where.values(), 5)}"


def _without_row(samples: Sequence[Sample]) -> Iterator[tuple[str, list[str]]]:
    """Candidates that lack samples which others have, with the ids they lack."""
    ids = dict.fromkeys(sample.sample_id for sample in samples)
    of: dict[str, set[str]] = defaultdict(set)
    for sample in samples:
        of[sample.candidate].add(sample.sample_id)
    return ((candidate, [one for one in ids if one not in its]) for candidate, its in of.items() if len(its) < len(ids))
