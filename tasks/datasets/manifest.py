"""A manifest: one row for each sample and candidate, with its texts and both pictures (JSON Lines, CSV or Parquet).

Owns the columns. Leaves what a sample must hold to `entries`, and filters to `filters`.
"""

from dataclasses import replace
from pathlib import Path

from tasks.datasets.entries import Entry, Layout, Loaded, candidate_and_picture, met_before, read_entry, uncut
from tasks.datasets.folders import Folder
from tasks.datasets.rows import BENCHMARK, Columns, Other, Row, find_rows
from tasks.errors import Habitual, InputError, Problems
from tasks.parameters import T2I, PairwiseParameters
from tasks.text import listed, quoted

LAYOUT = Layout(context="context", caption="caption", human="human_image")
REQUIRED = ("id", "task", "context", "caption", "human_image", "model_image")
OPTIONAL = ("candidate", "category", "difficulty")
IMAGES = Other(("tag", "prompt", "image"), f"a manifest of generated images, for the flows {listed(T2I)}")
TASKS = ("diagram", "plot")


def read_manifest(path: Path, flow: str, parameters: PairwiseParameters, problems: Problems) -> Loaded:
    """The rows of this flow, in order; the candidates in the order in which they are met.

    A row without a candidate is of `parameters.candidate_name`, else of the file's stem. Problems are columns that no
    manifest has or that no row has, a task that does not exist, and
    an id met twice for one candidate. Raises InputError when `results`, `images` or `stage` is given with it.
    """
    if parameters.results or parameters.images or parameters.stage:
        raise InputError(f"manifest {path.name} names the Model figures itself: give no `results`, `images` or `stage`")
    name, folder = parameters.candidate_name or path.stem, Folder(path.parent, parameters.follow_links)
    columns, keep_links = Columns(REQUIRED, OPTIONAL, IMAGES, BENCHMARK), uncut(parameters)
    tasks: set[str] = set()
    entries: dict[tuple[str, str], Entry] = {}
    first: dict[tuple[str, str], str] = {}
    for row in find_rows(path, problems):
        if not columns.meet(row, problems):
            continue
        task = str(row.values.get("task", ""))
        if task not in TASKS:
            found = f"task is {quoted(task)}" if "task" in row.values else "key 'task' is missing"
            problems.add(row.where, Habitual(f"{found}, allowed are {' and '.join(TASKS)}", f"task {task}"))
        tasks.add(task)
        entry = _read(row, flow, name, folder, keep_links, problems) if task == flow else None
        if not entry:
            continue
        key = entry.sample.candidate, entry.sample.sample_id
        if entries.setdefault(key, entry) is not entry:
            problems.add(row.where, met_before(*key, first[key]))
        first.setdefault(key, row.where)
    folder.check_named(problems)
    if columns.check(path.name, problems) and tasks and flow not in tasks:
        problems.add(path.name, f"has no row of task {flow!r}, its tasks are {listed(sorted(tasks))}")
    order = {candidate: number for number, candidate in enumerate(dict.fromkeys(candidate for candidate, _ in entries))}
    return Loaded(sorted(entries.values(), key=lambda entry: order[entry.sample.candidate]), [])


def _read(row: Row, flow: str, name: str, folder: Folder, keep_links: bool, problems: Problems) -> Entry | None:
    entry = read_entry(row, flow, LAYOUT, folder, problems, keep_links)
    found = candidate_and_picture(row, "model_image", folder, name, problems)
    if not entry or not found:
        return None
    candidate, model = found
    pictures = {**entry.sample.pictures, "model": model}
    return entry._replace(sample=replace(entry.sample, candidate=candidate, pictures=pictures))
