"""`jury forget`: a run, a candidate or a sample removed from a store, from its bucket and from its pages, for good."""

import sys
from pathlib import Path
from typing import NamedTuple

import click

from flows.commands.forgetting import finish_forgetting, forget_marked, share_store
from flows.commands.messages import number_of, say
from flows.commands.options import store_option
from flows.commands.sections import Command
from tasks.errors import InputError
from tasks.forgetting.found import Found
from tasks.forgetting.store import check_idle, exchange_marks, is_due, what_goes
from tasks.ledger.forgotten import Kind, keep_mark, new_mark
from tasks.ledger.meant import started
from tasks.ledger.reading import run_folders
from tasks.ledger.remote import Remote, is_remote, local_cache
from tasks.parameters import FLOWS
from tasks.text import listed

MOST_NAMED = 10


class _Asked(NamedTuple):
    """What is to be forgotten."""

    kind: Kind
    name: str
    flow: str


@click.command(cls=Command)
@click.option("--run", default="", metavar="RUN", help="All of a run: the beginning of its id.")
@click.option("--candidate", default="", metavar="NAME", help="A candidate, in all runs that judged it.")
@click.option("--sample", default="", metavar="ID", help="A sample by its whole id, in all runs that judged it.")
@click.option("--flow", type=click.Choice(FLOWS), help="The candidate or the sample of this flow alone.")
@click.option("--dry-run", is_flag=True, help="List what would go, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@store_option
def command(run: str, candidate: str, sample: str, flow: str | None, dry_run: bool, yes: bool, store: str) -> int:
    """List what goes, ask, and remove it.

    Raises:
        HistoryLocked: the history stayed in use; the same command, or `jury sync`, does the rest.
        InputError: nothing is called so, or not one thing alone; a run is being written.
        OSError: the disk or the remote store fails; likewise.
    """
    folder = local_cache(store)
    if not folder.is_dir() and not is_remote(store):
        raise InputError(f"{store} is no store: there is no such folder")
    check_idle(folder)
    remote = Remote(store, folder) if is_remote(store) else None
    if remote:
        exchange_marks(remote.bucket, folder)
    was_due = is_due(folder) and not dry_run
    if was_due and forget_marked(folder, remote).anything:
        finish_forgetting(folder, remote)
    if remote:
        share_store(remote)
    asked = _asked(folder, run, candidate, sample, flow or "")
    mark = new_mark(*asked)
    found, lines = what_goes(folder, mark)
    if not lines:
        if was_due:
            print("what was asked for before is forgotten now; nothing else has that name")
            return 0
        raise InputError(f"{store}: nothing is known of the {asked.kind} {asked.name!r}{_known(folder, asked)}")
    _list(folder, found, lines)
    if dry_run or not (yes or _is_meant()):
        print("nothing was changed")
        return 0
    keep_mark(folder, mark.model_copy(update={"removed": {**found.rows, "pictures": len(found.pictures)}}))
    done = forget_marked(folder, remote)
    finish_forgetting(folder, remote, asked.name)
    print(f"forgotten; {folder / 'forgotten'} notes when, what kind and how many rows, and no name")
    for sentence in [*done.remains, *_elsewhere(store)]:
        say(sentence)
    return 0


def _asked(folder: Path, run: str, candidate: str, sample: str, flow: str) -> _Asked:
    """What is meant.

    Raises:
        InputError: not one thing alone is named, or several runs begin so.
    """
    named = [(kind, name) for kind, name in (("run", run), ("candidate", candidate), ("sample", sample)) if name]
    if len(named) != 1:
        raise InputError(
            "name one thing to be forgotten: --run RUN, --candidate NAME or --sample ID (the last two with --flow FLOW "
            "where they are meant in one flow alone)"
        )
    if not run:
        return _Asked("candidate" if candidate else "sample", candidate or sample, flow)
    if flow:
        raise InputError("--flow goes with --candidate and --sample: a run is of one flow")
    return _Asked("run", _run(folder, run), "")


def _run(folder: Path, beginning: str) -> str:
    """The id of the run, or of the evaluation in shards, that begins so; as it is given where none does."""
    starts = {run.name: started(run) for run in run_folders(folder)}
    names = {start.evaluation_id if start else name for name, start in starts.items()} | {*starts}
    if beginning in names:
        return beginning
    found = sorted(name for name in names if name.startswith(beginning))
    wholes = sorted({start.evaluation_id if (start := starts.get(name)) else name for name in found})
    if len(wholes) > 1:
        raise InputError(f"--run {beginning}: {len(wholes)} runs begin so: {listed(wholes[:MOST_NAMED])}")
    return found[0] if len(found) == 1 else wholes[0] if wholes else beginning


def _known(folder: Path, asked: _Asked) -> str:
    """What there is of that kind, where that can be said in a few words."""
    starts = [start for run in run_folders(folder) if (start := started(run))]
    names = {
        "run": sorted(start.run_id for start in starts),
        "candidate": sorted({name for start in starts for name in start.candidates}),
        "sample": [],
    }[asked.kind]
    return f"; there is {listed(names[-MOST_NAMED:])}" if names else ""


def _list(folder: Path, found: Found, lines: list[str]) -> None:
    say(f"from {folder}:")
    for line in lines:
        say(f"  {line}")
    say(f"  in all {found.rows['judgments']:,} replies and {number_of(found.rows['outcomes'], 'outcome')}")
    say("  all pages, of which those of the newest evaluations of each flow are made anew, and the history likewise")
    for place in found.unreadable:
        say(f"  not read, and left as it is: {place}; `jury forget --run` removes the whole run")


def _elsewhere(store: str) -> list[str]:
    """What is not the store's, so that people look there themselves."""
    own = "The candidate's own files, exports, reports written elsewhere and backups of the store are as they were"
    versions = "Other machines remove it with their next `jury sync`; a bucket that keeps old versions has those"
    return [f"{own}.", *([f"{versions}."] if is_remote(store) else [])]


def _is_meant() -> bool:
    if not sys.stdin.isatty():
        raise InputError("nobody can be asked here: --yes forgets without asking, --dry-run lists what would go")
    return click.confirm("Forget all of this for good?")
