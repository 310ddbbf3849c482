"""`jury store forget`: permanent removal of a run, a candidate or a sample from a store, its bucket and its pages."""

import re
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import click

from flows.commands.messages import LOG, say
from flows.commands.options import store_option
from flows.commands.sections import Command
from flows.commands.sharing import renew_pages, share_pages
from tasks.errors import InputError
from tasks.forgetting.beside import changes
from tasks.forgetting.doing import carry_out, check_idle, exchange_beside
from tasks.forgetting.plan import Kind, Plan, keep_plan, make_plan, plan_of
from tasks.ledger.reading import JUDGMENTS, OUTCOMES, run_folders
from tasks.ledger.remote import Remote, is_remote, remote_of, writable_folder
from tasks.ledger.removed import start_of
from tasks.parameters import FLOWS
from tasks.store_files import remove_file
from tasks.text import listed, number_of

_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MOST_NAMED = 10


class _Asked(NamedTuple):
    """Run, candidate or sample to forget."""

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
def forget(run: str, candidate: str, sample: str, flow: str | None, dry_run: bool, yes: bool, store: str) -> int:
    """List the data to remove, ask, and remove it."""
    folder = writable_folder(store)
    if not folder.is_dir() and not is_remote(store):
        raise InputError(f"{store} is no store: there is no such folder")
    check_idle(folder)
    remote = remote_of(store)
    if remote:
        share_store(remote)
        check_idle(folder)
    if plan_of(folder) and not dry_run:
        finish_forgetting(folder, remote)
        print("an unfinished removal from before is complete now")
    asked = _asked(folder, run, candidate, sample, flow or "")
    plan = make_plan(folder, *asked)
    if not plan.runs:
        raise InputError(f"{store} has no {asked.kind} {asked.name!r}{_known(folder, asked)}")
    _list(folder, plan)
    if dry_run or not (yes or _is_meant()):
        print("nothing was changed")
        return 0
    elsewhere = [*_in_prefect(folder, plan), *_elsewhere(store)]
    keep_plan(folder, plan)
    finish_forgetting(folder, remote)
    print("forgotten; the ledgers keep what the removed calls cost, by month")
    for sentence in elsewhere:
        say(sentence)
    return 0


def _asked(folder: Path, run: str, candidate: str, sample: str, flow: str) -> _Asked:
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


def _known(folder: Path, asked: _Asked) -> str:
    starts = [start for run in run_folders(folder) if (start := start_of(run))]
    names = {
        "run": sorted(start.run_id for start in starts),
        "candidate": sorted({name for start in starts for name in start.candidates}),
        "sample": [],
    }[asked.kind]
    return f"; there is {listed(names[-MOST_NAMED:])}" if names else ""


def _list(folder: Path, plan: Plan) -> None:
    say(f"from {folder}:")
    rows = Counter[str]()
    for run_id, change in plan.runs.items():
        rows.update(change.rows)
        told = f"judgments {change.rows[JUDGMENTS]:,}, outcomes {change.rows[OUTCOMES]:,}"
        say(f"  run {run_id}: {f'rows of {told}; the others stay' if change.revision else f'all of it ({told})'}")
    beside = [name for name, _ in changes(folder, plan)]
    for name in beside:
        say(f"  {name}")
    say(f"  in all {rows[JUDGMENTS]:,} replies and {number_of(rows[OUTCOMES], 'outcome')}")
    say(f"  {number_of(len(plan.pictures), 'picture')} that nothing else shows")
    say("  all pages and the history; the history and the pages of each flow's newest evaluations are rebuilt")


def _in_prefect(folder: Path, plan: Plan) -> list[str]:
    """Return advice on Prefect's records of the runs, since its database is not ours to change."""
    starts = [start_of(folder / "ledger" / run_id) for run_id in plan.runs]
    ids = [start.prefect_run_id for start in starts if start and _UUID.fullmatch(start.prefect_run_id)]
    if not ids:
        return []
    return [
        f"Prefect keeps names, parameters, logs and artifacts of {number_of(len(ids), 'flow run')}. Delete them where "
        "PREFECT_API_URL leads to their server (`jury up` prints that of this store), and the artifacts that "
        "`prefect artifact ls --all --output json` lists with these ids as `flow_run_id`:",
        *(f"  prefect flow-run delete {flow_run}" for flow_run in ids),
    ]


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


def share_store(remote: Remote) -> None:
    """Exchange all files of a remote store and its local cache, so that no data to be forgotten is missed."""
    remote.send_all()
    remote.fetch()
    exchange_beside(remote)


def finish_forgetting(store: Path, remote: Remote | None) -> None:
    """Complete a planned removal and rebuild the pages; remove the program's log, too, if it has the removed name."""
    plan, log = plan_of(store), store / LOG
    if plan and plan.name and log.is_file() and plan.name in log.read_text(encoding="utf-8", errors="replace"):
        remove_file(store, LOG)
    carry_out(store, remote)
    renew_pages(str(store))
    if remote:  # last, because no page is sent while a removal is unfinished
        share_pages(remote.bucket.url)
