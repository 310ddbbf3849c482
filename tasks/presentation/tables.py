"""Tables of plain texts for a terminal, and Markdown in which strangers' texts load nothing."""

import base64
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tasks.text import one_line, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

NARROWEST = 80
"""Columns of the narrowest terminal that shows a whole table."""
PIPED_WIDTH = 100
"""Columns of output without a terminal: rich would take 80."""
LONGEST_NAME = 32


class Grid(NamedTuple):
    """Table of plain texts."""

    header: list[str]
    lines: list[list[str]]
    """Cells of each line; a line with only a name heads the lines below it."""
    spare: str = ""
    """Header of a column that is left out if the terminal has no room for all."""


def grid_table(grid: Grid, notes: Sequence[str], width: int = NARROWEST) -> "Table":
    """Return a grid for a terminal of `width` columns, at least 80, with notes below it.

    Only candidates' names are ever broken into lines; nothing is cut.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    grid = _fitting(grid, width)
    names, *others = _widths(grid)
    gap = 1 if sum([names, *others]) + 2 * len(others) <= NARROWEST else 0
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap, 0, 0))
    table.caption, table.caption_justify, table.caption_style = printable("\n".join(notes)), "left", ""
    table.add_column("", overflow="fold", min_width=names, max_width=LONGEST_NAME)
    for header in grid.header[1:]:
        table.add_column(printable(header), justify="right", vertical="bottom", no_wrap=True)
    for name, *cells in grid.lines:
        table.add_row(Text(f" {printable(name)}" if cells else one_line(name)), *map(printable, cells))
    return table


def _fitting(grid: Grid, width: int) -> Grid:
    """Return the grid, without its spare column if there is no room for it."""
    widths = _widths(grid)
    if grid.spare not in grid.header[1:] or sum(widths) + len(widths) - 1 <= width:
        return grid
    place = grid.header.index(grid.spare)
    lines = [line[:place] + line[place + 1 :] if len(line) > 1 else line for line in grid.lines]
    return Grid(grid.header[:place] + grid.header[place + 1 :], lines)


def _widths(grid: Grid) -> list[int]:
    """Return the widths of the columns. Candidates' names, which can be broken, do not count."""
    lines = [[f" {name}", *cells] for name, *cells in grid.lines if cells]
    headers = [max(map(len, header.split("\n"))) for header in grid.header]
    return [max([width, *map(len, column)]) for width, *column in zip(headers, *lines, strict=True)]


def console() -> "Console":
    """Return a console for tables on standard output; it prints texts unchanged.

    It is as wide as the terminal; without a terminal it has `PIPED_WIDTH` columns and no colors.
    """
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else PIPED_WIDTH, markup=False, highlight=False)


QUOTE = 300
"""Longest quotation, in characters."""
NAME = 80
"""Longest name shown, in characters."""

_SPECIAL = re.compile(
    r"[!#$&*<>@\[\\\]^`{|}~]|\b_|_\b|(?<!\w)_"  # emphasis, code, links, pictures, tables, HTML
    r"|^[-+]|^\d{1,9}[.)](?=\s|$)"  # lists
    r"|:(?=/)|(?<=www)\.",  # bare addresses
    re.IGNORECASE,
)
_IN_ADDRESSES = ":@."


def plain_markdown(text: str, longest: int = QUOTE) -> str:
    """Return a stranger's text as Markdown that shows exactly this text, on one line, in a table as anywhere else.

    Backslashes escape the marks of Markdown and HTML. Both of Prefect's UIs accept them, but the older one shows
    character references unchanged. GitHub's dialect would still turn bare addresses into links, so an empty comment
    splits them.
    """
    return _SPECIAL.sub(_reference, one_line(text, longest))


def _reference(found: re.Match[str]) -> str:
    number, mark = found[0][:-1], found[0][-1]
    comment = "<!-- -->" if mark in _IN_ADDRESSES and not number else ""
    return f"{number}{comment}\\{mark}"


def bullets(lines: Iterable[str]) -> str:
    """Return a list of strangers' texts; an indented line is nested below the line before it."""
    return "\n".join(f"{'  ' * line.startswith('  ')}- {plain_markdown(line)}" for line in lines)


def markdown_table(header: Sequence[str], lines: Iterable[Sequence[str]], numbers: bool = True) -> str:
    """Return a table of cells that are Markdown already; a line with fewer cells than the header is filled up.

    Args:
        numbers: align all columns but the first to the right.
    """
    rule = ["---"] + ["---:" if numbers else "---"] * (len(header) - 1)
    filled = [[*line, *[""] * (len(header) - len(line))] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |".replace("\n", " ") for line in [header, rule, *filled])


def markdown_picture(title: str, kind: str, data: bytes) -> str:
    """Return an SVG or JPEG embedded in the text: nothing is fetched, and the picture never changes."""
    return f"![{title}](data:image/{kind};base64,{base64.b64encode(data).decode('ascii')})"


def markdown_grid(board: Grid) -> str:
    """Return a table of plain texts; a name that heads the lines below it is bold."""
    lines = [
        [plain_markdown(name, NAME) if cells else f"**{plain_markdown(name, NAME)}**", *cells]
        for name, *cells in board.lines
    ]
    header = [name.replace("-\n", "").replace("\n", " ") for name in board.header]
    return markdown_table(header, lines)
