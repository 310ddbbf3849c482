"""Pages of a store, and its exchange with a bucket: `jury store pages` and `push`, `jury report`, and shared code."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from flows.commands.console import Command, say, warn
from flows.commands.options import no_pictures_option, path_option, store_option
from tasks.errors import InputError
from tasks.history.forgetting import exchange_beside
from tasks.history.queries import find, held_open, newest
from tasks.ledger.labels import Exchanged
from tasks.ledger.remote import Remote, local_cache, remote_of
from tasks.pages.page_names import where
from tasks.records.parameters import FLOWS
from tasks.text import number_of, one_line

LONGEST = 80
"""Characters of an object's name in a message."""


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
    from tasks.pages.site import all_evaluations, renew

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
@path_option("-o", "--output", metavar="FILE", words="File to write.", default="report.html")
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
    from tasks.pages.report_data import gather  # Jinja and numpy, which not every command needs
    from tasks.pages.report_page import write_page

    folder = local_cache(store)
    with held_open(folder):
        evaluation = gather(folder, find(folder, run).run_id if run else newest(folder, flow or ""))
    size = write_page(folder, evaluation, target, with_pictures=not no_pictures)
    what = f"{number_of(len(evaluation.samples), 'sample')} of {evaluation.about['run_id']}"
    say(f"{target}: {what}, {size / 1e6:,.1f} MB; it opens in any browser, offline too")
    return 0


def renew_pages(store: str, run_ids: Iterable[str] = ()) -> None:
    """Rebuild the index and, of the newest evaluations, the missing pages and those that these runs have changed.

    Send them if the store is remote. A failure costs a warning.
    """
    folder = local_cache(store)
    from tasks.pages.site import due, renew  # Jinja and numpy, which not every command needs

    try:
        made = renew(folder, due(folder, run_ids))
    except (InputError, OSError) as error:
        warn(f"{error}; the pages stay as they were until the next `jury store sync` or `jury store pages`")
    else:
        share_pages(store, made.pages)


def share_pages(store: str, pages: Iterable[Path] = ()) -> None:
    """Send these pages and an index if the store is remote; warn if it cannot be reached now."""
    remote = remote_of(store)
    if not remote:
        return
    try:
        words = push_pages(remote, pages)
    except (InputError, OSError) as error:
        warn(f"{error}; the pages there stay as they were until the next `jury store sync`")
    else:
        say(words)


def push_pages(remote: Remote, pages: Iterable[Path] = ()) -> str:
    """Send these pages, those that the bucket lacks, and an index; return a line with their numbers.

    Raises:
        InputError, RemoteUnavailable: as in `send_pages`.
    """
    from tasks.pages.site import send_pages

    sent, evaluations = send_pages(remote, pages)
    listed = number_of(evaluations, "evaluation")
    return f"{number_of(sent, 'page')} and the index of {listed} sent to {remote.bucket.url}/pages"


def report_labels(remote: Remote, done: Exchanged) -> None:
    """Print how many labels were exchanged with a remote store, and warn of clashing names."""
    if done.sent or done.fetched:
        print(f"labels: {len(done.sent)} sent, {len(done.fetched)} fetched")
    if done.clashing:
        words = f"{', '.join(done.clashing)}: other labels of that name are in {remote.bucket.url}"
        warn(f"{words}; those here stay on this machine, until they have another name")


def exchange_all(remote: Remote) -> None:
    """Exchange runs, and all files beside them, between a remote store and its local cache; print the numbers."""
    sent, fetched = remote.send_all(), remote.fetch()
    print(f"{number_of(len(sent), 'run')} sent, {len(fetched):,} fetched")
    report_labels(remote, exchange_beside(remote))
    if foreign := remote.bucket.skipped:
        first = one_line(min(foreign), LONGEST)
        warn(f"{remote.bucket.url}: {len(foreign):,} objects that no file here can be were left out, such as {first}")
