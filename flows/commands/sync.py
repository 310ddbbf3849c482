"""`jury sync`: synchronization of the history with the ledgers, and of a remote store with its local copy."""

from pathlib import Path

import click

from flows.commands.forget import finish_forgetting
from flows.commands.labels import share_labels
from flows.commands.messages import number_of, say, warn
from flows.commands.options import store_option
from flows.commands.renewing import renew_pages
from flows.commands.sections import Command
from tasks.errors import InputError
from tasks.forgetting.keeping import keep_days, remove_old
from tasks.forgetting.plan import plan_of
from tasks.history.database import HISTORY
from tasks.history.landing import Landed, land
from tasks.history.landing import rebuild as rebuild_history
from tasks.ledger.alarm_records import FOLDER as ALARMS
from tasks.ledger.bridges import BRIDGES
from tasks.ledger.label_pages import FOLDER as LABEL_PAGES
from tasks.ledger.label_sets import label_folders
from tasks.ledger.other_calls import OTHER_CALLS
from tasks.ledger.passports import exchange_passports, passport_folders
from tasks.ledger.reading import run_folders
from tasks.ledger.remote import Remote, remote_of, writable_folder
from tasks.ledger.removed import drop_run, returned
from tasks.pictures.thumbnails import make_waiting


@click.command(cls=Command)
@click.option("--rebuild", is_flag=True, help="Rebuild the history from all ledgers.")
@store_option
def command(rebuild: bool, store: str) -> int:
    """Load missing ledgers (of a remote store: of all machines) and print changes; return 2 if a ledger is left out."""
    folder = writable_folder(store)
    remote = remote_of(store)
    keep_days()  # a wrong value in the environment stops the command before any change
    if remote:
        _exchange(remote)
    for run in returned(folder):
        drop_run(folder, run.run_id)
        print(f"run {run.run_id} was forgotten on {run.removed_at[:10]} and was here again: it is removed")
    cleaned = plan_of(folder) is not None
    if cleaned:
        finish_forgetting(folder, remote)
        print("the requested removal is complete, and the history is rebuilt")
    once = (BRIDGES.folders, OTHER_CALLS.folders)
    kept = (run_folders, label_folders, passport_folders, *once)
    if not cleaned and not any(found(folder) for found in kept):
        raise InputError(f"{store} holds no ledgers: is it the store of your runs?")
    done = rebuild_history(folder) if rebuild else land(folder)
    _report(done, folder)
    _tend_pictures(folder, remote)
    # A rebuilt history shows the same as the old one, so no page has changed.
    renew_pages(store, () if rebuild else (*done.loaded, *done.corrected))
    return 2 if done.left_out else 0


def _exchange(remote: Remote) -> None:
    sent, fetched = remote.send_all(), remote.fetch()
    print(f"{number_of(len(sent), 'run')} sent, {len(fetched):,} fetched")
    share_labels(remote.bucket, remote.folder)
    exchange_passports(remote.bucket, remote.folder)
    for name in (ALARMS, BRIDGES.folder, OTHER_CALLS.folder, LABEL_PAGES):
        remote.share_folder(name)
    if words := remote.bucket.skipped_words:
        warn(words)


def _report(done: Landed, folder: Path) -> None:
    for sentence in done.left_out:
        warn(sentence)
    for what in ("labels", "passports", "bridges"):
        if names := getattr(done, what):
            say(f"{what} loaded: {', '.join(names)}")
    if done.loaded:
        print(f"{number_of(len(done.loaded), 'run')} loaded into {folder / HISTORY}")
    elif not done.left_out:
        print("the history is in step with the ledgers")


def _tend_pictures(store: Path, remote: Remote | None) -> None:
    thumbnails, lost = make_waiting(store)
    if thumbnails:
        print(f"{number_of(thumbnails, 'thumbnail')} made that a stopped run had left to be made")
    if lost:
        warn(f"{number_of(lost, 'picture')} that a stopped run had kept cannot be read: no thumbnail is left of them")
    try:
        old = remove_old(store, remote.bucket if remote else None)
    except InputError as error:
        warn(f"old pictures and pages stay: {error}")
        return
    if old:
        print(f"{number_of(old, 'file')} of pictures and pages older than {number_of(keep_days(), 'day')} removed")
