"""The warning of every command that asks the history: what the ledgers have and it lacks."""

from pathlib import Path

from flows.commands.messages import warn
from tasks.errors import InputError
from tasks.history.loading import pending


def tell_if_behind(store: Path) -> None:
    """Say on standard error which finished runs the history lacks, lest an old answer is taken for the newest."""
    try:
        late = pending(store)
    except InputError as error:  # A history of another version can still be asked.
        warn(str(error))
    else:
        if late:
            warn(f"finished runs not yet in the history: {len(late)}; `jury sync` loads them")
