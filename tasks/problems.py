"""What is wrong with a user's input, gathered so that one error tells it all.

Owns how many problems are shown and how a list is cut short; what is a problem is for whoever checks.
"""

from collections.abc import Iterable
from itertools import islice

SHOWN = 20
"""Problems, or values, listed in full; the rest is counted."""


class Problems:
    """Problems of one input, in the order found. Only the first `SHOWN` are kept: a broken file may hold millions."""

    def __init__(self) -> None:
        self._first: list[str] = []
        self._count = 0

    def add(self, where: str, what: str) -> None:
        """Note one problem. `where` names file and row, `what` says what was found and what is allowed."""
        self._count += 1
        if self._count <= SHOWN:
            self._first.append(f"{where}: {what}")

    def stop(self, subject: str) -> None:
        """Raise one ValueError that lists the problems of `subject`; return when there are none."""
        if not self._count:
            return
        more = f"\n  and {self._count - SHOWN} more" if self._count > SHOWN else ""
        number = "1 problem" if self._count == 1 else f"{self._count} problems"
        raise ValueError(f"{subject} has {number}:\n  " + "\n  ".join(self._first) + more)


def listed(values: Iterable[str], shown: int = SHOWN) -> str:
    """Values in a row, the first `shown` by name and the others by number: `a, b and 7 more`."""
    rest = iter(values)
    first = ", ".join(islice(rest, shown)) or "none"
    more = sum(1 for _ in rest)
    return f"{first} and {more} more" if more else first
