"""Storage that keeps equal numbers of many samples once.

A run keeps the numbers of every sample behind its scores, intervals and comparisons until its end. Few of them are
distinct: a judge answers with one of four verdicts, or with a whole number.
"""

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

MOST = 10_000
"""Most distinct mappings remembered; later ones are kept as they are."""


class Alike(Generic[K]):
    """Pool of mappings, with one instance for equal ones, so that the memory of the others is freed."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[K, float | None], ...], Mapping[K, float | None]] = {}

    def __call__(self, values: Mapping[K, float | None]) -> Mapping[K, float | None]:
        """Return the first mapping that was equal to this one, or this one."""
        key = tuple(values.items())
        if len(self._known) < MOST:
            return self._known.setdefault(key, values)
        return self._known.get(key, values)
