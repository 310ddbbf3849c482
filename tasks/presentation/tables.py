"""Table of plain texts, and its display in a terminal. Artifacts and pages show the same cells."""

import sys
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, NamedTuple

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


def console(stream: IO[str] | None = None) -> "Console":
    """Return a console for tables on `stream` or standard output; it prints texts unchanged.

    It is as wide as the terminal; without a terminal it has `PIPED_WIDTH` columns and no colors.
    """
    from rich.console import Console

    target = sys.stdout if stream is None else stream
    return Console(file=target, width=None if target.isatty() else PIPED_WIDTH, markup=False, highlight=False)
