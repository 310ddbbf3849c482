"""`jury query`: the history asked by name or in SQL, as a table, as records on a narrow terminal, or as JSON.

Rich measures the cells and finds the terminal's width. Its own tables are not used: they take 150 µs a cell, a minute
for an answer of 10,000 rows.
"""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from rich.cells import cell_len, set_cell_size

from flows.commands.behind import tell_if_behind
from flows.commands.options import json_option, store_option
from flows.commands.sections import Command
from tasks.history import asking as history
from tasks.ledger.remote import local_cache
from tasks.presentation.tables import console
from tasks.text import one_line

WIDEST = 240
"""Most characters of one value of an answer on the terminal; `--json` shows all, and what there is is never cut."""
SHA256 = re.compile("[0-9a-f]{64}")
"""Shown by its first 12 characters in a table, and whole in JSON."""
GAP = "  "


@click.command(cls=Command)
@click.argument("question", default="", metavar="[NAME|SQL]", help="Empty: list what there is.")
@json_option("Print an array of objects.")
@store_option
def command(question: str, as_json: bool, store: str) -> int:
    """Print a table, a view or the answer to SQL; without a question, what there is to ask for."""
    folder = local_cache(store)
    tell_if_behind(folder)
    answer = history.query(folder, question) if question else _catalog(folder)
    rows = history.as_json_rows(answer)
    if as_json:
        print(json.dumps(rows, indent=1, ensure_ascii=False))
    else:
        _print_rows(answer.columns, rows, WIDEST if question else sys.maxsize)
    return 0


def _catalog(store: Path) -> history.Table:
    return history.Table(("name", "kind", "what it holds"), [tuple(entry) for entry in history.catalog(store)])


def _print_rows(columns: Sequence[str], rows: Sequence[dict[str, object]], widest: int) -> None:
    names = [one_line(name) for name in columns]
    cells = [[_words(value, widest) for value in row.values()] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(names, *cells, strict=True)]
    out = console()
    narrow = out.is_terminal and sum(widths) + len(GAP) * (len(widths) - 1) > out.width
    for line in _records(names, cells) if narrow else _table(names, cells, widths):
        print(line)
    print(f"rows: {len(rows)}")


def _table(names: Sequence[str], cells: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterator[str]:
    """A row a line; a terminal's cells, not characters, are counted, so that wide scripts stay in their columns."""
    for line in (names, ["-" * width for width in widths], *cells):
        yield GAP.join(set_cell_size(cell, width) for cell, width in zip(line, widths, strict=True)).rstrip()


def _records(names: Sequence[str], cells: Sequence[Sequence[str]]) -> Iterator[str]:
    """A value a line, for rows that are wider than the terminal."""
    longest = max(map(cell_len, names))
    for row in cells:
        yield from (f"{set_cell_size(name, longest)}{GAP}{cell}" for name, cell in zip(names, row, strict=True))
        yield ""


def _words(value: object, widest: int) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    words = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return words[:12] if SHA256.fullmatch(words) else one_line(words, widest)
