"""PaperBananaBench folders: their samples, each paired with every candidate's figure."""

import json
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from tasks.datasets.entries import Entry, Layout, Loaded, read_entry, uncut
from tasks.datasets.folders import Folder
from tasks.datasets.model_outputs import Pictures, read_picture_folder, read_results
from tasks.datasets.rows import TABLES, find_rows
from tasks.demo.labels import KINDS, LABELS
from tasks.errors import InputError, Problems
from tasks.files import read_regular, real_place
from tasks.parameters import PairwiseParameters
from tasks.records import PictureSource
from tasks.text import listed

MANIFESTS = (*TABLES, ".jsonl", ".ndjson")
"""Endings of files that may be manifests, which are not part of a benchmark."""
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
    entries, ids = _read_list(folder / f"{parameters.split}.json", flow, parameters, files, problems)
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
        _paired(entry, f"{name}/{stage}" if stage else name, pictures, labels)
        for stage, pictures in figures.items()
        for entry in entries
    ]
    return Loaded(paired, warnings)


def dataset_root(source: Path, flow: str) -> Path:
    """Return the dataset's folder, also if the user named the task folder inside it."""
    return source.parent if source.name == flow else source


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
    folders = (source / flow, source)
    for folder in folders:
        if (folder / f"{split}.json").is_file():
            return folder
    lists = listed(str(path.relative_to(source)) for folder in folders for path in sorted(folder.glob("*.json")))
    manifests = [path for path in sorted(source.glob("*")) if path.suffix.lower() in MANIFESTS]
    cure = f"; a manifest is named as a file: {' or '.join(map(str, manifests[:3]))}" if manifests else ""
    raise InputError(
        f"dataset {source} has neither {flow}/{split}.json nor {split}.json; JSON files there: {lists}{cure}"
    )


def _output(root: Path, flow: str, parameters: PairwiseParameters) -> Path:
    """Return the result file or the folder of pictures to judge."""
    given = [Path(path).expanduser().absolute() for path in (parameters.results, parameters.images) if path]
    usual = root / "results" / f"{flow}.json"
    if not given and usual.is_file():
        given = [usual]
    if len(given) != 1:
        raise InputError(
            f"{'two sources' if given else 'no source'} of Model figures for dataset {root}: give either `results` (a "
            f"generator's result file) or `images` (a folder of pictures); with neither, {usual} must exist"
        )
    if not given[0].exists():
        raise InputError(f"{'images' if parameters.images else 'results'} {given[0]} does not exist")
    if parameters.images and not given[0].is_dir():
        raise InputError(f"images {given[0]} is not a folder")
    if not parameters.images and not given[0].is_file():
        raise InputError(f"results {given[0]} is not a file")
    if parameters.images and parameters.stage:
        raise InputError("`stage` picks pictures of a result file: it cannot be given with `images`")
    return given[0]


def _read_list(
    path: Path, flow: str, parameters: PairwiseParameters, files: Folder, problems: Problems
) -> tuple[list[Entry], dict[str, str]]:
    """Return the samples of a split, and each id in it with its row, including records that have problems."""
    entries: list[Entry] = []
    ids: dict[str, str] = {}
    folder, keep_links = Folder(path.parent, parameters.follow_links, files), uncut(parameters)
    files.check(path)
    for row in find_rows(path, problems, files.within):
        entry = read_entry(row, flow, LAYOUT, folder, problems, keep_links)
        sample_id = str(row.values.get("id"))
        if sample_id in ids:
            problems.add(row.where, f"id {sample_id!r} is already in {ids[sample_id]}: give one of them another id")
        elif entry:
            entries.append(entry)
        ids.setdefault(sample_id, row.where)
    folder.check_named(problems)
    return entries, ids


def _paired(entry: Entry, candidate: str, pictures: Pictures, labels: dict[str, str]) -> Entry:
    sample = entry.sample
    both: dict[str, PictureSource] = {**sample.pictures, "model": pictures[sample.sample_id]}
    injected = labels.get(sample.sample_id, "")
    made = replace(sample, candidate=candidate, pictures=both, injected=injected)
    if made.carried_from:
        note = f"{candidate}: judged by the picture of {made.carried_from}, with which its generator ended"
        made = replace(made, notes=(*made.notes, note))
    return entry._replace(sample=made)
