"""`jury store sync` and `rebuild`: the history in step with the ledgers, and a remote store with its local copy."""

from pathlib import Path

import click

from flows.commands.forget import finish_forgetting
from flows.commands.messages import say, warn
from flows.commands.options import store_option
from flows.commands.sections import Command
from flows.commands.sharing import exchange_all, renew_pages
from tasks.errors import InputError
from tasks.forgetting.keeping import keep_days, remove_old
from tasks.forgetting.plan import plan_of
from tasks.history.database import HISTORY
from tasks.history.landing import Landed, has_ledgers, land
from tasks.history.landing import rebuild as rebuild_history
from tasks.ledger.remote import Remote, remote_of, writable_folder
from tasks.ledger.removed import drop_run, returned
from tasks.pictures.thumbnails import make_waiting
from tasks.text import number_of


@click.command(cls=Command)
@store_option
def sync(store: str) -> int:
    """Load missing ledgers (of a remote store: of all machines) and print changes; return 2 if a ledger is left out."""
    return _bring_in_step(store, anew=False)


@click.command(cls=Command)
@store_option
def rebuild(store: str) -> int:
    """Do what `sync` does, but rebuild the history from all ledgers."""
    return _bring_in_step(store, anew=True)


def _bring_in_step(store: str, anew: bool) -> int:
    folder = writable_folder(store)
    remote = remote_of(store)
    keep_days()  # a wrong value in the environment stops the command before any change
    if remote:
        exchange_all(remote)
    for run in returned(folder):
        drop_run(folder, run.run_id)
        print(f"run {run.run_id} was forgotten on {run.removed_at[:10]} and was here again: it is removed")
    cleaned = plan_of(folder) is not None
    if cleaned:
        finish_forgetting(folder, remote)
        print("the requested removal is complete, and the history is rebuilt")
    if not cleaned and not has_ledgers(folder):
        raise InputError(f"{store} holds no ledgers: is it the store of your runs?")
    done = rebuild_history(folder) if anew else land(folder)
    _report(done, folder)
    _tend_pictures(folder, remote)
    # A rebuilt history shows the same as the old one, so no page has changed.
    renew_pages(store, () if anew else (*done.loaded, *done.corrected))
    return 2 if done.left_out else 0


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
