"""`jury labels`: pages on which people judge samples; import of their labels, their list, and their removal."""

from collections.abc import Sequence
from pathlib import Path

import click

from flows.commands.console import Command, command_line, left_to_sync, say, warn
from flows.commands.options import path_option, store_option
from flows.commands.pages import renew_pages, report_labels
from tasks.errors import InputError
from tasks.history.landing import land
from tasks.labels.labeling import LONGEST, SHARED, Asked, Made, about_no_sample, import_labels, make_pages
from tasks.ledger.labels import (
    LABEL_PAGES,
    REMOVED,
    UNIFORM,
    LabelSet,
    exchange_labels,
    label_folders,
    label_sets,
    labels_words,
    remove_labels,
)
from tasks.ledger.remote import local_cache, remote_of
from tasks.ledger.removals import beside
from tasks.records.parameters import FLOWS
from tasks.text import listed, number_of, one_line


@click.command(cls=Command)
@click.argument("run", metavar="RUN", help="Beginning of its id.")
@click.option("-n", "number", type=int, default=30, show_default=True, metavar="N", help="So many items a page.")
@path_option("-o", "--output", metavar="FILE", words="File to write.", default="label.html")
@click.option(
    "--people", type=int, default=1, show_default=True, metavar="N",
    help=f"So many pages, a file each; {SHARED} items are on all of them.",
)  # fmt: skip
@click.option(
    "--ask", multiple=True, metavar="QUESTION",
    help="Dimension or aspect to ask about, repeatable (default: of figures overall, of images all aspects); "
    "checks are drawn.",
)  # fmt: skip
@click.option("--candidate", default="", metavar="NAME", help="Samples of this candidate alone.")
@click.option("--seed", type=int, default=1, show_default=True, help="Another seed draws other samples.")
@path_option("--dataset", metavar="PATH", words="Place of the run's dataset now (default: as it was).")
@path_option("--results", metavar="FILE", words="Place of the generator's result file now.")
@path_option("--images", metavar="DIR", words="Place of the folder of Model figures now.")
@store_option
def write_pages(
    run: str,
    number: int,
    output: str,
    people: int,
    ask: tuple[str, ...],
    candidate: str,
    seed: int,
    store: str,
    **moved: str,
) -> int:
    """Write the pages of one evaluation, and print their places and the command that imports the answers."""
    target = Path(output).expanduser()
    if target.is_dir() or not target.parent.is_dir():
        raise InputError(f"{target} is no place for a file: name a file in a folder that exists")
    places = _targets(target, people)
    if taken := [each for place in places for each in (place, place.with_name(beside(place.name))) if each.exists()]:
        raise InputError(f"{listed(map(str, taken))}: there already; remove it, or name another file with -o")
    from tasks.pages.label_page import write_label_page  # Jinja, which the other commands do not need

    folder = local_cache(store)
    asked = Asked(number, people, seed, ask, candidate, {name: place for name, place in moved.items() if place})
    pages = make_pages(folder, run, asked)
    for place, page in zip(places, pages, strict=False):
        size = write_label_page(folder, page, place) / 1e6
        items = number_of(sum(not item.lost for item in page.page.items), "item")
        say(f"{place}: {items}, {size:,.1f} MB with its pictures in {beside(place.name)}; it opens in any browser")
    with left_to_sync("import the answers on this machine, or run `jury store sync` when it can be reached"):
        if remote := remote_of(store):
            remote.send_folder(LABEL_PAGES)
    _tell_of(pages, asked, store)
    return 0


def _targets(target: Path, people: int) -> list[Path]:
    """Return a file for each page: label-1.html, label-2.html, …; a single page keeps its name."""
    if people == 1:
        return [target]
    return [target.with_name(f"{target.stem}-{person}{target.suffix}") for person in range(1, people + 1)]


def _tell_of(pages: list[Made], asked: Asked, store: str) -> None:
    first = pages[0].page
    drawn = {(item.sample_id, item.candidate, item.question) for page in pages for item in page.page.items}
    number = number_of(len(drawn), "question" if first.items[0].question else "sample")
    say(f"{number} drawn from {first.among:,} of {first.of_run}, uniformly, seed {first.seed}")
    lacking = asked.people * asked.number - sum(len(page.page.items) for page in pages)
    if lacking > 0:
        warn(f"{number_of(lacking, 'item')} fewer than asked for: there are no more samples with a score")
    if lost := sorted({f"{item.sample_id} ({item.lost})" for page in pages for item in page.page.items if item.lost}):
        shown = one_line(listed(lost, 5), LONGEST)
        warn(f"{number_of(len(lost), 'sample')} cannot be shown, and will count so: {shown}")
    say(f"bring the answers in: {command_line('labels import labels-NAME.json', store)}")


@click.command(cls=Command)
@click.argument(
    "file",
    metavar="FILE",
    help="File saved by a page of `jury labels page`, or a table (JSON Lines, JSON or CSV): "
    "docs/howto/people.md lists the columns.",
    type=click.Path(),
)
@click.option(
    "--flow", type=click.Choice(FLOWS), metavar="FLOW", help="Flow whose samples a table is about; a page has its own."
)
@click.option("--name", default="", help="Name of the labels (default: the file's name).")
@store_option
def import_file(file: str, flow: str | None, name: str, store: str) -> int:
    """Store the labels of a file; warn if the history or the remote store cannot be reached now."""
    folder = local_cache(store)
    with left_to_sync("pages and removals of other machines are missing for now"):
        if remote := remote_of(store):
            remote.fetch_folder(LABEL_PAGES)
            remote.fetch_folder(REMOVED)
    before = {place.name for place in label_folders(folder)}
    about = import_labels(folder, Path(file).expanduser(), flow or "", name)
    people = labels_words(about.labels, len(about.annotators))
    if about.name in before:
        print(f"these labels are here already, as {about.name}: {people}, imported {about.imported_at[:10]}")
    else:
        print(f"kept as {about.name}: {people}")
    run = about.of_run or "RUN"
    print(f"compare them: {command_line(f'labels agreement {run} {about.name}', store)}")
    with left_to_sync():
        corrected = _share(folder, store)
        if words := about_no_sample(folder, about):
            say(words)
        if corrected:
            print(f"the score corrected by people, from 15 labels on: {command_line('query corrected', store)}")
    return 0


@click.command(cls=Command)
@store_option
def list_labels(store: str) -> int:
    """Print a line for each set of labels, by name, and warn of damaged ones."""
    folder, damaged = local_cache(store), dict[str, str]()
    found = label_sets(folder, damaged)
    for name, about in found.items():
        say(f"{name}: {_words(about)}")
    for words in damaged.values():
        warn(f"{words}; remove its folder, and import these labels again")
    if not (found or damaged):
        print(
            f"{store} holds no labels: `jury labels page RUN` makes a page for people, and `jury labels import` brings "
            "their answers in"
        )
    return 0


@click.command(cls=Command)
@click.argument("name", metavar="NAME", help="Name of the labels; `jury labels list` prints all.")
@store_option
def remove(name: str, store: str) -> int:
    """Remove labels, also from the bucket of a remote store; other machines drop them at `jury store sync`."""
    folder = local_cache(store)
    about = remove_labels(folder, name)
    say(f"removed {name}: {_words(about)}")
    with left_to_sync():
        _share(folder, store)
    return 0


def _share(folder: Path, store: str) -> Sequence[str]:
    """Bring bucket, history and pages in step with the labels; return the evaluations whose corrected score changed."""
    try:
        if remote := remote_of(store):
            report_labels(remote, exchange_labels(remote))
    finally:  # the history needs no bucket
        corrected = land(folder).corrected
    renew_pages(store, corrected)
    return corrected


def _words(about: LabelSet) -> str:
    """Describe a set of labels: number, people, flow, source, and whether it can correct a score."""
    where = f"of the run {about.of_run}" if about.of_run else f"from {about.source}"
    unknown = "how they were drawn is not known, so that they correct no score"
    how = "drawn uniformly" if about.drawn == UNIFORM else unknown
    people = labels_words(about.labels, len(about.annotators))
    return f"{people}, {about.flow}, {where}, imported {about.imported_at[:10]}; {how}"
