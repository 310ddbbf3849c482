"""Calls that a run would make, for a quote, and their highest expected cost, for a budget."""

from collections.abc import Hashable, Iterable
from typing import NamedTuple

from tasks.judging.case import Call, Case
from tasks.judging.run import Run
from tasks.records import ANCHOR, PictureNote, Sample
from tasks.rubrics.prompts import Prompt
from tasks.spending import quote as estimates
from tasks.spending.budget import Budget

FORMAT_TOKENS = 2_000
"""Most tokens of the words and the schema of a reply's format."""
PICTURE_TOKENS = (1_600, 16_384)
"""Least and most tokens of a picture of any size: for OpenAI, Anthropic, Gemini and Qwen on vLLM."""
PIXELS_A_TOKEN = 750
"""Pixels a token for a picture in between: Anthropic's number, which gives the most tokens of these."""


class Plan(NamedTuple):
    """Calls that a run would make."""

    calls: list[estimates.Call]
    """All calls of the run."""
    there: set[str]
    """Keys of the calls that have replies already."""

    @property
    def open(self) -> list[estimates.Call]:
        """Return the calls to be made."""
        return [call for call in self.calls if call.key not in self.there]


def prices_of(run: Run, budget: Budget, cases: Iterable[Case]) -> dict[Hashable, float]:
    """Return each call about these samples that must be paid for, with its highest expected cost."""
    return {
        name_of(case, call): expected(run, budget, case, call)
        for case in cases
        for call in case.calls
        # Read, not only looked up: a damaged reply must be requested again, and paid for.
        if case.sample.control == ANCHOR or run.replies.find(call.key) is None
    }


def name_of(case: Case, call: Call) -> Hashable:
    """Return the name of a call of this run in the budget."""
    sample = case.sample
    return (sample.candidate, sample.sample_id, sample.control, call.dimension, call.order, call.vote)


def expected(run: Run, budget: Budget, case: Case, call: Call) -> float:
    """Return the highest expected cost of a call."""
    return budget.expected(call.dimension, _most_tokens(run, case, run.rubric.prompt(call.dimension)))


def _most_tokens(run: Run, case: Case, prompt: Prompt) -> int:
    """Return the most tokens of a question: no text has more tokens than bytes."""
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
    """Return the calls that the run would make. It reads all pictures, so it belongs in a thread."""
    plan = Plan([], set())
    for sample in samples:
        case = run.read(sample, None)
        plan.calls.extend(_sized(run, case, call) for call in case.calls)
        plan.there.update(call.key for call in case.calls if sample.control != ANCHOR and run.replies.find(call.key))
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
