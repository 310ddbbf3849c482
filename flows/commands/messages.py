"""What commands say on standard error beside their answer: one sentence after `jury:`, fit for a terminal."""

import sys


def warn(sentence: str) -> None:
    """Say a sentence on standard error. It may quote strangers, so what could command a terminal becomes a space."""
    print(f"jury: {printable(sentence)}", file=sys.stderr)


def printable(text: str) -> str:
    """The text without control characters and invisible ones; lines stay lines."""
    return "".join(char if char.isprintable() or char == "\n" else " " for char in text)
