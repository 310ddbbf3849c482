"""Website of a store: `<store>/pages/` with an index and a page for every evaluation, also in its bucket."""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tasks.errors import InputError
from tasks.files import alone, is_store_name, names_in, private_folder, read_file, remove_file, write_file
from tasks.history.forgetting import exchange_beside
from tasks.history.landing import land
from tasks.history.queries import held_open, query
from tasks.ledger.bucket import RemoteUnavailable, slices
from tasks.ledger.remote import Remote, local_cache, remote_of
from tasks.ledger.removals import UNFINISHED, beside, oldest_kept
from tasks.pages.comparison_page import write_comparison
from tasks.pages.index_data import gather_index
from tasks.pages.index_page import card_pictures, index_page
from tasks.pages.page_names import (
    COMPARE,
    FOLDER,
    INDEX,
    SINCE,
    folder_of,
    page_files,
    page_name,
    page_of,
    since_name,
)
from tasks.pages.report_data import gather
from tasks.pages.report_page import leaves_out_pictures, write_page
from tasks.pages.unfinished import unfinished

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


class _Listed(NamedTuple):
    """Evaluation of the history, or a run that has not finished."""

    run_id: str
    runs: list[str]
    """Ids of its runs: its shards, or the one that it is."""
    is_finished: bool
    is_newest: bool
    """Whether it is one of the newest evaluations of its flow."""
    is_kept: bool
    """Whether it is not older than pages are kept."""


def renew(store: Path, run_ids: Iterable[str] = (), with_pictures: bool | None = None) -> Renewed:
    """Remake the pages of these evaluations and unfinished runs, as far as the history has them, and then the index.

    Args:
        with_pictures: whether these pages may hold pictures; None: as their present ones do, new ones with pictures.

    Raises:
        InputError: there is no history, or it cannot be queried; or the folder of pages is a link.
        OSError: a page cannot be written.
        TimeoutError: other processes made the index all the time.
    """
    asked = {*run_ids}
    with held_open(store):
        newest = {one.run_id: one.is_newest for one in _listed(store)}
        private_folder(folder_of(store))
        # The oldest first: the comparison of an evaluation links to the page of the one before it.
        wanted = [run_id for run_id in reversed(newest) if run_id in asked]
        made = [_write(store, run_id, with_pictures, newest[run_id]) for run_id in wanted]
    _remove_comparisons(store, [run_id for run_id, is_newest in newest.items() if is_newest])
    with alone(folder_of(store), LOCK_SECONDS):
        index = gather_index(store)
        data = index_page(index, page_files(store), card_pictures(store, index)).encode("utf-8", "replace")
        write_file(store, f"{FOLDER}/{INDEX}", data)
    return Renewed(folder_of(store) / INDEX, made, index.evaluations)


def due(store: Path, run_ids: Iterable[str] = ()) -> list[str]:
    """Return the newest evaluations of each flow, and stopped runs, that need a new page, by id, newest first.

    They have no page, or one of these runs is the evaluation or belongs to it. None is older than pages are kept.
    """
    changed, names = {*run_ids}, page_files(store)
    stopped = {one.start.run_id for one in unfinished(store) if not one.goes_on}
    shown = [one for one in _listed(store) if one.is_kept and (one.is_newest or one.run_id in stopped)]
    return [
        one.run_id
        for one in shown
        if page_name(one.run_id) not in names or not changed.isdisjoint([one.run_id, *one.runs])
    ]


def all_evaluations(store: Path, last: int) -> list[str]:
    """Return the ids of the newest evaluations of the history, at most `last`, newest first; 0: all."""
    return [one.run_id for one in _listed(store) if one.is_finished][: last or None]


def _listed(store: Path) -> list[_Listed]:
    """Return all evaluations, and runs that have not finished, newest first. A shard has no page of its own."""
    kept = oldest_kept()
    sql = f"""
        SELECT e.run_id, list(s.run_id), true,
               row_number() OVER (PARTITION BY flow ORDER BY started_at DESC, e.run_id DESC) <= {KEPT},
               started_at >= $1 AS is_kept, started_at
        FROM evaluations e JOIN shard_runs s ON s.evaluation_id = e.run_id GROUP BY e.run_id, flow, started_at
        UNION ALL
        SELECT run_id, [run_id], false, false, started_at >= $1, started_at
        FROM runs WHERE status = 'unfinished' AND coalesce(shards, 1) = 1
        ORDER BY started_at DESC, 1 DESC"""
    found = query(store, sql, values=(f"{kept:%Y-%m-%d %H:%M:%S}" if kept else "0001-01-01",)).rows
    return [_Listed(*row[:-1]) for row in found]


def _write(store: Path, run_id: str, with_pictures: bool | None, is_new: bool) -> Path:
    """Write the page of an evaluation; if it is new, also its comparison with the last comparable one."""
    if with_pictures is None:
        with_pictures = True
        with suppress(InputError, OSError):
            with_pictures = not leaves_out_pictures(store, run_id)
    evaluation, target = gather(store, run_id), page_of(store, run_id)
    write_page(store, evaluation, target, in_site=True, with_pictures=with_pictures)
    for found in evaluation.comparisons if is_new else ():
        write_comparison(store, found, since_name(run_id, found.after.candidate), with_pictures)
    return target


def _remove_comparisons(store: Path, newest: Iterable[str]) -> None:
    """Remove the comparisons with the last comparable evaluation, except those of these evaluations."""
    kept = tuple(since_name(run_id) for run_id in newest)
    for name in page_files(store):
        if name.startswith(SINCE) and not name.startswith(kept):
            remove_file(store, f"{FOLDER}/{name}")


HTML = "text/html; charset=utf-8"
TIMES = 8
"""Most tries to send an index while other machines keep writing it."""


def send_pages(remote: Remote, made: Iterable[Path] = ()) -> tuple[int, int]:
    """Send these pages, those of evaluations that the bucket lacks, and then the index.

    Returns:
        Number of pages besides the index, and number of evaluations that the index lists.

    Raises:
        InputError: there is no history, or it cannot be queried; or data to be forgotten is still here.
        RemoteUnavailable: the network or the store fails, or other machines write the index all the time.
    """
    remote.fetch()
    if (remote.folder / UNFINISHED).exists():
        raise InputError(
            f"no page is sent to {remote.bucket.url}: something that was to be forgotten is still on this machine, and "
            f"`jury store sync --store {remote.bucket.url}` removes it"
        )
    remote.send_all()  # the machine that makes the next index must find the runs of this one
    there = remote.bucket.sizes(FOLDER)
    due = {page.name for page in (*_lacking(remote.folder, there), *made)}
    for name in sorted(due):
        _send_beside(remote, beside(f"{FOLDER}/{name}"), there)
        remote.bucket.put({f"{FOLDER}/{name}": read_file(remote.folder, f"{FOLDER}/{name}")}, HTML)
    return len(due), _send_index(remote)


def _send_beside(remote: Remote, folder: str, there: Mapping[str, int]) -> None:
    """Send the pictures in a folder beside a page, as far as they differ, and remove those that it lacks."""
    pictures = {f"{folder}/{name}": remote.folder / folder / name for name in names_in(remote.folder, folder)}
    here = {name: path.stat().st_size for name, path in pictures.items() if is_store_name(name)}
    remote.bucket.remove([name for name in there if name.startswith(f"{folder}/") and name not in here])
    for names in slices([name for name, size in here.items() if there.get(name) != size]):
        remote.bucket.put({name: read_file(remote.folder, name) for name in names}, "image/jpeg")


def _lacking(store: Path, there: Collection[str]) -> list[Path]:
    """Return pages of evaluations and comparisons that this machine made and the bucket lacks."""
    known = {page_name(one.run_id) for one in _listed(store) if one.is_kept}
    made = [page for page in sorted(folder_of(store).glob("*.html")) if not page.is_symlink()]
    return [
        page
        for page in made
        if (page.name in known or page.name.startswith((COMPARE, SINCE))) and f"{FOLDER}/{page.name}" not in there
    ]


def _send_index(remote: Remote) -> int:
    """Send an index of all evaluations that the bucket holds, and return their number.

    If two machines write at once, the later one finds the runs that the other sent.
    """
    for _ in range(TIMES):
        remote.fetch()
        exchange_beside(remote)
        land(remote.folder)
        index = gather_index(remote.folder)
        there = {name.removeprefix(f"{FOLDER}/") for name in remote.bucket.sizes(FOLDER)}
        data = index_page(index, there).encode("utf-8", "replace")
        remote.bucket.put({f"{FOLDER}/{INDEX}": data}, HTML)
        if not remote.fetch():
            return index.evaluations
    raise RemoteUnavailable(f"The index in {remote.bucket.url}/{FOLDER} is written by other machines all the time")


def renew_and_send(store: str, run_ids: Iterable[str]) -> None:
    """Remake the pages of these evaluations and the index, and send them if the store is remote.

    Args:
        store: store as its user names it.

    Raises:
        InputError, TimeoutError: as in `renew`.
        OSError: a page cannot be written or sent.
    """
    folder = local_cache(store)
    made = renew(folder, run_ids)
    if remote := remote_of(store):
        send_pages(remote, made.pages)
