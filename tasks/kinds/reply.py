"""What a reply must look like, and what a reply says: pairwise verdicts, or the scores of a rubric.

The one place where the two kinds of question part ways on the wire; the forms stand in `verdict_reply` and
`score_reply`, the JSON that models wrap into other things in `reading`.
"""

from typing import Any

from tasks.endpoint.reply_text import Reading
from tasks.kinds import score_reply, verdict_reply
from tasks.rubrics.rubric import PairwisePrompt, Prompt

SCHEMA_VERSION = "1"
"""Version of the reply schemas and their words; part of every call's key."""


def schema(prompt: Prompt) -> dict[str, Any]:
    """JSON schema of the reply."""
    return verdict_reply.schema(prompt) if isinstance(prompt, PairwisePrompt) else score_reply.schema(prompt)


def format_words(prompt: Prompt) -> str:
    """The request for the reply format, sent on every rung of the ladder."""
    pairwise = isinstance(prompt, PairwisePrompt)
    return verdict_reply.format_words(prompt) if pairwise else score_reply.format_words(prompt)


def read(text: str, prompt: Prompt) -> Reading:
    """What a reply says, or the error that makes it invalid."""
    return verdict_reply.read(text, prompt) if isinstance(prompt, PairwisePrompt) else score_reply.read(text, prompt)
