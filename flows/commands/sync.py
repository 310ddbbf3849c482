"""`jury sync`: the history brought into step with the ledgers, and a remote store with its local copy."""

from pathlib import Path

import click

from flows.commands.forgetting import finish_forgetting, forget_marked
from flows.commands.labels import share_labels
from flows.commands.messages import number_of, say, warn
from flows.commands.options import store_option
from flows.commands.renewing import renew_pages
from flows.commands.sections import Command
from tasks.errors import InputError
from tasks.forgetting.keeping import keep_days, remove_old
from tasks.forgetting.store import exchange_marks, is_due
from tasks.history.database import HISTORY
from tasks.history.loading import sync
from tasks.ledger.alarm_records import exchange_alarm_records
from tasks.ledger.bridges import BRIDGES
from tasks.ledger.label_pages import FOLDER as LABEL_PAGES
from tasks.ledger.label_sets import label_folders
from tasks.ledger.layout_checks import LAYOUT_CHECKS
from tasks.ledger.other_calls import OTHER_CALLS
from tasks.ledger.passport_exchange import exchange_passports
from tasks.ledger.passports import passport_folders
from tasks.ledger.reading import run_folders
from tasks.ledger.remote import Remote, is_remote, local_cache
from tasks.pages.without_pictures import may_have_pictures
from tasks.pictures.thumbnails import make_waiting


@click.command(cls=Command)
@click.option("--rebuild", is_flag=True, help="Make the history anew from all ledgers.")
@store_option
def command(rebuild: bool, store: str) -> int:
    """Load what is missing (of a remote store: of all machines) and say what changed; 2 where a ledger is left out."""
    folder = local_cache(store)
    remote = Remote(store, folder) if is_remote(store) else None
    keep_days()  # what it says wrongly is told before anything is done
    may_have_pictures()
    cleaned = _forget_due(folder, remote)
    if remote:
        sent, fetched = remote.send_all(), remote.fetch()
        print(f"{number_of(len(sent), 'run')} sent, {len(fetched):,} fetched")
        share_labels(remote.bucket, folder)
        exchange_passports(remote.bucket, folder)
        exchange_alarm_records(remote.bucket, folder)
        for name in (BRIDGES.folder, LAYOUT_CHECKS.folder, OTHER_CALLS.folder, LABEL_PAGES):
            remote.send_folder(name)
            remote.fetch_folder(name)
        cleaned = _forget_due(folder, remote) or cleaned  # what came back from another machine
    if cleaned:
        finish_forgetting(folder, remote)
        print("what was asked to be forgotten is removed, and the history made anew")
    once = (BRIDGES.folders, LAYOUT_CHECKS.folders, OTHER_CALLS.folders)
    kept = (run_folders, label_folders, passport_folders, *once)
    if not cleaned and not any(found(folder) for found in kept):
        raise InputError(f"{store} holds no ledgers: is it the store of your runs?")
    done = sync(folder, rebuild=rebuild)
    for sentence in done.left_out:
        warn(sentence)
    for what in ("labels", "passports", "bridges", "layout_checks"):
        if names := getattr(done, what):
            say(f"{what.replace('_', ' ')} loaded: {', '.join(names)}")
    loaded = f"{number_of(len(done.loaded), 'run')} loaded into {folder / HISTORY}"
    print(loaded if done.loaded else "the history is in step with the ledgers")
    _tend_pictures(folder, remote)
    # A history made anew shows what the old one did.
    renew_pages(store, () if rebuild else (*done.loaded, *done.corrected))
    return 2 if done.left_out else 0


def _tend_pictures(store: Path, remote: Remote | None) -> None:
    """Make the thumbnails that wait, and remove what is older than it may be."""
    thumbnails, lost = make_waiting(store)
    if thumbnails:
        print(f"{number_of(thumbnails, 'thumbnail')} made that a stopped run had left to be made")
    if lost:
        warn(f"{number_of(lost, 'picture')} that a stopped run had kept cannot be read: no thumbnail is left of them")
    if old := remove_old(store, remote.bucket if remote else None):
        print(f"{number_of(old, 'file')} of pictures and pages older than {number_of(keep_days(), 'day')} removed")


def _forget_due(store: Path, remote: Remote | None) -> bool:
    """Remove what people asked to be forgotten, here or on another machine; whether there was anything.

    Raises:
        InputError: a run is being written, or waits for its batches: nothing can be removed meanwhile.
    """
    if remote:
        exchange_marks(remote.bucket, store)
    if not is_due(store):
        return False
    done = forget_marked(store, remote)
    for sentence in done.remains:
        say(sentence)
    return done.anything
