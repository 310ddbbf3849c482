"""Cells of one row, checked against the rules of their columns; each violation becomes a problem."""

from collections.abc import Mapping
from typing import NamedTuple

from tasks.datasets.rows import Row
from tasks.errors import Problems
from tasks.text import kind, listed, well_formed


class Cells(NamedTuple):
    """One row under check: its cells as text, and the list for its problems."""

    row: Row
    problems: Problems

    def refuse(self, what: str) -> None:
        """Note a problem of this row: the value found and the values allowed."""
        self.problems.add(self.row.where, what)

    def text(self, column: str) -> str:
        """Return the text of a column without surrounding blanks; empty if it has none."""
        value = self.row.values.get(column)
        if value is not None and not isinstance(value, str):
            self.refuse(f"{column!r} is {kind(value)}, must be text")
            return ""
        return well_formed(value or "").strip()

    def filled(self, column: str) -> str:
        """Return the text of a column, and note a problem if it is empty."""
        found = self.text(column)
        if not found and isinstance(self.row.values.get(column), str | None):
            self.refuse(f"{column} is empty, must be text")
        return found

    def one_of(self, column: str, allowed: Mapping[str, object] | tuple[str, ...], fallback: str | None = None) -> str:
        """Return the text of a column, which must be an allowed value; for an empty one the fallback, if it is set."""
        found = self.text(column)
        if not found and fallback is not None:
            return fallback
        if found not in allowed:
            self.refuse(f"{column} is {found!r}, allowed are {listed(allowed)}")
        return found

    def number(self, column: str) -> float | None:
        """Return the number in a column (text in CSV); None for any other value, which is not noted as a problem."""
        value = self.row.values.get(column)
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            return None
        try:
            return float(value)
        except (ValueError, OverflowError):
            return None
