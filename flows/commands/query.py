"""`jury query`: the history by name or SQL, as a table that fits the terminal, as records, CSV or JSON.

Rich measures the cells and finds the terminal's width. Its own tables are not used: on 80 columns they break 22 values
into single characters, and an answer of 10,000 rows with ten values takes 8 s.
"""

import csv
import json
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
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
from tasks.text import cut, one_line, printable

MOST_BYTES = 1_000_000_000
"""Largest answer; with its JSON and its cells it takes about four times as much memory."""
WIDEST = 240
"""Most characters of one value of an answer on the terminal; `--json` and `--csv` show all."""
WIDEST_TYPE = 24
"""Most characters of a column's type; those of some columns list 20 fields."""
SHA256 = re.compile("[0-9a-f]{64}")
"""Digests: their first 12 characters are shown in a table, all of them in JSON."""
TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(:\d\d)(?:\.\d+)?")
"""Times: a table shows them to the second, a narrow one to the minute."""
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters of a text that a spreadsheet runs."""
EXPLAINED_BY = re.compile(r"NULL:.*\bsee (\w+)")
"""Name of the column that explains a blank, in the comment of the column that has it."""


@click.command(cls=Command)
@click.argument("question", default="", metavar="[NAME|SQL]", help="Empty: list the views and tables.")
@click.option("--describe", is_flag=True, help="Print what the columns of NAME mean.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, in which no text is a formula for a spreadsheet.")
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
def query(question: str, describe: bool, as_csv: bool, as_json: bool, seconds: float, store: str) -> int:
    """Print a table, a view or the answer to SQL; without a question, the catalog of tables and views."""
    folder = local_cache(store)
    try:
        for sentence in load_missing(folder):
            warn(sentence)
    except (InputError, OSError) as error:
        warn(f"runs that have not ended may be missing: {error}")
    return _answer(folder, question, describe, as_csv, as_json, seconds)


def _answer(folder: Path, question: str, describe: bool, as_csv: bool, as_json: bool, seconds: float) -> int:
    out = console()
    is_shown = out.is_terminal and not (as_csv or as_json)
    if not question and is_shown:
        _print_catalog(folder, out.width)
        return 0
    if describe:
        columns = history.columns_of(folder, question)
        answer = history.Table(("column", "type", "meaning"), [tuple(each) for each in columns])
        if is_shown:
            _print_list([(each.name, f"{each.meaning} ({cut(each.kind, WIDEST_TYPE)})") for each in columns], out.width)
            return 0
    elif question:
        # Without a limit, too, the query must end at Ctrl-C.
        answer = history.query(folder, question, (), seconds or math.inf, MOST_BYTES)
    else:
        answer = history.Table(("name", "kind", "what it holds"), [tuple(each) for each in history.catalog(folder)])
    rows = history.as_json_rows(answer)
    if as_json:
        print(printable_json(rows))
    elif as_csv:
        _print_csv(answer.columns, rows)
    else:
        # Only a terminal may be too narrow for all columns of a view or table; what they mean decides which are shown.
        is_place = is_shown and len(question.split()) == 1
        meanings = {each.name: each.meaning for each in history.columns_of(folder, question)} if is_place else None
        widest, room = WIDEST if question else sys.maxsize, out.width if is_shown else None
        _print_rows(answer.columns, rows, widest, room, meanings)
    return 0


def _print_catalog(store: Path, width: int) -> None:
    """Print the views, then the tables, in a line each: the first sentence of the comment."""
    entries = history.catalog(store)
    room = width - max(len(entry.name) for entry in entries) - len(GAP)
    for kind in ("view", "table"):
        print(f"{kind}s")
        lines = [
            (each.name, cut(each.comment.partition(". ")[0].rstrip("."), room)) for each in entries if each.kind == kind
        ]
        print("\n".join(aligned(lines)))
    print("\n`jury query NAME` prints one, `jury query --describe NAME` its columns.")


def _print_list(items: Sequence[tuple[str, str]], width: int) -> None:
    formatter = click.HelpFormatter(width=width)
    formatter.write_dl(items)
    print(printable(formatter.getvalue()), end="")


def _print_csv(columns: Sequence[str], rows: Sequence[Mapping[str, object]]) -> None:
    """Print all values whole; an apostrophe before a text keeps a spreadsheet from running it."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(map(_csv_cell, columns))
    writer.writerows([_csv_cell(value) for value in row.values()] for row in rows)


def _csv_cell(value: object) -> object:
    if value is None or isinstance(value, int | float):
        return value
    words = printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return f"'{words}" if words.startswith(FORMULA) else words


def _print_rows(
    columns: Sequence[str],
    rows: Sequence[Mapping[str, object]],
    widest: int,
    room: int | None,
    meanings: Mapping[str, str] | None,
) -> None:
    """Print a table. If it is wider than the `room` of a terminal, print the columns that matter, or else records.

    Args:
        meanings: comments on the columns of a view or table; None: the columns are those that the user asked for.
    """
    names = [one_line(name) for name in columns]
    cells = [[_words(value, widest) for value in row.values()] for row in rows]
    left_out = ""
    if meanings and room and len(rows) > 1 and _width(names, cells) > room:
        short = [[_words(value, room // 5) for value in row.values()] for row in rows]
        varying = [at for at, column in enumerate(zip(*short, strict=True)) if len({*column}) > 1]
        same = [f"{name} {short[0][at]}" for at, name in enumerate(names) if at not in varying and short[0][at]]
        tells_apart = len({*map(tuple, short)}) == len({*map(tuple, cells)})
        if shown := _chosen(rows, names, short, varying, room, meanings) if tells_apart else []:
            if same:
                print(click.wrap_text(f"in every row: {', '.join(same)}", room, subsequent_indent=GAP))
            more = len(varying) - len(shown)
            left_out = f"; {more} more columns with --csv, --json or SQL" if more else ""
            names, cells = [names[at] for at in shown], [[row[at] for at in shown] for row in short]
    fits = room is None or _width(names, cells) <= room
    widths = column_widths([names, *cells])
    table = [names, ["-" * width for width in widths], *cells]
    for line in aligned(table, widths) if fits else _records(names, cells):
        print(line)
    print(f"rows: {len(rows)}{left_out}")


def _width(names: Sequence[str], cells: Sequence[Sequence[str]]) -> int:
    widths = column_widths([names, *cells])
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _chosen(
    rows: Sequence[Mapping[str, object]],
    names: Sequence[str],
    cells: Sequence[Sequence[str]],
    varying: Sequence[int],
    room: int,
    meanings: Mapping[str, str],
) -> list[int]:
    """Return the places of the varying columns to show: those that tell the rows apart, then what else fits.

    Narrow texts come first to tell rows apart. Numbers come first of what else fits, each with the column that explains
    its blanks. Empty: not even the first columns fit.
    """
    widths = [width + len(GAP) for width in column_widths([names, *cells])]
    texts = [*zip(*cells, strict=True)]
    values = [*zip(*(row.values() for row in rows), strict=True)]
    words = {at for at in varying if not all(isinstance(value, int | float | None) for value in values[at])}
    chosen = list[int]()
    for at in sorted(varying, key=lambda each: (each not in words, widths[each])):
        if _kinds(texts, [*chosen, at]) > max(_kinds(texts, chosen), 1):
            chosen.append(at)
    for at in reversed(chosen):  # what a later column tells, too
        if _kinds(texts, rest := [each for each in chosen if each != at]) == _kinds(texts, chosen):
            chosen = rest
    for at in sorted(varying, key=words.__contains__):
        explained = EXPLAINED_BY.search(meanings[names[at]]) if "" in texts[at] else None
        by = [each for each in varying if explained and names[each] == explained[1]]
        more = [*dict.fromkeys((*chosen, at, *by))]
        if sum(widths[each] for each in more) <= room + len(GAP):
            chosen = more
    return sorted(chosen) if sum(widths[each] for each in chosen) <= room + len(GAP) else []


def _kinds(columns: Sequence[Sequence[str]], places: Sequence[int]) -> int:
    """Return the number of different rows in these columns."""
    return len({*zip(*(columns[at] for at in places), strict=True)})


def _records(names: Sequence[str], cells: Sequence[Sequence[str]]) -> Iterator[str]:
    longest = max(map(cell_len, names), default=0)
    for row in cells:
        yield from (f"{set_cell_size(name, longest)}{GAP}{cell}" for name, cell in zip(names, row, strict=True))
        yield ""


def _words(value: object, widest: int) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{round(value, 2):g}" if abs(value) >= 1 else f"{value:.4g}"
    words = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if time := TIME.fullmatch(words):
        return f"{time[1]} {time[2]}{time[3] if widest >= len(time[0]) else ''}"
    return words[:12] if SHA256.fullmatch(words) else one_line(words, widest)
