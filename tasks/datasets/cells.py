"""The cells of one row under check: what a column must hold, and the problem where it does not."""

from collections.abc import Mapping
from typing import NamedTuple

from tasks.datasets.rows import Row
from tasks.errors import Problems
from tasks.text import kind, listed, well_formed


class Cells(NamedTuple):
    """One row under check: its cells as texts, and where problems go."""

    row: Row
    problems: Problems

    def refuse(self, what: str) -> None:
        """Note a problem of this row: what was found, what is allowed."""
        self.problems.add(self.row.where, what)

    def text(self, column: str) -> str:
        """The text in a column, without blanks around it; empty where there is none."""
        value = self.row.values.get(column)
        if value is not None and not isinstance(value, str):
            self.refuse(f"{column!r} is {kind(value)}, must be text")
            return ""
        return well_formed(value or "").strip()

    def filled(self, column: str) -> str:
        """The text in a column that must hold one."""
        found = self.text(column)
        if not found and isinstance(self.row.values.get(column), str | None):
            self.refuse(f"{column} is empty, must be text")
        return found

    def one_of(self, column: str, allowed: Mapping[str, object] | tuple[str, ...], fallback: str | None = None) -> str:
        """The text in a column, one of those allowed; where it is empty the fallback, if there is one."""
        found = self.text(column)
        if not found and fallback is not None:
            return fallback
        if found not in allowed:
            self.refuse(f"{column} is {found!r}, allowed are {listed(allowed)}")
        return found

    def number(self, column: str) -> float | None:
        """The number in a column, in CSV written as text; None for anything else, which is no problem yet."""
        value = self.row.values.get(column)
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            return None
        try:
            return float(value)
        except (ValueError, OverflowError):
            return None
