"""PaperBananaBench folders, each sample paired with the figures of every candidate."""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from tasks.datasets.entries import Layout, Loaded, absence, id_fault, in_record, read_figure, uncut
from tasks.datasets.paths import NO_PICTURE, Folder, dataset_root, is_url, plain_name
from tasks.datasets.rows import Row, find_rows
from tasks.demo.defects import KINDS, LABELS
from tasks.errors import Habitual, InputError, Problems
from tasks.files import read_regular, real_place
from tasks.records import PictureSource, Sample
from tasks.records.parameters import PAIRWISE, PairwiseParameters
from tasks.text import enumerated, kind, listed, quoted

USUAL_ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".avif")
PICTURE_ENDINGS = (
    *USUAL_ENDINGS,
    *(".tif", ".tiff", ".bmp", ".pdf", ".svg", ".eps", ".ps", ".heic", ".heif", ".jxl", ".jp2"),
)
"""Endings of files that count as pictures, whether or not this machine has a reader for them."""

NAMED = "eval_image_field"
"""Key of a result record that names the key of the picture to judge."""
ROUNDS = "max_critic_rounds"
"""Key for the number of critic rounds, if the generator records it."""
USUAL_ROUNDS = 3
"""Default number of PaperBanana's critic rounds."""

_STAGES = {
    "vanilla": "vanilla_{flow}_base64_jpg",
    "planner": "target_{flow}_desc0_base64_jpg",
    "stylist": "target_{flow}_stylist_desc0_base64_jpg",
    "polished": "polished_{flow}_base64_jpg",
}
_BEFORE_THE_CRITIC = ("planner", "stylist")
"""Stages before the first critic round, in order."""
_CRITIC = "target_{flow}_critic_desc{round}_base64_jpg"
_SUGGESTIONS = "target_{flow}_critic_suggestions{round}"
_OF_A_ROUND = "target_{flow}_critic_(?:desc|suggestions)([0-9]+)(?:_.*)?"
_CONTENT = re.compile(r"\W*no changes? (?:(?:is|are) )?(?:needed|required|necessary)\W*", re.IGNORECASE)

Pictures = dict[str, PictureSource]
"""Sample id -> Model picture."""

_Named = defaultdict[str, list[tuple[str, Path]]]
"""Plain name -> the names that it comes from, each with its file."""


def preferred(paths: Iterable[Path]) -> list[Path]:
    """Return the files of one picture that count: a program that writes a PDF beside each PNG made one picture."""
    found = list(paths)
    return [path for path in found if path.suffix.lower() in USUAL_ENDINGS] or found


def read_results(
    path: Path,
    flow: str,
    stages: Sequence[str],
    ids: Collection[str],
    problems: Problems,
    within: tuple[str, ...] = (),
) -> dict[str, Pictures]:
    """Return stage -> Model pictures of these samples; without stages, one key '' for the pictures named by records.

    A stage that a content critic made needless gets the last picture before it, marked with its stage. Problems are
    records without a usable id, of unknown samples or with repeated ids, and pictures that are not text or have no
    reader. So are stages that no record has, unless a picture was carried to them.
    """
    keys = {stage: stage_key(stage, flow) for stage in stages} or {"": ""}
    found: dict[str, Pictures] = {stage: {} for stage in keys}
    held, needless, met = set[str](), set[str](), dict[str, str]()
    for row in find_rows(path, problems, within):
        held |= row.values.keys()
        sample_id = _result_id(row, ids, met, problems)
        for stage, key in keys.items() if sample_id else ():
            found[stage][sample_id] = _stage_picture(row, stage, flow, needless, problems) or _result_picture(
                row, key, problems
            )
    _check_held(path, flow, keys, held, needless, problems)
    absent = PictureSource(problem=f"{NO_PICTURE}{path.name} has no record of this sample")
    return {stage: dict.fromkeys(ids, absent) | pictures for stage, pictures in found.items()}


def read_picture_folder(
    folder: Path, ids: Collection[str], problems: Problems, warnings: list[str], followed: Sequence[str] = ()
) -> Pictures:
    """Read the Model pictures of these samples from a folder: `<id>.<ending>` or `<id>/final_output.<ending>`.

    An exact name wins over one that matches after Unicode normalization. Problems are several pictures of the same
    rank, a name that differs from an id only in case, a picture without a reader, and a folder without any sample's
    picture. Pictures of unknown samples are a warning.
    """
    root, named = Folder(folder, followed), _Named(list)
    for name, path in _named_pictures(root.root):
        named[plain_name(name)].append((name, path))
    pictures = {one: _one_picture(one, named, root, problems) for one in ids}
    _check_cases(ids, named, root, problems)
    if unknown := sorted(named.keys() - {plain_name(one) for one in ids}):
        warnings.append(f"{folder.name} holds pictures of no sample: {listed(unknown)}")
    if len(unknown) == len(named):
        problems.add(
            str(folder), f"holds no <id>.png (or .jpg …) and no <id>/final_output.png for any of {listed(ids, 3)}"
        )
    return pictures


def _result_id(row: Row, ids: Collection[str], met: dict[str, str], problems: Problems) -> str:
    """Return the sample id of a record; empty, with a problem noted, if it has none that is valid.

    Args:
        met: id -> first record with it; this record is added.
    """
    sample_id = row.values.get("id")
    fault = id_fault(sample_id)
    if not fault and sample_id not in ids:
        fault = InputError(f"id {quoted(str(sample_id))} is not in the dataset")
    elif not fault and met.setdefault(str(sample_id), row.where) != row.where:
        fault = InputError(f"id {sample_id!r} is already in {met[str(sample_id)]}: keep one of them")
    if fault:
        problems.add(row.where, fault)
    return "" if fault else str(sample_id)


def _stage_picture(row: Row, stage: str, flow: str, needless: set[str], problems: Problems) -> PictureSource | None:
    """Return the picture that is carried forward to a stage without one; None if there is nothing to carry.

    Args:
        needless: stages that need not be in the file; this one is added if the generator had such a round, by its
            record or by the default number of rounds.
    """
    if not stage or row.values.get(stage_key(stage, flow)) or not (earlier := carried(row.values, stage, flow)):
        return None
    if isinstance(row.values.get(ROUNDS), int) or _round(stage) < USUAL_ROUNDS:
        needless.add(stage)
    return replace(_result_picture(row, stage_key(earlier, flow), problems), carried_from=earlier)


def _result_picture(row: Row, key: str, problems: Problems) -> PictureSource:
    """Return the picture under a key or, if the key is empty, under the key that the record names."""
    if absent := absence(row, key or NAMED):
        return absent
    value = row.values[key or NAMED]
    try:
        if not isinstance(value, str):
            raise InputError(f"{quoted(key or NAMED)} is {kind(value)}, must be text or null")
        if not key:
            return _result_picture(row, value, problems)
        if is_url(value):
            raise Habitual(f"key {key!r} holds a URL, and no URL is fetched: it must hold the picture", "URLs")
        return in_record(row, key, value)
    except InputError as error:
        problems.add(row.where, error)
        return PictureSource(problem=str(error))


def _check_held(
    path: Path, flow: str, keys: dict[str, str], held: set[str], needless: set[str], problems: Problems
) -> None:
    """Check the keys in the records of a file."""
    stages = listed(sorted(filter(None, (_stage_of(key, flow) for key in held))))
    flows = [each for each in PAIRWISE if any(_stage_of(key, each) for key in held)]
    if flows and flow not in flows:
        problems.add(path.name, f"holds Model figures for {enumerated(flows)}, none for {flow}")
    if held and "" in keys and NAMED not in held:
        problems.add(path.name, f"no record names its picture in {NAMED!r}: choose a stage, the file holds {stages}")
    for stage, key in keys.items():
        if held and stage and key not in held and stage not in needless:
            problems.add(path.name, f"no record holds stage {stage!r} (key {key!r}), the file holds {stages}")


def _named_pictures(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield id and file of each picture that a generator may have left."""
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() in PICTURE_ENDINGS and (path.is_file() or path.is_symlink()):
            yield path.stem, path
        for ending in PICTURE_ENDINGS if path.is_dir() else ():
            if (file := path / f"final_output{ending}").is_file() or file.is_symlink():
                yield path.name, file


def _one_picture(sample_id: str, named: _Named, folder: Folder, problems: Problems) -> PictureSource:
    alike = named.get(plain_name(sample_id), [])
    paths = preferred([path for name, path in alike if name == sample_id] or [path for _, path in alike])
    if not paths:
        return PictureSource(problem=f"{NO_PICTURE}{folder.root} holds no {sample_id}.png and no final_output of it")
    if len(paths) > 1:
        names = listed(str(path.relative_to(folder.root)) for path in paths)
        problems.add(folder.root.name, f"sample {sample_id!r} has several pictures, {names}: keep one")
    try:
        return folder.at(paths[0])
    except InputError as error:
        problems.add(folder.root.name, error)
        return PictureSource(problem=str(error))


def _check_cases(ids: Collection[str], named: _Named, folder: Folder, problems: Problems) -> None:
    """Note samples without a picture if the name of an unknown picture differs from their id only in case."""
    unknown = {name.casefold(): name for name in named.keys() - {plain_name(one) for one in ids}}
    for one in ids:
        other = unknown.get(plain_name(one).casefold())
        if other and plain_name(one) not in named:
            path = named[other][0][1].relative_to(folder.root)
            problems.add(folder.root.name, f"{path} differs from sample {one!r} only in case: rename it")


def stage_key(stage: str, flow: str) -> str:
    """Return the key of a stage's picture in a result record. Raises InputError if the stage does not exist."""
    if stage in _STAGES:
        return _STAGES[stage].format(flow=flow)
    if (number := _round(stage)) >= 0:
        return _CRITIC.format(flow=flow, round=number)
    raise InputError(f"stage {stage!r} does not exist, allowed are {', '.join(_STAGES)}, critic0, critic1, …")


def carried(record: Mapping[str, object], stage: str, flow: str) -> str:
    """Return the stage of the last picture before a round that a content critic made needless; empty: no such evidence.

    One kind of evidence is a critic who reports, in that round or before, that no changes are needed. The other is a
    record that names the picture of an earlier stage as its last and contains nothing of a later round. PaperBanana
    leaves both behind. A failed round leaves its text without a picture. A round beyond the critic's number of rounds
    was never due.
    """
    number, rounds = _round(stage), record.get(ROUNDS)
    if number < 0 or (isinstance(rounds, int) and number >= rounds):
        return ""
    if (content := _content_round(record, number, flow)) is not None:
        return next(reversed(_pictured(record, content, flow)), "")
    named = _stage_of(str(record.get(NAMED)), flow)
    is_last = named in _pictured(record, number, flow) and _last_round(record, flow) <= _round(named)
    return named if is_last else ""


def _round(stage: str) -> int:
    """Return the number of a critic round; -1 for another stage."""
    found = re.fullmatch(r"critic([0-9]{1,4})", stage)
    return int(found[1]) if found else -1


def _stage_of(key: str, flow: str) -> str:
    """Return the stage whose picture is stored under a key; empty if the key belongs to no stage."""
    if critic := re.fullmatch(_CRITIC.format(flow=flow, round="([0-9]+)"), key):
        return f"critic{critic[1]}"
    return next((stage for stage, pattern in _STAGES.items() if pattern.format(flow=flow) == key), "")


def _content_round(record: Mapping[str, object], last: int, flow: str) -> int | None:
    """Return the first round, up to `last`, in which the critic reported that no changes are needed."""
    said = (str(record.get(_SUGGESTIONS.format(flow=flow, round=number), "")) for number in range(last + 1))
    return next((number for number, words in enumerate(said) if _CONTENT.fullmatch(words)), None)


def _pictured(record: Mapping[str, object], number: int, flow: str) -> list[str]:
    """Return the stages before a round that have a picture, in order."""
    stages = [*_BEFORE_THE_CRITIC, *(f"critic{earlier}" for earlier in range(number))]
    return [stage for stage in stages if record.get(stage_key(stage, flow))]


def _last_round(record: Mapping[str, object], flow: str) -> int:
    """Return the last round with any key in the record, even one that is null; -1: none."""
    met = (re.fullmatch(_OF_A_ROUND.format(flow=flow), key) for key in record)
    return max((int(found[1]) for found in met if found), default=-1)


LARGEST_LABELS = 100_000_000
"""Largest file of labels, in bytes."""
LAYOUT = Layout({"context": "content", "caption": "visual_intent"}, human="path_to_gt_image")


def read_benchmark(source: Path, flow: str, parameters: PairwiseParameters, problems: Problems) -> Loaded:
    """Read every sample of the split, once for each candidate, with its Model picture or the reason for its forfeit.

    `source` contains `<flow>/<split>.json`, or is that task folder itself. Model pictures come from
    `parameters.results` or `parameters.images`; without either, from `results/<flow>.json` in the dataset. Raises
    InputError if the split does not exist, or if it is unclear which figures to judge.
    """
    folder = _task_folder(source, flow, parameters.split)
    root = dataset_root(source, flow)
    output = _output(root, flow, parameters)
    files = Folder(root, parameters.follow_links)
    samples, ids = _read_list(folder / f"{parameters.split}.json", flow, parameters, files, problems)
    if not ids:
        return Loaded([], [])  # without ids, every result would be reported as unknown
    warnings: list[str] = []
    if output.is_dir():
        figures = {"": read_picture_folder(output, ids, problems, warnings, parameters.follow_links)}
    else:
        if not parameters.results:
            files.check(output)
        within = (real_place(output),) if parameters.results else files.within
        figures = read_results(output, flow, parameters.stage, ids, problems, within)
    name = parameters.candidate_name or (output.name if output.is_dir() else output.stem)
    labels = read_labels(root, flow, files.within)
    paired = [
        _paired(sample, f"{name}/{stage}" if stage else name, pictures, labels)
        for stage, pictures in figures.items()
        for sample in samples
    ]
    return Loaded(paired, warnings)


def read_labels(root: Path, flow: str, within: Collection[str] = ()) -> dict[str, str]:
    """Return the known defect of each sample, from `<flow>/labels.json` or else `labels.json` in the dataset.

    Keys are sample ids of figures, and `<candidate>/<prompt>/<image>` of images. Unknown kinds are left out, since
    other datasets may have a file of that name with another meaning.
    """
    path = next((path for path in (root / flow / LABELS, root / LABELS) if path.is_file()), None)
    try:
        labels: Any = json.loads(read_regular(path, LARGEST_LABELS, within)) if path else {}
    except (ValueError, RecursionError):  # not JSON, not UTF-8, or nested too deeply
        return {}
    found = cast(dict[str, Any], labels if isinstance(labels, dict) else {})
    return {name: kind for name, kind in found.items() if isinstance(kind, str) and kind in KINDS}


def _task_folder(source: Path, flow: str, split: str) -> Path:
    folders = [source / flow] if source.name in {*PAIRWISE} - {flow} else [source / flow, source]
    for folder in folders:
        if (folder / f"{split}.json").is_file():
            return folder
    lists = listed(str(path.relative_to(source)) for folder in folders for path in sorted(folder.glob("*.json")))
    raise InputError(f"dataset {source} has neither {flow}/{split}.json nor {split}.json; JSON files there: {lists}")


def _output(root: Path, flow: str, parameters: PairwiseParameters) -> Path:
    """Return the result file or the folder of pictures to judge."""
    given = [Path(path).expanduser().absolute() for path in (parameters.results, parameters.images) if path]
    usual = root / "results" / f"{flow}.json"
    if not given and usual.is_file():
        given = [usual]
    if len(given) != 1:
        there = listed(path.name for path in sorted(usual.parent.glob("*.json")))
        raise InputError(
            f"{'two sources' if given else 'no source'} of Model figures for dataset {root}: give either `results` (a "
            f"generator's result file) or `images` (a folder of pictures); with neither, {usual} must exist; JSON "
            f"files there: {there}"
        )
    field, is_kind, what = ("images", Path.is_dir, "folder") if parameters.images else ("results", Path.is_file, "file")
    if not given[0].exists():
        raise InputError(f"{field} {given[0]} does not exist")
    if not is_kind(given[0]):
        raise InputError(f"{field} {given[0]} is not a {what}")
    if parameters.images and parameters.stage:
        raise InputError("`stage` picks pictures of a result file: it cannot be given with `images`")
    return given[0]


def _read_list(
    path: Path, flow: str, parameters: PairwiseParameters, files: Folder, problems: Problems
) -> tuple[list[Sample], dict[str, str]]:
    """Return the samples of a split, and each id in it with its row, including records that have problems."""
    samples: list[Sample] = []
    ids: dict[str, str] = {}
    folder, keep_links = Folder(path.parent, parameters.follow_links, files), uncut(parameters)
    files.check(path)
    for row in find_rows(path, problems, files.within):
        sample = read_figure(row, flow, LAYOUT, folder, problems, keep_links)
        sample_id = str(row.values.get("id"))
        if sample_id in ids:
            problems.add(row.where, f"id {sample_id!r} is already in {ids[sample_id]}: give one of them another id")
        elif sample:
            samples.append(sample)
        ids.setdefault(sample_id, row.where)
    folder.check_named(problems)
    return samples, ids


def _paired(sample: Sample, candidate: str, pictures: Pictures, labels: dict[str, str]) -> Sample:
    both: dict[str, PictureSource] = {**sample.pictures, "model": pictures[sample.sample_id]}
    injected = labels.get(sample.sample_id, "")
    made = replace(sample, candidate=candidate, pictures=both, injected=injected)
    if made.carried_from:
        note = f"{candidate}: judged by the picture of {made.carried_from}, with which its generator ended"
        made = replace(made, notes=(*made.notes, note))
    return made
