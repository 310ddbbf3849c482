"""What lies beside the ledgers of runs and tells of them: pictures, labels, pages for people, anchors, bridges, layout
checks, alarms, claims on a budget.

Each of these functions takes out of one folder what is meant, and yields a sentence for all that goes there.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from tasks.files import read_regular
from tasks.forgetting.found import Found, rows_of
from tasks.forgetting.place import Place
from tasks.ledger import alarm_records, label_pages
from tasks.ledger import label_sets as labels
from tasks.ledger.bridges import BRIDGES
from tasks.ledger.checksums import sealed
from tasks.ledger.forgotten import token_of
from tasks.ledger.layout_checks import LAYOUT_CHECKS
from tasks.ledger.meant import started
from tasks.ledger.reading import read_record, read_rows, run_folders
from tasks.ledger.remote_pictures import PICTURES
from tasks.records import ANCHOR, RunStart
from tasks.spending.reservations import month_of
from tasks.spending.shelves import BucketShelf, LocalShelf, Shelf

MOST_BYTES = 2**28
_HASH = 16
"""Digits of the manifest's hash in the name of a set of anchors."""


def pictures(place: Place, found: Found) -> Iterator[str]:
    """Pictures that nobody else shows, and those that no row tells of: a run was killed before it could."""
    folder = place.store / "pictures"
    kept = [*folder.glob("*.jpg"), *(folder / "waiting").glob("*")] if folder.is_dir() else []
    going = [file for file in kept if file.stem in found.pictures or file.stem not in found.shown]
    if going:
        shared = f"; {found.shared:,} others stay, for what stays shows them, too" if found.shared else ""
        yield f"{len(going):,} picture{'s' if len(going) > 1 else ''}{shared}"
    place.remove(file.relative_to(place.store).as_posix() for file in going)
    place.remove(f"pictures/{each}.jpg" for each in found.pictures)
    note = place.store / PICTURES
    if note.exists() and not place.is_dry:
        lines = note.read_text(encoding="utf-8").splitlines()
        place.write(PICTURES, "".join(f"{each}\n" for each in lines if Path(each).stem not in found.pictures).encode())


def label_rows(place: Place, found: Found) -> Iterator[str]:
    """Labels of people: all that were given on a page of a run that goes, and those about what is meant."""
    for folder in labels.label_folders(place.store):
        about, name = labels.read_label_set(folder), f"labels/{folder.name}"
        rows = [labels.LabelRow.model_validate(row) for row in read_rows(folder / labels.LABELS)]
        stay = [row for row in rows if not found.meant.row(about.flow, row.model_dump(), about.imported_at)]
        if about.of_run and found.meant.name("run", about.flow, about.of_run, about.imported_at):
            stay = []
        if len(stay) == len(rows) == about.labels:
            continue
        yield f"labels {folder.name}: {len(rows) - len(stay):,} of {len(rows):,}"
        if not stay:
            place.remove_folder(name, last=labels.ABOUT)
            continue
        people = tuple(each for each in about.annotators if each in {row.annotator for row in stay})
        told = about.model_copy(update={"labels": len(stay), "annotators": people})
        place.write(f"{name}/{labels.ABOUT}", sealed(told.model_dump_json(indent=1)))
        place.write(f"{name}/{labels.LABELS}", b"".join(sealed(row.model_dump_json()) for row in stay))


def pages_for_people(place: Place, found: Found) -> Iterator[str]:
    """What the store keeps of pages of `jury label`."""
    for file in sorted((place.store / label_pages.FOLDER).glob("*.json")):
        page, name = read_record(file, label_pages.LabelPage), f"{label_pages.FOLDER}/{file.name}"
        stay = tuple(item for item in page.items if not found.meant.row(page.flow, item.model_dump(), page.made_at))
        if found.meant.name("run", page.flow, page.of_run, page.made_at):
            stay = ()
        if len(stay) < len(page.items):
            yield f"page for people {page.page_id}: {len(page.items) - len(stay):,} of {len(page.items):,} items"
            if stay:
                place.write(name, sealed(page.model_copy(update={"items": stay}).model_dump_json(indent=1)))
            else:
                place.remove([name])


def anchors(place: Place, found: Found) -> Iterator[str]:
    """Frozen anchors: rows of what is meant with their pictures, and whole sets that only runs which go have judged."""
    judged = {start.anchors_key for start, _ in found.whole.values() if start} - {""}
    for manifest in sorted((place.store / "anchors").glob("*/*/anchors.jsonl")):
        folder, flow = manifest.parent, manifest.parent.parent.name
        data = read_regular(manifest, MOST_BYTES)
        key, moment = sha256(data).hexdigest(), _moment(folder.name)
        lines = data.splitlines(keepends=True)
        stay = [line for line in lines if not found.meant.row(flow, _anchor(line), moment)]
        if key in judged and not any(each.anchors_key == key for each in _staying(place.store, found)):
            stay = []
        if len(stay) == len(lines):
            continue
        yield f"anchors of {flow}: {len(lines) - len(stay):,} of {len(lines):,}; those that stay are a set of their own"
        _set_anew(place, folder, stay, lines)


def _set_anew(place: Place, folder: Path, stay: Sequence[bytes], lines: Sequence[bytes]) -> None:
    old = folder.relative_to(place.store).as_posix()
    digest = sha256(b"".join(stay)).hexdigest()[:_HASH]
    new = f"{old.rpartition('-')[0]}-{digest}"
    kept = {name for line in stay for name in _files(line)}
    for name in sorted(kept):
        place.write(f"{new}/{name}", read_regular(folder / name, MOST_BYTES), always=bool(place.in_bucket))
    if stay:
        place.write(f"{new}/anchors.jsonl", b"".join(stay), always=bool(place.in_bucket))
    place.remove_folder(old, last="anchors.jsonl")


def _anchor(line: bytes) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(line)
    return {"sample_id": row.get("id", ""), "candidate": row.get("candidate", ""), "control": ANCHOR}


def _files(line: bytes) -> list[str]:
    row: dict[str, Any] = json.loads(line)
    return [value for value in row.values() if isinstance(value, str) and re.fullmatch("pictures/[0-9a-f]{64}", value)]


def _moment(name: str) -> str:
    """When a set was frozen, by its name."""
    try:
        return datetime.strptime(name.partition("-")[0], "%Y%m%dT%H%M%S%f").replace(tzinfo=UTC).isoformat()
    except ValueError:
        return ""


def _staying(store: Path, found: Found) -> Iterator[RunStart]:
    for run in run_folders(store):
        if run.name not in found.whole and (start := started(run)):
            yield start


def compared(place: Place, found: Found) -> Iterator[str]:
    """Bridges and layout checks that were made of a run that goes, and the rows of bridges about a candidate."""
    for kept, runs in ((BRIDGES, ("old_run", "new_run")), (LAYOUT_CHECKS, ("published_run", "shared_run"))):
        for folder in kept.folders(place.store):
            name, lines = f"{kept.folder}/{folder.name}", (folder / kept.file).read_bytes().splitlines(keepends=True)
            stay = [line for line in lines if not _is_compared(found, cast("dict[str, Any]", json.loads(line)), runs)]
            if len(stay) == len(lines):
                continue
            yield f"{kept.folder} {folder.name}: {len(lines) - len(stay):,} of {len(lines):,} rows"
            if stay:
                place.write(f"{name}/{kept.file}", b"".join(stay))
            else:
                place.remove_folder(name, last=kept.file)


def _is_compared(found: Found, row: dict[str, Any], runs: Sequence[str]) -> bool:
    flow, moment = str(row.get("flow")), str(row.get("made_at"))
    if any(found.meant.name("run", flow, str(row.get(run)), moment) or row.get(run) in found.whole for run in runs):
        return True
    return found.meant.name("candidate", flow, str(row.get("candidate", "")), moment) is not None


def alarms(place: Place, found: Found) -> Iterator[str]:
    """Restarts and notes of what was told about a candidate, and notes of a night that goes."""
    going: list[str] = []
    for file in sorted((place.store / alarm_records.FOLDER).glob("*.json")):
        row: dict[str, Any] = json.loads(read_regular(file, MOST_BYTES))
        flow, moment = str(row.get("flow")), str(row.get("night_at") or row.get("restarted_at"))
        night, candidate = str(row.get("night", "")), str(row.get("candidate", ""))
        is_run = night in found.whole or found.meant.name("run", flow, night, moment)
        if is_run or found.meant.name("candidate", flow, candidate, moment):
            going.append(f"{alarm_records.FOLDER}/{file.name}")
    if going:
        yield f"{len(going):,} record{'s' if len(going) > 1 else ''} of alarms"
    place.remove(going)


def claims(place: Place, found: Found) -> Iterator[str]:
    """Names of runs in the months' budgets. What was spent stays spent: a token claims it."""
    yield from ()
    if place.is_dry or (not found.whole and not found.parts):
        return
    here = [f"budget/{file.name}" for file in (place.store / "budget").glob("*")]
    now = month_of(datetime.now(UTC))
    for shelf, names in ((LocalShelf(place.store), here), *_in_bucket(place)):
        for name in names:
            if re.fullmatch(r"budget/\d{4}-\d\d\.json", name):
                spent = _spent(place.store, found, now) if name == f"budget/{now}.json" else {}
                shelf.change(name, _without_names(found, spent))


def _in_bucket(place: Place) -> Iterator[tuple[Shelf, list[str]]]:
    names = [name for name in place.in_bucket if name.startswith("budget/") and name.endswith(".json")]
    if place.bucket and names:
        yield BucketShelf(place.bucket), names


def _without_names(found: Found, spent: dict[str, float]) -> Callable[[bytes | None], bytes | None]:
    def changed(data: bytes | None) -> bytes | None:
        told: dict[str, Any] = json.loads(data or b"{}")
        for run in (*found.whole, *found.parts):
            is_whole = run in found.whole
            mark = found.whole[run][1] if is_whole else found.parts[run].mark
            token = token_of(f"{mark.mark_id}-{sha256(run.encode()).hexdigest()[:8]}")
            claim = told.pop(run, {}) if is_whole else told.get(run, {})
            has_ended = bool(claim) and claim.get("until") is None
            amount = claim["amount"] if has_ended else spent.get(run, 0.0)
            # A run that stays and has ended claims for its forgotten rows itself; after a kill the token is there.
            if amount and token not in told and (is_whole or not has_ended):
                told[token] = {"amount": amount, "until": None}
        return json.dumps(told).encode()

    return changed


def _spent(store: Path, found: Found, month: str) -> dict[str, float]:
    """Run -> what those of its rows cost in a month that go."""
    amounts: dict[str, float] = {}
    for run in (*found.whole, *found.parts):
        start = found.parts[run].start if run in found.parts else None
        for _, row in rows_of(store / "ledger" / run, []):
            is_own = str(row.get("judged_at", "")).startswith(month) and not row.get("reused_from")
            if is_own and (start is None or found.goes(row, start)):
                amounts[run] = amounts.get(run, 0.0) + (row.get("price") or 0.0) + (row.get("estimated") or 0.0)
    return amounts


ALL: tuple[Callable[[Place, Found], Iterator[str]], ...] = (
    pictures,
    label_rows,
    pages_for_people,
    anchors,
    compared,
    alarms,
    claims,
)
"""Folder after folder: before the ledgers, whose rows tell what is meant."""
