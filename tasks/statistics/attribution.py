"""Cause of a change, judge or candidate, from nights on which frozen anchors were judged beside the candidate.

Only the judge can move the anchors, since nothing else about them can change. A move of the candidate beside them is
its own.

The anchors have an alarm of their own, in both directions. Its limit is above that of scores: six flows with anchors
are twelve sums. An alarm, of the score or of the anchors, gives the first night of the change. The mean of the nights
since then shows the cause: its noise falls with each night, while a sum would start again. `tests/simulate_anchors.py`
measures the results.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from tasks.statistics.cusum import BASELINE, Night, watch
from tasks.statistics.intervals import Floats

LIMIT = 10.0
"""Limit of the sum of anchors, in scales: a shift of 8 points is some 5 of them, and is found by the third night."""
CERTAIN = 3.0
"""Standard errors by which something must have moved: more than usual, since an alarm chose the nights."""

_TWO_SIDED = 1.96

Moved = Literal["judge moved", "candidate moved", "both", "cannot tell"]


class Shift(NamedTuple):
    """Distance from a baseline, in points."""

    change: float
    error: float
    """Standard error of the change."""

    @property
    def low(self) -> float:
        """Lower end of the 95% interval."""
        return self.change - _TWO_SIDED * self.error

    @property
    def high(self) -> float:
        """Upper end of the 95% interval."""
        return self.change + _TWO_SIDED * self.error

    @property
    def certainty(self) -> float:
        """Size of the change in standard errors."""
        return abs(self.change) / self.error

    @property
    def moved(self) -> bool:
        """True if the change is beyond chance."""
        return self.certainty > CERTAIN


class Attribution(NamedTuple):
    """Cause of a change since a night."""

    moved: Moved
    since: int
    """Index of the first night considered."""
    nights: int = 0
    """Number of nights with anchors since then."""
    judge: Shift | None = None
    """Shift of the anchors; None if fewer than 14 nights with anchors came before, so that there is no baseline."""
    candidate: Shift | None = None
    """Shift of the candidate beside the anchors."""


class Series(NamedTuple):
    """Nights on which anchors were judged beside a candidate, each against its baseline."""

    drops: Sequence[Night]
    """Nights of the anchors against their baseline, with the sum of their distances below it."""
    rises: Sequence[Night]
    """The same upside down, with the sum of the distances above it."""
    candidate: Sequence[Night]

    def open_since(self, at: int) -> int | None:
        """Return the first night of a shift of the anchors that is open after a night; None: there is none."""
        found = [each[at] for each in (self.drops, self.rises) if _is_open(each, at)]
        return min((night.since for night in found if night.since is not None), default=None)

    def attribution(self, since: int, at: int) -> Attribution:
        """Find the cause of a change from one night to another, both included.

        The sum that raised the alarm may have begun with nights that were low by chance. So its nights count only from
        the one that puts anchors or candidate off their baselines with the most certainty.
        """
        known = [night for night in range(since, at + 1) if self._both_known(night)]
        if not known or since < self._whole_from():
            return Attribution("cannot tell", since)
        starts = [(self._own(known[place:]), known[place:]) for place in range(len(known))]
        (judge, own), nights = max(starts, key=lambda start: max(shift.certainty for shift in start[0]))
        candidate = Shift(own.change - judge.change, float(np.hypot(own.error, judge.error)))
        return Attribution(_MOVED[judge.moved, candidate.moved], nights[0], len(nights), judge, candidate)

    def _own(self, nights: Sequence[int]) -> tuple[Shift, Shift]:
        return _shift([self.drops[night] for night in nights]), _shift([self.candidate[night] for night in nights])

    def _both_known(self, night: int) -> bool:
        return all(each[night].change is not None for each in (self.drops, self.candidate))

    def _whole_from(self) -> int:
        return max(_whole_from(self.drops), _whole_from(self.candidate))


_MOVED: dict[tuple[bool, bool], Moved] = {
    (True, False): "judge moved",
    (False, True): "candidate moved",
    (True, True): "both",
    (False, False): "cannot tell",
}


def series(anchors: Floats, candidate: Floats, highest: float) -> Series:
    """Return the nights of a series in their order.

    Args:
        anchors: nights x anchors, NaN where an anchor has no score.
        candidate: the same nights x units, in the same quantity.
        highest: upper end of the scale, which begins at 0.
    """
    drops, rises = watch(anchors, highest, LIMIT), watch(highest - anchors, highest, LIMIT)
    return Series(drops, rises, watch(candidate, highest))


def _is_open(nights: Sequence[Night], at: int) -> bool:
    """Return whether an alarm of the sum is open; the anchors' nights before their baseline is whole raise none."""
    raised = nights[at].raised
    return raised is not None and raised >= _whole_from(nights)


def _whole_from(nights: Sequence[Night]) -> int:
    return next((at for at, night in enumerate(nights) if night.limit is not None), len(nights))


def _shift(nights: Sequence[Night]) -> Shift:
    changes = [night.change or 0.0 for night in nights]
    scale = float(np.mean([night.scale or 0.0 for night in nights]))
    return Shift(float(np.mean(changes)), scale * (1 / len(nights) + 1 / BASELINE) ** 0.5)
