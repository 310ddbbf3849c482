"""`jury pages`: the store's pages made anew, the index of all evaluations and the page of each."""

from collections.abc import Sequence

import click

from flows.commands.behind import tell_if_behind
from flows.commands.messages import number_of, say
from flows.commands.options import no_pictures_option, store_option
from flows.commands.renewing import share_pages
from flows.commands.sections import Command
from tasks.errors import InputError
from tasks.history.evaluations import find
from tasks.ledger.remote import local_cache
from tasks.pages.page_names import where
from tasks.pages.site import all_evaluations, renew


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
def command(runs: Sequence[str], last: int, no_pictures: bool, store: str) -> int:
    """Make the pages of these evaluations and the index, and say where they are.

    Raises:
        HistoryLocked: the history stayed in use.
        OSError: a page cannot be written.
        InputError: there is no history, or no such evaluation.
    """
    folder = local_cache(store)
    tell_if_behind(folder)
    wanted = [find(folder, run).run_id for run in runs] or all_evaluations(folder, last)
    if not wanted:
        raise InputError(f"{store} holds no finished evaluation; `jury status` shows what there is")
    made = renew(folder, wanted, with_pictures=not no_pictures)
    what = f"{number_of(made.evaluations, 'evaluation')} and {number_of(len(made.pages), 'page')} made anew"
    say(f"{where(made.place)}: the index of {what}; it opens in any browser, offline too")
    share_pages(store, made.changed)
    return 0
