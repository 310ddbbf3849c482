"""`jury labels`: import of people's labels into the store and the history, their list, and their removal."""

from pathlib import Path

import click

from flows.commands.messages import command_line, left_to_sync, say, warn
from flows.commands.options import files, store_option
from flows.commands.renewing import renew_pages
from flows.commands.sections import Command, Group
from tasks.history.landing import land
from tasks.labels.exchange import exchange_labels
from tasks.labels.importing import about_no_sample, import_labels
from tasks.ledger.bucket import Bucket
from tasks.ledger.label_pages import FOLDER, UNIFORM
from tasks.ledger.label_sets import LabelSet, label_folders, labels_words, read_label_set, remove_labels
from tasks.ledger.remote import local_cache, remote_of, writable_folder
from tasks.parameters import FLOWS


@click.group(cls=Group)
def command() -> None:
    """Commands for labels."""


@command.command(
    "import", cls=Command, help="Keep the labels of a file, load them into the history, send them to a remote store."
)
@click.argument(
    "file",
    metavar="FILE",
    help="File saved by a page of `jury label`, or JSON Lines, JSON, CSV or Parquet: README.md lists the columns.",
    shell_complete=files,
)
@click.option(
    "--flow", type=click.Choice(FLOWS), default=None, help="Flow whose samples a table is about; a page tells it."
)
@click.option("--name", default="", help="Name of the labels (default: the file's name).")
@store_option
def import_file(file: str, flow: str | None, name: str, store: str) -> int:
    """Store the labels of a file; warn if the history or the remote store cannot be reached now."""
    folder = writable_folder(store)
    with left_to_sync("pages made on other machines are missing for now"):
        if remote := remote_of(store):
            remote.fetch_folder(FOLDER)
    before = {place.name for place in label_folders(folder)}
    about = import_labels(folder, Path(file).expanduser(), flow or "", name)
    people = labels_words(about.labels, len(about.annotators))
    if about.name in before:
        print(f"these labels are here already, as {about.name}: {people}, imported {about.imported_at[:10]}")
    else:
        print(f"kept as {about.name}: {people}")
    run = about.of_run or "RUN"
    print(f"compare them: {command_line(f'agreement {run} {about.name}')}")
    with left_to_sync():
        corrected = land(folder).corrected
        if words := about_no_sample(folder, about):
            say(words)
        if remote := remote_of(store):
            share_labels(remote.bucket, folder)
        renew_pages(store, corrected)
        if corrected:
            print(f"the score corrected by people, from 15 labels on: {command_line('query corrected')}")
    return 0


@command.command("list", cls=Command, help="List the labels of the store, and what each file is about.")
@store_option
def list_all(store: str) -> int:
    """Print a line for each set of labels, by name."""
    folder = local_cache(store)
    found = [read_label_set(place) for place in label_folders(folder)]
    for about in found:
        say(f"{about.name}: {_words(about)}")
    if not found:
        print(f"{store} holds no labels: `jury label RUN` makes a page for people, `jury labels import` brings them in")
    return 0


@command.command("remove", cls=Command, help="Remove labels from the store and the history, for good.")
@click.argument("name", metavar="NAME", help="Name of the labels; `jury labels list` prints all.")
@store_option
def remove(name: str, store: str) -> int:
    """Remove labels, also from the bucket of a remote store; other machines drop them with their next sync."""
    folder = writable_folder(store)
    about = remove_labels(folder, name)
    say(f"removed {name}: {_words(about)}")
    with left_to_sync():
        corrected = land(folder).corrected
        if remote := remote_of(store):
            share_labels(remote.bucket, folder)
        renew_pages(store, corrected)
    return 0


def share_labels(bucket: Bucket, store: Path) -> None:
    """Exchange labels between a remote store and its local cache; print the numbers, and warn of clashing names."""
    done = exchange_labels(bucket, store)
    if done.sent or done.fetched:
        print(f"labels: {len(done.sent)} sent, {len(done.fetched)} fetched")
    if done.clashing:
        words = f"{', '.join(done.clashing)}: other labels of that name are in {bucket.url}"
        warn(f"{words}; those here stay on this machine, until they have another name")


def _words(about: LabelSet) -> str:
    """Describe a set of labels: number, people, flow, source, and whether it can correct a score."""
    where = f"of the run {about.of_run}" if about.of_run else f"from {about.source}"
    drawn = {UNIFORM: "drawn uniformly", "": "how they were drawn is not known, so that they correct no score"}
    how = drawn.get(about.drawn, f"drawn by {about.drawn}, for finding errors, so that they correct no score")
    people = labels_words(about.labels, len(about.annotators))
    return f"{people}, {about.flow}, {where}, imported {about.imported_at[:10]}; {how}"
