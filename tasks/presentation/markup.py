"""Markdown (GitHub's dialect) in which strangers' texts remain plain text and load nothing."""

import base64
import re
from collections.abc import Iterable, Sequence

from tasks.presentation.tables import Grid
from tasks.text import one_line

QUOTE = 300
"""Longest quotation, in characters."""
NAME = 80
"""Longest name shown, in characters."""

_SPECIAL = re.compile(
    r"[!#$&*<>@\[\\\]^`{|}~]|\b_|_\b|(?<!\w)_"  # emphasis, code, links, pictures, tables, HTML
    r"|^[-+]|(?<=\d)[.)](?=\s|$)"  # lists
    r"|:(?=/)|(?<=www)\.",  # bare addresses
    re.IGNORECASE,
)
_IN_ADDRESSES = ":@."


def plain(text: str, longest: int = QUOTE) -> str:
    """Return a stranger's text as Markdown that shows exactly this text, on one line, in a table as anywhere else.

    Backslashes escape the marks of Markdown and HTML. Both of Prefect's UIs accept them, but the older one shows
    character references unchanged. GitHub's dialect would still turn bare addresses into links, so an empty comment
    splits them.
    """
    return _SPECIAL.sub(_reference, one_line(text, longest))


def _reference(found: re.Match[str]) -> str:
    comment = "<!-- -->" if found[0] in _IN_ADDRESSES else ""
    return f"{comment}\\{found[0]}"


def bullets(lines: Iterable[str]) -> str:
    """Return a list of strangers' texts; an indented line is nested below the line before it."""
    return "\n".join(f"{'  ' * line.startswith('  ')}- {plain(line)}" for line in lines)


def table(header: Sequence[str], lines: Iterable[Sequence[str]], numbers: bool = True) -> str:
    """Return a table of cells that are Markdown already; a line with fewer cells than the header is filled up.

    Args:
        numbers: align all columns but the first to the right.
    """
    rule = ["---"] + ["---:" if numbers else "---"] * (len(header) - 1)
    filled = [[*line, *[""] * (len(header) - len(line))] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |".replace("\n", " ") for line in [header, rule, *filled])


def picture(title: str, kind: str, data: bytes) -> str:
    """Return a PNG or JPEG embedded in the text: nothing is fetched, and the picture never changes."""
    return f"![{title}](data:image/{kind};base64,{base64.b64encode(data).decode('ascii')})"


def grid(board: Grid) -> str:
    """Return a table of plain texts; a name that heads the lines below it is bold."""
    lines = [[plain(name, NAME) if cells else f"**{plain(name, NAME)}**", *cells] for name, *cells in board.lines]
    header = [name.replace("-\n", "").replace("\n", " ") for name in board.header]
    return table(header, lines)
