"""Ledgers of runs that lose rows: removal of the rows, and update of counts, names and warnings."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, cast

from tasks.files import alone_at_once
from tasks.forgetting.plan import Change, Plan, row_of, rows_of
from tasks.ledger.bucket_parts import SENT
from tasks.ledger.reading import END, JUDGMENTS, OUTCOMES, RUN, read_end, read_start, whole_lines
from tasks.ledger.writing import record_bytes
from tasks.records import RunEnd, RunStart
from tasks.store_files import remove_file, rewrite_file, write_file

UNNAMED = "forgotten"
"""Replacement for a name in the parameters of a run."""
UNTOLD = "A warning was left out, because it may name forgotten data."


def is_written(run: Path) -> bool:
    """Return whether a process of this machine is writing a run now."""
    rows = run / JUDGMENTS
    if not rows.is_file() or rows.is_symlink() or (run / END).exists():
        return False
    try:
        with alone_at_once(rows) as is_alone:
            return not is_alone
    except ImportError:  # Windows has no such locks
        return False


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
    remove_file(store, f"{name}/{SENT}")  # its parts are cut again


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
    kept = {file: _kept(start, run, file, plan) for file in (JUDGMENTS, OUTCOMES)}
    judged, decided = kept[JUDGMENTS], kept[OUTCOMES]
    asked = [row for row in judged if not row.get("reused_from")]
    last = {_call(row): str(row.get("status")) for row in judged if not row.get("control")}
    return end.model_copy(
        update={
            "ledger_rows": {file: len(rows) for file, rows in kept.items()},
            "calls": len(asked),
            "control_calls": sum(bool(row.get("control")) for row in asked),
            "reused": len(judged) - len(asked),
            "judgments": dict(Counter(last.values())),
            "outcomes": dict(Counter(str(row.get("status")) for row in decided if not row.get("control"))),
            "stopped": end.stopped and end.stopped.model_copy(update={"whole": _others(end.stopped.whole, plan.name)}),
            "warnings": _warnings(end, plan, change),
        }
    )


def _warnings(end: RunEnd, plan: Plan, change: Change) -> tuple[str, ...]:
    named = re.compile(rf"(?<!\w){re.escape(plan.name)}(?!\w)")
    told = [UNTOLD if named.search(words) else words for words in end.warnings]
    replies, outcomes = (change.rows.get(file, 0) for file in (JUDGMENTS, OUTCOMES))
    note = (
        f"{replies:,} replies and {outcomes:,} outcomes were forgotten at a request (revision {change.revision}): no "
        "count and no score has them, and they are no missing output."
    )
    return tuple(dict.fromkeys([*told, note]))


def _others(whole: dict[str, Any], name: str) -> dict[str, Any]:
    return {candidate: tags for candidate, tags in whole.items() if candidate != name}


def _kept(start: RunStart, run: Path, file: str, plan: Plan) -> list[dict[str, Any]]:
    """Return the rows that are kept, without their long texts."""
    wanted = ("sample_id", "candidate", "control", "dimension", "order", "vote", "status", "reused_from")
    rows = rows_of(run, file)
    return [{name: row.get(name) for name in wanted} for row in rows if not plan.goes(start.flow, row)]


def _call(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(row.get(name)) for name in ("sample_id", "candidate", "dimension", "order", "vote"))


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
