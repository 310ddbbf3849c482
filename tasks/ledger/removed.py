"""What a ledger keeps of what was removed from it at a request: its cost, and that a copy of it is an old one.

A run that lost rows has a higher `revision` in `run.json`; a removed run leaves `removed.json`, and nothing else.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import Field

from tasks.errors import InputError
from tasks.files import read_regular
from tasks.ledger.reading import OUTCOMES, REMOVED, RUN, moment_of, read_record, read_start, run_folders, whole_lines
from tasks.ledger.writing import record_bytes
from tasks.records import SCHEMA, Record, RunStart
from tasks.store_files import remove_folder, write_file

UNFINISHED = "forgetting.json"
"""In a store: what is still to be forgotten; see `tasks.forgetting.plan`."""
_MOST_BYTES = 2**26
_MOST_COST = 1e9
"""A call that costs more is none."""
_REVISION = re.compile(rb'"revision": ?([0-9]{1,6})\b')
PICTURE = re.compile(rb'"source_sha256":\s*"([0-9a-f]{64})"')
_MARK = re.compile(r"revision-(\d{6})")


class RemovedRun(Record):
    """A run that was removed: `removed.json`."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    run_id: str
    cost: dict[str, float]
    """Month (UTC, `2026-11`) -> what its calls cost."""
    removed_at: str
    """UTC, ISO 8601."""


def mark_of(revision: int) -> str:
    """Name of the empty object by which a bucket shows, without a file being read, that a run lost rows."""
    return f"revision-{revision:06}"


def revision_in(names: Iterable[str]) -> int:
    """Return the revision of a run by the names of its objects in a bucket."""
    return max((int(found[1]) for name in names if (found := _MARK.fullmatch(name))), default=0)


def revision_of(run: Path) -> int:
    """Return the revision that `run.json` of a run names last; to read all of thousands of records takes seconds."""
    with suppress(InputError, OSError):
        found = _REVISION.findall(read_regular(run / RUN, _MOST_BYTES))
        return int(found[-1]) if found else 0
    return 0


def start_of(run: Path) -> RunStart | None:
    """Return what a run set out to do; None where its record is damaged, which `sync` reports."""
    with suppress(InputError, OSError):
        return read_start(run)
    return None


def drop_run(store: Path, run_id: str, tombstone: bytes | None = None) -> None:
    """Remove a run's ledger and its waiting files; the tombstone, if there is one, is written before."""
    if tombstone is not None:
        write_file(store, f"ledger/{run_id}/{REMOVED}", tombstone)
    remove_folder(store, f"batches/{run_id}")
    remove_folder(store, f"ledger/{run_id}", kept=REMOVED)


def note_outdated(store: Path, runs: Sequence[Path]) -> None:
    """Note that copies of runs are out of date before they are removed, and which pictures they show.

    What another machine removed is then done here, too: pictures, pages and history.
    """
    there = (store / UNFINISHED).exists()
    noted: dict[str, Any] = json.loads(read_regular(store / UNFINISHED, _MOST_BYTES)) if there else {}
    before: list[str] = noted.get("pictures", [])
    shows = {found.decode() for run in runs for line in _outcomes(run) for found in PICTURE.findall(line)}
    plan: dict[str, Any] = {"kind": "", "name": "", "flow": "", **noted, "pictures": sorted(shows.union(before))}
    write_file(store, UNFINISHED, json.dumps(plan).encode())


def _outcomes(run: Path) -> Iterator[bytes]:
    with suppress(InputError, OSError):
        yield from (line for _, line in whole_lines(run / OUTCOMES))


def returned(store: Path) -> list[RemovedRun]:
    """Return the runs that were removed and are there again, as from a backup."""
    again = [run for run in _tombstones(store) if (run / RUN).exists()]
    return [read_record(run / REMOVED, RemovedRun).model_copy(update={"run_id": run.name}) for run in again]


def tombstone_of(run_id: str, cost: Mapping[str, float]) -> bytes:
    """Return the bytes of `removed.json`."""
    now = datetime.now(UTC).isoformat()
    return record_bytes(RemovedRun(run_id=run_id, cost=dict(cost), removed_at=now))


def removed_costs(store: Path, month: str) -> dict[str, float]:
    """Return what was spent in a month on rows that were removed since, by run."""
    rewritten = (run for run in run_folders(store) if revision_of(run))
    found = {start.run_id: start.removed_cost.get(month, 0.0) for start in map(start_of, rewritten) if start}
    for run in _tombstones(store):
        with suppress(InputError, OSError):  # a damaged one counts nothing, and keeps nobody from a run
            found[run.name] = read_record(run / REMOVED, RemovedRun).cost.get(month, 0.0)
    return {run_id: amount for run_id, amount in found.items() if amount}


def cost_by_month(rows: Iterable[Mapping[str, Any]], before: Mapping[str, float]) -> dict[str, float]:
    """Return what rows cost by the month of their calls, with what was removed before; reused replies cost nothing."""
    cost = defaultdict[str, float](float, before)
    for row in rows:
        moment = moment_of(str(row.get("judged_at", "")))
        amount = _amount(row.get("price")) + _amount(row.get("estimated"))
        if moment and amount and not row.get("reused_from"):
            cost[f"{moment:%Y-%m}"] += amount
    return dict(cost)


def _amount(value: object) -> float:
    """Return an amount of money; 0 for anything else, which the row of a stranger may hold."""
    return float(value) if isinstance(value, int | float) and abs(value) < _MOST_COST else 0.0


def _tombstones(store: Path) -> Iterator[Path]:
    return (path.parent for path in (store / "ledger").glob(f"*/{REMOVED}"))
