"""Removal of a run, candidate or sample: its plan, kept until it is done, and its effects on every file."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, Literal, cast

from pydantic import Field, ValidationError
from pydantic_core import from_json, to_json

from tasks.errors import InputError
from tasks.files import (
    MOST_BYTES,
    alone,
    is_sha256,
    is_store_folder,
    is_store_name,
    names_in,
    read_regular,
    remove_drafts,
    remove_file,
    remove_folder,
    rewrite_file,
    write_file,
)
from tasks.history.landing import make_anew
from tasks.ledger import labels, side_records
from tasks.ledger.labels import LABEL_PAGES, Exchanged, exchange_labels
from tasks.ledger.passports import PASSPORTS
from tasks.ledger.remote import FETCHED, Remote
from tasks.ledger.removals import PAGES, UNFINISHED, cost_by_month, drop_run, tombstone_of
from tasks.ledger.run_files import (
    BATCHES,
    END,
    JUDGMENTS,
    OUTCOMES,
    RUN,
    is_waiting,
    is_written,
    line_of,
    moment_of,
    read_end,
    read_record,
    read_start,
    read_valid,
    record_bytes,
    run_folders,
    start_of,
    whole_lines,
)
from tasks.ledger.side_records import ALARMS, BRIDGES, OTHER_CALLS
from tasks.records import ANCHOR, Record, RunEnd, RunStart

FILES = (JUDGMENTS, OUTCOMES)

Kind = Literal["run", "candidate", "sample", ""]
Row = Mapping[str, Any]


class Change(Record):
    """Change of one run."""

    revision: int = 0
    """New revision of the run; 0: the whole run is removed."""
    cost: dict[str, float] = Field(default_factory=dict[str, float])
    """Month -> cost of all rows that were ever removed from it."""
    rows: dict[str, int] = Field(default_factory=dict[str, int])
    """File of the ledger -> number of removed rows."""


class Plan(Record):
    """Data to remove from a store: `forgetting.json`."""

    kind: Kind
    """Kind of `name`; empty: another machine requested the removal, and the bucket's runs replace those here."""
    name: str
    flow: str
    """Flow to which the removal is limited; empty: all flows."""
    runs: dict[str, Change] = Field(default_factory=dict[str, Change])
    """Run -> its change; without a kind, a run whose copy here was out of date."""
    pictures: tuple[str, ...] = ()
    """SHA-256 of the pictures in removed data; only those that no other data show are removed."""

    def means(self, flow: str, row: Row) -> bool:
        """Return whether a row of a flow is about the candidate or the sample."""
        if self.kind not in ("candidate", "sample") or self.flow not in ("", flow):
            return False
        if self.kind == "candidate":
            return row.get("candidate") == self.name
        sample = str(row.get("sample_id", ""))
        # The id of an image has no slash in an anchor's manifest.
        return sample == self.name or (row.get("control") == ANCHOR and sample.replace("_", "/") == self.name)

    def goes(self, flow: str, row: Row) -> bool:
        """Return whether a row of a run is removed: it is about the name, or a control with a picture of such a row."""
        return self.means(flow, row) or (is_control(row) and not pictures_of(row).isdisjoint(self.pictures))


def is_control(row: Row) -> bool:
    """Return whether a row is about a control sample, which shows pictures of other samples."""
    return row.get("control") not in ("", None, ANCHOR)


def make_plan(store: Path, kind: Kind, name: str, flow: str) -> Plan:
    """Search all runs for the data to remove, without changing anything."""
    starts = {run: start_of(run) for run in run_folders(store)}
    plan = Plan(kind=kind, name=name, flow=flow)
    shows, stays = set[str](), set[str]()
    for run, start in starts.items():
        whole = is_whole(plan, run, start)
        for row in all_rows(run):
            if whole or (start and plan.means(start.flow, row)):
                shows |= pictures_of(row)
            elif not is_control(row):
                stays |= pictures_of(row)
    plan = plan.model_copy(update={"pictures": tuple(sorted(shows - stays))})
    changes = {run.name: _change(plan, run, start) for run, start in starts.items()}
    return plan.model_copy(update={"runs": {name: change for name, change in changes.items() if change}})


def _change(plan: Plan, run: Path, start: RunStart | None) -> Change | None:
    before = start.removed_cost if start else {}
    if is_whole(plan, run, start):
        rows = {file: sum(1 for _ in rows_of(run, file)) for file in FILES}
        return Change(cost=cost_by_month(rows_of(run, JUDGMENTS), before), rows=rows)
    if not start:
        return None
    gone = {file: [row for row in rows_of(run, file) if plan.goes(start.flow, row)] for file in FILES}
    if not any(gone.values()):
        return None
    cost, rows = cost_by_month(gone[JUDGMENTS], before), {file: len(rows) for file, rows in gone.items()}
    return Change(revision=start.revision + 1, cost=cost, rows=rows)


def is_whole(plan: Plan, run: Path, start: RunStart | None) -> bool:
    """Return whether a whole run is removed: the name is its own, its evaluation's, or that of its only candidate."""
    if plan.kind == "run":
        return plan.name in (run.name, start.evaluation_id if start else run.name)
    if plan.kind != "candidate" or not start or plan.flow not in ("", start.flow):
        return False
    return bool(start.candidates) and {*start.candidates} == {plan.name}


def shown(store: Path) -> set[str]:
    """Return the SHA-256 of all pictures in rows of the store."""
    return {sha256 for run in run_folders(store) for row in all_rows(run) for sha256 in pictures_of(row)}


def all_rows(run: Path) -> Iterator[Row]:
    """Yield the rows of a run's judgments and outcomes, valid or not."""
    for file in FILES:
        yield from rows_of(run, file)


def rows_of(run: Path, file: str) -> Iterator[Row]:
    """Yield the rows of a file of a ledger; lines that are not JSON objects are skipped, and remain in the file."""
    with suppress(InputError, OSError):
        yield from (row for _, line in whole_lines(run / file) if (row := row_of(line)))


def row_of(line: bytes) -> dict[str, Any] | None:
    """Parse a line without validation; None if it is not a JSON object."""
    try:
        row = from_json(line)
    except ValueError:
        return None
    return cast("dict[str, Any]", row) if isinstance(row, dict) else None


def pictures_of(row: Row) -> set[str]:
    """Return the SHA-256 of the files of all pictures in a row."""
    notes: Any = row.get("pictures")
    found = cast("dict[str, Any]", notes).values() if isinstance(notes, dict) else ()
    told = (cast("dict[str, Any]", note).get("source_sha256") for note in found if isinstance(note, dict))
    return {sha256 for sha256 in told if isinstance(sha256, str) and is_sha256(sha256)}


def alone_with_plan(store: Path) -> AbstractContextManager[None]:
    """Wait until no other process of this machine plans or completes a removal in this store."""
    return alone(store)


def keep_plan(store: Path, plan: Plan) -> None:
    """Write a plan, before any of it is done."""
    for run_id in plan.runs:
        if not is_store_name(f"ledger/{run_id}/run.json"):
            raise InputError(f"{store}: refused to change the run {run_id[:80]!r}: it is no name of a run")
    write_file(store, UNFINISHED, plan.model_dump_json().encode())


def plan_of(store: Path) -> Plan | None:
    """Return the unfinished plan; None: there is none.

    Raises:
        InputError: it is damaged.
    """
    try:
        return Plan.model_validate_json(read_regular(store / UNFINISHED, MOST_BYTES))
    except FileNotFoundError:
        return None
    except ValidationError:
        raise InputError(
            f"{store / UNFINISHED} is damaged: remove it, and give the `jury store forget` again that was stopped"
        ) from None


UNNAMED = "forgotten"
"""Replacement for a name in the parameters of a run."""


def rewrite_run(store: Path, run: Path, plan: Plan, change: Change) -> None:
    """Remove the rows of a plan from a run that is kept; a repetition after a kill has the same result.

    The new revision is written first: from then on no copy of the run counts as equal.
    """
    start, end = read_start(run), read_end(run)
    name = f"ledger/{run.name}"
    write_file(store, f"{name}/{RUN}", record_bytes(_begun(start, plan, change)))
    if end:  # before the rows: a ledger with more rows than its end record counts is not damaged
        write_file(store, f"{name}/{END}", record_bytes(_ended(start, end, run, plan, change)))
    for file in (OUTCOMES, JUDGMENTS):
        if (run / file).exists():
            rewrite_file(store, f"{name}/{file}", _staying(run / file, plan, start.flow))
    if (run / BATCHES).exists():
        rewrite_file(store, f"{name}/{BATCHES}", _unsaid(run / BATCHES, plan))


def _unsaid(path: Path, plan: Plan) -> Iterator[bytes]:
    """Yield the log of a run's batches; messages for the reader of the run do not name the forgotten data."""
    for _, line in whole_lines(path):
        row = row_of(line)
        yield to_json({**row, "said": _not_naming(plan, row["said"])}) + b"\n" if row and row.get("said") else line


def _staying(path: Path, plan: Plan, flow: str) -> Iterator[bytes]:
    for _, line in whole_lines(path):
        row = row_of(line)
        if not row or not plan.goes(flow, row):
            yield line


def _begun(start: RunStart, plan: Plan, change: Change) -> RunStart:
    candidates = tuple(each for each in start.candidates if plan.kind != "candidate" or each != plan.name)
    told = {
        "parameters": cast("dict[str, object]", _unnamed(start.parameters, plan.name)),
        "dataset": cast(str, _unnamed(start.dataset, plan.name)),
        "candidates": candidates,
    }
    return start.model_copy(update={**told, "revision": change.revision, "removed_cost": change.cost})


def _ended(start: RunStart, end: RunEnd, run: Path, plan: Plan, change: Change) -> RunEnd:
    kept = {file: _kept_rows(start, run, file, plan) for file in (JUDGMENTS, OUTCOMES)}
    judged, decided = kept[JUDGMENTS], kept[OUTCOMES]
    asked = [row for row in judged if not row.get("reused_from")]
    call = ("sample_id", "candidate", "dimension", "order", "vote")
    real = [row for row in judged if not row.get("control")]
    last = {tuple(str(row.get(each)) for each in call): str(row.get("status")) for row in real}
    return end.model_copy(
        update={
            "ledger_rows": {file: len(rows) for file, rows in kept.items()},
            "calls": len(asked),
            "control_calls": sum(bool(row.get("control")) for row in asked),
            "reused": len(judged) - len(asked),
            "judgments": dict(Counter(last.values())),
            "outcomes": dict(Counter(str(row.get("status")) for row in decided if not row.get("control"))),
            "warnings": _warnings(end, plan, change),
        }
    )


def _warnings(end: RunEnd, plan: Plan, change: Change) -> tuple[str, ...]:
    told = _not_naming(plan, end.warnings)
    replies, outcomes = (change.rows.get(file, 0) for file in (JUDGMENTS, OUTCOMES))
    note = (
        f"{replies:,} replies and {outcomes:,} outcomes were forgotten at a request (revision {change.revision}): no "
        "count and no score has them, and they are no missing output."
    )
    return tuple(dict.fromkeys([*told, note]))


def _not_naming(plan: Plan, said: Sequence[str]) -> list[str]:
    named = re.compile(rf"(?<!\w){re.escape(plan.name)}(?!\w)")
    return [words for words in said if not named.search(words)]


def _kept_rows(start: RunStart, run: Path, file: str, plan: Plan) -> list[dict[str, Any]]:
    """Return the rows that are kept, without their long texts."""
    wanted = ("sample_id", "candidate", "control", "dimension", "order", "vote", "status", "reused_from")
    rows = rows_of(run, file)
    return [{name: row.get(name) for name in wanted} for row in rows if not plan.goes(start.flow, row)]


def _unnamed(value: object, name: str) -> object:
    """Return a parameter without the name, alone or as a part of a path; lists drop the name."""
    match value:
        case str():
            parts = [UNNAMED if name in (part, PurePosixPath(part).stem) else part for part in value.split("/")]
            return UNNAMED if value == name else "/".join(parts)
        case list():
            return [_unnamed(each, name) for each in cast("list[object]", value) if each != name]
        case dict():
            return {key: _unnamed(each, name) for key, each in cast("dict[str, object]", value).items()}
        case _:
            return value


ANCHORS = "anchors"
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
        rows = [*read_valid(folder / labels.LABELS, labels.LabelRow)]
        of_run = {"of_run": about.of_run}
        stay = [row for row in rows if not _goes(plan, about.flow, {**row.model_dump(), **of_run})]
        if len(stay) == len(rows) == about.labels:
            continue
        people = tuple(each for each in about.annotators if each in {row.annotator for row in stay})
        told = about.model_copy(update={"labels": len(stay), "annotators": people})
        yield f"{name}/{labels.LABELS}", b"".join(line_of(row) for row in stay)
        yield f"{name}/{labels.ABOUT}", record_bytes(told) if stay else b""
        if not stay:
            yield labels.mark_of(folder.name, about.source_sha256), labels.MARK


def _label_pages(store: Path, plan: Plan) -> Written:
    for file in sorted((store / labels.LABEL_PAGES).glob("*.json")):
        page = read_record(file, labels.LabelPage)
        of_run = {"of_run": page.of_run}
        stay = tuple(item for item in page.items if not _goes(plan, page.flow, {**item.model_dump(), **of_run}))
        if len(stay) < len(page.items):
            tokens = (item.token for item in page.items if item not in stay)
            told = page.model_copy(update={"items": stay, "forgotten": (*page.forgotten, *tokens)})
            yield f"{labels.LABEL_PAGES}/{file.name}", record_bytes(told) if stay else b""


def _anchors(store: Path, plan: Plan) -> Written:
    """Yield the files of sets that show forgotten data, or that only removed runs used; later runs draw new sets."""
    starts = {run.name: start for run in run_folders(store) if (start := start_of(run))}
    whole = {run_id for run_id, change in plan.runs.items() if not change.revision}
    keys = {start.anchors_key for run_id, start in starts.items() if run_id in whole}
    keys -= {start.anchors_key for run_id, start in starts.items() if run_id not in whole}
    for manifest in sorted((store / ANCHORS).glob("*/[!.]*/anchors.jsonl")):
        flow, data = manifest.parent.parent.name, read_regular(manifest, MOST_BYTES)
        rows = [row for line in data.splitlines() if (row := row_of(line))]
        about = [{**row, "sample_id": row.get("id", ""), "control": ANCHOR} for row in rows]
        if any(plan.means(flow, row) for row in about) or sha256(data).hexdigest() in keys:
            for file in sorted(manifest.parent.rglob("*"), reverse=True):
                if file.is_file() and file.name != manifest.name:
                    yield file.relative_to(store).as_posix(), b""
            yield manifest.relative_to(store).as_posix(), b""


def _rows(store: Path, plan: Plan) -> Written:
    for folder in BRIDGES.folders(store):
        lines = read_regular(folder / BRIDGES.file, MOST_BYTES).splitlines(keepends=True)
        stay = [line for line in lines if not (row := row_of(line)) or not _goes(plan, str(row.get("flow")), row)]
        if len(stay) < len(lines):
            yield f"{BRIDGES.folder}/{folder.name}/{BRIDGES.file}", b"".join(stay)


def _alarms(store: Path, plan: Plan) -> Written:
    for file in sorted((store / side_records.ALARMS).glob("*.json")):
        row = row_of(read_regular(file, MOST_BYTES))
        if row and _goes(plan, str(row.get("flow")), row):
            yield f"{side_records.ALARMS}/{file.name}", b""


ALIVE = timedelta(hours=48)
"""Time after its start in which an unfinished run of another machine may still be written there."""


def check_idle(store: Path) -> None:
    """Raise InputError if a run is being written or waits for a batch: its rows are still to come."""
    for run in run_folders(store):
        if is_waiting(run):
            raise InputError(
                f"run {run.name} waits for its batches: `jury batch collect` takes its replies in, `jury batch cancel "
                f"{run.name}` stops it; the same command forgets then"
            )
        if is_written(run):
            raise InputError(
                f"run {run.name} is being written: wait for its end, or stop it (Ctrl-C); the same command forgets then"
            )
        if (run / FETCHED).exists() and not (run / END).exists() and _may_be_alive(run):
            raise InputError(
                f"run {run.name} of another machine has no end yet: the same command forgets when it has one, or "
                f"{ALIVE.days * 24} hours after it began"
            )


def _may_be_alive(run: Path) -> bool:
    start = start_of(run)
    began = moment_of(start.started_at) if start else None
    return began is not None and datetime.now(UTC) - began < ALIVE


def carry_out(store: Path, remote: Remote | None) -> None:
    """Execute the plan of a store, if there is one; remove all pages, and rebuild the history from the remaining data.

    For a removal on another machine, the history keeps all runs that were not out of date: nobody here was asked.

    Raises:
        InputError: a run is being written; a record beside the ledgers is damaged; the history cannot be made.
        OSError: the disk, or the remote store (RemoteUnavailable), fails; a second call does the rest.
    """
    plan = plan_of(store)
    if not plan:
        return
    if plan.kind:
        check_idle(store)
        _remove_beside(store, remote, plan)
        _remove_rows(store, remote, plan)
    elif remote:  # before the history is made from these files
        exchange_beside(remote)
    _remove_pictures(store, remote, plan)
    remove_drafts(store)
    for name in names_in(store, PAGES):
        if is_store_name(f"{PAGES}/{name}"):
            remove_file(store, f"{PAGES}/{name}")
        elif is_store_folder(f"{PAGES}/{name}"):
            remove_folder(store, f"{PAGES}/{name}")
    if remote and plan.kind:
        remote.bucket.remove([each for each in remote.bucket.sizes(PAGES) if is_store_name(each)])
    make_anew(store, None if plan.kind else plan.runs)
    remove_file(store, UNFINISHED)


def exchange_beside(remote: Remote) -> Exchanged:
    """Exchange the files beside the ledgers of runs with a bucket, without forgotten data; return labels' names.

    Raises:
        InputError: a link leads out of the store.
        RemoteUnavailable: the network or the store fails.
    """
    for name in (PASSPORTS, ALARMS, BRIDGES.folder, OTHER_CALLS.folder, LABEL_PAGES, ANCHORS):
        remote.share_folder(name)
    return exchange_labels(remote)


def settle(store: Path, remote: Remote | None) -> None:
    """Repeat here the removals of another machine, after its runs were fetched; skip a plan of this store's own.

    Raises:
        InputError: the history cannot be made.
        OSError: the disk or the remote store fails.
    """
    plan = plan_of(store)
    if plan and not plan.kind:
        if remote:
            remote.fetch()  # runs of any age: the history is rebuilt from their ledgers
        carry_out(store, remote)


def _remove_beside(store: Path, remote: Remote | None, plan: Plan) -> None:
    """Remove or rewrite the files beside the ledgers, in the bucket first: local files show the rest after a kill.

    Each removed file leaves an object without bytes: other machines remove theirs, and do not send it again.
    """
    for name, data in [*changes(store, plan)]:
        if remote:
            remote.bucket.put({name: data})
        if data:
            write_file(store, name, data)
        else:
            remove_file(store, name)


def _remove_rows(store: Path, remote: Remote | None, plan: Plan) -> None:
    for run_id, change in plan.runs.items():
        run = store / "ledger" / run_id
        if not change.revision:
            tombstone = tombstone_of(run_id, change.cost)
            drop_run(store, run_id, tombstone)
            if remote:
                remote.replace_by_tombstone(run_id, tombstone)
            continue
        if (run / RUN).exists():
            rewrite_run(store, run, plan, change)
            # `jury batch collect` removes the endpoint's files of an ended batch later; it finds the run by the lock.
            remove_folder(store, f"batches/{run_id}", kept="lock")
        if remote:
            remote.replace(run_id, change.revision)


def _remove_pictures(store: Path, remote: Remote | None, plan: Plan) -> None:
    """Remove the pictures of the plan, and those that a killed run left, unless a row still shows them."""
    here = {Path(name).stem for name in [*names_in(store, "pictures"), *names_in(store, "pictures/waiting")]}
    # A run that is being written may have a picture before its row; a plan of our own waits for the run's end.
    gone = {sha256 for sha256 in {*plan.pictures, *(here if plan.kind else ())} - shown(store) if is_sha256(sha256)}
    if remote and plan.kind:
        there = remote.bucket.sizes("pictures")
        remote.bucket.remove([name for sha256 in sorted(gone) if (name := f"pictures/{sha256}.jpg") in there])
    for picture in gone:
        remove_file(store, f"pictures/{picture}.jpg")
        remove_file(store, f"pictures/waiting/{picture}")
