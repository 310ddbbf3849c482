"""Markdown (GitHub's dialect) in which strangers' texts are plain text and load nothing."""

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
    """A stranger's text as Markdown that shows just this text, on one line, in a table as anywhere else.

    What Markdown or HTML would act on is escaped by a backslash, which both of Prefect's UIs read (the older one shows
    character references as they are). GitHub's dialect would still make links of bare addresses, so an empty comment
    parts what it looks for.
    """
    return _SPECIAL.sub(_reference, one_line(text, longest))


def _reference(found: re.Match[str]) -> str:
    comment = "<!-- -->" if found[0] in _IN_ADDRESSES else ""
    return f"{comment}\\{found[0]}"


def bullets(lines: Iterable[str]) -> str:
    """A list of strangers' texts; what is indented stays beneath the line before it."""
    return "\n".join(f"{'  ' * line.startswith('  ')}- {plain(line)}" for line in lines)


def table(header: Sequence[str], lines: Iterable[Sequence[str]], numbers: bool = True) -> str:
    """A table of cells that are Markdown already; a line with fewer cells than the header is filled up.

    Args:
        numbers: all columns but the first are aligned to the right.
    """
    rule = ["---"] + ["---:" if numbers else "---"] * (len(header) - 1)
    filled = [[*line, *[""] * (len(header) - len(line))] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |".replace("\n", " ") for line in [header, rule, *filled])


def picture(title: str, kind: str, data: bytes) -> str:
    """A PNG or JPEG within the text itself: nothing is fetched, and it stays as it was."""
    return f"![{title}](data:image/{kind};base64,{base64.b64encode(data).decode('ascii')})"


def grid(board: Grid) -> str:
    """A table of plain texts; a name that heads the lines below it stands out."""
    lines = [[plain(name, NAME) if cells else f"**{plain(name, NAME)}**", *cells] for name, *cells in board.lines]
    header = [name.replace("-\n", "").replace("\n", " ") for name in board.header]
    return table(header, lines)
