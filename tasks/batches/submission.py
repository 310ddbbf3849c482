"""Submission of a run: write its samples and requests to disk, upload the files, create the batches."""

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from io import BufferedWriter
from pathlib import Path
from typing import Any

from tasks.batches.log import Log, Part, waiting_runs
from tasks.endpoint.batches import Batches
from tasks.endpoint.requests import Body
from tasks.errors import InputError
from tasks.files import keep_private
from tasks.judging.case import Call, Case
from tasks.judging.run import Run
from tasks.ledger.run_files import Ledger, read_start
from tasks.pictures.preparation import Picture
from tasks.records import Judgment, Outcome, PictureNote, Record, Sample
from tasks.rubrics.rubric import Rubric

CASES = "cases.jsonl"
CLOCKS = timedelta(hours=1)
"""Upper bound of the difference between this machine's clock and the endpoint's."""
MOST_BYTES = 190_000_000
MOST_REQUESTS = 45_000
"""Limits of one file, within those of OpenAI's Batch API: 200 MB and 50,000 requests."""
_BEGIN, _AFTER_ID = b'{"custom_id": "', b'", "method": "POST", "url": "/v1/chat/completions", "body": '
_END = b"}\n"


class KeptCase(Record):
    """Case without the bytes of its pictures, which are in the requests; a row of `cases.jsonl`.

    The samples of a waiting run are judged as they were submitted, even if the dataset changes meanwhile.
    """

    sample: Sample
    texts: dict[str, str]
    pictures: dict[str, PictureNote]
    problems: dict[str, str]
    calls: tuple[Call, ...]
    judgments: tuple[Judgment, ...]
    """Replies reused from earlier runs."""


def kept(case: Case) -> bytes:
    """Return a case as a line of `cases.jsonl`."""
    form = KeptCase(
        sample=case.sample,
        texts=case.texts,
        pictures=case.notes(),
        problems=case.problems,
        calls=case.calls,
        judgments=tuple(case.judgments),
    )
    return form.model_dump_json().encode() + b"\n"


def read_cases(work: Path, rubric: Rubric) -> Iterator[Case]:
    """Yield the cases of a waiting run with their questions, in the order in which they were written."""
    with (work / CASES).open("rb") as lines:
        for line in lines:
            form = KeptCase.model_validate_json(line)
            pictures = {role: Picture(note, b"") for role, note in form.pictures.items()}
            case = Case(form.sample, form.texts, pictures, form.problems, form.calls, [*form.judgments])
            case.questions(rubric)  # they show which calls the replies of earlier runs made needless
            yield case


def place_of(case: Case) -> tuple[str, str, str]:
    """Return candidate, sample and control, which identify a sample within a run."""
    return case.sample.candidate, case.sample.sample_id, case.sample.control


def custom_id(case: Case, call: Call) -> str:
    """Return the id of a call in its batch; the call's key is not enough, since two samples may ask the same."""
    named = "\n".join((call.key, *place_of(case), "1"))  # "1" was the turn; kept for the ids of waiting batches
    return hashlib.sha256(named.encode()).hexdigest()[:32]


class Withheld(Ledger):
    """Ledger of a run during its submission, without rows: an identical run may wait already."""

    def append(self, row: Judgment | Outcome) -> None:
        """Write nothing: the case keeps the row."""


class RequestFiles:
    """Files of requests of one run, with one request a line, filled one after another."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._file: BufferedWriter | None = None
        self._bytes = 0
        self.sizes: list[int] = []

    def add(self, name: str, body: Iterable[bytes | memoryview]) -> None:
        """Add a request."""
        pieces = [_BEGIN, name.encode(), _AFTER_ID, *body, _END]
        length = sum(map(len, pieces))
        if not self._file or self._bytes + length > MOST_BYTES or self.sizes[-1] >= MOST_REQUESTS:
            self._next()
        assert self._file
        self._file.writelines(pieces)
        self._bytes += length
        self.sizes[-1] += 1

    def close(self) -> tuple[int, ...]:
        """Close the last file; return the number of requests in each file."""
        if self._file:
            self._file.close()
        return tuple(self.sizes)

    def _next(self) -> None:
        self.close()
        path = self._log.requests(len(self.sizes))
        self._file, self._bytes = path.open("wb"), 0
        keep_private(path)
        self.sizes.append(0)


class HandingIn:
    """Writer of a run's samples and their requests, as the samples are read."""

    def __init__(self, run: Run, log: Log) -> None:
        self._run, self._log = run, log
        self._files = RequestFiles(log)
        self._cases = (log.work / CASES).open("wb")
        keep_private(log.work / CASES)
        self._asked, self._sizes = 0, ()
        self.samples = 0
        """Samples written so far, without controls."""

    def add(self, cases: Iterable[Case]) -> None:
        """Write samples whose pictures are in memory."""
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
                question = self._run.question(case, call)
                yield custom_id(case, call), self._run.vlm.body(question._replace(seed_offset=call.vote - 1))

    def close(self) -> None:
        """Close the files."""
        self._cases.close()
        self._sizes = self._files.close()

    @property
    def _asked_sha256(self) -> str:
        return f"{self._asked % 2**256:064x}"

    def earlier(self) -> str:
        """Return the waiting run with the same calls, or with as many as its budget allowed; empty if there is none.

        A scheduled run counts as its own night, and does not look for one.
        """
        waiting = [] if self._run.start.scheduled else waiting_runs(self._log.store)
        for run_id in waiting:
            with suppress(InputError, OSError):  # `jury batch collect` reports it
                if run_id != self._log.run_id and self._is_like(Log(self._log.store, run_id)):
                    return run_id
        return ""

    def _is_like(self, other: Log) -> bool:
        if not other.prepared or other.ended:
            return False
        same = bool(other.prepared.stopped) and read_start(other.run).resume_key == self._run.start.resume_key
        return same or other.prepared.asked == self._asked_sha256

    def finish(self, **told: Any) -> None:
        """Record that this run waits; `told` are fields of the record."""
        self._run.ledger.begin()
        rung, not_sent = self._run.vlm.manner
        made = {"requests": self._sizes, "asked": self._asked_sha256, "rung": rung, "not_sent": not_sent}
        self._log.add("prepared", **made, **told)


async def submit(log: Log, batches: Batches) -> None:
    """Upload the files that are not uploaded, and create their batches; each finished step is recorded.

    Raises:
        BatchesUnavailable: the endpoint cannot be reached or refuses.
    """
    for part in log.parts:
        if not part.file_id and not log.cancelled:
            file_id = await batches.upload(log.requests(part.number))
            log.add("uploaded", part=part.number, id=file_id)
        if part.file_id and not part.batch_id and (batch_id := await _batch_of(log, part, batches)):
            log.add("created", part=part.number, id=batch_id)


async def _batch_of(log: Log, part: Part, batches: Batches) -> str:
    """Return the batch of a file: an existing one without a record, or a new one; empty if the run is cancelled."""
    marks = {"image_jury_run": log.run_id, "part": str(part.number)}
    if part.creating_since:
        since = datetime.fromisoformat(part.creating_since) - CLOCKS
        if found := await batches.find(marks, since.timestamp()):
            return found
    if log.cancelled:
        return ""
    log.add("creating", part=part.number)
    return await batches.create(part.file_id, marks)
