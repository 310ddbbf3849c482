"""Run in memory: its equipment, which no call changes, its samples in memory, and its counts."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tasks.endpoint.client import Vlm
from tasks.endpoint.requests import Request
from tasks.judging.case import PUBLISHED, Call, Case, load_case
from tasks.judging.counts import CallCounts, RunCounts
from tasks.judging.extension import Extension, Limit
from tasks.judging.questions import Layout, first_question
from tasks.judging.results import Results
from tasks.ledger.reuse import Replies
from tasks.ledger.run_files import Ledger
from tasks.pictures.thumbnails import Thumbnails
from tasks.records import RunStart, Sample
from tasks.records.parameters import Parameters
from tasks.rubrics.rubric import Rubric
from tasks.spending.bill import Bill, note_first_questions

MOST_PICTURE_BYTES = 112_000_000
"""Bytes of pictures in memory, as they are sent, above which no further samples are read. 64 photographs have more, and
keep a judge busy that takes 64 calls at once."""


class InHand:
    """Account of the pictures in memory, in bytes."""

    def __init__(self) -> None:
        self._bytes = 0
        self._fewer = asyncio.Event()

    async def few_bytes(self) -> None:
        """Wait until there is room for the pictures of a few more samples."""
        while self._bytes > MOST_PICTURE_BYTES:
            self._fewer.clear()
            await self._fewer.wait()

    def add(self, cases: Iterable[Case]) -> None:
        """Add samples that have been read."""
        self._bytes += sum(case.picture_bytes for case in cases)

    def free(self, case: Case) -> None:
        """Release the pictures of a sample that needs no further call, or gets none."""
        self._bytes -= case.picture_bytes
        case.pictures = {role: picture._replace(encoded=b"") for role, picture in case.pictures.items()}
        self._fewer.set()


@dataclass(frozen=True)
class Run:
    """Equipment of one run, its samples in memory, and the tally that every decided sample is added to."""

    start: RunStart
    rubric: Rubric
    parameters: Parameters
    vlm: Vlm
    ledger: Ledger
    replies: Replies
    """Replies of earlier runs, which this one may reuse; its own are in the ledger."""
    results: Results
    thumbnails: Thumbnails | None = None
    """Store of thumbnails; None: none are kept."""
    extensions: tuple[Extension, ...] = ()
    tally: RunCounts = field(default_factory=RunCounts)
    counts: CallCounts = field(default_factory=CallCounts)
    in_hand: InHand = field(default_factory=InHand)

    @cached_property
    def layout(self) -> Layout:
        """Return the layout of the run's questions."""
        return next((own for each in self.extensions if (own := each.layout(self.start))), PUBLISHED)

    @property
    def limit(self) -> Limit | None:
        """Return the limit on what the run may ask; None: it may ask everything."""
        return next((own for each in self.extensions if (own := each.limit())), None)

    def read(self, sample: Sample, thumbnails: Thumbnails | None) -> Case:
        """Read texts and pictures of a sample, make thumbnails of these if there is a store, and plan its calls."""
        return load_case(sample, self.rubric, self.parameters, thumbnails, self.layout, self._shown)

    def _shown(self, sample: Sample, role: str, data: bytes) -> bytes:
        for each in self.extensions:
            data = each.picture(sample, role, data)
        return data

    def question(self, case: Case, call: Call) -> Request:
        """Return the question of a call as it is sent."""
        question = case.questions(self.rubric)[call.dimension]
        asked = case.reduced_to(question)
        request = self.layout.request(question.prompt, asked.sample, asked.texts, asked.pictures, call.order)
        return request._replace(key=self.layout.key(case.number))

    @cached_property
    def bill(self) -> Bill:
        """Return the bill of the run's calls."""
        return Bill(self.parameters.judge)

    async def ask_first_question(self) -> None:
        """Ask the judge the first question, once in a run, and count its price.

        Raises:
            JudgeStopped: no call to the judge can succeed.
        """
        await self.vlm.probe(first_question(self.start.flow, self.parameters))
        await self.note_first_questions()

    async def note_first_questions(self) -> None:
        """Store and count the first questions since the last call of this; a judge that was away is asked again."""
        place = Path(self.parameters.store), self.start.flow, self.start.run_id
        for charge, reply in await note_first_questions(self.vlm, *place):
            self.bill.pay(charge, reply)
            if self.limit:
                self.limit.after_first_question(charge)

    def warnings(self) -> list[str]:
        """Return sentences for the reader about the replies of the run."""
        replies = self.replies
        unused = f"{replies.unreadable:,} rows of earlier ledgers cannot be read: their replies were not reused"
        damaged = [f"{unused}. The first: {replies.first_unreadable}"] if replies.unreadable else []
        return [*damaged, *self.tally.warnings(self.parameters.judge)]

    def close(self) -> None:
        """Close the files; a run without an end remains unfinished."""
        self.ledger.close()
        self.replies.close()
