"""`jury label`: a page on which people judge samples of a run, without knowing whose they are."""

from pathlib import Path

import click

from flows.commands.messages import command_line, left_to_sync, number_of, say, warn
from flows.commands.options import files, store_option
from flows.commands.sections import Command
from tasks.errors import InputError
from tasks.labels.drawing import Asked, Made, make_pages
from tasks.ledger.label_pages import DISAGREEMENTS, FOLDER
from tasks.ledger.remote import remote_of, writable_folder
from tasks.pages.label_page import write_label_page


@click.command(cls=Command)
@click.argument("run", metavar="RUN", help="Beginning of its id.")
@click.option("-n", "number", type=int, default=30, show_default=True, metavar="N", help="So many items a page.")
@click.option(
    "-o", "--output", default="label.html", show_default=True, metavar="FILE", help="File to write.",
    shell_complete=files,
)  # fmt: skip
@click.option("--people", type=int, default=1, show_default=True, metavar="N", help="So many pages, a file each.")
@click.option(
    "--overlap", type=int, default=0, show_default=True, metavar="N",
    help="Items that all of these pages share, so that people can be compared with each other.",
)  # fmt: skip
@click.option(
    "--ask", multiple=True, metavar="QUESTION",
    help="Dimension or aspect to ask about, repeatable (default: of figures overall, of images all aspects).",
)  # fmt: skip
@click.option("--candidate", default="", metavar="NAME", help="Samples of this candidate alone.")
@click.option("--seed", type=int, default=1, show_default=True, help="Another seed draws other samples.")
@click.option(
    "--disagreements",
    is_flag=True,
    help="Draw where orders, votes or judges disagree: for finding errors; such labels correct no score.",
)
@store_option
def command(
    run: str,
    number: int,
    output: str,
    people: int,
    overlap: int,
    ask: tuple[str, ...],
    candidate: str,
    seed: int,
    disagreements: bool,
    store: str,
) -> int:
    """Write the pages of one evaluation, and print their places and the command that imports the answers."""
    target = Path(output).expanduser()
    if target.is_dir() or not target.parent.is_dir():
        raise InputError(f"{target} is no place for a file: name a file in a folder that exists")
    folder = writable_folder(store)
    asked = Asked(number, people, overlap, seed, ask, disagreements, candidate)
    pages = make_pages(folder, run, asked)
    with left_to_sync("import the answers on this machine, or run `jury sync` when it can be reached"):
        if remote := remote_of(store):
            remote.send_folder(FOLDER)
    for place, page in zip(_targets(target, people), pages, strict=False):
        done = write_label_page(folder, page, place)
        say(f"{done.file}: {number_of(done.items, 'item')}, {done.bytes / 1e6:,.1f} MB; it opens in any browser")
    _tell_of(pages, asked)
    return 0


def _targets(target: Path, people: int) -> list[Path]:
    """Return a file for each page: label-1.html, label-2.html, …; a single page keeps its name."""
    if people == 1:
        return [target]
    return [target.with_name(f"{target.stem}-{person}{target.suffix}") for person in range(1, people + 1)]


def _tell_of(pages: list[Made], asked: Asked) -> None:
    first = pages[0].page
    drawn = {item.sample_id + "\n" + item.candidate for page in pages for item in page.page.items}
    how = (
        "where orders, votes or judges disagree: no score is corrected by them"
        if (first.drawn == DISAGREEMENTS)
        else f"uniformly, seed {first.seed}"
    )
    say(f"{number_of(len(drawn), 'sample')} drawn from {first.among:,} of {first.of_run}, {how}")
    lacking = asked.people * asked.number - sum(len(page.page.items) for page in pages)
    if lacking > 0:
        warn(f"{number_of(lacking, 'item')} fewer than asked for: there are no more samples with a score and pictures")
    say(f"bring the answers in: {command_line('labels import labels-NAME.json')}")
