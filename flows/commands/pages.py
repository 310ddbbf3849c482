"""`jury store pages` and `push`, `jury report`: pages in the store, in its bucket, and in a file elsewhere."""

from collections.abc import Sequence
from pathlib import Path

import click

from flows.commands.console import Command, say
from flows.commands.options import no_pictures_option, store_option
from flows.commands.sharing import push_pages, share_pages
from tasks.errors import InputError
from tasks.history.queries import choose, find
from tasks.ledger.remote import local_cache, remote_of
from tasks.pages.page_names import where
from tasks.pages.report_data import gather
from tasks.pages.report_page import write_page
from tasks.pages.site import all_evaluations, renew
from tasks.records.parameters import FLOWS
from tasks.text import number_of


@click.command(cls=Command)
@click.argument("runs", nargs=-1, metavar="[RUN]...", help="Beginnings of their ids; none: the newest ones.")
@click.option(
    "--last",
    type=click.IntRange(0),
    default=14,
    show_default=True,
    metavar="N",
    help="Without runs: pages of so many of the newest evaluations; 0: of all, which takes a second or more each.",
)
@no_pictures_option
@store_option
def make_pages(runs: Sequence[str], last: int, no_pictures: bool, store: str) -> int:
    """Rebuild the pages of these evaluations and the index, and print their place."""
    folder = local_cache(store)
    wanted = [find(folder, run).run_id for run in runs] or all_evaluations(folder, last)
    if not wanted:
        raise InputError(f"{store} holds no finished evaluation; `jury status` lists its runs")
    made = renew(folder, wanted, with_pictures=not no_pictures)
    what = f"{number_of(made.evaluations, 'evaluation')} and {number_of(len(made.pages), 'page')} made anew"
    say(f"{where(made.place)}: the index of {what}; it opens in any browser, offline too")
    share_pages(store, made.pages)
    return 0


@click.command(cls=Command)
@store_option
def push(store: str) -> int:
    """Send the pages that the bucket of a remote store lacks, with the runs of this machine, and an index of all."""
    remote = remote_of(store)
    if not remote:
        raise InputError(f"{store} is a folder: pages are sent to a remote store, such as --store s3://bucket/prefix")
    say(push_pages(remote))
    return 0


@click.command(cls=Command)
@click.argument("run", default="", metavar="[RUN]", help="Beginning of its id; empty: the newest.")
@click.option("--flow", type=click.Choice(FLOWS), metavar="FLOW", help="The newest of this flow.")
@click.option(
    "-o",
    "--output",
    default="report.html",
    show_default=True,
    metavar="FILE",
    help="File to write.",
    type=click.Path(),
)
@no_pictures_option
@store_option
def report(run: str, flow: str | None, output: str, no_pictures: bool, store: str) -> int:
    """Write the report of an evaluation, and print its place."""
    target = Path(output)
    if run and flow:
        raise InputError(f"name either a run ({run}) or the newest of a flow with --flow, not both")
    if target.is_dir():
        raise InputError(f"{target} is a folder: name a file, such as {target / 'report.html'}")
    if not target.parent.is_dir():
        raise InputError(f"there is no folder {target.parent}: make it, or name a file in another")
    folder = local_cache(store)
    evaluation = gather(folder, choose(folder, run, flow or ""))
    size = write_page(folder, evaluation, target, with_pictures=not no_pictures)
    samples, run_id = len(evaluation.samples), evaluation.about["run_id"]
    say(f"{target}: {samples:,} samples of {run_id}, {size / 1e6:,.1f} MB; it opens in any browser, offline too")
    return 0
