"""Plan of a removal and of its effects, kept in the store until all of it is done.

`<store>/forgetting.json` is written before anything is removed, and removed last, so that a killed removal is repeated.
A machine that finds another machine's removals in the bucket writes such a plan, too.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import Field, ValidationError
from pydantic_core import from_json

from tasks.errors import InputError
from tasks.files import read_regular
from tasks.ledger.reading import JUDGMENTS, OUTCOMES, run_folders, whole_lines
from tasks.ledger.removed import UNFINISHED, cost_by_month, start_of
from tasks.records import ANCHOR, Record, RunStart
from tasks.store_files import is_sha256, is_store_name, remove_file, write_file

FILES = (JUDGMENTS, OUTCOMES)
_MOST_BYTES = 2**28

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
    shows = {sha256 for run, start in starts.items() for row in _meant(plan, run, start) for sha256 in pictures_of(row)}
    stays = {sha256 for run, start in starts.items() for sha256 in _kept(plan, run, start)}
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


def _meant(plan: Plan, run: Path, start: RunStart | None) -> Iterator[Row]:
    if is_whole(plan, run, start):
        yield from all_rows(run)
    elif start:
        yield from (row for row in all_rows(run) if plan.means(start.flow, row))


def _kept(plan: Plan, run: Path, start: RunStart | None) -> Iterator[str]:
    """Yield the pictures in the kept rows of samples."""
    if not is_whole(plan, run, start):
        for row in all_rows(run):
            if not is_control(row) and not (start and plan.means(start.flow, row)):
                yield from pictures_of(row)


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
        return Plan.model_validate_json(read_regular(store / UNFINISHED, _MOST_BYTES))
    except FileNotFoundError:
        return None
    except ValidationError:
        raise InputError(
            f"{store / UNFINISHED} is damaged: remove it, and give the `jury store forget` again that was stopped"
        ) from None


def end_plan(store: Path) -> None:
    """Remove the plan, since all of it is done."""
    remove_file(store, UNFINISHED)
