"""Execution of a plan: removal from a store, from its bucket, and from the files made of its ledgers.

The plan is removed last, so that a repetition completes the removal after a kill at any point.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from tasks.errors import InputError
from tasks.forgetting.beside import ANCHORS, changes
from tasks.forgetting.keeping import PAGES
from tasks.forgetting.ledgers import is_written, rewrite_run
from tasks.forgetting.plan import Plan, end_plan, plan_of, shown
from tasks.history.landing import make_anew
from tasks.labels.exchange import exchange_labels
from tasks.ledger.alarm_records import FOLDER as ALARMS
from tasks.ledger.bridges import BRIDGES
from tasks.ledger.label_pages import FOLDER as LABEL_PAGES
from tasks.ledger.reading import END, RUN, is_waiting, moment_of, run_folders
from tasks.ledger.remote import FETCHED, Remote
from tasks.ledger.removed import drop_run, start_of, tombstone_of
from tasks.store_files import is_sha256, is_store_name, names_in, remove_drafts, remove_file, write_file

ALIVE = timedelta(hours=48)
"""Time after its start in which an unfinished run of another machine may still be written there."""


def check_idle(store: Path) -> None:
    """Raise InputError if a run is being written or waits for a batch: its rows are still to come."""
    for run in run_folders(store):
        if is_waiting(run):
            raise InputError(
                f"run {run.name} waits for its batches: `jury batch collect` takes its replies in, `jury batch cancel "
                f"{run.name}` stops it; the same command forgets then"
            )
        if is_written(run):
            raise InputError(
                f"run {run.name} is being written: wait for its end, or stop it (Ctrl-C); the same command forgets then"
            )
        if (run / FETCHED).exists() and not (run / END).exists() and _may_be_alive(run):
            raise InputError(
                f"run {run.name} of another machine has no end yet: the same command forgets when it has one, or "
                f"{ALIVE.days * 24} hours after it began"
            )


def _may_be_alive(run: Path) -> bool:
    start = start_of(run)
    began = moment_of(start.started_at) if start else None
    return began is not None and datetime.now(UTC) - began < ALIVE


def carry_out(store: Path, remote: Remote | None) -> None:
    """Execute the plan of a store, if there is one; remove all pages, and rebuild the history from the remaining data.

    Raises:
        InputError: a run is being written; a record beside the ledgers is damaged; the history cannot be made.
        OSError: the disk, or the remote store (RemoteUnavailable), fails; a second call does the rest.
    """
    plan = plan_of(store)
    if not plan:
        return
    if plan.kind:
        check_idle(store)
        _remove_beside(store, remote, plan)
        _remove_rows(store, remote, plan)
    elif remote:  # before the history is made from these files
        exchange_beside(remote)
    _remove_pictures(store, remote, plan)
    remove_drafts(store)
    pages = [f"{PAGES}/{name}" for name in names_in(store, PAGES) if is_store_name(f"{PAGES}/{name}")]
    for name in pages:
        remove_file(store, name)
    if remote and plan.kind:
        remote.bucket.remove([*remote.bucket.sizes(PAGES)])
    make_anew(store)
    end_plan(store)


def exchange_beside(remote: Remote) -> None:
    """Share the files beside the ledgers of runs with a bucket, without forgotten data.

    Raises:
        InputError: labels are damaged.
        RemoteUnavailable: the network or the store fails.
    """
    exchange_labels(remote.bucket, remote.folder)
    for name in (ALARMS, BRIDGES.folder, LABEL_PAGES, ANCHORS):
        remote.share_folder(name)


def settle(store: Path, remote: Remote | None) -> None:
    """Repeat here the removals of another machine, after its runs were fetched; skip a plan of this store's own.

    Raises:
        InputError: the history cannot be made.
        OSError: the disk or the remote store fails.
    """
    plan = plan_of(store)
    if plan and not plan.kind:
        carry_out(store, remote)


def _remove_beside(store: Path, remote: Remote | None, plan: Plan) -> None:
    """Remove or rewrite the files beside the ledgers, in the bucket first: local files show the rest after a kill.

    Each removed file leaves an object without bytes: other machines remove theirs, and do not send it again.
    """
    for name, data in [*changes(store, plan)]:
        if remote:
            remote.bucket.put({name: data})
        if data:
            write_file(store, name, data)
        else:
            remove_file(store, name)


def _remove_rows(store: Path, remote: Remote | None, plan: Plan) -> None:
    for run_id, change in plan.runs.items():
        run = store / "ledger" / run_id
        if not change.revision:
            tombstone = tombstone_of(run_id, change.cost)
            drop_run(store, run_id, tombstone)
            if remote:
                remote.replace_by_tombstone(run_id, tombstone)
            continue
        if (run / RUN).exists():
            rewrite_run(store, run, plan, change)
        if remote:
            remote.replace(run_id, change.revision)


def _remove_pictures(store: Path, remote: Remote | None, plan: Plan) -> None:
    """Remove the pictures of the plan, and those that a killed run left, unless a row still shows them."""
    here = {Path(name).stem for name in [*names_in(store, "pictures"), *names_in(store, "pictures/waiting")]}
    # A run that is being written may have a picture before its row; a plan of our own waits for the run's end.
    gone = {sha256 for sha256 in {*plan.pictures, *(here if plan.kind else ())} - shown(store) if is_sha256(sha256)}
    if remote and plan.kind:
        there = remote.bucket.sizes("pictures")
        remote.bucket.remove([name for sha256 in sorted(gone) if (name := f"pictures/{sha256}.jpg") in there])
    for sha256 in gone:
        remove_file(store, f"pictures/{sha256}.jpg")
        remove_file(store, f"pictures/waiting/{sha256}")
