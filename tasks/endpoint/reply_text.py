"""JSON in a reply, whatever a model has wrapped around it; no value is ever guessed.

All of it takes time in proportion to the length of the reply: no pattern goes back over what it has passed (`*+`).
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tasks.text import well_formed

CUT_THINKING = "thinking cut off"
"""Noted of a reply whose thinking has no end: nothing after its beginning is an answer."""

_MOST_OBJECTS = 1000
"""Objects looked for in a text. One that has more is no reply to our questions, and is not read."""
_MOST_PAIRS = 10_000
_MOST_REPEATED = 3
"""Values of one key that are told apart: two that differ are enough to see."""
_THINKING = re.compile(r"<(/?)think(?:ing)?>")
_OBJECT = re.compile(r'\{\s*+["}]')
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|(u[dD][89a-fA-F][\da-fA-F]{2})|.)", re.DOTALL
)
"""An escape in JSON; its group has half of a pair that stands alone, which no file can hold."""


class Span(NamedTuple):
    """An outermost JSON object in a text."""

    start: int
    end: int
    pairs: range
    """Which of the pairs it holds."""


class Repeated(NamedTuple):
    """The values of a key that one object has several times, where they differ."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class Objects:
    """The JSON objects in a text."""

    pairs: list[tuple[str, Any]]
    """All key-value pairs, at any depth."""
    text: str = ""
    spans: Sequence[Span] = ()

    @property
    def whole(self) -> bool:
        """Whether the text is one such object."""
        return [span[:2] for span in self.spans] == [(0, len(self.text))]

    def after(self, is_answer: Callable[[str], bool]) -> str:
        """Return the text after the object with the first key of an answer; empty where that one is broken."""
        first = next((index for index, (key, _) in enumerate(self.pairs) if is_answer(key)), -1)
        return next((self.text[span.end :] for span in self.spans if first in span.pairs), "")


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
    """Return what stands outside of thinking. An end without a beginning ends what the endpoint began itself.

    Marks within the JSON of an answer are mere words.
    """
    said, begun, position = list[str](), False, 0
    for mark in _outside(_THINKING.finditer(text), _spans(text, []) or ()):
        if not mark[1] and not begun:
            said.append(text[position : mark.start()])
            begun = True
        elif mark[1]:
            said = said if begun else []
            begun, position = False, mark.end()
    if begun:
        return "".join(said), CUT_THINKING
    return "".join([*said, text[position:]]), "thinking dropped" if position else ""


def _outside(marks: Iterator[re.Match[str]], spans: Sequence[Span]) -> Iterator[re.Match[str]]:
    """The marks that stand in none of the spans; both in their order."""
    ends, none = iter(spans), Span(0, 0, range(0))
    start, end, _ = next(ends, none)
    for mark in marks:
        while end and end <= mark.start():
            start, end, _ = next(ends, none)
        if not start <= mark.start() < end:
            yield mark


def _without_fence(body: str) -> tuple[str, str]:
    if not (len(body) >= 6 and body.startswith("```") and body.endswith("```")):
        return body, ""
    language, line_break, fenced = body[3:-3].partition("\n")
    if not line_break or (language.strip() and not language.strip().isalpha()):
        return body, ""
    return fenced.strip(), "fence removed"


def objects(body: str) -> Objects:
    """Return the JSON objects in a text; none where it has more than a reply to our questions, or too deep ones."""
    if "\\u" in body and _SURROGATE.search(body):
        body = _ESCAPE.sub(lambda escape: "?" if escape[1] else escape[0], body)
    collected: list[tuple[str, Any]] = []
    spans = _spans(body, collected)
    if spans is None or len(collected) > _MOST_PAIRS:
        return Objects([])
    return Objects(collected, body, spans)


def _spans(text: str, collected: list[tuple[str, Any]]) -> list[Span] | None:
    """Return the outermost JSON objects in a text; None where there are too many, or too deep ones.

    After a broken object the search goes on where it broke: whole ones within it have been decoded. All pairs are added
    to `collected`, also of objects within broken ones.
    """

    def collect(found: list[tuple[str, Any]]) -> dict[str, Any]:
        collected.extend(found)
        made = dict(found)
        return made if len(made) == len(found) else _with_repeated(found)

    # strict=False lets raw line breaks stand inside strings, the commonest slip.
    decoder = json.JSONDecoder(object_pairs_hook=collect, parse_int=number, strict=False)
    spans, start = list[Span](), 0
    for _ in range(_MOST_OBJECTS):
        found = _OBJECT.search(text, start)
        if not found:
            return spans
        first = len(collected)
        try:
            _, start = decoder.raw_decode(text, found.start())
            spans.append(Span(found.start(), start, range(first, len(collected))))
        except json.JSONDecodeError as broken:
            start = max(broken.pos, found.start() + 1)
        except RecursionError:
            return None
    return None


def _with_repeated(found: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object in which a key stands several times: nothing says which of its values is meant."""
    values: dict[str, list[Any]] = {}
    for key, value in found:
        known = values.setdefault(key, [])
        if len(known) < _MOST_REPEATED and value not in known:
            known.append(value)
    return {key: Repeated(tuple(each)) if len(each) > 1 else each[0] for key, each in values.items()}


def recovery(*mended: str) -> str:
    """How a reply was read, in words that are kept with it: `strict` when nothing was mended."""
    return " + ".join(filter(None, mended)) or "strict"


def reply_words(text: str, taken_off: Sequence[str]) -> str:
    """The reply in a message that nothing was found in it."""
    cut = ", which breaks off while thinking" if CUT_THINKING in taken_off else ""
    return f"the reply{cut}: {_ends(text)!r}"


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
