"""Asking the history from the terminal, and bringing it into step with the ledgers."""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from shutil import get_terminal_size

from flows.commands.agreeing import share_labels
from flows.commands.behind import tell_if_behind
from tasks.errors import InputError
from tasks.history import asking as history
from tasks.history.database import HISTORY
from tasks.history.loading import sync
from tasks.ledger.label_sets import label_folders
from tasks.ledger.reading import run_folders
from tasks.ledger.remote import Remote, is_remote, local_cache
from tasks.text import one_line

WIDEST = 240
"""Most characters of one value of an answer on the terminal; `--json` shows all, and what there is is never cut."""
SHA256 = re.compile("[0-9a-f]{64}")
"""Shown by its first 12 characters in a table, and whole in JSON."""


def show_query(store: Path, question: str, as_json: bool) -> int:
    """Print a table, a view or the answer to SQL; without a question, what there is to ask for."""
    tell_if_behind(store)
    if question:
        answer = history.query(store, question)
    else:
        answer = history.Table(("name", "kind", "what it holds"), [tuple(entry) for entry in history.catalog(store)])
    rows = history.as_json_rows(answer)
    if as_json:
        print(json.dumps(rows, indent=1, ensure_ascii=False))
    else:
        _print_rows(answer.columns, rows, WIDEST if question else sys.maxsize)
    return 0


def _print_rows(columns: Sequence[str], rows: Sequence[dict[str, object]], widest: int) -> None:
    cells = [[_words(value, widest) for value in row.values()] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    if sys.stdout.isatty() and sum(widths) + 2 * len(widths) > get_terminal_size().columns:
        _print_records(columns, cells)
    else:
        for line in (columns, ["-" * width for width in widths], *cells):
            print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    print(f"rows: {len(rows)}")


def _print_records(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """One value a line, for rows that are wider than the terminal."""
    longest = max(map(len, columns))
    for row in rows:
        for name, cell in zip(columns, row, strict=True):
            print(f"{name.ljust(longest)}  {cell}")
        print()


def _words(value: object, widest: int) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    words = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return words[:12] if SHA256.fullmatch(words) else one_line(words, widest)


def show_sync(named: str, rebuild: bool) -> int:
    """Bring the history into step with the ledgers (of a remote store: of all machines) and say what changed."""
    store = local_cache(named)
    if is_remote(named):
        remote = Remote(named, store)
        sent, fetched = remote.send_all(), remote.fetch()
        print(f"{len(sent)} runs sent, {len(fetched)} fetched")
        share_labels(remote.bucket, store)
    if not run_folders(store) and not label_folders(store):
        raise InputError(f"{named} holds no ledgers: is it the store of your runs?")
    done = sync(store, rebuild=rebuild)
    for sentence in done.damaged:
        print(f"jury: {sentence}", file=sys.stderr)
    if done.labels:
        print(f"labels loaded: {', '.join(done.labels)}")
    print(f"{len(done.loaded)} runs loaded into {store / HISTORY}" if done.loaded else "the history is in step")
    return 2 if done.damaged else 0
