"""Nights of a series as statistics take them: tables of nights by units, parted where a baseline began anew."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol, TypeVar

import numpy as np

from tasks.statistics.intervals import Floats


class _Begun(Protocol):
    @property
    def started_at(self) -> datetime:
        """UTC."""
        ...


T = TypeVar("T", bound=_Begun)


def split(nights: Sequence[T], moments: Sequence[datetime]) -> list[list[T]]:
    """The nights between the restarts."""
    found: list[list[T]] = [[] for _ in range(len(moments) + 1)]
    for night in nights:
        found[sum(moment <= night.started_at for moment in moments)].append(night)
    return [each for each in found if each]


def table(nights: Sequence[tuple[Sequence[str], Sequence[float]]]) -> Floats:
    """Nights x units, of which at least one night has a score; NaN where a night has none.

    Args:
        nights: units with a score, and their scores, of each.
    """
    units = sorted({unit for named, _ in nights for unit in named})
    places = {unit: place for place, unit in enumerate(units)}
    found = np.full((len(nights), len(units)), np.nan)
    for row, (named, scores) in zip(found, nights, strict=True):
        row[[places[unit] for unit in named]] = scores
    return found
