"""Sample in memory: its texts and pictures, the plan of its calls, and the judgments so far."""

from collections import Counter
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from itertools import product
from typing import NamedTuple

from tasks.datasets.entries import read_picture, read_texts
from tasks.errors import InputError
from tasks.judging.protocol_items import picture_policy
from tasks.judging.questions import Layout, call_key
from tasks.pictures.preparation import Picture, Policy, prepare
from tasks.pictures.thumbnails import Thumbnails
from tasks.protocols import protocol_of
from tasks.protocols.protocol import Question
from tasks.records import ANCHOR, Judgment, Order, PictureNote, Sample
from tasks.records.parameters import Parameters
from tasks.rubrics.rubric import Prompt, Rubric

INVALID_ATTEMPTS = 3
"""Most invalid replies to one call; then it remains invalid. The chunk's retries (two by default) allow as many."""

PUBLISHED = Layout()
Shown = Callable[[Sample, str, bytes], bytes]
"""Function that returns the file to be shown for a sample's picture, given its role and its own file."""


class Call(NamedTuple):
    """One question about one sample."""

    dimension: str
    order: Order
    vote: int
    key: str
    prompt_name: str = ""
    """Name of its prompt (a dimension, tag or instrument), in whose task the call is made."""


@dataclass(eq=False)
class Case:
    """Sample in memory: its texts and pictures while they are needed, and the judgments so far."""

    sample: Sample
    texts: dict[str, str]
    pictures: dict[str, Picture]
    problems: dict[str, str] = field(default_factory=dict[str, str])
    """Role -> problem of its picture, for which the sample cannot be judged; empty: it can."""
    calls: tuple[Call, ...] = ()
    judgments: list[Judgment] = field(default_factory=list[Judgment])
    number: int = 0
    """Place among the samples of the run, in the order in which they are read."""
    given_up: set[Call] = field(default_factory=set[Call])
    """Calls of which the client has spent all attempts."""
    ended: bool = False
    """True once its calls have ended, those that are made no more among them."""
    decided: bool = False
    _questions: dict[str, Question] = field(default_factory=dict[str, Question])

    def questions(self, rubric: Rubric) -> dict[str, Question]:
        """Return dimension -> question about the sample."""
        if not self._questions:
            asked = protocol_of(rubric.flow).questions(self.sample, rubric)
            self._questions = {question.dimension: question for question in asked}
        return self._questions

    def reduced_to(self, question: Question) -> "Case":
        """Return the case with the texts that a question is sent with."""
        if question.sample is self.sample:
            return self
        texts = {**self.texts, **protocol_of(question.prompt.flow).texts_of(question.sample)}
        return Case(question.sample, texts, self.pictures)

    def unsettled(self, prompt_name: str) -> list[Call]:
        """Return the calls of a prompt to make: new, invalid fewer than three times, or unavailable, not given up."""
        return [call for call in self.calls if call.prompt_name == prompt_name and self.is_open(call)]

    def due(self, prompt_name: str, asked: Container[Call]) -> list[Call]:
        """Return the unsettled calls of a prompt to make now: those not asked yet that wait for none of the others."""
        coming = [call for call in self.unsettled(prompt_name) if call not in asked]
        names = {call.dimension for call in coming}
        return [call for call in coming if names.isdisjoint(self._questions[call.dimension].after)]

    def attempts(self, call: Call) -> list[Judgment]:
        """Return the judgments recorded for a call, in order."""
        return [row for row in self.judgments if (row.dimension, row.order, row.vote) == call[:3]]

    @cached_property
    def digests(self) -> dict[str, str]:
        """Return input of the prompts -> SHA-256 of its text, or of its picture as sent."""
        texts = {name: sha256(text.encode()).hexdigest() for name, text in self.texts.items()}
        return {**texts, **{role: picture.note.sent_sha256 for role, picture in self.pictures.items()}}

    def text_sha256(self, prompt: Prompt) -> str:
        """Return the SHA-256 over the texts that a prompt is sent with."""
        return sha256("".join(self.digests[name] for name in prompt.inputs if name in self.texts).encode()).hexdigest()

    def notes(self) -> dict[str, PictureNote]:
        """Return role -> note on its picture as delivered and as sent."""
        return {role: picture.note for role, picture in self.pictures.items()}

    @property
    def picture_bytes(self) -> int:
        """Return the bytes of its pictures as they are sent: nearly all of the sample's memory."""
        return sum(len(picture.encoded) for picture in self.pictures.values())

    @property
    def settled(self) -> bool:
        """Return whether no call is left to be made."""
        return not any(map(self.is_open, self.calls))

    def is_open(self, call: Call) -> bool:
        """Return whether a call is to be made: it is not needless, and new or may still be answered if asked again."""
        question = self._questions.get(call.dimension)
        # In this order, because it takes time to find out what is needless.
        return self._may_be_answered(call) and not (question and question.is_needless(self.judgments))

    def _may_be_answered(self, call: Call) -> bool:
        rows = self.attempts(call)
        if not rows:
            return True
        if rows[-1].status == "unavailable":
            return call not in self.given_up
        return rows[-1].status == "invalid" and sum(row.status == "invalid" for row in rows) < INVALID_ATTEMPTS


@dataclass(frozen=True)
class Chunk:
    """Samples in memory that are judged together: as many as the run's `chunk_size`, or a portion of them."""

    name: str
    """Numbers of its first and last sample, for the names of its task runs: `0-31`."""
    dimensions: tuple[str, ...]
    """Dimensions with calls to be made."""
    cases: tuple[Case, ...]


def load_case(
    sample: Sample,
    rubric: Rubric,
    parameters: Parameters,
    thumbnails: Thumbnails | None = None,
    layout: Layout = PUBLISHED,
    shown: Shown | None = None,
) -> Case:
    """Read texts and pictures of a sample, make thumbnails, and plan its calls: none if a picture cannot be read."""
    policy, kept = picture_policy(parameters), None if sample.control else thumbnails  # controls have no thumbnails
    case = Case(sample, sample_texts(sample, rubric.flow), {})
    case.problems = {role: problem for role in sample.pictures if (problem := _take(case, role, policy, kept, shown))}
    if not case.problems:
        case.calls = plan(case, rubric, parameters, layout)
    return case


def sample_texts(sample: Sample, flow: str) -> dict[str, str]:
    """Return the texts of the sample's record, with those that its protocol adds."""
    return {**read_texts(sample), **protocol_of(flow).texts_of(sample)}


def _take(case: Case, role: str, policy: Policy, thumbnails: Thumbnails | None, shown: Shown | None) -> str:
    """Read one picture into the case; return the problem, empty if there is none."""
    source = case.sample.pictures[role]
    if source.problem:
        return source.problem
    try:
        data = read_picture(source)
        data = shown(case.sample, role, data) if shown else data
        case.pictures[role] = prepare(data, policy, thumbnails)
    except InputError as error:
        return str(error)
    return ""


def plan(case: Case, rubric: Rubric, parameters: Parameters, layout: Layout = PUBLISHED) -> tuple[Call, ...]:
    """Return all calls that the protocol requires for a sample, with their keys."""
    asked = parameters_for(case.sample, parameters)
    is_anchor = case.sample.control == ANCHOR
    calls: list[Call] = []
    for question in case.questions(rubric).values():
        dimension, prompt, sample, *_ = question
        digests = case.reduced_to(question).digests
        for order, vote in product(asked.order_list(), range(1, asked.votes + 1)):
            key = call_key(prompt, sample, digests, order, vote, asked.judge, is_anchor, layout.identity)
            calls.append(Call(dimension, order, vote, key, prompt.dimension))
    return tuple(calls)


def planned_calls(sample: Sample, rubric: Rubric, parameters: Parameters) -> Counter[str]:
    """Return prompt -> number of calls that the protocol requires for a sample whose pictures can be read."""
    asked = parameters_for(sample, parameters)
    times = len(asked.order_list()) * asked.votes
    prompts = Counter(each.prompt.dimension for each in protocol_of(rubric.flow).questions(sample, rubric))
    return Counter({prompt: number * times for prompt, number in prompts.items()})


def parameters_for(sample: Sample, parameters: Parameters) -> Parameters:
    """Return the parameters by which a sample is judged: anchors always get one vote, for comparable series."""
    return parameters.once() if sample.control == ANCHOR else parameters
