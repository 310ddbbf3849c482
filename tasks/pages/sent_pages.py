"""Pages of the store in its bucket, where a web server or the bucket itself serves them.

The index is sent last, from all that the bucket holds then, and once more if another machine sent more meanwhile.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tasks.errors import InputError
from tasks.history.asking import query
from tasks.history.landing import land
from tasks.labels.exchange import exchange_labels
from tasks.ledger.alarm_records import FOLDER as ALARMS
from tasks.ledger.bridges import BRIDGES
from tasks.ledger.bucket import RemoteUnavailable
from tasks.ledger.label_pages import FOLDER as LABEL_PAGES
from tasks.ledger.remote import Remote, local_cache, remote_of
from tasks.ledger.removed import UNFINISHED
from tasks.pages.index_data import gather_index
from tasks.pages.index_page import index_page
from tasks.pages.page_names import FOLDER, INDEX, folder_of, page_name
from tasks.pages.site import kept_since, renew
from tasks.store_files import read_file

HTML = "text/html; charset=utf-8"
TIMES = 8
"""Most tries to send an index while other machines keep writing it."""


class Sent(NamedTuple):
    """Counts of the pages sent."""

    pages: int
    """Number of pages besides the index."""
    evaluations: int
    """Number of evaluations that the index lists."""


def send_pages(remote: Remote, made: Iterable[Path] = ()) -> Sent:
    """Send these pages, those of evaluations that the bucket lacks, and then the index.

    Raises:
        InputError: there is no history, or it cannot be queried; or data to be forgotten is still here.
        RemoteUnavailable: the network or the store fails, or other machines write the index all the time.
    """
    _check_forgotten(remote)
    remote.send_all()  # the machine that makes the next index must find the runs of this one
    there = _there(remote)
    due = {page.name for page in (*_lacking(remote.folder, there), *made)}
    for name in sorted(due):
        remote.bucket.put({f"{FOLDER}/{name}": read_file(remote.folder, f"{FOLDER}/{name}")}, HTML)
    return Sent(len(due), _send_index(remote))


def _check_forgotten(remote: Remote) -> None:
    """Raise InputError if pages may show data that was removed from the bucket."""
    remote.fetch()
    if (remote.folder / UNFINISHED).exists():
        raise InputError(
            f"no page is sent to {remote.bucket.url}: something that was to be forgotten is still on this machine, and "
            f"`jury store sync --store {remote.bucket.url}` removes it"
        )


def _there(remote: Remote) -> set[str]:
    """Return the names of the pages in the bucket."""
    return {name.removeprefix(f"{FOLDER}/") for name in remote.bucket.sizes(FOLDER)}


def _lacking(store: Path, there: set[str]) -> list[Path]:
    """Return pages of evaluations that this machine made but could not send then."""
    kept = query(store, "SELECT run_id FROM evaluations WHERE started_at >= $1", values=(kept_since(),)).rows
    known = {page_name(run_id) for (run_id,) in kept} - there
    return [page for page in sorted(folder_of(store).glob("*.html")) if page.name in known and not page.is_symlink()]


def _send_index(remote: Remote) -> int:
    """Send an index of all evaluations that the bucket holds, and return their number.

    If two machines write at once, the later one finds the runs that the other sent.
    """
    for _ in range(TIMES):
        _bring(remote)
        index = gather_index(remote.folder)
        data = index_page(index, _there(remote)).encode("utf-8", "replace")
        remote.bucket.put({f"{FOLDER}/{INDEX}": data}, HTML)
        if not remote.fetch():
            return index.evaluations
    raise RemoteUnavailable(f"The index in {remote.bucket.url}/{FOLDER} is written by other machines all the time")


def _bring(remote: Remote) -> None:
    """Load all data that an index shows from the bucket into the history."""
    remote.fetch()
    exchange_labels(remote.bucket, remote.folder)
    remote.share_folder(ALARMS)
    for name in (BRIDGES.folder, LABEL_PAGES):
        remote.fetch_folder(name)
    land(remote.folder)


def renew_and_send(store: str, run_ids: Iterable[str]) -> None:
    """Remake the pages of these evaluations and the index, and send them if the store is remote.

    Args:
        store: store as its user names it.

    Raises:
        InputError, RuntimeError, TimeoutError: as in `site.renew`.
        OSError: a page cannot be written or sent.
    """
    folder = local_cache(store)
    made = renew(folder, run_ids)
    if remote := remote_of(store):
        send_pages(remote, made.pages)
