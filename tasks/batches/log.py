"""Log of a run's batches, and the refusal of stores and shards that do not work with one."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from tasks.errors import InputError
from tasks.files import alone_at_once, keep_private, write_file
from tasks.ledger.remote import is_remote
from tasks.ledger.run_files import BATCHES, END, append_line, folder, line_of, parse_row, validate_row, whole_lines
from tasks.records import BudgetStop, LedgerRecord
from tasks.records.parameters import Parameters
from tasks.spending.prices import BATCH


def check_batch(asked: Parameters) -> None:
    """Raise InputError for a batch if more than one machine could collect its replies."""
    if asked.judge.service_tier != BATCH:
        return
    where = f"the store is {asked.store}" if is_remote(asked.store) else f"shards is {asked.shards}"
    if is_remote(asked.store) or asked.shards > 1:
        raise InputError(
            f"judge.service_tier is 'batch', and {where}: one machine hands a batch in and takes it in again. Give "
            "a folder as the store and no shards, or leave judge.service_tier out, which is the standard price"
        )


def check_folder(store: str) -> None:
    """Raise InputError for a store in a bucket, where no run waits."""
    if is_remote(store):
        raise InputError(f"{store} is no folder: runs wait for batches in a store that is a folder of this machine")


LOCK = "lock"


class Event(LedgerRecord, extra="ignore"):
    """One step of a batch, as a row of `batches.jsonl`; flushed before the next step begins."""

    run_id: str
    at: str
    """Time in UTC, ISO 8601."""
    what: Literal["prepared", "uploaded", "creating", "created", "cancelled"]
    """Kind of step. `creating` precedes the request for a batch: after a kill, only the endpoint shows if it exists."""
    part: int = Field(default=0, ge=0)
    """Number of the file among the run's files, from 0."""
    id: str = ""
    """The endpoint's id of a file (uploaded) or of a batch (created)."""
    requests: tuple[int, ...] = ()
    """Number of requests in each of the run's files (prepared)."""
    asked: str = ""
    """Hash of all calls of the run; equal for two runs with the same questions about the same pictures."""
    rung: str = ""
    """Reply format in use after the endpoint's answer to the first question."""
    not_sent: tuple[str, ...] = ()
    """Parameters left out after that answer."""
    shown_as: str = ""
    said: tuple[str, ...] = ()
    """Messages for the reader of the run, as of its submission."""
    stopped: BudgetStop | None = None
    """Stop of the run at its budget; None if all of it was submitted."""


@dataclass
class Part:
    """A file of requests and the batch made of it."""

    number: int
    requests: int
    file_id: str = ""
    creating_since: str = ""
    """Time of the request for a batch; empty if there was none."""
    batch_id: str = ""


class Log:
    """Log of one run. Only the process that holds the run's lock adds to it."""

    def __init__(self, store: Path, run_id: str) -> None:
        """Read the log; InputError if a row is damaged."""
        self.store, self.run_id = store, run_id
        self.run, self.work = folder(store, run_id), store / "batches" / run_id
        self.parts: list[Part] = []
        self.prepared: Event | None = None
        """Event that ends the submission; None if it is incomplete."""
        self.cancelled = False
        lines = [*whole_lines(self.run / BATCHES)]
        self._length = sum(len(line) for _, line in lines)
        for number, (_, line) in enumerate(lines, 1):
            row = parse_row(line, self.run / BATCHES, number)
            try:
                self._take(validate_row(Event, row, self.run / BATCHES, number))
            except IndexError:
                where = f"{self.run / BATCHES}, line {number}"
                raise InputError(f"{where}: damaged: no line before it counts this part's requests") from None

    def add(self, what: Any, **told: Any) -> None:
        """Append a step that is done, or comes next."""
        event = Event(run_id=self.run_id, at=datetime.now(UTC).isoformat(), what=what, **told)
        line = line_of(event)
        with FileIO(self.run / BATCHES, "ab") as file:
            file.truncate(self._length)  # removes a last row that a kill has cut
            append_line(file, line)
        keep_private(self.run / BATCHES)
        self._length += len(line)
        self._take(event)

    def _take(self, event: Event) -> None:
        if event.what == "prepared":
            self.prepared = event
            self.parts = [Part(number, size) for number, size in enumerate(event.requests)]
        elif event.what == "cancelled":
            self.cancelled = True
        else:
            part = self.parts[event.part]
            if event.what == "uploaded":
                part.file_id = event.id
            elif event.what == "creating":
                part.creating_since = event.at
            else:
                part.batch_id = event.id

    @property
    def ended(self) -> bool:
        """Return whether the run has ended in its ledger."""
        return (self.run / END).exists()

    def requests(self, number: int) -> Path:
        """Return the path of a file of requests; the endpoint uses the same name."""
        return self.work / f"{self.run_id}-{number:03}.jsonl"

    def replies(self, part: Part, kind: Literal["output", "error"]) -> Path:
        """Return the path of a file of replies, once it is fetched."""
        return self.work / f"replies-{part.number:03}-{kind}.jsonl"


def begin(store: Path, run_id: str) -> Log:
    """Make the folder of a run that will wait; return the run's log."""
    log = Log(store, run_id)
    write_file(store, f"batches/{run_id}/{LOCK}", b"")
    return log


@contextmanager
def locked(store: Path, run_id: str) -> Generator[Log | None]:
    """Lock a waiting run for this process; yield its log, or None while another process holds the lock."""
    with alone_at_once(store / "batches" / run_id / LOCK) as is_alone:
        yield Log(store, run_id) if is_alone else None


def waiting_runs(store: Path) -> list[str]:
    """Return the ids of the runs with a folder in the store, the oldest first."""
    return sorted(lock.parent.name for lock in (store / "batches").glob(f"*/{LOCK}"))
