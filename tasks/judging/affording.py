"""Calls ahead: those that a run would make, for a quote, and what they may cost at most, for a budget."""

from collections.abc import Hashable, Iterable
from typing import NamedTuple

from tasks.judging.case import Call, Case, load_case
from tasks.judging.run import Run
from tasks.records import ANCHOR, PictureNote, Sample
from tasks.rubrics.rubric import Prompt
from tasks.spending import expected as estimates
from tasks.spending.budget import Budget

FORMAT_TOKENS = 2_000
"""Most that the words and the schema of a reply's format take."""
PICTURE_TOKENS = (1_600, 16_384)
"""Between what the tokens of a picture lie, whatever its size: of OpenAI, Anthropic, Gemini and Qwen on vLLM."""
PIXELS_A_TOKEN = 750
"""Of a picture in between: Anthropic's, which is the most of these."""


class Plan(NamedTuple):
    """Calls that a run has before it."""

    calls: list[estimates.Call]
    """All that it asks for."""
    there: set[str]
    """Keys of those whose replies there are already."""
    samples: list[Sample]
    """About which calls are to be made, in the order of the run; controls and anchors are samples of their own."""

    @property
    def open(self) -> list[estimates.Call]:
        """The calls to be made."""
        return [call for call in self.calls if call.key not in self.there]


def prices_of(run: Run, budget: Budget, cases: Iterable[Case]) -> dict[Hashable, float]:
    """Return each call about these samples that is to be paid for, with its expected cost at most."""
    return {
        name_of(case, call): expected(run, budget, case, call)
        for case in cases
        for call in case.calls
        # Not only looked up: a reply that turns out to be damaged is to be asked for, and paid.
        if case.sample.control == ANCHOR or run.replies.find(call.key) is None
    }


def name_of(case: Case, call: Call) -> Hashable:
    """Return the name by which the budget knows a call of this run."""
    sample = case.sample
    return (sample.candidate, sample.sample_id, sample.control, call.dimension, call.order, call.vote)


def expected(run: Run, budget: Budget, case: Case, call: Call) -> float:
    """Return the expected cost of a call at most."""
    return budget.expected(call.dimension, _most_tokens(run, case, run.rubric.prompt(call.dimension)))


def _most_tokens(run: Run, case: Case, prompt: Prompt) -> int:
    """Return the tokens of a question at most: no text takes more than it has bytes."""
    texts = sum(len(case.texts[name].encode()) for name in prompt.inputs if name in case.texts)
    return (
        FORMAT_TOKENS
        + len(run.layout.instructions(prompt).encode())
        + texts
        + sum(map(_picture_tokens, case.notes().values()))
    )


def _picture_tokens(note: PictureNote) -> int:
    least, most = PICTURE_TOKENS
    return min(most, max(least, note.sent_width * note.sent_height // PIXELS_A_TOKEN))


def plan_of(run: Run, samples: Iterable[Sample]) -> Plan:
    """Return the calls that the run would make; reads all pictures, so it belongs in a thread."""
    plan = Plan([], set(), [])
    for sample in samples:
        case = load_case(sample, run.rubric, run.parameters, run.policy, None)
        there = {call.key for call in case.calls if sample.control != ANCHOR and run.replies.find(call.key)}
        plan.calls.extend(_sized(run, case, call) for call in case.calls)
        plan.there.update(there)
        if len(there) < len(case.calls):
            plan.samples.append(sample)
    return plan


def _sized(run: Run, case: Case, call: Call) -> estimates.Call:
    prompt = run.rubric.prompt(call.dimension)
    letters = len(run.layout.instructions(prompt)) + sum(
        len(case.texts[name]) for name in prompt.inputs if name in case.texts
    )
    return estimates.Call(
        key=call.key,
        subject=(case.sample.sample_id, case.sample.candidate, case.sample.control),
        dimension=call.dimension,
        text_sha256=case.text_sha256(prompt),
        letters=letters,
        pictures=len(case.pictures),
        megapixels=estimates.megapixels(case.notes()),
    )
