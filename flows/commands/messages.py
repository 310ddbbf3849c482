"""How commands say something: a sentence after `jury:` beside the answer, numbers of things, all fit for a terminal."""

import sys


def warn(sentence: str) -> None:
    """Say a sentence on standard error. It may quote strangers, so what could command a terminal becomes a space."""
    print(f"jury: {printable(sentence)}", file=sys.stderr)


def number_of(count: int, thing: str) -> str:
    """How many there are of a thing: `1 run`, `2,000 runs`."""
    return f"{count:,} {thing}" + ("" if count == 1 else "s")


def printable(text: str) -> str:
    """The text without control characters and invisible ones; lines stay lines, and tabs stay."""
    return "".join(char if char.isprintable() or char in "\n\t" else " " for char in text)
