"""The score table and the lines beneath it: what is in them, and how a terminal shows them.

The same cells and sentences go into artifacts as Markdown and into pages as HTML.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Literal, NamedTuple

from tasks.presentation.wording import coverage_words, interval_words, score_words
from tasks.records import OVERALL
from tasks.statistics.scores import ScoreRow, ranking
from tasks.text import one_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

NARROWEST = 80
"""Columns of the narrowest terminal that shows a table whole."""
PIPED_WIDTH = 100
"""Columns of output that goes to no terminal: rich would take 80."""
LONGEST_NAME = 32


class Grid(NamedTuple):
    """A table of plain texts."""

    header: list[str]
    lines: list[list[str]]
    """A line with a name alone heads the lines below it."""


def leaderboard(rows: Sequence[ScoreRow], grouping: str = "all") -> Grid:
    """Scores and counts, the best candidate first. Kinds of verdict that nobody got are left out.

    Args:
        rows: those of one run, those over all samples among them.
        grouping: `all`: a line for each dimension; `category` or `difficulty`: one for the outcomes of each group.
    """
    shown = [row for row in rows if row.grouping == grouping and (grouping == "all" or row.dimension == OVERALL)]
    counts = [column for column in _COUNTS if column.always or any(map(column.of, shown))]
    lines: list[list[str]] = []
    for best in ranking(rows):
        lines.append([best.candidate])
        its = (row for row in shown if row.candidate == best.candidate)
        lines += [[row.group_name or row.dimension, *_cells(row, counts)] for row in its]
    return Grid(["", "score", "95% interval", *(column.header for column in counts), "scored"], lines)


@dataclass(frozen=True)
class _Count:
    header: str
    of: Callable[[ScoreRow], int]
    always: bool = False
    only: Literal["", "dimension", "overall"] = ""
    """Kind of row that can have it; empty: both."""


_COUNTS = (
    _Count("Model", lambda row: row.model_wins, always=True),
    _Count("Human", lambda row: row.human_wins, always=True),
    _Count("both\ngood", lambda row: row.both_good, only="dimension"),
    _Count("both\nbad", lambda row: row.both_bad, only="dimension"),
    _Count("mixed", lambda row: row.mixed, only="dimension"),
    _Count("tie", lambda row: row.ties, only="overall"),
    _Count("for-\nfeit", lambda row: row.forfeits),
)


def _cells(row: ScoreRow, counts: Sequence[_Count]) -> list[str]:
    kind = "overall" if row.dimension == OVERALL else "dimension"
    numbers = [str(column.of(row)) if column.only in ("", kind) else "" for column in counts]
    return [score_words(row), interval_words(row), *numbers, coverage_words(row)]


def grid_table(grid: Grid, notes: Sequence[str]) -> "Table":
    """A grid for a terminal of 80 columns or more, with what must be known to read it beneath.

    Only candidates' names are ever broken into lines; nothing is cut.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    names, *others = _widths(grid)
    gap = 1 if sum([names, *others]) + 2 * len(others) <= NARROWEST else 0
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap, 0, 0))
    table.caption, table.caption_justify, table.caption_style = "\n".join(notes), "left", ""
    table.add_column("", overflow="fold", min_width=names, max_width=LONGEST_NAME)
    for header in grid.header[1:]:
        table.add_column(header, justify="right", vertical="bottom", no_wrap=True)
    for name, *cells in grid.lines:
        table.add_row(Text(f" {name}" if cells else one_line(name)), *cells)
    return table


def _widths(grid: Grid) -> list[int]:
    """Widths of the columns. Candidates' names, which can be broken, do not count."""
    lines = [[f" {name}", *cells] for name, *cells in grid.lines if cells]
    headers = [max(map(len, header.split("\n"))) for header in grid.header]
    return [max(width, *map(len, column)) for width, *column in zip(headers, *lines, strict=True)]


def console(stream: IO[str] | None = None) -> "Console":
    """A console for tables on `stream` or standard output; texts are printed as they are.

    As wide as the terminal, and where there is none `PIPED_WIDTH` columns without colours.
    """
    from rich.console import Console

    target = sys.stdout if stream is None else stream
    return Console(file=target, width=None if target.isatty() else PIPED_WIDTH, markup=False, highlight=False)
