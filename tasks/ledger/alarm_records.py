"""What people and runs do about alarms, kept beside the ledgers: baselines begun anew, and drops that were told.

Owns `<store>/alarms/`, a small file for each, written once and never changed.
Whether there is an alarm is computed in the history, which has the restarts as rows.
"""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from pydantic import Field

from tasks.errors import InputError
from tasks.files import private_folder
from tasks.ledger.reading import read_record
from tasks.ledger.writing import write_record
from tasks.records import SCHEMA, HistoryRecord, Record

FOLDER = "alarms"
_RESTART, _TOLD = "restart", "told"


class Restart(HistoryRecord):
    """A baseline that a person began anew: `restart-….json`."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    """Version of the row."""
    restart_id: str
    """Name of the restart and of its file; names sort by time."""
    flow: str
    """Flow whose baselines begin anew."""
    candidate: str
    """Candidate whose baselines begin anew; empty: all of the flow."""
    restarted_at: str
    """When, UTC, ISO 8601: the next scheduled run is the first night of a new baseline."""


class Told(Record):
    """A drop, or a judge that moved, that a run has told of: `told-….json`."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    flow: str
    candidate: str
    """Empty: it is the judge of all candidates."""
    dataset_key: str
    protocol_key: str
    night: str
    """Evaluation whose run told it."""
    night_at: str
    """When that began, UTC, ISO 8601."""
    anchors_key: str = ""
    """Which anchors told that the judge moved; empty: it is a drop of a score."""


def restart_baseline(store: Path, flow: str, candidate: str = "") -> Restart:
    """Let the baselines of a flow, or of one of its candidates, begin anew with the next scheduled run."""
    now = datetime.now(UTC)
    name = f"{_RESTART}-{now:%Y%m%dT%H%M%S%f}-{flow}-{uuid4().hex[:6]}"
    restart = Restart(restart_id=name, flow=flow, candidate=candidate, restarted_at=now.isoformat())
    _keep(store, name, restart)
    return restart


def restart_files(store: Path) -> list[Path]:
    """The restarts of a store, oldest first; the stem of a file is its `restart_id`."""
    return sorted((store / FOLDER).glob(f"{_RESTART}-*.json"))


def read_restart(file: Path) -> Restart:
    """A restart; InputError where its file is damaged, or that of another one."""
    restart = read_record(file, Restart)
    if restart.restart_id != file.stem:
        raise InputError(f"{file}: damaged: it holds the restart {restart.restart_id!r}")
    return restart


def keep_told(store: Path, told: Told) -> None:
    """Note that a run has told of a drop."""
    _keep(store, f"{_TOLD}-{told.night}-{uuid4().hex[:6]}", told)


def told_before(store: Path) -> Iterator[Told]:
    """What runs have told of. A damaged note counts as none: a drop told twice is better than one never told."""
    for file in sorted((store / FOLDER).glob(f"{_TOLD}-*.json")):
        with suppress(InputError):
            yield read_record(file, Told)


def _keep(store: Path, name: str, record: Record) -> None:
    private_folder(store / FOLDER)
    write_record(store / FOLDER / f"{name}.json", record)
