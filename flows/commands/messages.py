"""How commands say something: a sentence after `jury:` beside the answer, numbers of things, commands to type next.

All of it is fit for a terminal.
"""

import shutil
import sys
from pathlib import Path


def warn(sentence: str) -> None:
    """Say a sentence on standard error. It may quote strangers, so what could command a terminal becomes a space."""
    print(f"jury: {printable(sentence)}", file=sys.stderr)


def number_of(count: int, thing: str) -> str:
    """How many there are of a thing: `1 run`, `2,000 runs`."""
    return f"{count:,} {thing}" + ("" if count == 1 else "s")


def command_line(words: str) -> str:
    """A command to type next, with the program as it was called: by its path, or as `jury` where a shell finds it."""
    called = Path(sys.argv[0])
    found = shutil.which("jury")
    by_path = called.name == "jury" and not (found and called.exists() and called.samefile(found))
    return f"{sys.argv[0] if by_path else 'jury'} {words}"


def printable(text: str) -> str:
    """The text without control characters and invisible ones; lines stay lines, and tabs stay."""
    return "".join(char if char.isprintable() or char in "\n\t" else " " for char in text)
