"""The warning of every command that asks the history: what the ledgers have and it lacks."""

from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from flows.commands.messages import warn
from tasks.errors import InputError
from tasks.history.asking import held_open
from tasks.history.database import HISTORY
from tasks.history.loading import pending


@contextmanager
def told_if_behind(store: Path) -> Generator[None]:
    """Say what `tell_if_behind` says, and put what is asked within the context to the same opening of the history."""
    with held_open(store) if (store / HISTORY).exists() else nullcontext():
        tell_if_behind(store)
        yield


def tell_if_behind(store: Path) -> None:
    """Say on standard error which finished runs the history lacks, lest an old answer is taken for the newest."""
    try:
        late = pending(store)
    except InputError as error:  # A history of another version can still be asked.
        warn(str(error))
    else:
        if late:
            warn(f"finished runs not yet in the history: {len(late)}; `jury sync` loads them")
