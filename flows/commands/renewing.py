"""The store's pages made anew by a command that has changed what they show."""

from collections.abc import Iterable
from pathlib import Path

from flows.commands.messages import warn
from tasks.errors import HistoryLocked, InputError


def renew_pages(store: Path, run_ids: Iterable[str] = ()) -> None:
    """Make the index anew, and of the newest evaluations the pages that these runs have changed, or that are missing;
    what keeps that from being done costs a warning.
    """
    from tasks.pages.site import due, renew  # DuckDB and the charts, which not every command needs

    try:
        renew(store, due(store, run_ids))
    except (HistoryLocked, InputError, OSError, RuntimeError) as error:
        warn(f"{error}; the pages stay as they were until the next `jury sync` or `jury pages`")
