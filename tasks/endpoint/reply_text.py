"""Reader of the JSON in a reply, without any text that a model has put around it; no value is ever guessed.

It takes time in proportion to the length of the reply: patterns never backtrack (`*+`).
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tasks.text import well_formed

CUT_THINKING = "thinking cut off"
"""Note on a reply whose thinking has no end: no text after its beginning is an answer."""

_MOST_OBJECTS = 1000
"""Most objects in a text. A text with more is no reply to our questions, and is not read."""
_MOST_PAIRS = 10_000
_MOST_REPEATED = 3
"""Distinct values kept of one repeated key: two different ones are enough to show a conflict."""
_THINKING = re.compile(r"<(/?)think(?:ing)?>")
_OBJECT = re.compile(r'\{\s*+["}]')
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|(u[dD][89a-fA-F][\da-fA-F]{2})|.)", re.DOTALL
)
"""Escape in JSON; its group has an unpaired surrogate, which no file can store."""


class Span(NamedTuple):
    """An outermost JSON object in a text."""

    start: int
    end: int
    pairs: range
    """Indices of its pairs in `Objects.pairs`."""


class Repeated(NamedTuple):
    """Distinct values of a key that occurs several times in one object."""

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
        """Return whether the whole text is one such object."""
        return [span[:2] for span in self.spans] == [(0, len(self.text))]

    def after(self, is_answer: Callable[[str], bool]) -> str:
        """Return the text after the object with the first key of an answer; empty if that object is broken."""
        first = next((index for index, (key, _) in enumerate(self.pairs) if is_answer(key)), -1)
        return next((self.text[span.end :] for span in self.spans if first in span.pairs), "")


def number(digits: str) -> int | float:
    """Return a whole number in JSON; from 20 digits on, which no count or score has, a float, perhaps infinite."""
    return int(digits) if len(digits) < 20 else float(digits)


def unwrapped(text: str) -> tuple[str, list[str]]:
    """Return a reply without its thinking and the fence around it, and notes on the removed parts."""
    text = well_formed(text)
    body, thought = _without_thinking(text) if "<" in text and _THINKING.search(text) else (text, "")
    body, fence = _without_fence(body.strip())
    return body, [*filter(None, (thought, fence))]


def _without_thinking(text: str) -> tuple[str, str]:
    """Return the text outside of thinking, and a note. An end tag without a start tag ends the endpoint's own thinking.

    Tags within the JSON of an answer are plain text.
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
    """Yield the tags outside of all spans; both are in their order."""
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
    """Return the JSON objects in a text; none if they are too many or too deep for a reply to our questions."""
    if "\\u" in body and _SURROGATE.search(body):
        body = _ESCAPE.sub(lambda escape: "?" if escape[1] else escape[0], body)
    collected: list[tuple[str, Any]] = []
    spans = _spans(body, collected)
    if spans is None or len(collected) > _MOST_PAIRS:
        return Objects([])
    return Objects(collected, body, spans)


def _spans(text: str, collected: list[tuple[str, Any]]) -> list[Span] | None:
    """Return the outermost JSON objects in a text; None if they are too many or too deep.

    After a broken object the search continues at the break: whole objects within it are decoded already. All pairs are
    added to `collected`, including those of objects within broken ones.
    """

    def collect(found: list[tuple[str, Any]]) -> dict[str, Any]:
        collected.extend(found)
        made = dict(found)
        return made if len(made) == len(found) else _with_repeated(found)

    # strict=False accepts raw line breaks in strings, the most common slip.
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
    """Return an object that keeps all values of a repeated key, up to a limit: nothing shows which one is meant."""
    values: dict[str, list[Any]] = {}
    for key, value in found:
        known = values.setdefault(key, [])
        if len(known) < _MOST_REPEATED and value not in known:
            known.append(value)
    return {key: Repeated(tuple(each)) if len(each) > 1 else each[0] for key, each in values.items()}


def recovery(*mended: str) -> str:
    """Return the stored note on how a reply was read: its repairs, or `strict` if there were none."""
    return " + ".join(filter(None, mended)) or "strict"


def reply_words(text: str, taken_off: Sequence[str]) -> str:
    """Quote the reply in a message that nothing was found in it."""
    cut = ", which breaks off while thinking" if CUT_THINKING in taken_off else ""
    return f"the reply{cut}: {_ends(text)!r}"


def _ends(words: str) -> str:
    return words if len(words) <= 160 else words[:80] + " … " + words[-70:]


def shown(value: Any) -> str:
    """Quote a value of a reply for a message about it."""
    try:
        return _ends(repr(value))
    except RecursionError:
        return f"a deeply nested {type(value).__name__}"


def plain(value: Any) -> str:
    """Return a value of a reply as a text to store: a string unchanged, other values as JSON, empty for None."""
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return shown(value)
