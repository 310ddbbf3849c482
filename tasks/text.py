"""Texts of strangers and lists of names as plain words: bounded, on one line, safe for a terminal and a file."""

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice

SHOWN = 20
"""Values listed in full; the rest is counted."""
JSON_KINDS: dict[type, str] = {
    type(None): "null", bool: "a boolean", int: "a number", float: "a number", str: "text",
    list: "a list", dict: "an object",
}  # fmt: skip


def print_aside(line: str) -> None:
    """Print a line on standard error, if the terminal was not closed: what is only shown must fail no run."""
    with suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def well_formed(text: str) -> str:
    """Return the text without lone surrogates, which no file and no request can contain."""
    return text.encode("utf-8", "replace").decode()


def one_line(text: str, longest: int = 160) -> str:
    """Return a stranger's text as one printable line of at most `longest` characters.

    Control characters, which may command a terminal, and invisible ones become spaces.
    """
    start = text[: 4 * longest]
    line = " ".join("".join(char if char.isprintable() else " " for char in start).split())
    return line if len(line) <= longest and start == text else line[: longest - 1].rstrip() + "…"


def cut(text: str, longest: int = 1000) -> str:
    """Return the text, or its beginning if it is longer: a stranger's text must not drown the sentence around it."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def printable(text: str) -> str:
    """Return the text without control characters and invisible ones; line breaks and tabs are kept."""
    return "".join(char if char.isprintable() or char in "\n\t" else " " for char in text)


def quoted(name: str, longest: int = 120) -> str:
    """Quote a name for a message, and cut it if it is longer than names are: it may be a whole picture in base64."""
    return repr(name) if len(name) <= longest else f"{name[:longest]!r}… ({len(name):,} characters)"


def kind(value: object) -> str:
    """Return the type of a value in the terms of JSON."""
    return JSON_KINDS.get(type(value), f"of type {type(value).__name__}")


def json_fault(error: json.JSONDecodeError) -> str:
    """Return the position and the reason of a JSON error: `line 2, column 5: Expecting value`."""
    where = f"line {error.lineno}, " if "\n" in error.doc else ""
    return f"{where}column {error.colno}: {error.msg}"


def listed(values: Iterable[str], shown: int = SHOWN) -> str:
    """List values in one line, the first `shown` by name and the others by number: `a, b and 7 more`."""
    rest = iter(values)
    first = ", ".join(islice(rest, shown)) or "none"
    more = sum(1 for _ in rest)
    return f"{first} and {more} more" if more else first


def enumerated(names: Sequence[str]) -> str:
    """Enumerate names within a sentence: `a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def bounded(first: Sequence[str], total: int) -> list[str]:
    """Return the first of `total` lines, and the number of the others."""
    more = total - len(first)
    return [*first, f"and {more:,} more"] if more > 0 else list(first)


def counted(counts: Mapping[str, int]) -> str:
    """Return counts in words, the largest first: `93 ok, 2 invalid`."""
    found = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in found if n) or "none"


def number_of(count: int, thing: str) -> str:
    """Return a count with its noun: `1 run`, `2,000 runs`."""
    return f"{count:,} {thing}" + ("" if count == 1 else "s")


def natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts names with the numbers in them as numbers: `test_2` before `test_10`."""
    parts = re.split("([0-9]+)", name)
    return [(int(part[:18]), part) if at % 2 else (0, part) for at, part in enumerate(parts)]


def number_words(value: float | None, decimals: int = 2) -> str:
    """Format a number, or return a dash for None."""
    return "–" if value is None else f"{value:.{decimals}f}"


def duration(seconds: float) -> str:
    """Format a span of time in everyday units: `40 s`, `15 min`, `1 h 30 min`."""
    if seconds < 120:
        return f"{seconds:.3g} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return " ".join(filter(None, (f"{hours} h" if hours else "", f"{minutes} min" if minutes else "")))


def money(amount: float | None) -> str:
    """Return an amount with four decimals below 100, else two; `unknown` for None. No amount above 0 is shown as 0."""
    if amount is None:
        return "unknown"
    if 0 < amount < 0.00005:
        return "below 0.0001"
    return f"{amount:,.2f}" if abs(amount) >= 100 else f"{amount:,.4f}"
