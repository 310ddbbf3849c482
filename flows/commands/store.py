"""`jury store sync`, `rebuild` and `forget`: the history in step with the ledgers, and removal for good."""

import sys
from collections import Counter
from pathlib import Path

import click

from flows.commands.console import Command, say, warn
from flows.commands.options import store_option
from flows.commands.pages import exchange_all, renew_pages, share_pages
from tasks.errors import InputError
from tasks.history.database import HISTORY
from tasks.history.forgetting import (
    Kind,
    Plan,
    alone_with_plan,
    carry_out,
    changes,
    check_idle,
    keep_plan,
    make_plan,
    plan_of,
)
from tasks.history.landing import Landed, check_none_lost, has_ledgers, land, only_in_history
from tasks.history.landing import rebuild as rebuild_history
from tasks.history.queries import query
from tasks.ledger.labels import LABEL_PAGES, read_page
from tasks.ledger.remote import Remote, is_remote, local_cache, remote_of
from tasks.ledger.removals import PAGES, beside, drop_run, keep_days, remove_old, returned
from tasks.ledger.run_files import JUDGMENTS, OUTCOMES, run_folders, start_of
from tasks.pictures.thumbnails import make_waiting
from tasks.records.parameters import FLOWS
from tasks.text import listed, number_of, one_line


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
    folder = local_cache(store)
    remote = remote_of(store)
    keep_days()  # a wrong value in the environment stops the command before any change
    if remote:
        exchange_all(remote)
    for run in returned(folder):
        drop_run(folder, run.run_id)
        print(f"run {run.run_id} was forgotten on {run.removed_at[:10]} and was here again: it is removed")
    cleaned = _finish_earlier(folder, remote)
    if cleaned:
        print("the requested removal is complete, and the history is rebuilt")
    if not cleaned and not has_ledgers(folder):
        raise InputError(f"{store} holds no ledgers: is it the store of your runs?")
    if anew:
        check_none_lost(folder)
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
        if names := done.besides.get(what):
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
    except (InputError, OSError) as error:
        warn(f"old pictures and pages stay: {error}")
        return
    if old:
        print(f"{number_of(old, 'file')} of pictures and pages older than {number_of(keep_days(), 'day')} removed")


MOST_NAMED = 10


@click.command(cls=Command)
@click.option("--run", default="", metavar="RUN", help="All of a run: the beginning of its id.")
@click.option("--candidate", default="", metavar="NAME", help="A candidate, in all runs that judged it.")
@click.option("--sample", default="", metavar="ID", help="A sample by its whole id, in all runs that judged it.")
@click.option("--flow", type=click.Choice(FLOWS), metavar="FLOW", help="Only the candidate or sample of this flow.")
@click.option("--dry-run", is_flag=True, help="List what would go, and change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@store_option
def forget(run: str, candidate: str, sample: str, flow: str | None, dry_run: bool, yes: bool, store: str) -> int:
    """List the data to remove, ask, and remove it."""
    folder = local_cache(store)
    if not folder.is_dir() and not is_remote(store):
        raise InputError(f"{store} is no store: there is no such folder")
    check_idle(folder)
    remote = remote_of(store)
    if remote:
        exchange_all(remote)  # no data to be forgotten may be missed
        check_idle(folder)
    earlier = None if dry_run else _finish_earlier(folder, remote)
    if earlier:
        print("an unfinished removal from before is complete now")
    plan = make_plan(folder, *_asked(folder, run, candidate, sample, flow or ""))
    if not plan.runs and earlier and (earlier.kind, earlier.name, earlier.flow) == (plan.kind, plan.name, plan.flow):
        return 0
    if not plan.runs:
        raise InputError(f"{store} has no {plan.kind} {plan.name!r}{_known(folder, plan)}")
    _list(folder, plan)
    if dry_run or not (yes or _is_meant()):
        print("nothing was changed")
        return 0
    if remote and not yes:
        exchange_all(remote)
    with alone_with_plan(folder):
        # While a person thought, somebody may have forgotten other rows of the same runs.
        plan = make_plan(folder, plan.kind, plan.name, plan.flow)
        elsewhere = [*_in_prefect(folder, plan), *_for_people(folder, plan), *_elsewhere(store)]
        keep_plan(folder, plan)
        finish_forgetting(folder, remote)
    print("forgotten; the ledgers keep what the removed calls cost, by month")
    for sentence in elsewhere:
        say(sentence)
    return 0


def _finish_earlier(folder: Path, remote: Remote | None) -> Plan | None:
    """Complete a removal that was stopped, unless another process is at work on it; return its plan, if it was due."""
    if plan := plan_of(folder):
        with alone_with_plan(folder):
            finish_forgetting(folder, remote)
    return plan


def _asked(folder: Path, run: str, candidate: str, sample: str, flow: str) -> tuple[Kind, str, str]:
    """Return kind, name and flow of what is to be forgotten."""
    named = [(kind, name) for kind, name in (("run", run), ("candidate", candidate), ("sample", sample)) if name]
    if len(named) != 1:
        raise InputError(
            "name one thing to be forgotten: --run RUN, --candidate NAME or --sample ID (the last two with --flow FLOW "
            "where they are meant in one flow alone)"
        )
    if not run:
        return "candidate" if candidate else "sample", candidate or sample, flow
    if flow:
        raise InputError("--flow goes with --candidate and --sample: a run is of one flow")
    return "run", _run(folder, run), ""


def _run(folder: Path, beginning: str) -> str:
    """Return the id of the run or sharded evaluation with this beginning, or the beginning itself if there is none."""
    starts = {run.name: start_of(run) for run in run_folders(folder)}
    names = {start.evaluation_id if start else name for name, start in starts.items()} | {*starts}
    if beginning in names:
        return beginning
    found = sorted(name for name in names if name.startswith(beginning))
    wholes = sorted({start.evaluation_id if (start := starts.get(name)) else name for name in found})
    if len(wholes) > 1:
        raise InputError(f"--run {beginning}: {len(wholes)} runs begin so: {listed(wholes[:MOST_NAMED])}")
    return found[0] if len(found) == 1 else wholes[0] if wholes else beginning


def _known(folder: Path, plan: Plan) -> str:
    sql = "SELECT 1 FROM runs WHERE run_id = $1"
    if plan.kind == "run" and (folder / HISTORY).exists() and query(folder, sql, values=(plan.name,)).rows:
        return " in its ledgers, only in the history: `jury store rebuild` makes that without it"
    starts = [start for run in run_folders(folder) if (start := start_of(run))]
    names = {
        "run": sorted(start.run_id for start in starts),
        "candidate": sorted({name for start in starts for name in start.candidates}),
    }.get(plan.kind, [])
    return f"; there is {listed(names[-MOST_NAMED:])}" if names else ""


def _list(folder: Path, plan: Plan) -> None:
    say(f"from {folder}:")
    rows = Counter[str]()
    for run_id, change in plan.runs.items():
        rows.update(change.rows)
        told = f"judgments {change.rows[JUDGMENTS]:,}, outcomes {change.rows[OUTCOMES]:,}"
        say(f"  run {run_id}: {f'rows of {told}; the others stay' if change.revision else f'all of it ({told})'}")
    anew = [name for name, _ in changes(folder, plan)]
    for name in anew:
        say(f"  {name}")
    say(f"  in all {rows[JUDGMENTS]:,} replies and {number_of(rows[OUTCOMES], 'outcome')}")
    say(f"  {number_of(len(plan.pictures), 'picture')} that nothing else shows")
    if lost := only_in_history(folder):
        say(f"  {number_of(len(lost), 'run')} that only the history has, the last {lost[-1]}")
    say("  all pages and the history; the history and the pages of each flow's newest evaluations are rebuilt")


def _in_prefect(folder: Path, plan: Plan) -> list[str]:
    """Return advice on Prefect's records of the runs, since its database is not ours to change."""
    starts = [start_of(folder / "ledger" / run_id) for run_id in plan.runs]
    ids = [start.prefect_run_id for start in starts if start and start.prefect_run_id]
    kept = f"Prefect keeps names, parameters, logs and artifacts of {number_of(len(ids), 'flow run')}"
    return (
        [f"{kept}; delete them in its UI or with `prefect flow-run delete`: {listed(map(one_line, ids))}."]
        if ids
        else []
    )


def _for_people(folder: Path, plan: Plan) -> list[str]:
    """Return the places of label pages that show forgotten samples, as far as they lie outside the store's pages."""
    names = [name for name, _ in changes(folder, plan) if name.startswith(LABEL_PAGES)]
    files = [Path(read_page(folder, Path(name).stem).file) for name in names]
    outside = [file for file in files if file.name and file.parent != folder.absolute() / PAGES]
    return [f"Remove this page for people, and its pictures in {beside(file.name)}: {file}" for file in outside]


def _elsewhere(store: str) -> list[str]:
    """Return sentences about copies outside the store, which people have to check themselves."""
    own = "The candidate's own files, exports, reports written elsewhere and backups of the store are as they were"
    versions = (
        "Other machines remove it with their next run or `jury store sync`; a bucket that keeps old versions has those"
    )
    return [f"{own}.", *([f"{versions}."] if is_remote(store) else [])]


def _is_meant() -> bool:
    if not sys.stdin.isatty():
        raise InputError("nobody can be asked here: --yes forgets without asking, --dry-run lists what would go")
    return click.confirm("Forget all of this for good?")


def finish_forgetting(store: Path, remote: Remote | None) -> None:
    """Complete a planned removal and rebuild the pages."""
    carry_out(store, remote)
    renew_pages(str(store))
    if remote:  # last, because no page is sent while a removal is unfinished
        share_pages(remote.bucket.url)
