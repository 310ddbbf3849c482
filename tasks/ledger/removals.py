"""Traces of removals that were requested, and removal of pictures and pages after `JURY_KEEP_DAYS`."""

import json
import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tasks.errors import InputError
from tasks.files import is_store_name, read_regular, remove_file, remove_folder, write_file
from tasks.ledger.bucket import Bucket
from tasks.ledger.run_files import (
    LONGEST_ROW,
    OUTCOMES,
    REMOVED,
    RUN,
    SOURCE,
    folders_with,
    moment_of,
    read_record,
    record_bytes,
    run_folders,
    start_of,
    whole_lines,
)
from tasks.records import LedgerRecord

UNFINISHED = "forgetting.json"
"""File of a store with its unfinished removals; see `tasks.history.forgetting`."""
_MOST_COST = 1e9
"""Maximum cost of a call; higher values are ignored."""
_REVISION = re.compile(rb'"revision": ?([0-9]{1,6})\b')
_MARK = re.compile(r"revision-(\d{6})")


class RemovedRun(LedgerRecord):
    """Removed run: `removed.json`."""

    run_id: str
    cost: dict[str, float]
    """Month (UTC, `2026-11`) -> cost of its calls."""
    removed_at: str
    """UTC, ISO 8601."""


def mark_of(revision: int) -> str:
    """Return the name of the empty object in a bucket that marks a run with lost rows, so that no file must be read."""
    return f"revision-{revision:06}"


def revision_in(names: Iterable[str]) -> int:
    """Return the revision of a run from the names of its objects in a bucket."""
    return max((int(found[1]) for name in names if (found := _MARK.fullmatch(name))), default=0)


def revision_of(run: Path) -> int:
    """Return the last revision in `run.json` of a run; parsing thousands of whole records would take seconds."""
    with suppress(InputError, OSError):
        found = _REVISION.findall(read_regular(run / RUN, LONGEST_ROW))
        return int(found[-1]) if found else 0
    return 0


def drop_run(store: Path, run_id: str, tombstone: bytes | None = None) -> None:
    """Remove a run's ledger and its waiting files; first write the tombstone, if there is one."""
    if tombstone is not None:
        write_file(store, f"ledger/{run_id}/{REMOVED}", tombstone)
    remove_folder(store, f"batches/{run_id}")
    remove_folder(store, f"ledger/{run_id}", kept=REMOVED)


def note_outdated(store: Path, runs: Sequence[Path]) -> None:
    """Note runs whose copies are out of date, and their pictures, before the copies are removed.

    The removals of another machine are then repeated here for pictures, pages and history.
    """
    there = (store / UNFINISHED).exists()
    noted: dict[str, Any] = json.loads(read_regular(store / UNFINISHED, LONGEST_ROW)) if there else {}
    before: list[str] = noted.get("pictures", [])
    shows = {found.decode() for run in runs for line in _outcomes(run) for found in SOURCE.findall(line)}
    plan: dict[str, Any] = {"kind": "", "name": "", "flow": "", **noted, "pictures": sorted(shows.union(before))}
    if not plan["kind"]:
        plan["runs"] = {**plan.get("runs", {}), **{run.name: {} for run in runs}}
    write_file(store, UNFINISHED, json.dumps(plan).encode())


def is_removing(store: Path) -> bool:
    """Return whether a removal that was asked for here is unfinished: forgotten rows may still be in the ledgers.

    Of another machine's removal, the fetch has replaced the ledgers before anything else is left to do.
    """
    with suppress(FileNotFoundError, ValueError, AttributeError):  # a damaged note may be of any removal
        return bool(json.loads(read_regular(store / UNFINISHED, LONGEST_ROW)).get("kind", True))
    return (store / UNFINISHED).exists()


def _outcomes(run: Path) -> Iterator[bytes]:
    with suppress(InputError, OSError):
        yield from (line for _, line in whole_lines(run / OUTCOMES))


def returned(store: Path) -> list[RemovedRun]:
    """Return the removed runs that exist again, for example from a backup."""
    again = [run for run in folders_with(store, "ledger", REMOVED) if (run / RUN).exists()]
    return [read_record(run / REMOVED, RemovedRun).model_copy(update={"run_id": run.name}) for run in again]


def tombstone_of(run_id: str, cost: Mapping[str, float]) -> bytes:
    """Return the bytes of `removed.json` for a run that is removed now."""
    now = datetime.now(UTC).isoformat()
    return record_bytes(RemovedRun(run_id=run_id, cost=dict(cost), removed_at=now))


def removed_costs(store: Path, month: str) -> dict[str, float]:
    """Return the cost in a month of rows that were removed later, by run."""
    rewritten = (run for run in run_folders(store) if revision_of(run))
    found = {start.run_id: start.removed_cost.get(month, 0.0) for start in map(start_of, rewritten) if start}
    for run in folders_with(store, "ledger", REMOVED):
        with suppress(InputError, OSError):  # a damaged one counts 0, so that it blocks no run
            found[run.name] = read_record(run / REMOVED, RemovedRun).cost.get(month, 0.0)
    return {run_id: amount for run_id, amount in found.items() if 0 < amount < _MOST_COST}


def cost_by_month(rows: Iterable[Mapping[str, Any]], before: Mapping[str, float]) -> dict[str, float]:
    """Return the cost of rows by the month of their calls, plus earlier removals; reused replies cost nothing."""
    cost = defaultdict[str, float](float, before)
    for row in rows:
        moment = moment_of(str(row.get("judged_at", "")))
        amount = _amount(row.get("price")) + _amount(row.get("estimated"))
        if moment and amount and not row.get("reused_from"):
            cost[f"{moment:%Y-%m}"] += amount
    return dict(cost)


def _amount(value: object) -> float:
    """Return an amount of money; 0 for any other value, which a stranger's row may contain."""
    return float(value) if isinstance(value, int | float) and abs(value) < _MOST_COST else 0.0


VARIABLE = "JURY_KEEP_DAYS"
PAGES = "pages"
_LENGTH = len("20261120T120000")
"""Length of the time at the beginning of a page's name, if the page shows one evaluation."""


def keep_days() -> int:
    """Return the number of days that pictures and pages are kept; 0: forever.

    Raises:
        InputError: the environment variable is not a number of days.
    """
    text = os.environ.get(VARIABLE, "").strip() or "0"
    if not re.fullmatch("[0-9]{1,5}", text):
        raise InputError(f"{VARIABLE} is {text!r}: allowed is a number of whole days, such as 90; 0 or unset keeps all")
    return int(text)


def oldest_kept(now: datetime | None = None) -> datetime | None:
    """Return the time before which pictures and pages are removed; None: all are kept.

    Raises:
        InputError: as in `keep_days`.
    """
    days = keep_days()
    return (now or datetime.now(UTC)) - timedelta(days=days) if days else None


def remove_old(store: Path, bucket: Bucket | None = None, now: datetime | None = None) -> int:
    """Remove the files that the rule of this process's environment does not keep; return their number.

    Raises:
        InputError: as in `keep_days`; or the folder of pictures or pages is a link.
        OSError: the disk, or the remote store (RemoteUnavailable), fails.
    """
    before = oldest_kept(now)
    old = {name for name in _old(store, before) if is_store_name(name)} if before else set[str]()
    if bucket and before:
        bucket.remove([*_old_there(bucket, before, old)])
    for name in old:
        remove_file(store, name)
        if name.startswith(f"{PAGES}/"):
            remove_folder(store, beside(name))
    return len(old)


def beside(page: str) -> str:
    """Return the folder beside a page with its pictures, if there is one."""
    return f"{page.removesuffix('.html')}.files"


def _old(store: Path, before: datetime) -> Iterator[str]:
    for file in [*(store / "pictures").glob("*.jpg"), *(store / "pictures" / "waiting").glob("*")]:
        if file.lstat().st_mtime < before.timestamp():
            yield file.relative_to(store).as_posix()
    for page in (store / PAGES).glob("*.html"):
        shown_at = _began(page.name) or page.lstat().st_mtime  # of a comparison, the time of its making
        if page.name != "index.html" and shown_at < before.timestamp():
            yield page.relative_to(store).as_posix()


def _old_there(bucket: Bucket, before: datetime, old: Collection[str]) -> Iterator[str]:
    """Yield the objects of these old files, and of old pages that other machines have made."""
    for name in filter(is_store_name, bucket.sizes(PAGES)):
        page = name if name.endswith(".html") else f"{name.partition('.files/')[0]}.html"
        if page in old or 0 < _began(page.removeprefix(f"{PAGES}/")) < before.timestamp():
            yield name
    if old:
        yield from (name for name in bucket.sizes("pictures") if name in old)


def _began(page: str) -> float:
    """Return the time of a page's evaluation, from the page's name; 0 for a comparison."""
    with suppress(ValueError):
        return datetime.strptime(page[:_LENGTH], "%Y%m%dT%H%M%S").replace(tzinfo=UTC).timestamp()
    return 0.0


def why_missing(began: datetime) -> str:
    """Return a sentence why pictures of an evaluation begun then may be missing; "": not because of this rule."""
    before = oldest_kept()
    if not before or began >= before:
        return ""
    days = keep_days()
    return f"Pictures that were last judged more than {days:,} days ago are removed from this store ({VARIABLE})."
