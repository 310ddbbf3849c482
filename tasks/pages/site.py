"""The store as a website: `<store>/pages/` has an index, and a page for every evaluation that was shown.

Owns which pages are made anew, and that each is whole whoever reads it meanwhile; what stands on them is for
`report_page` and `index_page`. They show the history as it is when they are made. Whoever has changed the history makes
anew what that concerns: the index is the last, and alone with it, so that of several that end at once the last one
shows what all have done.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tasks.files import alone, private_folder, write_whole
from tasks.forgetting.keeping import oldest_kept
from tasks.history.asking import query
from tasks.pages.index_data import gather_index
from tasks.pages.index_page import index_page
from tasks.pages.page_names import INDEX, folder_of, page_name, page_of
from tasks.pages.report_data import gather
from tasks.pages.report_page import write_page
from tasks.pages.thinning import thin
from tasks.pictures.thumbnails import LOWEST_PRIORITY
from tasks.presentation.drawing import warm_up

WAIT_SECONDS = 5.0
"""Longest wait for a history that is in use."""
LOCK_SECONDS = 60.0
"""Longest wait for other processes that make the index."""
KEPT = 14
"""Evaluations of each flow, the newest, whose pages are kept in step with the history."""


class Renewed(NamedTuple):
    """What was made."""

    place: Path
    """Of the index."""
    pages: list[Path]
    thinned: list[Path]
    """Old pages that were made small meanwhile."""
    size: int
    """Bytes of the index."""
    evaluations: int
    """That it lists."""

    @property
    def changed(self) -> list[Path]:
        """All that others have to be sent, the index apart."""
        return [*self.pages, *self.thinned]


def renew(store: Path, run_ids: Iterable[str] = (), with_pictures: bool = True, gently: bool = False) -> Renewed:
    """Make the pages of these evaluations anew, as far as the history has them, and then the index.

    Args:
        with_pictures: whether these pages may hold any.
        gently: draw and write at the lowest priority. The history is asked at that of the process: it is closed to
            writers meanwhile, and who gives way to everybody else would keep them waiting.

    Raises:
        HistoryLocked: the history stayed in use.
        InputError: there is no history, or it cannot be asked.
        OSError: a page cannot be written.
        RuntimeError: a chart cannot be drawn.
        TimeoutError: other processes made the index all the time.
    """
    known = _known(store, run_ids)
    private_folder(folder_of(store))
    made = [_write(store, run_id, with_pictures, gently) for run_id in known]
    with alone(folder_of(store), LOCK_SECONDS):
        index = gather_index(store)
        data = index_page(index, _names(store)).encode("utf-8", "replace")
        write_whole(folder_of(store) / INDEX, data, private=True)
        thinned = thin(store, _by_place(store))
    return Renewed(folder_of(store) / INDEX, made, thinned, len(data), index.evaluations)


def due(store: Path, run_ids: Iterable[str] = ()) -> list[str]:
    """Of the newest evaluations of each flow those that one of these runs is or belongs to, and those that have no
    page; by id, newest first. None is older than pages are kept.

    Raises:
        HistoryLocked: the history stayed in use.
        InputError: there is no history, or it cannot be asked.
    """
    sql = f"""
        SELECT e.run_id, bool_or(list_contains($1, s.run_id) OR list_contains($1, e.run_id)) FROM evaluations e
        JOIN shard_runs s ON s.evaluation_id = e.run_id
        WHERE started_at >= $2
        GROUP BY e.run_id, flow, started_at
        QUALIFY row_number() OVER (PARTITION BY flow ORDER BY started_at DESC, e.run_id DESC) <= {KEPT}
        ORDER BY started_at DESC, e.run_id DESC"""
    names = _names(store)
    found = query(store, sql, values=([*run_ids], kept_since()), wait_seconds=WAIT_SECONDS).rows
    return [run_id for run_id, is_changed in found if is_changed or page_name(run_id) not in names]


def kept_since() -> str:
    """From when on evaluations keep their pages, as the history writes a time."""
    kept = oldest_kept()
    return f"{kept:%Y-%m-%d %H:%M:%S}" if kept else "0001-01-01"


def all_evaluations(store: Path, last: int) -> list[str]:
    """The newest evaluations of the history by id, at most so many, newest first; 0: all.

    Raises:
        HistoryLocked: the history stayed in use.
        InputError: there is no history, or it cannot be asked.
    """
    sql = "SELECT run_id FROM evaluations ORDER BY started_at DESC, run_id DESC"
    return [run_id for (run_id,) in query(store, sql).rows][: last or None]


def _by_place(store: Path) -> list[list[str]]:
    """Ids of the evaluations of each flow and its candidates, newest first."""
    sql = "SELECT list(run_id ORDER BY started_at DESC, run_id DESC) FROM evaluations GROUP BY flow, candidates"
    return [run_ids for (run_ids,) in query(store, sql, wait_seconds=WAIT_SECONDS).rows]


def _known(store: Path, run_ids: Iterable[str]) -> list[str]:
    """Those that the history has, each once: a run that is unfinished, or a shard, has no page."""
    asked = list(dict.fromkeys(run_ids))
    known = {run_id for (run_id,) in query(store, "SELECT run_id FROM evaluations", WAIT_SECONDS).rows}
    return [run_id for run_id in asked if run_id in known]


def _write(store: Path, run_id: str, with_pictures: bool, gently: bool) -> Path:
    if not gently:
        warm_up()
    target = page_of(store, run_id)
    found = gather(store, [run_id])
    write = partial(write_page, store, found, target, in_site=True, with_pictures=with_pictures)
    _at_lowest_priority(write) if gently else write()
    return target


def _at_lowest_priority(work: Callable[[], object]) -> None:
    """Do it in a thread that gives way to all else on the machine, and so do the processes that it starts."""
    with ThreadPoolExecutor(1, initializer=_give_way) as thread:
        thread.submit(work).result()


def _give_way() -> None:
    if sys.platform == "linux":  # elsewhere a thread has no priority of its own
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)


def _names(store: Path) -> set[str]:
    return {file.name for file in folder_of(store).glob("*.html")}
