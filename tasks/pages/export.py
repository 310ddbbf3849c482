"""An evaluation exported into a folder: its tables, its card, and on request its thumbnails.

Owns which folders may be written to, and the order: the card is the last, so that where it is new, all is.
"""

import shutil
from itertools import chain
from pathlib import Path

from tasks.errors import InputError
from tasks.files import drafted, read_regular, write_whole
from tasks.history.parquet import write_tables
from tasks.ledger.evaluations import read_evaluation
from tasks.ledger.reading import read_outcomes
from tasks.pages.dataset_card import TAG, card
from tasks.pages.run_summary import summarize
from tasks.pictures.thumbnails import made

CARD = "README.md"
PICTURES = "pictures"
MOST_CARD_BYTES = 10_000_000


def export(store: Path, run_id: str, folder: Path, with_pictures: bool) -> list[str]:
    """Export a finished evaluation; returns what was written, `292 outcomes` …

    Args:
        folder: a new one, an empty one, or one with an earlier export, which this one replaces.

    Raises:
        HistoryLocked: the history stayed in use.
        InputError: the folder holds something else, or a table is too much for the memory that a question may have.
        OSError: it cannot be written.
    """
    summary = summarize(store, run_id)
    _begin(folder)
    written = write_tables(store, run_id, folder)
    pictures = _write_pictures(store, run_id, folder / PICTURES) if with_pictures else 0
    write_whole(folder / CARD, card(summary, written, pictures).encode("utf-8", "replace"))
    return [f"{file.rows:,} {file.name}" for file in written] + [f"{pictures:,} pictures"] * with_pictures


def _begin(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file: name a folder to export to")
    if not folder.parent.is_dir():
        raise InputError(f"there is no folder {folder.parent}: make it, or name a folder in another")
    if folder.is_dir() and any(folder.iterdir()) and not _is_export(folder):
        raise InputError(f"{folder} holds something else than an export: name a new folder, or an empty one")
    folder.mkdir(exist_ok=True)
    if (folder / PICTURES).is_dir():  # of the export that this one replaces
        shutil.rmtree(folder / PICTURES)


def _is_export(folder: Path) -> bool:
    try:
        text = read_regular(folder / CARD, MOST_CARD_BYTES).decode("utf-8", "replace")
    except (FileNotFoundError, InputError):
        return False
    return text.startswith("---\n") and f"\n- {TAG}\n" in text.partition("\n---\n")[0]


def _write_pictures(store: Path, run_id: str, folder: Path) -> int:
    """Copy the thumbnails of all samples that are kept; returns how many there are."""
    folder.mkdir()
    outcomes = chain.from_iterable(map(read_outcomes, read_evaluation(store, run_id).folders))
    wanted = {note.source_sha256 for row in outcomes if not row.control for note in row.pictures.values()}
    found = 0
    for sha256 in sorted(wanted):
        if kept := made(store, sha256):
            with drafted(folder / kept.name) as draft:
                shutil.copyfile(kept, draft)
            found += 1
    return found
