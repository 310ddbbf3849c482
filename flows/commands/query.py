"""`jury query`: the history asked by name or in SQL, as a table that fits the terminal, as records, or as JSON.

Rich measures the cells and finds the terminal's width. Its own tables are not used: they take 150 µs a cell, a minute
for an answer of 10,000 rows.
"""

import json
import re
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
from rich.cells import cell_len, set_cell_size

from flows.commands.behind import told_if_behind
from flows.commands.messages import printable_json
from flows.commands.options import json_option, store_option
from flows.commands.sections import Command
from flows.runtime.process import bounded_memory
from tasks.errors import InputError
from tasks.history import asking as history
from tasks.ledger.remote import local_cache
from tasks.presentation.tables import console
from tasks.text import one_line

MOST_BYTES = 4_000_000_000
"""What an answer may take of the memory, in bytes: beside the history, in Python and on its way to the terminal."""
WIDEST = 240
"""Most characters of one value of an answer on the terminal; `--json` shows all, and what there is is never cut."""
SHA256 = re.compile("[0-9a-f]{64}")
"""Shown by its first 12 characters in a table, and whole in JSON."""
RUN_ID = re.compile(r"(\d{8}T\d{6,9})-\w+-[0-9a-f]{6}")
"""Shown by its beginning, which names the run, where the terminal is narrow."""
LEFT_OUT = (
    r"(\w+_)?(key|sha256)",
    r"method",
    r"(started|finished|noted|judged|decided)_at|seconds|dates",
    r"prompt_set|prompts|dataset|endpoint|runs|missing",
    r"model_wins|human_wins|both_good|both_bad|mixed|mixed_votes|ties|forfeits|carried|image_mean|aspect_mean|gap|satisfied|"
    r"images_a_prompt|images_differ|vs_best(_low|_high|_n)?|best",
    r"worst_low|worst_high|full_(n|low|high)",
    r"scored|coverage",
    r"flow|model",
    r"needed_by|edition|seed|schema|calls|chance|guessing|unanswered|items|title|model_answered",
    r"found|judge_change",
    r"tokens_(cached|written|pictures|reasoning)|saved_by_\w+",
    r"source",
)
"""Columns that a table does without on a narrow terminal, group after group until it fits."""
GAP = "  "

Column = tuple[str, ...]
"""Name and cells."""


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
def command(question: str, as_json: bool, seconds: float, store: str) -> int:
    """Print a table, a view or the answer to SQL; without a question, what there is to ask for.

    Raises:
        InputError: there is no such thing to ask for, or the answer is too much.
    """
    with bounded_answer():
        return _answer(question, as_json, seconds, local_cache(store))


@contextmanager
def bounded_answer() -> Generator[None]:
    """Let an answer take so much memory and no more.

    Raises:
        InputError: it does not fit.
    """
    try:
        with bounded_memory(MOST_BYTES):
            yield
    except MemoryError:
        raise InputError(
            f"the answer does not fit into {MOST_BYTES / 1e9:g} GB: ask for fewer rows (LIMIT) or for shorter texts"
        ) from None


def _answer(question: str, as_json: bool, seconds: float, folder: Path) -> int:
    out = console()
    with told_if_behind(folder):
        if not question and not as_json and out.is_terminal:
            _print_catalog(folder, out.width)
            return 0
        answer = history.query(folder, question, seconds=seconds) if question else _catalog(folder)
    rows = history.as_json_rows(answer)
    if as_json:
        print(printable_json(rows))
    else:
        _print_rows(answer.columns, rows, WIDEST if question else sys.maxsize, out.width if out.is_terminal else None)
    return 0


def _catalog(store: Path) -> history.Table:
    return history.Table(("name", "kind", "what it holds"), [tuple(entry) for entry in history.catalog(store)])


def _print_catalog(store: Path, width: int) -> None:
    """What there is as names, each with its sentence in as many lines as it takes."""
    formatter = click.HelpFormatter(width=width)
    formatter.write_dl([(entry.name, entry.comment) for entry in history.catalog(store)])
    print(formatter.getvalue(), end="")


def _print_rows(columns: Sequence[str], rows: Sequence[dict[str, object]], widest: int, room: int | None) -> None:
    """Print a table, where there is a terminal as wide as its `room`; what does not fit there becomes records."""
    names = [one_line(name) for name in columns]
    cells = [[_words(value, widest) for value in row.values()] for row in rows]
    columns_of = list(zip(names, *cells, strict=True))
    kept = columns_of if room is None else _fitting(columns_of, room)
    for line in _table(kept) if kept else _records(names, cells):
        print(line)
    print(f"rows: {len(rows)}")
    shown = {name for name, *_ in kept} or {*names}
    if left_out := [name for name in names if name not in shown]:
        print(f"left out, as the terminal is narrow: {', '.join(left_out)}; --json has all")


def _fitting(columns: Sequence[Column], room: int) -> Sequence[Column]:
    """The columns of a table that is no wider than `room`; none where there is no such table."""
    if _width(columns) <= room:
        return columns
    kept = [tuple(RUN_ID.sub(r"\1", cell) for cell in column) for column in columns]
    for pattern in LEFT_OUT:
        if _width(kept) <= room:
            break
        kept = [column for column in kept if not re.fullmatch(pattern, column[0])]
    return kept if _width(kept) <= room else []


def _width(columns: Sequence[Column]) -> int:
    return sum(max(map(cell_len, column)) for column in columns) + len(GAP) * (len(columns) - 1)


def _table(columns: Sequence[Column]) -> Iterator[str]:
    """A row a line; a terminal's cells, not characters, are counted, so that wide scripts stay in their columns."""
    widths = [max(map(cell_len, column)) for column in columns]
    names, *cells = zip(*columns, strict=True)
    for line in (names, ["-" * width for width in widths], *cells):
        yield GAP.join(set_cell_size(cell, width) for cell, width in zip(line, widths, strict=True)).rstrip()


def _records(names: Sequence[str], cells: Sequence[Sequence[str]]) -> Iterator[str]:
    """A value a line, for rows that are wider than the terminal whatever is left out."""
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
