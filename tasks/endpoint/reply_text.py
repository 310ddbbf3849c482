"""What a reply says, and the JSON in it, whatever a model has wrapped around it.

Owns the unwrapping: strictly first, then through what models are known to put around JSON. It never guesses a value;
which keys are wanted and what they may hold is for `verdict_reply` and `score_reply`.
"""

import json
import re
from typing import Any

_MOST_OBJECTS = 64
_THINKING = re.compile(r"<think>.*?</think>", re.DOTALL)
_FENCE = re.compile(r"^\s*```[a-zA-Z]*\s*\n(.*?)\n?\s*```\s*$", re.DOTALL)


def unwrapped(text: str) -> tuple[str, list[str]]:
    """A reply without the thinking before it and the fence around it, and what was taken off."""
    body, thought = _THINKING.subn("", text)
    fenced = _FENCE.match(body)
    taken_off = ["thinking dropped"] * bool(thought) + ["fence removed"] * bool(fenced)
    return (fenced[1] if fenced else body).strip(), taken_off


def pairs(body: str) -> tuple[list[tuple[str, Any]], bool]:
    """All key-value pairs of the JSON objects in a text, at any depth, and whether the text is one such object."""
    collected: list[tuple[str, Any]] = []

    def collect(found: list[tuple[str, Any]]) -> dict[str, Any]:
        collected.extend(found)
        return dict(found)

    # strict=False lets raw line breaks stand inside strings, the commonest slip.
    decoder = json.JSONDecoder(object_pairs_hook=collect, strict=False)
    position, spans = 0, list[tuple[int, int]]()
    for _ in range(_MOST_OBJECTS):
        start = body.find("{", position)
        if start < 0:
            break
        kept = len(collected)
        try:
            _, position = decoder.raw_decode(body, start)
            spans.append((start, position))
        except (ValueError, RecursionError):
            del collected[kept:]
            position = start + 1
    return collected, spans == [(0, len(body))]


def recovery(*mended: str) -> str:
    """How a reply was read, in words that are kept with it: `strict` when nothing was mended."""
    return " + ".join(filter(None, mended)) or "strict"


def excerpt(text: str) -> str:
    """Beginning and end of a reply, quoted, for a message about it."""
    return repr(text if len(text) <= 160 else text[:80] + " … " + text[-70:])
