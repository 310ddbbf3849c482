"""`jury labels import`: what people say of samples, kept in the store and loaded into the history."""

from pathlib import Path

import click

from flows.commands.messages import command_line, warn
from flows.commands.options import files, store_option
from flows.commands.renewing import renew_pages
from flows.commands.sections import Command, Group
from tasks.errors import HistoryLocked
from tasks.history.loading import store_labels
from tasks.labels.exchange import exchange_labels
from tasks.labels.importing import import_labels
from tasks.ledger.bucket import Bucket, RemoteUnavailable
from tasks.ledger.label_sets import labels_words
from tasks.ledger.remote import Remote, is_remote, local_cache
from tasks.parameters import FLOWS


@click.group(cls=Group)
def command() -> None:
    """What can be done with labels."""


@command.command(
    "import", cls=Command, help="Keep the labels of a file, load them into the history, send them to a remote store."
)
@click.argument(
    "file", metavar="FILE", help="JSON Lines, JSON, CSV or Parquet; README.md lists the columns.", shell_complete=files
)
@click.option("--flow", type=click.Choice(FLOWS), required=True, help="Flow whose samples the labels are about.")
@click.option("--name", default="", help="What the labels are called (default: the file's name).")
@store_option
def import_file(file: str, flow: str, name: str, store: str) -> int:
    """Keep the labels of a file; that the history or the remote store cannot be reached now costs a warning."""
    folder = local_cache(store)
    about = import_labels(folder, Path(file).expanduser(), flow, name)
    print(f"kept as {about.name}: {labels_words(about.labels, len(about.annotators))}")
    print(f"compare them: {command_line(f'agreement RUN {about.name}')}")
    try:
        store_labels(folder, about.name)
        if is_remote(store):
            share_labels(Remote(store, folder).bucket, folder)
    except (HistoryLocked, RemoteUnavailable) as error:
        warn(f"{error}; `jury sync` does the rest")
    else:
        renew_pages(folder)
    return 0


def share_labels(bucket: Bucket, store: Path) -> None:
    """Bring the labels of a remote store and its local cache together, and say what travelled and what could not."""
    done = exchange_labels(bucket, store)
    if done.sent or done.fetched:
        print(f"labels: {len(done.sent)} sent, {len(done.fetched)} fetched")
    if done.clashing:
        words = f"{', '.join(done.clashing)}: other labels of that name are in {bucket.url}"
        warn(f"{words}; those here stay on this machine, until they have another name")
