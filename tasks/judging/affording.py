"""What the calls about a sample may cost, for a run with a budget.

Owns which calls are to be paid for, by what each is known to the budget, and how many tokens a question can take at
most. What a token costs, and whether there is room for it, is for `spending`.
"""

from collections.abc import Hashable, Iterable

from tasks.judging.case import Call, Case
from tasks.judging.run import Run
from tasks.records import ANCHOR, PictureNote
from tasks.rubrics.rubric import Prompt
from tasks.spending.budget import Budget

FORMAT_TOKENS = 2_000
"""Most that the words and the schema of a reply's format take."""
PICTURE_TOKENS = (1_600, 16_384)
"""Between what the tokens of a picture lie, whatever its size: of OpenAI, Anthropic, Gemini and Qwen on vLLM."""
PIXELS_A_TOKEN = 750
"""Of a picture in between: Anthropic's, which is the most of these."""


def prices_of(run: Run, budget: Budget, cases: Iterable[Case]) -> dict[Hashable, float]:
    """Each call about these samples that is to be paid for, with what it is expected to cost at most.

    A reply that an earlier run has is free, but to an anchor, which is asked afresh.
    """
    return {
        name_of(case, call): expected(run, budget, case, call)
        for case in cases
        for call in case.calls
        # Not only looked up: a reply that turns out to be damaged is to be asked for, and paid.
        if case.sample.control == ANCHOR or run.replies.find(call.key) is None
    }


def name_of(case: Case, call: Call) -> Hashable:
    """By what the budget knows a call of this run."""
    sample = case.sample
    return (sample.candidate, sample.sample_id, sample.control, call.dimension, call.order, call.vote)


def expected(run: Run, budget: Budget, case: Case, call: Call) -> float:
    """What a call is expected to cost at most."""
    return budget.expected(call.dimension, _most_tokens(run, case, run.rubric.prompt(call.dimension)))


def _most_tokens(run: Run, case: Case, prompt: Prompt) -> int:
    """No text takes more tokens than it has bytes."""
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
