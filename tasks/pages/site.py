"""Website of a store: `<store>/pages/` has an index, and a page for every evaluation that was shown.

A page shows the history at the time it is made. The index is made last: when several runs end at once, the last one
lists all.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tasks.files import alone, private_folder
from tasks.forgetting.keeping import oldest_kept
from tasks.history.asking import query
from tasks.pages.index_data import gather_index
from tasks.pages.index_page import index_page
from tasks.pages.page_names import FOLDER, INDEX, folder_of, page_name, page_of
from tasks.pages.report_data import gather
from tasks.pages.report_page import write_page
from tasks.presentation.drawing import warm_up
from tasks.store_files import write_file

LOCK_SECONDS = 60.0
"""Longest wait for other processes that make the index, in seconds."""
KEPT = 14
"""Number of newest evaluations of each flow whose pages are kept in step with the history."""


class Renewed(NamedTuple):
    """Pages that were made."""

    place: Path
    """Path of the index."""
    pages: list[Path]
    evaluations: int
    """Number of evaluations that the index lists."""


def renew(store: Path, run_ids: Iterable[str] = (), with_pictures: bool = True) -> Renewed:
    """Remake the pages of these evaluations, as far as the history has them, and then the index.

    Args:
        with_pictures: whether these pages may hold pictures.

    Raises:
        InputError: there is no history, or it cannot be queried; or the folder of pages is a link.
        OSError: a page cannot be written.
        RuntimeError: a chart cannot be drawn.
        TimeoutError: other processes made the index all the time.
    """
    known = _known(store, run_ids)
    private_folder(folder_of(store))
    made = [_write(store, run_id, with_pictures) for run_id in known]
    with alone(folder_of(store), LOCK_SECONDS):
        index = gather_index(store)
        data = index_page(index, _names(store)).encode("utf-8", "replace")
        write_file(store, f"{FOLDER}/{INDEX}", data)
    return Renewed(folder_of(store) / INDEX, made, index.evaluations)


def due(store: Path, run_ids: Iterable[str] = ()) -> list[str]:
    """Return the newest evaluations of each flow that need a new page, by id, newest first.

    They have no page, or one of these runs is the evaluation or belongs to it. None is older than pages are kept.

    Raises:
        InputError: there is no history, or it cannot be queried.
    """
    sql = f"""
        SELECT e.run_id, bool_or(list_contains($1, s.run_id) OR list_contains($1, e.run_id)) FROM evaluations e
        JOIN shard_runs s ON s.evaluation_id = e.run_id
        WHERE started_at >= $2
        GROUP BY e.run_id, flow, started_at
        QUALIFY row_number() OVER (PARTITION BY flow ORDER BY started_at DESC, e.run_id DESC) <= {KEPT}
        ORDER BY started_at DESC, e.run_id DESC"""
    names = _names(store)
    found = query(store, sql, values=([*run_ids], kept_since())).rows
    return [run_id for run_id, is_changed in found if is_changed or page_name(run_id) not in names]


def kept_since() -> str:
    """Return the start time from which on evaluations keep their pages, as the history writes a time."""
    kept = oldest_kept()
    return f"{kept:%Y-%m-%d %H:%M:%S}" if kept else "0001-01-01"


def all_evaluations(store: Path, last: int) -> list[str]:
    """Return the ids of the newest evaluations of the history, at most `last`, newest first; 0: all.

    Raises:
        InputError: there is no history, or it cannot be queried.
    """
    sql = "SELECT run_id FROM evaluations ORDER BY started_at DESC, run_id DESC"
    return [run_id for (run_id,) in query(store, sql).rows][: last or None]


def _known(store: Path, run_ids: Iterable[str]) -> list[str]:
    """Return those of the ids that the history has, each once: an unfinished run, or a shard, has no page."""
    asked = list(dict.fromkeys(run_ids))
    known = {run_id for (run_id,) in query(store, "SELECT run_id FROM evaluations").rows}
    return [run_id for run_id in asked if run_id in known]


def _write(store: Path, run_id: str, with_pictures: bool) -> Path:
    warm_up()
    target = page_of(store, run_id)
    write_page(store, gather(store, run_id), target, in_site=True, with_pictures=with_pictures)
    return target


def _names(store: Path) -> set[str]:
    return {file.name for file in folder_of(store).glob("*.html")}
