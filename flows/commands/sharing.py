"""What commands have changed: renewal of the store's pages, and exchange with the bucket of a remote store."""

from collections.abc import Iterable
from pathlib import Path

from flows.commands.console import say, warn
from tasks.errors import InputError
from tasks.ledger.labels import Exchanged, exchange_labels
from tasks.ledger.remote import Remote, local_cache, remote_of
from tasks.text import number_of, one_line

LONGEST = 80
"""Characters of an object's name in a message."""


def renew_pages(store: str, run_ids: Iterable[str] = ()) -> None:
    """Rebuild the index and, of the newest evaluations, the missing pages and those that these runs have changed.

    Send them if the store is remote. A failure costs a warning.
    """
    folder = local_cache(store)
    from tasks.pages.site import due, renew  # DuckDB, which not every command needs

    try:
        made = renew(folder, due(folder, run_ids))
    except (InputError, OSError) as error:
        warn(f"{error}; the pages stay as they were until the next `jury store sync` or `jury store pages`")
    else:
        share_pages(store, made.pages)


def share_pages(store: str, pages: Iterable[Path] = ()) -> None:
    """Send these pages and an index if the store is remote; warn if it cannot be reached now."""
    remote = remote_of(store)
    if not remote:
        return
    try:
        words = push_pages(remote, pages)
    except (InputError, OSError) as error:
        warn(f"{error}; the pages there stay as they were until the next `jury store sync`")
    else:
        say(words)


def push_pages(remote: Remote, pages: Iterable[Path] = ()) -> str:
    """Send these pages, those that the bucket lacks, and an index; return a line with their numbers.

    Raises:
        InputError, RemoteUnavailable: as in `send_pages`.
    """
    from tasks.pages.site import send_pages

    sent = send_pages(remote, pages)
    listed = number_of(sent.evaluations, "evaluation")
    return f"{number_of(sent.pages, 'page')} and the index of {listed} sent to {remote.bucket.url}/pages"


def share_labels(remote: Remote) -> None:
    """Exchange labels between a remote store and its local cache; print the numbers, and warn of clashing names."""
    _report_labels(remote, exchange_labels(remote.bucket, remote.folder))


def _report_labels(remote: Remote, done: Exchanged) -> None:
    if done.sent or done.fetched:
        print(f"labels: {len(done.sent)} sent, {len(done.fetched)} fetched")
    if done.clashing:
        words = f"{', '.join(done.clashing)}: other labels of that name are in {remote.bucket.url}"
        warn(f"{words}; those here stay on this machine, until they have another name")


def exchange_all(remote: Remote) -> None:
    """Exchange runs, and all files beside them, between a remote store and its local cache; print the numbers."""
    from tasks.history.forgetting import exchange_beside  # DuckDB, which not every command needs

    sent, fetched = remote.send_all(), remote.fetch()
    print(f"{number_of(len(sent), 'run')} sent, {len(fetched):,} fetched")
    _report_labels(remote, exchange_beside(remote))
    if foreign := remote.bucket.skipped:
        first = one_line(min(foreign), LONGEST)
        warn(f"{remote.bucket.url}: {len(foreign):,} objects that no file here can be were left out, such as {first}")
