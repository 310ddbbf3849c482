"""Equal numbers of many samples kept once.

A run keeps what its scores, intervals and comparisons are computed from, of every sample until its end. There are few
different ones among them: a judge answers with one of four verdicts, or with a whole number.
"""

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

MOST = 10_000
"""Different ones that are known; those met after that are kept as they are."""


class Alike(Generic[K]):
    """Mappings of which equal ones are one, so that the others can be let go."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[K, float | None], ...], Mapping[K, float | None]] = {}

    def __call__(self, values: Mapping[K, float | None]) -> Mapping[K, float | None]:
        """The first mapping that was equal to this one, or itself."""
        key = tuple(values.items())
        if len(self._known) < MOST:
            return self._known.setdefault(key, values)
        return self._known.get(key, values)
