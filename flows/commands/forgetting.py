"""What `jury forget` and `jury sync` share: what a store was told to forget goes from it, and what is made of its
ledgers is made anew.
"""

import shutil
import sqlite3
from pathlib import Path
from typing import NamedTuple

from flows.commands.faults import LOG
from flows.commands.messages import warn
from flows.commands.renewing import renew_pages, share_pages
from flows.runtime.prefect_database import database_of, known, take_out
from flows.runtime.prefect_elsewhere import deletions
from tasks.forgetting.found import Found
from tasks.forgetting.place import Place
from tasks.forgetting.store import check_idle, exchange_marks, finish, remove, what_goes
from tasks.history.loading import make_anew
from tasks.labels.exchange import exchange_labels
from tasks.ledger.alarm_records import exchange_alarm_records
from tasks.ledger.bridges import BRIDGES
from tasks.ledger.label_pages import FOLDER as LABEL_PAGES
from tasks.ledger.layout_checks import LAYOUT_CHECKS
from tasks.ledger.remote import Remote
from tasks.pages.page_names import FOLDER as PAGES

ANCHORS = "anchors"


def share_store(remote: Remote) -> None:
    """Bring everything of a remote store into its local cache, so that what is to be forgotten is found.

    Raises:
        RemoteUnavailable: the network or the store fails.
    """
    remote.send_all()
    remote.fetch()
    exchange_labels(remote.bucket, remote.folder)
    exchange_alarm_records(remote.bucket, remote.folder)
    for name in (BRIDGES.folder, LAYOUT_CHECKS.folder, LABEL_PAGES, ANCHORS):
        remote.fetch_folder(name)


class Removed(NamedTuple):
    """What was done of what the marks of a store mean."""

    anything: bool
    """There was something, now or before a kill: `finish_forgetting` is due."""
    remains: list[str]
    """What is elsewhere, a line each."""


def forget_marked(store: Path, remote: Remote | None) -> Removed:
    """Remove from ledgers, pictures, Prefect's records and what lies beside them what the marks of a store mean.

    Raises:
        InputError: a run is being written, or waits for its batches.
        OSError: the disk or the remote store fails.
    """
    if remote:
        exchange_marks(remote.bucket, store)
    check_idle(store)
    found, lines = what_goes(store)
    remains = _from_prefect(store, found)  # while the ledgers still tell which flow runs those were
    return Removed(remove(store, remote.bucket if remote else None, found, bool(lines)), remains)


def finish_forgetting(store: Path, remote: Remote | None, name: str = "") -> None:
    """Make the history anew, and the pages; where the program's own log names what was forgotten, it goes.

    Raises:
        HistoryLocked: the history stayed in use.
    """
    _sweep(store, name)
    make_anew(store)
    place = Place(store, remote.bucket if remote else None)
    place.remove(f"{PAGES}/{file.name}" for file in (store / PAGES).glob("*.html"))
    place.remove([each for each in place.in_bucket if each.startswith(f"{PAGES}/")])
    renew_pages(str(store))
    finish(store)
    if remote:  # not before all is done: where something is to be forgotten no page is sent
        share_pages(remote.bucket.url)


def _sweep(store: Path, name: str) -> None:
    """What killed processes left half written, and the log."""
    for left in store.glob("rebuild-*"):
        shutil.rmtree(left, ignore_errors=True)
    for draft in store.rglob(".*.draft"):
        draft.unlink(missing_ok=True)
    log = store / LOG
    if name and log.is_file() and name in log.read_text(encoding="utf-8", errors="replace"):
        log.unlink()


def _from_prefect(store: Path, found: Found) -> list[str]:
    """Take out of the store's own Prefect what it recorded of the runs; what another may have of them, a line each."""
    parts = [part.start.prefect_run_id for part in found.parts.values() if part.mark.kind != "candidate"]
    named = [part.start.prefect_run_id for part in found.parts.values() if part.mark.kind == "candidate"]
    whole = [start.prefect_run_id for start, _ in found.whole.values() if start]
    ids = {*parts, *named, *whole} - {""}
    database = database_of(store)
    if not ids:
        return []
    here: list[str] = []
    try:
        if database:
            here = known(database, ids)
            take_out(database, {*named, *whole} & {*here}, {*parts} & {*here}, [*found.whole])
    except sqlite3.Error as error:
        warn(f"{database} could not be changed: {error}; what it records of these runs is to be deleted there")
        here = []
    return deletions(sorted(ids.difference(here)))
