"""Renewal of the store's pages by commands that change their contents."""

from collections.abc import Iterable
from pathlib import Path

from flows.commands.messages import number_of, say, warn
from tasks.errors import InputError
from tasks.ledger.remote import Remote, is_remote, local_cache


def renew_pages(store: str, run_ids: Iterable[str] = ()) -> None:
    """Rebuild the index and, of the newest evaluations, the missing pages and those that these runs have changed.

    Send them if the store is remote. A failure costs a warning.
    """
    folder = local_cache(store)
    from tasks.pages.site import due, renew  # DuckDB and the charts, which not every command needs

    try:
        made = renew(folder, due(folder, run_ids))
    except (InputError, OSError, RuntimeError) as error:
        warn(f"{error}; the pages stay as they were until the next `jury sync` or `jury pages`")
    else:
        share_pages(store, made.pages)


def share_pages(store: str, pages: Iterable[Path] = ()) -> None:
    """Send these pages and an index if the store is remote; warn if it cannot be reached now."""
    if not is_remote(store):
        return
    from tasks.pages.sent_pages import send_pages

    try:
        sent = send_pages(Remote(store, local_cache(store)), pages)
    except (InputError, OSError) as error:
        warn(f"{error}; the pages there stay as they were until the next `jury sync`")
    else:
        listed = number_of(sent.evaluations, "evaluation")
        say(f"{number_of(sent.pages, 'page')} and the index of {listed} sent to {store}/pages")
