"""`jury report`: evaluations of the history as one HTML file, or one of them as Parquet files with a card."""

from pathlib import Path

import click

from flows.commands.behind import tell_if_behind
from flows.commands.messages import say
from flows.commands.options import files, no_pictures_option, store_option
from flows.commands.query import bounded_answer
from flows.commands.sections import Command
from tasks.errors import InputError
from tasks.ledger.remote import local_cache
from tasks.pages.report_data import choose, gather
from tasks.pages.report_page import write_page
from tasks.parameters import FLOWS


@click.command(cls=Command)
@click.argument("run", default="", metavar="[RUN]", help="Beginning of its id; empty: the newest.")
@click.option("--flow", type=click.Choice(FLOWS), help="The newest of this flow.")
@click.option("--last", type=int, default=1, show_default=True, metavar="N", help="So many of the newest.")
@click.option(
    "-o",
    "--output",
    default="report.html",
    show_default=True,
    metavar="FILE",
    help="File to write.",
    shell_complete=files,
)
@click.option(
    "--parquet",
    default="",
    metavar="DIR",
    help="Write the evaluation as Parquet files with a card into this folder, and no page.",
)
@click.option("--with-pictures", is_flag=True, help="Export the thumbnails of its pictures besides.")
@no_pictures_option
@store_option
def command(
    run: str,
    flow: str | None,
    last: int,
    output: str,
    parquet: str,
    with_pictures: bool,
    no_pictures: bool,
    store: str,
) -> int:
    """Write the report of one evaluation or of the last ones, or export one, and say where it is.

    Raises:
        HistoryLocked: the history stayed in use.
        OSError: the file cannot be written.
        InputError: there is no such evaluation, a run and a flow are both named, the file is a folder, or its folder
            is missing.
    """
    target = Path(output)
    if run and (flow or last > 1):
        raise InputError(f"name either a run ({run}) or the last ones with --flow and --last, not both")
    if with_pictures and not parquet:
        raise InputError("--with-pictures is for an export, --parquet DIR; pages have pictures unless --no-pictures")
    if parquet:
        _check_export(last)
        return _export(local_cache(store), run, flow or "", Path(parquet), with_pictures)
    if target.is_dir():
        raise InputError(f"{target} is a folder: name a file, such as {target / 'report.html'}")
    if not target.parent.is_dir():
        raise InputError(f"there is no folder {target.parent}: make it, or name a file in another")
    folder = local_cache(store)
    tell_if_behind(folder)
    evaluations = gather(folder, choose(folder, run, flow or "", last))
    size = write_page(folder, evaluations, target, with_pictures=not no_pictures)
    samples = sum(len(one.cards) for one in evaluations)
    ids = ", ".join(one.about["run_id"] for one in evaluations)
    say(f"{target}: {samples:,} samples of {ids}, {size / 1e6:,.1f} MB; it opens in any browser, offline too")
    if len(evaluations) < last:
        found = "is 1" if len(evaluations) == 1 else f"are {len(evaluations)}"
        print(f"{last} evaluations were asked for, there {found}: the page has all")
    return 0


def _check_export(last: int) -> None:
    output = click.get_current_context().get_parameter_source("output")
    if last != 1 or output is not click.core.ParameterSource.DEFAULT:
        raise InputError("--parquet exports one evaluation, and writes no page: leave out --last and --output")


def _export(store: Path, run: str, flow: str, target: Path, with_pictures: bool) -> int:
    from tasks.pages.export import export  # Polars, which no page needs

    tell_if_behind(store)
    [run_id] = choose(store, run, flow)
    with bounded_answer():
        written = export(store, run_id, target, with_pictures)
    say(f"{target}: {', '.join(written)} of {run_id}; {target / 'README.md'} says what they are")
    return 0
