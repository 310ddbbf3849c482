"""The store's pages in its bucket, from where a web server or the bucket itself shows them.

Owns what is sent, and that no machine's index loses the runs of another: the index is made of all that the bucket holds
then, leads to the pages that lie there, and takes the place of the one before only where nobody has written another
meanwhile; else it is made anew. It is sent last. A page is sent as it lies on this machine: one that was made without
pictures has none there, either, and none has any where pages may have none. The local pages are for `site`.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tasks.errors import InputError
from tasks.forgetting.store import exchange_marks, is_due, what_goes
from tasks.history.asking import query
from tasks.history.loading import sync
from tasks.labels.exchange import exchange_labels
from tasks.ledger.alarm_records import exchange_alarm_records
from tasks.ledger.bridges import BRIDGES
from tasks.ledger.bucket import RemoteUnavailable
from tasks.ledger.label_pages import FOLDER as LABEL_PAGES
from tasks.ledger.remote import Remote, is_remote, local_cache
from tasks.pages.index_data import gather_index
from tasks.pages.index_page import index_page
from tasks.pages.page_names import FOLDER, INDEX, folder_of, page_name
from tasks.pages.site import kept_since, renew
from tasks.pages.without_pictures import as_sent

HTML = "text/html; charset=utf-8"
TIMES = 8
"""The index is made so often before it is left to whoever writes it all the time."""


class Sent(NamedTuple):
    """What was sent."""

    pages: int
    """Beside the index."""
    evaluations: int
    """That the index lists."""


def send_pages(remote: Remote, made: Iterable[Path] = ()) -> Sent:
    """Send these pages, those of evaluations that the bucket lacks, and then the index.

    Raises:
        HistoryLocked: the history stayed in use.
        InputError: there is no history, or it cannot be asked; or what was to be forgotten is still here.
        RemoteUnavailable: the network or the store fails, or other machines write the index all the time.
    """
    _check_forgotten(remote)
    remote.send_all()  # whoever makes the next index has to find the runs of this one
    there = _there(remote)
    due = {page.name: page for page in (*_lacking(remote.folder, there), *made)}
    for name, page in due.items():
        remote.bucket.put({f"{FOLDER}/{name}": as_sent(page.read_bytes())}, HTML)
    return Sent(len(due), _send_index(remote))


def _check_forgotten(remote: Remote) -> None:
    """Raise InputError where pages may show what was removed from the bucket."""
    exchange_marks(remote.bucket, remote.folder)
    if is_due(remote.folder) and what_goes(remote.folder)[1]:
        raise InputError(
            f"no page is sent to {remote.bucket.url}: something that was to be forgotten is still on this machine, and "
            f"`jury sync --store {remote.bucket.url}` removes it"
        )


def _there(remote: Remote) -> set[str]:
    """Names of the pages in the bucket."""
    return {name.removeprefix(f"{FOLDER}/") for name in remote.bucket.sizes(FOLDER)}


def _lacking(store: Path, there: set[str]) -> list[Path]:
    """Pages of this machine that could not be sent when they were made, of evaluations alone."""
    kept = query(store, "SELECT run_id FROM evaluations WHERE started_at >= $1", values=(kept_since(),)).rows
    known = {page_name(run_id) for (run_id,) in kept} - there
    return [page for page in sorted(folder_of(store).glob("*.html")) if page.name in known and not page.is_symlink()]


def _send_index(remote: Remote) -> int:
    """Send an index of all evaluations that the bucket holds; returns how many."""
    for _ in range(TIMES):
        found = remote.bucket.get_with_version(f"{FOLDER}/{INDEX}") if remote.bucket.is_conditional else None
        _bring(remote)
        index = gather_index(remote.folder)
        data = index_page(index, _there(remote)).encode("utf-8", "replace")
        if _put(remote, data, found[1] if found else None):
            return index.evaluations
    raise RemoteUnavailable(f"The index in {remote.bucket.url}/{FOLDER} is written by other machines all the time")


def _bring(remote: Remote) -> None:
    """Bring all that an index shows from the bucket into the history."""
    remote.fetch()
    exchange_labels(remote.bucket, remote.folder)
    exchange_alarm_records(remote.bucket, remote.folder)
    for name in (BRIDGES.folder, LABEL_PAGES):
        remote.fetch_folder(name)
    sync(remote.folder)


def _put(remote: Remote, data: bytes, version: str | None) -> bool:
    """Write the index; returns whether it shows all that the bucket holds."""
    if remote.bucket.is_conditional:
        return remote.bucket.put_if(f"{FOLDER}/{INDEX}", data, version, HTML)
    remote.bucket.put({f"{FOLDER}/{INDEX}": data}, HTML)
    return not remote.fetch()  # of two that write at once the later one finds here what the other had sent before


def renew_and_send(store: str, run_ids: Iterable[str], gently: bool = False) -> None:
    """Make the pages of these evaluations and the index anew, and send them where the store is remote.

    Args:
        store: as its user names it.
        gently: as `site.renew` has it.

    Raises:
        HistoryLocked, InputError, RuntimeError, TimeoutError: as `site.renew` has them.
        OSError: a page cannot be written, or not be sent.
    """
    folder = local_cache(store)
    made = renew(folder, run_ids, gently=gently)
    if is_remote(store):
        send_pages(Remote(store, folder), made.changed)
