"""A run handed in: its samples and requests put down, its files sent, its batches made.

Owns the order of these, so that a kill between any two loses nothing and pays for nothing twice: what is done is on
record before the next is begun, and a batch of which it is not on record whether it was made is looked for first.
"""

import hashlib
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from tasks.batches.cases import CASES, custom_id, kept, place_of
from tasks.batches.log import Log, Part, waiting_runs
from tasks.batches.requests import RequestFiles
from tasks.endpoint.arguments import Body
from tasks.endpoint.batches import Batches
from tasks.files import keep_private
from tasks.judging.case import Case
from tasks.judging.run import Run
from tasks.ledger.reading import read_start
from tasks.ledger.remote import Remote
from tasks.ledger.writing import Ledger
from tasks.records import Judgment, Outcome

CLOCKS = timedelta(hours=1)
"""This machine's clock and the endpoint's differ by less."""


class Withheld(Ledger):
    """The ledger of a run that is being put down: it may turn out that the very same waits already."""

    def append(self, row: Judgment | Outcome) -> None:
        """Nothing yet: the row stays with its case."""


class HandingIn:
    """The samples of a run and their requests, put down as they are read."""

    def __init__(self, run: Run, log: Log) -> None:
        self._run, self._log = run, log
        self._files = RequestFiles(log, 1)
        self._cases = (log.work / CASES).open("wb")
        keep_private(log.work / CASES)
        self._asked, self._sizes = 0, ()
        self.samples = 0
        """That were put down, without controls."""

    def add(self, cases: Iterable[Case]) -> None:
        """Put down samples whose pictures are in memory."""
        for case in cases:
            self._cases.write(kept(case))
            self.samples += not case.sample.control
            for call in case.calls:
                named = "\n".join((*place_of(case), call.key))
                self._asked += int.from_bytes(hashlib.sha256(named.encode()).digest())
            for name, body in self._requests(case):
                self._files.add(name, body.pieces)

    def _requests(self, case: Case) -> Iterator[tuple[str, Body]]:
        for prompt in self._run.rubric.prompts:
            for call in case.unsettled(prompt.dimension):
                question = self._run.question(case, prompt, call.order)
                yield custom_id(case, call, 1), self._run.vlm.body(question._replace(turn=call.vote - 1))

    def close(self) -> None:
        """All is put down."""
        self._cases.close()
        self._sizes = self._files.close()

    @property
    def _asked_sha256(self) -> str:
        return f"{self._asked % 2**256:064x}"

    def earlier(self, remote: Remote | None) -> str:
        """The run that waits already and asks the very same, or as much of the same as its budget allowed; empty:
        there is none. A scheduled run stands for its own night, and looks for none.

        Raises:
            RemoteUnavailable: the bucket, where there is one, cannot be reached.
        """
        waiting = [] if self._run.start.scheduled else waiting_runs(self._log.store, remote)
        for run_id in waiting:
            if remote:
                remote.fetch_run(run_id)
            if run_id != self._log.run_id and self._is_like(Log(self._log.store, run_id)):
                return run_id
        return ""

    def _is_like(self, other: Log) -> bool:
        if not other.prepared or other.ended:
            return False
        same = bool(other.prepared.stopped) and read_start(other.run).resume_key == self._run.start.resume_key
        return same or other.prepared.asked == self._asked_sha256

    def finish(self, **told: Any) -> None:
        """It is this run that waits.

        Args:
            told: fields of its record.
        """
        self._run.ledger.begin()
        rung, not_sent = self._run.vlm.manner
        made = {"requests": self._sizes, "asked": self._asked_sha256, "rung": rung, "not_sent": not_sent}
        self._log.add("prepared", **made, **told)


async def submit(log: Log, batches: Batches) -> None:
    """Send the files of the last turn and make their batches, as far as that is not done.

    Raises:
        BatchesUnavailable: the endpoint cannot be reached or refuses; what is done is on record.
    """
    for part in log.current:
        if not part.file_id and not log.cancelled:
            file_id = await batches.upload(log.requests(part.turn, part.number))
            log.add("uploaded", turn=part.turn, part=part.number, id=file_id)
        if part.file_id and not part.batch_id and (batch_id := await _batch_of(log, part, batches)):
            log.add("created", turn=part.turn, part=part.number, id=batch_id)


async def _batch_of(log: Log, part: Part, batches: Batches) -> str:
    """The batch of a file: one that was made and is not on record, or a new one; empty: it is not wanted any more."""
    marks = {"image_jury_run": log.run_id, "turn": str(part.turn), "part": str(part.number)}
    if part.creating_since:
        since = datetime.fromisoformat(part.creating_since) - CLOCKS
        if found := await batches.find(marks, since.timestamp()):
            return found
    if log.cancelled:
        return ""
    log.add("creating", turn=part.turn, part=part.number)
    return await batches.create(part.file_id, marks)
