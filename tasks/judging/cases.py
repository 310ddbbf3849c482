"""What is in memory while a run is judged: its fixed equipment, and the samples now in hand.

Owns the reading of a sample into memory and the plan of its calls. Asking is for `judge`, deciding for `aggregate`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from tasks.controls.samples import altered
from tasks.datasets.contents import read_picture, read_texts
from tasks.datasets.folders import NO_PICTURE
from tasks.endpoint.client import Vlm
from tasks.endpoint.requests import call_key
from tasks.kinds.geneval_export import Export
from tasks.kinds.requirements_check import objects_text, relation_text
from tasks.ledger.files import Ledger, Replies
from tasks.parameters import Parameters
from tasks.pictures.comparability import Comparability
from tasks.pictures.prepare import Picture, Policy, prepare
from tasks.records import Judgment, Order, Outcome, OutcomeStatus, PictureNote, RunStart, Sample
from tasks.rubrics.rubric import Prompt, Rubric


class Call(NamedTuple):
    """One question about one sample."""

    dimension: str
    order: Order
    vote: int
    key: str


@dataclass
class Case:
    """A sample in hand: its texts and pictures while they are needed, and what was said so far."""

    sample: Sample
    texts: dict[str, str]
    pictures: dict[str, Picture]
    lacking: OutcomeStatus | None = None
    """Why the sample cannot be judged; None when it can."""
    problem: str = ""
    calls: tuple[Call, ...] = ()
    judgments: list[Judgment] = field(default_factory=list[Judgment])

    def unsettled(self, dimension: str) -> list[Call]:
        """Calls still to be made: those never made, those without a reply, and once more those answered invalidly."""
        return [call for call in self.calls if call.dimension == dimension and self._open(call)]

    def attempts(self, call: Call) -> list[Judgment]:
        """What was recorded for a call, in order."""
        return [row for row in self.judgments if (row.dimension, row.order, row.vote) == call[:3]]

    @cached_property
    def digests(self) -> dict[str, str]:
        """Input of the prompts -> SHA-256 of its text, or of its picture as sent."""
        texts = {name: sha256(text.encode()).hexdigest() for name, text in self.texts.items()}
        return {**texts, **{role: picture.note.sent_sha256 for role, picture in self.pictures.items()}}

    def text_sha256(self, prompt: Prompt) -> str:
        """SHA-256 over the texts that a prompt is sent with."""
        return sha256("".join(self.digests[name] for name in prompt.inputs if name in self.texts).encode()).hexdigest()

    def notes(self) -> dict[str, PictureNote]:
        """Role -> what its picture was and what is sent of it."""
        return {role: picture.note for role, picture in self.pictures.items()}

    def _open(self, call: Call) -> bool:
        statuses = [row.status for row in self.attempts(call)]
        if not statuses or statuses[-1] == "unavailable":
            return True
        return statuses[-1] == "invalid" and statuses.count("invalid") == 1


@dataclass
class Tally:
    """What the run has come to so far; small, whatever the number of samples."""

    calls: int = 0
    control_calls: int = 0
    reused: int = 0
    judgments: Counter[str] = field(default_factory=Counter[str])
    outcomes: Counter[str] = field(default_factory=Counter[str])
    models: set[str] = field(default_factory=set[str])
    rungs: set[str] = field(default_factory=set[str])
    not_sent: set[str] = field(default_factory=set[str])
    comparability: Comparability = field(default_factory=Comparability)

    def add(self, rows: Iterable[Judgment], counting: Iterable[Judgment], outcome: Outcome) -> None:
        """Count a decided sample: all its rows, the judgments that count among them, and its outcome.

        Of a control only its calls count: they are paid for, and say nothing of the candidates.
        """
        for row in rows:
            self.calls += not row.reused_from
            self.control_calls += bool(row.control and not row.reused_from)
            self.reused += bool(row.reused_from)
        if outcome.control:
            return
        for row in counting:
            self.judgments[row.status] += 1
            if row.model_answered:
                self.models.add(row.model_answered)
                self.rungs.add(row.rung)
                self.not_sent.update(row.not_sent)
        self.outcomes[outcome.status] += 1
        self.comparability.add(outcome)


@dataclass(frozen=True)
class RunContext:
    """What the judging of one run needs and no call may change, and the tally that every sample adds to."""

    start: RunStart
    rubric: Rubric
    parameters: Parameters
    policy: Policy
    vlm: Vlm
    ledger: Ledger
    replies: Replies
    export: Export | None = None
    tally: Tally = field(default_factory=Tally)

    def close(self) -> None:
        """Release the files; what was not ended stays unfinished."""
        self.ledger.close()
        if self.export:
            self.export.discard()


def load_case(run: RunContext, sample: Sample) -> Case:
    """Read a sample's texts and pictures, keep thumbnails of them, and plan its calls.

    A sample that lacks a picture, or has one that cannot be read, gets the status for it and no calls.
    """
    case = Case(sample, sample_texts(sample), {})
    problems = {role: problem for role in sample.pictures if (problem := _take(run, case, role))}
    if problems:
        case.lacking, case.problem = _lack(problems)
    else:
        case.calls = plan(run, case)
    return case


def sample_texts(sample: Sample) -> dict[str, str]:
    """Texts of the sample's record, and of an image those that only a check asks with."""
    check = {"objects": objects_text(sample), "relation": relation_text(sample)} if sample.tag else {}
    return read_texts(sample) | check


def _lack(problems: Mapping[str, str]) -> tuple[OutcomeStatus, str]:
    """What becomes of a sample without all of its pictures (role -> why), and why.

    A missing Human picture leaves nothing to compare with; a missing Model picture is the Model's forfeit. A generated
    image that is missing or unreadable has no score, and shows in the coverage.
    """
    if "human" in problems:
        absent = problems["human"].startswith(NO_PICTURE)
        return "no_reference" if absent else "bad_picture", problems["human"]
    return ("forfeit", problems["model"]) if "model" in problems else ("bad_picture", problems["image"])


def _take(run: RunContext, case: Case, role: str) -> str:
    """Read one picture into the case; returns why it cannot be, or nothing. Of controls no thumbnail is kept."""
    source, control = case.sample.pictures[role], case.sample.control
    if source.problem:
        return source.problem
    try:
        data = altered(case.sample, role, read_picture(source))
        case.pictures[role] = prepare(data, run.policy, None if control else Path(run.parameters.store))
    except ValueError as error:
        return str(error)
    return ""


def plan(run: RunContext, case: Case) -> tuple[Call, ...]:
    """All calls that the protocol wants for a sample, with their keys."""
    return tuple(
        Call(prompt.dimension, order, vote, key)
        for prompt in run.rubric.asked_of(case.sample)
        for order in run.parameters.order_list()
        for vote in range(1, run.parameters.votes + 1)
        for key in [call_key(prompt, case.digests, order, vote, run.parameters.judge)]
    )
