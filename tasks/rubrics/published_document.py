"""A published prompt document taken apart: the texts it quotes, word for word, and what else it holds.

Owns the two forms, Markdown with each prompt in a fenced block and JSON with a prompt under each key, and knows the
traces of PDF extraction. Which question a text asks is for `published_prompt`, what becomes of it for `importer`.
"""

import json
import re
from bisect import bisect_left
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, cast

from tasks.errors import InputError
from tasks.text import json_fault

FORMS = "Markdown with each prompt in a fenced block under its heading, or a JSON object with each prompt under its tag"

LONGEST = 5_000_000
"""Bytes of a document."""
_PART = re.compile(
    r"^ {0,3}(?P<fence>`{3,}+|~{3,}+)[^`\n]*\n(?P<text>(?:.*\n)*?) {0,3}(?P=fence)[`~]*[ \t]*$"
    r"|^ {0,3}(?P<signs>#{1,6})[ \t]+(?P<words>.*?)[ \t#]*$"
    r"|^[ \t]*(?P<rule>(?:[-*_][ \t]*){3,})$"
    r"|^(?P<prose>.*\S.*)$",
    re.MULTILINE,
)
_OPEN_FENCE = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_ESCAPED_FENCE = re.compile(r"^([ \t]*)\\`\\`\\`", re.MULTILINE)
_PDF_TRACES = {
    "page marks": re.compile(r"\[\[PAGE\b|\f"),
    "code fences turned into quotation marks": re.compile(r"[‘’´]{3}"),
    "lines with headings in the middle": re.compile(r"^.*\S #{1,6} [A-Z].* #{1,6} [A-Z].*$", re.MULTILINE),
}


class Quoted(NamedTuple):
    """A text that a document quotes."""

    names: tuple[str, ...]
    """What it stands under, the outermost first: headings, or the parts of a key."""
    text: str
    where: str
    """Its line, or its key."""


class Published(NamedTuple):
    """What a document holds."""

    quoted: list[Quoted]
    rest: list[str]
    """What it holds beside quoted texts, a line each."""


def read_published(source: Path) -> Published:
    """The quoted texts of a document; one that begins with `{` is JSON, any other Markdown.

    Line breaks are read as `\\n`, whatever the file's. A block's text is what stands between its fences; an inner fence
    that is escaped at the beginning of a line is unescaped, and nothing else is touched.

    Raises:
        InputError: the file cannot be read, is damaged by PDF extraction, or is broken, and where.
    """
    if source.exists() and not source.is_file():
        raise InputError(f"{source}: found a pipe, a device or a folder; allowed: {FORMS}")
    if source.exists() and (size := source.stat().st_size) > LONGEST:
        raise InputError(f"{source}: found {size:,} bytes; allowed: {LONGEST:,}")
    try:
        text = source.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{source}: found a byte at {error.start} that is not UTF-8; allowed: UTF-8") from None
    except OSError as error:
        raise InputError(f"{source}: cannot be read: {error.strerror}") from None
    return _json(source, text) if text.lstrip().startswith("{") else _markdown(source, text)


def _json(source: Path, text: str) -> Published:
    try:
        pairs = cast(tuple[tuple[str, object], ...], json.loads(text, object_pairs_hook=tuple))
    except json.JSONDecodeError as error:
        raise InputError(f"{source}, {json_fault(error)}; allowed: {FORMS}") from None
    except RecursionError:
        raise InputError(f"{source}: found JSON too deep to be read; allowed: {FORMS}") from None
    if twice := [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]:
        raise InputError(f"{source}, key {twice[0]!r}: found it more than once; allowed: each key once")
    texts = [Quoted(tuple(key.split("/")), value, f"key {key!r}") for key, value in pairs if isinstance(value, str)]
    return Published(texts, [f"key {key!r}: holds no text" for key, value in pairs if not isinstance(value, str)])


def _markdown(source: Path, text: str) -> Published:
    _refuse_damage(source, text)
    quoted, prose = list[Quoted](), Counter[tuple[str, ...]]()
    headings = dict[int, str]()
    for part in _PART.finditer(text):
        names = tuple(headings.values())
        if part["fence"]:
            quoted.append(Quoted(names, _block(source, part), f"line {_line(part)}"))
        elif level := len(part["signs"] or ""):
            headings = {above: words for above, words in headings.items() if above < level} | {level: part["words"]}
        elif part["prose"]:
            _refuse_open_fence(source, part)
            prose[names] += 1
    return Published(quoted, [_prose_words(names, lines) for names, lines in prose.items()])


def _refuse_damage(source: Path, text: str) -> None:
    traces = {name: len(trace.findall(text)) for name, trace in _PDF_TRACES.items()}
    if found := ", ".join(f"{count} {name}" for name, count in traces.items() if count):
        raise InputError(
            f"{source}: damaged by PDF extraction, no prompt in it is word for word any more: found {found}; "
            f"allowed: {FORMS}. The prompt set `paper` carries the rules of PaperBanana's appendix"
        )


def _block(source: Path, part: re.Match[str]) -> str:
    # A bare fence would have ended the block: what stands here has words behind it, so it opens one inside.
    body = part["text"].removesuffix("\n")
    if part["fence"].startswith("`") and (inner := re.search(rf"^ {{0,3}}{part['fence']}", body, re.MULTILINE)):
        line = _line(part) + 1 + body.count("\n", 0, inner.start())
        raise InputError(
            f"{source}, line {line}: found a code fence inside the block of line {_line(part)}, whose end is then "
            "unclear; allowed: inner fences escaped (\\`\\`\\`), or an outer fence that is longer"
        )
    return _ESCAPED_FENCE.sub(r"\1```", body)


def _refuse_open_fence(source: Path, part: re.Match[str]) -> None:
    if _OPEN_FENCE.match(part["prose"]):
        raise InputError(f"{source}, line {_line(part)}: found a block without an end; allowed: a fence that closes it")


def _line(part: re.Match[str]) -> int:
    """Number of the line in which a part begins, from 1."""
    return bisect_left(_line_ends(part.string), part.start()) + 1


@lru_cache(maxsize=1)
def _line_ends(text: str) -> list[int]:
    return [end.start() for end in re.finditer("\n", text)]


def _prose_words(names: tuple[str, ...], lines: int) -> str:
    number = "1 line" if lines == 1 else f"{lines} lines"
    return f"{number} of text {f'under the heading {names[-1]!r}' if names else 'before the first heading'}"
