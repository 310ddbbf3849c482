"""Nights of a series as statistics take them: tables of nights by units, parted where a baseline began anew."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

import numpy as np

from tasks.statistics.intervals import Floats


class _Judged(Protocol):
    @property
    def candidate(self) -> str: ...

    @property
    def started_at(self) -> datetime:
        """UTC."""
        ...


T = TypeVar("T", bound=_Judged)


def parted(
    nights: Iterable[T], key: Callable[[T], tuple[str, ...]], restarted: Sequence[tuple[str, datetime]]
) -> Iterator[list[T]]:
    """Each series of nights: those of one candidate and key, between two restarts of its baseline.

    Args:
        nights: in their order.
        key: what nights of one series have in common besides the candidate.
        restarted: candidate (empty: all of them) and moment of each restarted baseline.
    """
    found: defaultdict[tuple[str, ...], list[T]] = defaultdict(list)
    for night in nights:
        moments = sum(whose in ("", night.candidate) and moment <= night.started_at for whose, moment in restarted)
        found[night.candidate, *key(night), str(moments)].append(night)
    yield from found.values()


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
