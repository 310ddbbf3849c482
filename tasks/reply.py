"""What a reply must look like, and what a reply says.

Owns the reply schema, the words that ask for it, and the reading of what came back: strictly first, then through what
models are known to wrap around JSON or to break in it. It never guesses a verdict: what cannot be read is invalid.
"""

import json
import re
from typing import Any, NamedTuple

from tasks.rubric import Prompt

SCHEMA_VERSION = "1"
"""Version of the reply schema and its words; part of every call's key."""

REASONING, WINNER = "comparison_reasoning", "winner"

_MOST_OBJECTS = 64
_THINKING = re.compile(r"<think>.*?</think>", re.DOTALL)
_FENCE = re.compile(r"^\s*```[a-zA-Z]*\s*\n(.*?)\n?\s*```\s*$", re.DOTALL)
# The value must be followed by what ends it, so that an echoed list of options or a cut-off word is no winner.
_WINNER = re.compile(r"[\"'*_]*winner[\"'*_]*\s*:\s*[\"']([^\"'\n]*)[\"']\s*(?=[,}\]\n]|$)", re.IGNORECASE)
_REASONING = re.compile(r"[\"']comparison_reasoning[\"']\s*:\s*[\"'](.*?)[\"']\s*,?\s*[\"']winner", re.DOTALL)


class Reading(NamedTuple):
    """What a reply says. `verdict` is None where it says nothing allowed, and `error` then tells why."""

    verdict: str | None
    reasoning: str
    recovery: str
    """`strict`, or what had to be mended to read it."""
    error: str


def schema(prompt: Prompt) -> dict[str, Any]:
    """JSON schema of the reply, reasoning first. Bounds stay out: some servers refuse them."""
    return {
        "type": "object",
        "properties": {REASONING: {"type": "string"}, WINNER: {"type": "string", "enum": list(prompt.verdicts)}},
        "required": [REASONING, WINNER],
        "additionalProperties": False,
    }


def format_words(prompt: Prompt) -> str:
    """The request for the reply format, sent on every rung of the ladder."""
    allowed = ", ".join(json.dumps(verdict) for verdict in prompt.verdicts)
    return (
        "Reply with a single JSON object and nothing around it. It has two keys, in this order: "
        f'"{REASONING}", a string with your reasoning in the structure asked for, then '
        f'"{WINNER}", a string that is exactly one of {allowed}.'
    )


def read(text: str, allowed: tuple[str, ...]) -> Reading:
    """Read the verdict out of a reply.

    Args:
        text: the reply as it came.
        allowed: verdicts that the prompt allows; case and closing punctuation are forgiven, nothing else is.
    """
    body, recovery = _unwrapped(text)
    winners, reasoning, how = _fields(body)
    recovery = " + ".join(filter(None, (recovery, how))) or "strict"
    if not winners:
        return Reading(None, reasoning, recovery, f"no winner found in the reply: {_excerpt(text)}")
    verdicts = {_allowed(winner, allowed) for winner in winners}
    if len(verdicts) > 1:
        return Reading(None, reasoning, recovery, f"several winners in one reply: {', '.join(map(repr, winners))}")
    verdict = verdicts.pop()
    if verdict is None:
        return Reading(None, reasoning, recovery, f"winner {winners[0]!r} is not one of {', '.join(allowed)}")
    return Reading(verdict, reasoning, recovery, "")


def _unwrapped(text: str) -> tuple[str, str]:
    body, thought = _THINKING.subn("", text)
    fenced = _FENCE.match(body)
    wraps = ["thinking dropped"] * bool(thought) + ["fence removed"] * bool(fenced)
    return (fenced[1] if fenced else body).strip(), " + ".join(wraps)


def _fields(body: str) -> tuple[list[Any], str, str]:
    """Every winner named, the reasoning, and how they were found."""
    pairs, whole = _pairs(body)
    winners = [value for key, value in pairs if key == WINNER]
    if winners:
        reasoning = next((value for key, value in pairs if key == REASONING), "")
        words = reasoning if isinstance(reasoning, str) else json.dumps(reasoning, ensure_ascii=False)
        return winners, words, "" if whole else "taken out of prose"
    found = _REASONING.search(body)
    return _WINNER.findall(body), found[1] if found else "", "broken JSON mended"


def _pairs(body: str) -> tuple[list[tuple[str, Any]], bool]:
    """All key-value pairs of the JSON objects in a text, at any depth, and whether the text is one such object."""
    pairs: list[tuple[str, Any]] = []

    def collect(found: list[tuple[str, Any]]) -> dict[str, Any]:
        pairs.extend(found)
        return dict(found)

    # strict=False lets raw line breaks stand inside strings, the commonest slip.
    decoder = json.JSONDecoder(object_pairs_hook=collect, strict=False)
    position, spans = 0, list[tuple[int, int]]()
    for _ in range(_MOST_OBJECTS):
        start = body.find("{", position)
        if start < 0:
            break
        kept = len(pairs)
        try:
            _, position = decoder.raw_decode(body, start)
            spans.append((start, position))
        except (ValueError, RecursionError):
            del pairs[kept:]
            position = start + 1
    return pairs, spans == [(0, len(body))]


def _allowed(winner: Any, allowed: tuple[str, ...]) -> str | None:
    if not isinstance(winner, str):
        return None
    plain = winner.strip(" \t\n.*_`'\"").casefold()
    return next((verdict for verdict in allowed if verdict.casefold() == plain), None)


def _excerpt(text: str) -> str:
    return repr(text if len(text) <= 160 else text[:80] + " … " + text[-70:])
