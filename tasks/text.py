"""Texts of strangers and lists of names as plain words: bounded, on one line, fit for a terminal and for a file."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

SHOWN = 20
"""Values listed in full; the rest is counted."""
JSON_KINDS: dict[type, str] = {
    type(None): "null", bool: "a boolean", int: "a number", float: "a number", str: "text", bytes: "bytes",
    list: "a list", dict: "an object",
}  # fmt: skip


def well_formed(text: str) -> str:
    """The text without lone surrogates, which no file and no request can hold."""
    return text.encode("utf-8", "replace").decode()


def one_line(text: str, longest: int = 160) -> str:
    """Return a stranger's text as one printable line of at most `longest` characters.

    Control characters, which may command a terminal, and invisible ones become spaces.
    """
    start = text[: 4 * longest]
    line = " ".join("".join(char if char.isprintable() else " " for char in start).split())
    return line if len(line) <= longest and start == text else line[: longest - 1].rstrip() + "…"


def cut(text: str, longest: int = 1000) -> str:
    """The text, or its beginning where it is longer: a stranger's word must not drown the sentence around it."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def printable(text: str) -> str:
    """The text without control characters and invisible ones; lines stay lines, and tabs stay."""
    return "".join(char if char.isprintable() or char in "\n\t" else " " for char in text)


def quoted(name: str, longest: int = 120) -> str:
    """A name as a message quotes it, cut where it is longer than names are: it may be a whole picture in base64."""
    return repr(name) if len(name) <= longest else f"{name[:longest]!r}… ({len(name):,} characters)"


def kind(value: object) -> str:
    """A value's type in the words of JSON."""
    return JSON_KINDS.get(type(value), f"of type {type(value).__name__}")


def json_fault(error: json.JSONDecodeError) -> str:
    """Return where a text is no JSON, and why: `line 2, column 5: Expecting value`."""
    where = f"line {error.lineno}, " if "\n" in error.doc else ""
    return f"{where}column {error.colno}: {error.msg}"


def listed(values: Iterable[str], shown: int = SHOWN) -> str:
    """Values in a row, the first `shown` by name and the others by number: `a, b and 7 more`."""
    rest = iter(values)
    first = ", ".join(islice(rest, shown)) or "none"
    more = sum(1 for _ in rest)
    return f"{first} and {more} more" if more else first


def bounded(first: Sequence[str], total: int) -> list[str]:
    """The first of `total` lines, and how many more there are."""
    more = total - len(first)
    return [*first, f"and {more:,} more"] if more > 0 else list(first)


def counted(counts: Mapping[str, int]) -> str:
    """Counts in words, the largest first: `93 ok, 2 invalid`."""
    found = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in found if n) or "none"


def natural(name: str) -> list[tuple[int, str]]:
    """A key that sorts names with the numbers in them as numbers: `test_2` before `test_10`."""
    parts = re.split("([0-9]+)", name)
    return [(int(part[:18]), part) if at % 2 else (0, part) for at, part in enumerate(parts)]


def number_words(value: float | None, decimals: int = 2) -> str:
    """A number, or a dash where there is none."""
    return "–" if value is None else f"{value:.{decimals}f}"


def duration(seconds: float) -> str:
    """A span of time in the units that people use: `40 s`, `15 min`, `1 h 30 min`."""
    if seconds < 120:
        return f"{seconds:.3g} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return " ".join(filter(None, (f"{hours} h" if hours else "", f"{minutes} min" if minutes else "")))
