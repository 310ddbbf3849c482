"""The columns of a manifest: those it must have, those it may have, and no others.

A misspelt optional column would be lost in silence, so that any other is a problem, told once where it is first met.
"""

from tasks.datasets.rows import Row
from tasks.errors import Problems
from tasks.text import listed


class Columns:
    """The columns that the rows of one manifest turn out to have."""

    def __init__(self, required: tuple[str, ...], optional: tuple[str, ...]) -> None:
        self._required = required
        self._allowed = required + optional
        self._met: set[str] = set()

    def meet(self, row: Row, problems: Problems) -> None:
        """Take in the columns of a row."""
        for column in sorted(row.values.keys() - self._met - {*self._allowed}):
            problems.add(row.where, f"column {column!r} does not exist, allowed are {', '.join(self._allowed)}")
        self._met |= row.values.keys()

    def check(self, name: str, problems: Problems) -> bool:
        """Whether the manifest of this file name has rows, and every required column in some of them."""
        if not self._met:
            problems.add(name, "holds no row")
            return False
        if absent := [column for column in self._required if column not in self._met]:
            problems.add(name, f"no row has {listed(absent)}")
        return not absent
