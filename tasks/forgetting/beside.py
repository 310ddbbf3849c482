"""Files beside the ledgers of runs with forgotten data: labels, pages for people, anchors, bridges, alarms.

Each function yields the name of a file and its new bytes; no bytes: the file is removed.
"""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from tasks.files import read_regular
from tasks.forgetting.plan import Plan, Row, row_of
from tasks.ledger import alarm_records, label_pages
from tasks.ledger import label_sets as labels
from tasks.ledger.bridges import BRIDGES
from tasks.ledger.reading import read_record, read_rows, run_folders
from tasks.ledger.removed import start_of
from tasks.ledger.writing import line_of, record_bytes
from tasks.records import ANCHOR

ANCHORS = "anchors"
_MOST_BYTES = 2**28
_RUNS = ("of_run", "old_run", "new_run", "published_run", "shared_run", "night")
"""Fields of a row that name a run."""

Written = Iterator[tuple[str, bytes]]


def changes(store: Path, plan: Plan) -> Written:
    """Return all files beside the ledgers that change, with their new bytes; b"": the file is removed."""
    return (found for each in (_labels, _label_pages, _anchors, _rows, _alarms) for found in each(store, plan))


def _goes(plan: Plan, flow: str, row: Row) -> bool:
    """Return whether a row concerns the forgotten data, or a run that is removed whole."""
    whole = {run_id for run_id, change in plan.runs.items() if not change.revision}
    return plan.means(flow, row) or any(str(row.get(field)) in whole for field in _RUNS)


def _labels(store: Path, plan: Plan) -> Written:
    for folder in labels.label_folders(store):
        about, name = labels.read_label_set(folder), f"labels/{folder.name}"
        rows = [labels.LabelRow.model_validate(row) for row in read_rows(folder / labels.LABELS)]
        of_run = {"of_run": about.of_run}
        stay = [row for row in rows if not _goes(plan, about.flow, {**row.model_dump(), **of_run})]
        if len(stay) == len(rows) == about.labels:
            continue
        people = tuple(each for each in about.annotators if each in {row.annotator for row in stay})
        told = about.model_copy(update={"labels": len(stay), "annotators": people})
        yield f"{name}/{labels.LABELS}", b"".join(line_of(row) for row in stay)
        yield f"{name}/{labels.ABOUT}", record_bytes(told) if stay else b""


def _label_pages(store: Path, plan: Plan) -> Written:
    for file in sorted((store / label_pages.FOLDER).glob("*.json")):
        page = read_record(file, label_pages.LabelPage)
        of_run = {"of_run": page.of_run}
        stay = tuple(item for item in page.items if not _goes(plan, page.flow, {**item.model_dump(), **of_run}))
        if len(stay) < len(page.items):
            told = page.model_copy(update={"items": stay})
            yield f"{label_pages.FOLDER}/{file.name}", record_bytes(told) if stay else b""


def _anchors(store: Path, plan: Plan) -> Written:
    """Yield the files of sets that show forgotten data, or that only removed runs used; later runs draw new sets."""
    starts = {run.name: start for run in run_folders(store) if (start := start_of(run))}
    whole = {run_id for run_id, change in plan.runs.items() if not change.revision}
    keys = {start.anchors_key for run_id, start in starts.items() if run_id in whole}
    keys -= {start.anchors_key for run_id, start in starts.items() if run_id not in whole}
    for manifest in sorted((store / ANCHORS).glob("*/*/anchors.jsonl")):
        flow, data = manifest.parent.parent.name, read_regular(manifest, _MOST_BYTES)
        rows = [row for line in data.splitlines() if (row := row_of(line))]
        about = [{**row, "sample_id": row.get("id", ""), "control": ANCHOR} for row in rows]
        if any(plan.means(flow, row) for row in about) or sha256(data).hexdigest() in keys:
            for file in sorted(manifest.parent.rglob("*"), reverse=True):
                if file.is_file() and file.name != manifest.name:
                    yield file.relative_to(store).as_posix(), b""
            yield manifest.relative_to(store).as_posix(), b""


def _rows(store: Path, plan: Plan) -> Written:
    for folder in BRIDGES.folders(store):
        lines = read_regular(folder / BRIDGES.file, _MOST_BYTES).splitlines(keepends=True)
        stay = [line for line in lines if not (row := row_of(line)) or not _goes(plan, str(row.get("flow")), row)]
        if len(stay) < len(lines):
            yield f"{BRIDGES.folder}/{folder.name}/{BRIDGES.file}", b"".join(stay)


def _alarms(store: Path, plan: Plan) -> Written:
    for file in sorted((store / alarm_records.FOLDER).glob("*.json")):
        row = row_of(read_regular(file, _MOST_BYTES))
        if row and _goes(plan, str(row.get("flow")), row):
            yield f"{alarm_records.FOLDER}/{file.name}", b""
