"""The warning of every command that asks the history: what the ledgers have and it lacks."""

import sys
from pathlib import Path

from tasks.history.loading import pending


def tell_if_behind(store: Path) -> None:
    """Say on standard error which finished runs the history lacks, lest an old answer is taken for the newest."""
    try:
        late = pending(store)
    except ValueError as error:  # A history of another version can still be asked.
        print(f"jury: {error}", file=sys.stderr)
    else:
        if late:
            print(f"jury: finished runs not yet in the history: {len(late)}; `jury sync` loads them", file=sys.stderr)
