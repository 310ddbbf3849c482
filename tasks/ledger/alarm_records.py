"""Records of alarms beside the ledgers: baselines that people restarted, and drops that runs have reported.

Each record is a small file in `<store>/alarms/`, written once and never changed. The history computes the alarms and
has the restarts as rows.
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
    """Baseline that a person restarted: `restart-….json`."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    """Version of the row."""
    restart_id: str
    """Name of the restart and of its file; names sort by time."""
    flow: str
    """Flow whose baselines restart."""
    candidate: str
    """Candidate whose baselines restart; empty: all candidates of the flow."""
    restarted_at: str
    """Time of the restart, UTC, ISO 8601; the next scheduled run is the first night of a new baseline."""


class Told(Record):
    """Drop of a score, or shift of the judge, that a run has reported: `told-….json`."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    flow: str
    candidate: str
    """Candidate whose score dropped; empty: the judge of all candidates shifted."""
    dataset_key: str
    protocol_key: str
    night: str
    """Evaluation whose run reported it."""
    night_at: str
    """Start of that evaluation, UTC, ISO 8601."""
    anchors_key: str = ""
    """Key of the anchors that show the judge's shift; empty: the record is a drop of a score."""


def restart_baseline(store: Path, flow: str, candidate: str = "") -> Restart:
    """Restart the baselines of a flow, or of one of its candidates, with the next scheduled run."""
    now = datetime.now(UTC)
    name = f"{_RESTART}-{now:%Y%m%dT%H%M%S%f}-{flow}-{uuid4().hex[:6]}"
    restart = Restart(restart_id=name, flow=flow, candidate=candidate, restarted_at=now.isoformat())
    _keep(store, name, restart)
    return restart


def restart_files(store: Path) -> list[Path]:
    """Return the restart files of a store, oldest first; the stem of a file is its `restart_id`."""
    return sorted((store / FOLDER).glob(f"{_RESTART}-*.json"))


def read_restart(file: Path) -> Restart:
    """Read a restart; InputError if its file is damaged or contains another restart."""
    restart = read_record(file, Restart)
    if restart.restart_id != file.stem:
        raise InputError(f"{file}: damaged: it holds the restart {restart.restart_id!r}")
    return restart


def keep_told(store: Path, told: Told) -> None:
    """Record that a run has reported a drop."""
    _keep(store, f"{_TOLD}-{told.night}-{uuid4().hex[:6]}", told)


def told_before(store: Path) -> Iterator[Told]:
    """Yield the drops that runs have reported. Damaged notes are skipped: a second report is better than none."""
    for file in sorted((store / FOLDER).glob(f"{_TOLD}-*.json")):
        with suppress(InputError):
            yield read_record(file, Told)


def _keep(store: Path, name: str, record: Record) -> None:
    private_folder(store / FOLDER)
    write_record(store / FOLDER / f"{name}.json", record)
