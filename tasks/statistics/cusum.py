"""Drops in a series of nights, by a cumulative sum, and their cause, judge or candidate, by frozen anchors."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from tasks.statistics.intervals import Floats

ALLOWANCE = 0.5
"""Distance below the baseline, in scales, that adds nothing to the sum."""
LIMIT = 7.5
"""Limit of the sum, in scales, over up to three nights. It allows for nights that are alike: 6 would do for others."""
BASELINE = 14
"""Nights of a whole baseline."""
BACK = 3
"""Nights in a row, none below the baseline by more than the allowance, that end a drop."""
LEAST_SCORED = 0.8
"""Least share of its units that a night must have scored to count."""
PULLED_IN = 3.0
"""Robust standard deviations from the median to which an outlier of the baseline is pulled in."""
_NORMAL_MAD = 1.4826
"""Ratio of the standard deviation of normal values to their median absolute deviation."""
_FIRST_SUM = 3
"""Number of nights from which on the limit grows."""
_LEAST_DEGREES = 20
"""Degrees of freedom below which the error within runs is too uncertain to raise an alarm by it."""

Phase = Literal["baseline", "watched", "left out"]


class Night(NamedTuple):
    """State of a series after one of its nights."""

    phase: Phase
    """baseline: a night of the baseline; watched: compared with the baseline; left out: too little of it was scored."""
    baseline_score: float | None = None
    """Mean score of the baseline's nights; None while it is not whole."""
    change: float | None = None
    """Change of the night from the baseline, over the units that both have scored."""
    scale: float | None = None
    """Scale of the changes without any drop: the larger of the error within runs and the scatter of the nights."""
    cusum: float = 0.0
    """Sum of the nights' distances below the baseline, in scales, each less the allowance; 0 while it is not whole."""
    cusum_limit: float | None = None
    """Limit of the sum; None while the baseline is not whole."""
    alarm: int | None = None
    """Index of the night that raised the drop that is open after this one; None: there is none."""
    since: int | None = None
    """Index of the first night of that drop."""


def watch(scores: Floats, highest: float, limit: float = LIMIT) -> list[Night]:
    """Return the state of a series after each of its nights.

    Args:
        scores: nights in their order x units, NaN where a unit has no score.
        highest: upper end of the scale, which begins at 0.
        limit: limit of the sum, in scales, over up to three nights.
    """
    watched = _Watch(scores, highest, limit)
    return [watched.take(at) for at in range(len(scores))]


class _Baseline(NamedTuple):
    units: Floats
    """Mean of each unit; NaN where no night of the baseline has scored it."""
    score: float
    centre: float
    """Mean change of the baseline's own nights, with outliers pulled in."""
    scale: float

    def change(self, night: Floats) -> tuple[float, float]:
        """Return the change of a night, and its scale: a night with fewer units than the baseline is less sure."""
        paired = night - self.units
        common, known = np.count_nonzero(~np.isnan(paired)), np.count_nonzero(~np.isnan(self.units))
        return float(np.nanmean(paired)) - self.centre, self.scale * max(1.0, known / common) ** 0.5


class _Watch:
    """A series while its nights are added."""

    def __init__(self, scores: Floats, highest: float, limit: float) -> None:
        self._scores, self._limit = scores, limit
        self._least_scale = highest / 2 / max(1, scores.shape[1])
        """Least scale: a change of half the range in one unit, since a judge that repeats itself has no other noise."""
        self._nights: list[int] = []
        """Indexes of the baseline's nights."""
        self._whole: _Baseline | None = None
        self._sum, self._run = 0.0, 0
        self._raised: int | None = None
        self._since = 0
        self._back = 0

    def take(self, at: int) -> Night:
        """Add the next night, and return the state after it."""
        if np.count_nonzero(~np.isnan(self._scores[at])) < LEAST_SCORED * max(1, self._scores.shape[1]):
            return self._known(Night("left out"))
        if len(self._nights) < BASELINE:
            self._nights.append(at)
            return Night("baseline")
        self._whole = self._whole or self._of(self._scores[self._nights])
        change, scale = self._whole.change(self._scores[at])
        found = Night("watched", self._whole.score, change, scale)
        if self._raised is None:
            self._add(at, change / scale)
            found = found._replace(cusum=self._sum, cusum_limit=limit_of(self._run, self._limit))
        else:
            self._look_back(change / scale)
        return self._known(found)

    def _known(self, night: Night) -> Night:
        return night if self._raised is None else night._replace(alarm=self._raised, since=self._since)

    def _of(self, rows: Floats) -> _Baseline:
        units = _means(rows)
        centre, scatter = _without_outliers(np.nanmean(rows - units, axis=1))
        scale = max(_error_within(rows) or 0.0, scatter, self._least_scale)
        return _Baseline(units, float(np.nanmean(units)) + centre, centre, scale)

    def _add(self, at: int, z: float) -> None:
        self._sum = max(0.0, self._sum - z - ALLOWANCE)
        self._run = self._run + 1 if self._sum else 0
        if self._sum > limit_of(self._run, self._limit):
            self._raised, self._since, self._back = at, at - self._run + 1, 0

    def _look_back(self, z: float) -> None:
        self._back = self._back + 1 if z >= -ALLOWANCE else 0
        if self._back == BACK:
            self._raised, self._sum, self._run = None, 0.0, 0


def limit_of(nights: int, limit: float = LIMIT) -> float:
    """Return the limit of a sum over so many nights; see above."""
    return limit * max(1.0, (BASELINE + nights) / (BASELINE + _FIRST_SUM)) ** 0.5


def _means(rows: Floats) -> Floats:
    """Return the mean of each unit over the nights that scored it; NaN where none did."""
    counts = np.count_nonzero(~np.isnan(rows), axis=0)
    return np.nansum(rows, axis=0) / np.where(counts, counts, np.nan)


def _error_within(rows: Floats) -> float | None:
    """Estimate the standard error of a night from the variation of units between nights; None if too uncertain.

    The common change of all units of a night is removed: it is no error within the run, and may be a drop.
    """
    residuals = rows - _means(rows)
    residuals = residuals - np.nanmean(residuals, axis=1, keepdims=True)
    scored = ~np.isnan(residuals)
    units, nights = np.count_nonzero(scored.any(axis=0)), len(rows)
    degrees = np.count_nonzero(scored) - units - nights + 1
    if degrees < _LEAST_DEGREES:
        return None
    return float((np.nansum(residuals**2) / degrees / units) ** 0.5)


def _without_outliers(changes: Sequence[float] | Floats) -> tuple[float, float]:
    """Return mean and standard deviation, with values far from the median pulled in."""
    values = np.asarray(changes, dtype=np.float64)
    middle = np.median(values)
    reach = PULLED_IN * _NORMAL_MAD * float(np.median(np.abs(values - middle)))
    kept = np.clip(values, middle - reach, middle + reach)
    return float(kept.mean()), float(kept.std(ddof=1))


ANCHOR_LIMIT = 10.0
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
    def reach(self) -> float:
        """Half the width of the 95% interval."""
        return _TWO_SIDED * self.error

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


class AnchorSeries(NamedTuple):
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
        both = self.drops, self.candidate
        known = [night for night in range(since, at + 1) if all(each[night].change is not None for each in both)]
        if not known or since < max(map(_whole_from, both)):
            return Attribution("cannot tell", since)
        starts = [([_shift(each, known[place:]) for each in both], known[place:]) for place in range(len(known))]
        (judge, own), nights = max(starts, key=lambda start: max(shift.certainty for shift in start[0]))
        candidate = Shift(own.change - judge.change, float(np.hypot(own.error, judge.error)))
        return Attribution(_MOVED[judge.moved, candidate.moved], nights[0], len(nights), judge, candidate)


_MOVED: dict[tuple[bool, bool], Moved] = {
    (True, False): "judge moved",
    (False, True): "candidate moved",
    (True, True): "both",
    (False, False): "cannot tell",
}


def anchor_series(anchors: Floats, candidate: Floats, highest: float) -> AnchorSeries:
    """Return the nights of a series in their order.

    Args:
        anchors: nights x anchors, NaN where an anchor has no score.
        candidate: the same nights x units, in the same quantity.
        highest: upper end of the scale, which begins at 0.
    """
    drops, rises = watch(anchors, highest, ANCHOR_LIMIT), watch(highest - anchors, highest, ANCHOR_LIMIT)
    return AnchorSeries(drops, rises, watch(candidate, highest))


def _is_open(nights: Sequence[Night], at: int) -> bool:
    """Return whether an alarm of the sum is open; the anchors' nights before their baseline is whole raise none."""
    alarm = nights[at].alarm
    return alarm is not None and alarm >= _whole_from(nights)


def _whole_from(nights: Sequence[Night]) -> int:
    return next((at for at, night in enumerate(nights) if night.cusum_limit is not None), len(nights))


def _shift(series: Sequence[Night], nights: Sequence[int]) -> Shift:
    changes = [series[night].change or 0.0 for night in nights]
    scale = float(np.mean([series[night].scale or 0.0 for night in nights]))
    return Shift(float(np.mean(changes)), scale * (1 / len(nights) + 1 / BASELINE) ** 0.5)
