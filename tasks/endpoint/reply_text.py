"""What a reply says, and the JSON in it, whatever a model has wrapped around it.

Owns the unwrapping: strictly first, then through what models are known to put around JSON. It never guesses a value;
which keys are wanted and what they may hold is for `verdict_reply` and `score_reply`. All of it takes time in
proportion to the length of the reply: patterns begin with a word or sign of their own and never go back over what they
have passed (`*+`), and what has been decoded once is not decoded again.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tasks.text import well_formed

CUT_THINKING = "thinking cut off"
"""Noted of a reply whose thinking has no end: nothing after its beginning is an answer."""

_MOST_OBJECTS = 1000
"""Objects looked for in a text. One that has more is no reply to our questions, and is not read."""
_MOST_PAIRS = 10_000
_THINKING = re.compile(r"<(/?)think(?:ing)?>")
_OBJECT = re.compile(r'\{\s*+["}]')
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|(u[dD][89a-fA-F][\da-fA-F]{2})|.)", re.DOTALL
)
"""An escape in JSON; its group has half of a pair that stands alone, which no file can hold."""


def number(digits: str) -> int | float:
    """A whole number in JSON; one that no count or score is near becomes a float, perhaps an infinite one."""
    return int(digits) if len(digits) < 20 else float(digits)


def unwrapped(text: str) -> tuple[str, list[str]]:
    """A reply without the thinking before it and the fence around it, and what was taken off."""
    text = well_formed(text)
    body, thought = _without_thinking(text) if "<" in text and _THINKING.search(text) else (text, "")
    body, fence = _without_fence(body.strip())
    return body, [*filter(None, (thought, fence))]


def _without_thinking(text: str) -> tuple[str, str]:
    """What stands outside of thinking. An end without a beginning ends what the endpoint began itself.

    Where the JSON of an answer speaks of such marks, they are no more than words.
    """
    said, begun, position = list[str](), False, 0
    for mark in _outside(_THINKING.finditer(text), _spans(text) or ()):
        if not mark[1] and not begun:
            said.append(text[position : mark.start()])
            begun = True
        elif mark[1]:
            said = said if begun else []
            begun, position = False, mark.end()
    if begun:
        return "".join(said), CUT_THINKING
    return "".join([*said, text[position:]]), "thinking dropped" if position else ""


def _outside(marks: Iterator[re.Match[str]], spans: Sequence[tuple[int, int]]) -> Iterator[re.Match[str]]:
    """The marks that stand in none of the spans; both in their order."""
    ends = iter(spans)
    start, end = next(ends, (0, 0))
    for mark in marks:
        while end and end <= mark.start():
            start, end = next(ends, (0, 0))
        if not start <= mark.start() < end:
            yield mark


def _without_fence(body: str) -> tuple[str, str]:
    if not (len(body) >= 6 and body.startswith("```") and body.endswith("```")):
        return body, ""
    language, line_break, fenced = body[3:-3].partition("\n")
    if not line_break or (language.strip() and not language.strip().isalpha()):
        return body, ""
    return fenced.strip(), "fence removed"


def pairs(body: str) -> tuple[list[tuple[str, Any]], bool]:
    """All key-value pairs of the JSON objects in a text, at any depth, and whether the text is one such object."""
    collected: list[tuple[str, Any]] = []

    def collect(found: list[tuple[str, Any]]) -> dict[str, Any]:
        collected.extend(found)
        return dict(found)

    if "\\u" in body and _SURROGATE.search(body):
        body = _ESCAPE.sub(lambda escape: "?" if escape[1] else escape[0], body)
    spans = _spans(body, collect)
    if spans is None or len(collected) > _MOST_PAIRS:
        return [], False
    return collected, spans == [(0, len(body))]


def _spans(text: str, collect: Callable[[Any], Any] | None = None) -> list[tuple[int, int]] | None:
    """Begin and end of the outermost JSON objects in a text; None where there are too many, or too deep ones.

    After a broken object the search goes on where it broke: those within it that were whole have been decoded.
    """
    # strict=False lets raw line breaks stand inside strings, the commonest slip.
    decoder = json.JSONDecoder(object_pairs_hook=collect, parse_int=number, strict=False)
    spans, start = list[tuple[int, int]](), 0
    for _ in range(_MOST_OBJECTS):
        found = _OBJECT.search(text, start)
        if not found:
            return spans
        try:
            _, start = decoder.raw_decode(text, found.start())
            spans.append((found.start(), start))
        except json.JSONDecodeError as broken:
            start = max(broken.pos, found.start() + 1)
        except RecursionError:
            return None
    return None


def recovery(*mended: str) -> str:
    """How a reply was read, in words that are kept with it: `strict` when nothing was mended."""
    return " + ".join(filter(None, mended)) or "strict"


def reply_words(text: str, taken_off: Sequence[str]) -> str:
    """The reply in a message that nothing was found in it."""
    cut = ", which breaks off while thinking" if CUT_THINKING in taken_off else ""
    return f"the reply{cut}: {excerpt(text)}"


def excerpt(text: str) -> str:
    """Beginning and end of a reply, quoted, for a message about it."""
    return repr(_ends(text))


def _ends(words: str) -> str:
    return words if len(words) <= 160 else words[:80] + " … " + words[-70:]


def shown(value: Any) -> str:
    """A value out of a reply, quoted, for a message about it."""
    try:
        return _ends(repr(value))
    except RecursionError:
        return f"a deeply nested {type(value).__name__}"


def plain(value: Any) -> str:
    """A value out of a reply as a text to keep: a string as it is, parts as JSON, nothing where there is none."""
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return shown(value)
