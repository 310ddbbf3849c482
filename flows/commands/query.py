"""`jury query`: the history by name or SQL, as a table, as records on a terminal too narrow for it, or as JSON.

Rich measures the cells and finds the terminal's width. Its own tables are not used: on 80 columns they break 22 values
into single characters, and an answer of 10,000 rows with ten values takes 8 s.
"""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from rich.cells import cell_len, set_cell_size

from flows.commands.console import GAP, Command, aligned, column_widths, printable_json, warn
from flows.commands.options import json_option, store_option
from tasks.errors import InputError
from tasks.history import queries as history
from tasks.history.landing import load_missing
from tasks.ledger.remote import local_cache
from tasks.presentation.tables import console
from tasks.text import one_line

MOST_BYTES = 1_000_000_000
"""Largest answer; with its JSON and its cells it takes about four times as much memory."""
WIDEST = 240
"""Most characters of one value of an answer on the terminal; `--json` shows all, and the catalog is never cut."""
SHA256 = re.compile("[0-9a-f]{64}")
"""Digests: their first 12 characters are shown in a table, all of them in JSON."""


@click.command(cls=Command)
@click.argument("question", default="", metavar="[NAME|SQL]", help="Empty: list what there is.")
@json_option("Print an array of objects.")
@click.option(
    "--seconds",
    type=click.FloatRange(0),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="Longest time of an answer; 0: however long it takes.",
)
@store_option
def query(question: str, as_json: bool, seconds: float, store: str) -> int:
    """Print a table, a view or the answer to SQL; without a question, the catalog of tables and views."""
    folder, out = local_cache(store), console()
    try:
        for sentence in load_missing(folder):
            warn(sentence)
    except (InputError, OSError) as error:
        warn(f"runs that have not ended may be missing: {error}")
    if not question and not as_json and out.is_terminal:
        _print_catalog(folder, out.width)
        return 0
    if question:
        answer = history.query(folder, question, (), seconds, MOST_BYTES)
    else:
        entries = [tuple(entry) for entry in history.catalog(folder)]
        answer = history.Table(("name", "kind", "what it holds"), entries)
    rows = history.as_json_rows(answer)
    if as_json:
        print(printable_json(rows))
    else:
        _print_rows(answer.columns, rows, WIDEST if question else sys.maxsize, out.width if out.is_terminal else None)
    return 0


def _print_catalog(store: Path, width: int) -> None:
    """Print the names of the catalog, each with its sentence in as many lines as necessary."""
    formatter = click.HelpFormatter(width=width)
    formatter.write_dl([(entry.name, entry.comment) for entry in history.catalog(store)])
    print(formatter.getvalue(), end="")


def _print_rows(columns: Sequence[str], rows: Sequence[dict[str, object]], widest: int, room: int | None) -> None:
    """Print a table, or records if it is wider than the `room` of a terminal."""
    names = [one_line(name) for name in columns]
    cells = [[_words(value, widest) for value in row.values()] for row in rows]
    widths = column_widths([names, *cells])
    fits = room is None or sum(widths) + len(GAP) * (len(widths) - 1) <= room
    table = [names, ["-" * width for width in widths], *cells]
    for line in aligned(table, widths) if fits else _records(names, cells):
        print(line)
    print(f"rows: {len(rows)}")


def _records(names: Sequence[str], cells: Sequence[Sequence[str]]) -> Iterator[str]:
    longest = max(map(cell_len, names), default=0)
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
