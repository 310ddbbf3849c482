"""What is on record of the batches of a run: `batches.jsonl` in its ledger folder, where a row is written, and flushed,
before anybody waits for what it tells of.

Owns where the files of a batch lie: those of a waiting run in `<store>/batches/<run_id>/`, until all is taken in. What
is done next, `handing_in` and `taking_out` decide.
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from tasks.batches.holding import Hold, held, remote_waiting
from tasks.files import alone_at_once, keep_private, private_folder
from tasks.ledger.checksums import sealed
from tasks.ledger.reading import BATCHES, END, folder, parse_row, validate_row, whole_lines
from tasks.ledger.remote import Remote
from tasks.ledger.reuse import resume_key
from tasks.ledger.writing import append_line
from tasks.records import SCHEMA, BudgetStop, Record, RunStart

LOCK = "lock"
ROUNDS = 2
"""Batches that a call is put into at most."""


class Event(Record):
    """One thing that was done. Rows of `batches.jsonl`."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    run_id: str
    at: str
    """UTC, ISO 8601."""
    what: Literal["prepared", "uploaded", "creating", "created", "cancelled"]
    """`creating` stands before a batch is asked for: after a kill nobody else knows whether it was made."""
    turn: int = 1
    """1: the first batches; 2: those of what the first left over."""
    part: int = 0
    """Which of the turn's files, from 0."""
    id: str = ""
    """The endpoint's, of a file (uploaded) or of a batch (created)."""
    requests: tuple[int, ...] = ()
    """Of a turn that was prepared: how many requests each of its files holds."""
    asked: str = ""
    """Hash of all calls of the run; equal for two runs that ask the very same of the same pictures."""
    rung: str = ""
    """Reply format asked for, as the endpoint's answer to the first question settled it."""
    not_sent: tuple[str, ...] = ()
    """Parameters that were left out, likewise."""
    shown_as: str = ""
    """Key of the run's artifacts."""
    said: tuple[str, ...] = ()
    """What the reader of the run should know, as far as that was known when it was handed in."""
    stopped: BudgetStop | None = None
    """Where the run stopped at its budget; None: all of it was handed in."""
    limit: float = 0.0
    """What it may cost by its own budget; 0: it had none."""
    month: str = ""
    """The month of whose budget what the run costs is claimed: `2026-11`; empty: there was no such budget."""


@dataclass
class Part:
    """A file of requests and the batch made of it."""

    turn: int
    number: int
    requests: int
    file_id: str = ""
    creating_since: str = ""
    """When a batch was asked for; empty: it was not."""
    batch_id: str = ""


class Log:
    """The record of one run, read and added to by the one process that is alone with the run."""

    def __init__(self, store: Path, run_id: str, hold: Hold | None = None) -> None:
        """The record as it is here.

        Args:
            hold: of a run in a bucket, which is told of what is done before anybody waits for it; `store` is the local
                cache then.
        """
        self.store, self.run_id, self.hold = store, run_id, hold
        self.run, self.work = folder(store, run_id), store / "batches" / run_id
        self.parts: list[Part] = []
        self.prepared: Event | None = None
        """The run's first turn; None: it was not handed in whole."""
        self.cancelled = False
        lines = [*whole_lines(self.run / BATCHES)]
        self._length = sum(len(line) for _, line in lines)
        for number, (_, line) in enumerate(lines, 1):
            row = parse_row(line, self.run / BATCHES, number)
            self._take(validate_row(Event, row, self.run / BATCHES, number))

    def add(self, what: Any, **told: Any) -> None:
        """Write down what was done, or is done next."""
        event = Event(run_id=self.run_id, at=datetime.now(UTC).isoformat(), what=what, **told)
        line = sealed(event.model_dump_json())
        if self.hold and what == "prepared":
            self.hold.send_files()
        with FileIO(self.run / BATCHES, "ab") as file:
            file.truncate(self._length)  # a last row that was cut by a kill is none
            append_line(file, line)
        keep_private(self.run / BATCHES)
        self._length += len(line)
        self._take(event)
        if self.hold:
            self.hold.send()

    def _take(self, event: Event) -> None:
        if event.what == "prepared":
            self.prepared = self.prepared or event
            self.parts += [Part(event.turn, number, size) for number, size in enumerate(event.requests)]
        elif event.what == "cancelled":
            self.cancelled = True
        else:
            part = next(each for each in self.parts if (each.turn, each.number) == (event.turn, event.part))
            if event.what == "uploaded":
                part.file_id = event.id
            elif event.what == "creating":
                part.creating_since = event.at
            else:
                part.batch_id = event.id

    @property
    def place(self) -> str:
        """The store, as a parameter names it."""
        return self.hold.url if self.hold else str(self.store)

    @property
    def turn(self) -> int:
        """The last one that was prepared; 0: none was."""
        return max((part.turn for part in self.parts), default=1 if self.prepared else 0)

    @property
    def current(self) -> list[Part]:
        """Files of that turn."""
        return [part for part in self.parts if part.turn == self.turn]

    @property
    def ended(self) -> bool:
        """Whether the run has ended in its ledger."""
        return (self.run / END).exists()

    def requests(self, turn: int, number: int) -> Path:
        """Where a file of requests lies; the endpoint knows it by the same name."""
        return self.work / f"{self.run_id}-{turn}-{number:03}.jsonl"

    def replies(self, part: Part, kind: Literal["output", "error"]) -> Path:
        """Where a file of replies lies once it is here."""
        return self.work / f"replies-{part.turn}-{part.number:03}-{kind}.jsonl"


def begin(store: Path, run_id: str) -> Log:
    """Make the folder for what waits of a run."""
    log = Log(store, run_id)
    private_folder(log.work)
    (log.work / LOCK).touch()
    return log


@contextmanager
def lease(store: Path, run_id: str, remote: Remote | None = None) -> Generator[Log | None]:
    """The record of a run, for the one process that is alone with it until the context ends; None: another one is.

    Args:
        remote: of which the store is the local cache; then no process of another machine is alone with it, either.

    Raises:
        FileNotFoundError: nothing of the run waits here.
        RemoteUnavailable: the bucket cannot be reached.
    """
    if remote and run_id in remote_waiting(remote):
        begin(store, run_id)
    with alone_at_once(store / "batches" / run_id / LOCK) as is_alone:
        if not is_alone or not remote:
            yield Log(store, run_id) if is_alone else None
            return
        with held(remote, run_id, store / "batches" / run_id) as hold:
            yield Log(store, run_id, hold) if hold else None


def waiting_runs(store: Path, remote: Remote | None = None) -> list[str]:
    """Ids of the runs of which anything is still here, or in the bucket, the oldest first.

    Raises:
        RemoteUnavailable: the bucket cannot be reached.
    """
    here = {lock.parent.name for lock in (store / "batches").glob(f"*/{LOCK}")}
    return sorted(here.union(remote_waiting(remote) if remote else ()))


def asked_already(store: Path, start: RunStart) -> list[str]:
    """Ids of the runs that wait here, or as they were here last, and were to ask what this one asks."""
    return [run_id for run_id in waiting_runs(store) if resume_key(folder(store, run_id)) == start.resume_key]
