"""Messages of commands, fit for a terminal: warnings, answers, numbers of things, commands to type next."""

import json
import re
import shutil
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tasks.errors import InputError
from tasks.text import cut, printable

LONGEST_LINE = 4000
"""Characters of one line of a message."""
GAP = "  "
"""Between two columns of a table."""

_COMMANDING = re.compile(
    "[\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u08e2\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""What JSON leaves as it is though it commands a terminal, reverses writing, or cannot be seen or sent."""


def warn(sentence: str) -> None:
    """Say a sentence on standard error. It may quote strangers, so what could command a terminal becomes a space."""
    lines = (cut(line, LONGEST_LINE) for line in printable(sentence).split("\n"))
    print("jury: " + "\n".join(lines), file=sys.stderr)


@contextmanager
def left_to_sync(words: str = "`jury sync` does the rest") -> Generator[None]:
    """Warn where the history cannot be written, or the remote store not be reached, and leave that for later."""
    from tasks.ledger.bucket import RemoteUnavailable

    try:
        yield
    except (InputError, RemoteUnavailable) as error:
        warn(f"{error}; {words}")


def say(text: str) -> None:
    """Print an answer that may quote strangers, without what could command a terminal."""
    print(printable(text))


def number_of(count: int, thing: str) -> str:
    """How many there are of a thing: `1 run`, `2,000 runs`."""
    return f"{count:,} {thing}" + ("" if count == 1 else "s")


def column_widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Width of each column in cells of a terminal, of which a character of a wide script takes two."""
    from rich.cells import cell_len

    return [max(map(cell_len, column)) for column in zip(*rows, strict=True)]


def aligned(rows: Sequence[Sequence[str]], widths: Sequence[int] = ()) -> Iterator[str]:
    """A row a line, its columns so wide; without widths each as wide as its longest cell."""
    from rich.cells import set_cell_size

    widths = widths or column_widths(rows)
    for row in rows:
        yield GAP.join(set_cell_size(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip()


def command_line(words: str) -> str:
    """A command to type next, with the program as it was called: by its path, or as `jury` where a shell finds it."""
    called = Path(sys.argv[0])
    found = shutil.which("jury")
    by_path = called.name == "jury" and not (found and called.exists() and called.samefile(found))
    return f"{sys.argv[0] if by_path else 'jury'} {words}"


def printable_json(value: object) -> str:
    """The value as JSON for people and programs, with an escape such as `\\u009b` for what could command a terminal."""
    told = json.dumps(value, indent=1, ensure_ascii=False)
    return _COMMANDING.sub(lambda found: json.dumps(found[0])[1:-1], told)
