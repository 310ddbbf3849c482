"""Texts of strangers and lists of names as plain words: bounded, on one line, fit for a terminal and for a file.

The ground of every message; phrases about scores stand in `presentation`.
"""

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
_JSON_PLACES = {
    "Expecting value": "where a value must stand",
    "Expecting property name": "where a key in double quotes must stand",
    "Expecting ':'": "where a colon must stand",
    "Expecting ','": "where a comma or a closing bracket must stand",
    "Illegal trailing comma": "with nothing behind it",
    "Extra data": "behind the end",
    "Unterminated string": "that begins a text and has no other at its end",
    "Invalid control character": "within a text: a line break is written \\n there, a tab \\t",
    "Invalid \\": "that stands for nothing: a backslash itself is written \\\\",
}
"""How the messages of the JSON reader begin -> what is wrong with the character that they point at."""
_CHARACTERS = {
    "": "the end", "'": "a single quote", '"': "a double quote", "\\": "a backslash", "\n": "the end of the line",
    "\t": "a tab", "None": "None, which JSON writes null,", "True": "True, which JSON writes true,",
    "False": "False, which JSON writes false,",
}  # fmt: skip


def well_formed(text: str) -> str:
    """The text without lone surrogates, which no file and no request can hold."""
    return text.encode("utf-8", "replace").decode()


def one_line(text: str, longest: int = 160) -> str:
    """A stranger's text as one printable line of at most `longest` characters.

    Line breaks, control characters (they may command a terminal) and invisible ones (they may reverse the direction of
    writing) become spaces.
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
    """Where a text is no JSON, and what was found there: `line 2, column 5: found a single quote where a key …`.

    Of other words than JSON's own only that there are some: the text may be anything.
    """
    where = f"line {error.lineno}, " if "\n" in error.doc else ""
    rest = error.doc[error.pos :]
    found = next((word for word in ("None", "True", "False") if rest.startswith(word)), rest[:1])
    name = _CHARACTERS.get(found) or (repr(found) if found in "{}[]:," else "other text")
    what = next((words for start, words in _JSON_PLACES.items() if error.msg.startswith(start)), "out of place")
    return f"{where}column {error.colno}: found {name} {what}"


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
