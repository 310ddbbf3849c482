"""How many calls an endpoint takes, found out from what it answers and refuses.

Endpoints limit the calls in flight, the calls a second, or both, and seldom say which. Two figures are kept: the
*window*, the most calls in flight, and the *rate*, the most calls started a second. Both are raised while they are what
calls wait for, and lowered by refusals: additive increase and multiplicative decrease, as TCP does it. A refusal is
charged to the window where more calls were in flight than the endpoint lately takes at once, and else to the rate.

Runs that share an endpoint take its limits for those of all of them together: each makes room for one that joins, they
level their figures out among themselves, and one that goes leaves its part to the others. So they need not find their
shares by refusing each other.

Owns these figures and nothing that waits: every method is given the time, in seconds of a monotonic clock. Who waits
for what is for `gate`.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

from tasks.endpoint.limit_memory import Hold, Pace, Taken

FIRST_WINDOW = 16
"""Calls in flight at the start; each answer adds one, which doubles them with every answered round, until a refusal."""
FIRST_SHARED_WINDOW = 1
"""The same beside another run while neither knows the limit: both at once would be refused twice as often."""
ANSWERS_A_CALL = 32
"""After an outage, one call may be in flight for so many answers since the outage before: what is in flight when the
endpoint goes away again is asked twice, and so that stays a small share of all."""
FULL_SHARE = 0.3
"""Share of the calls of a round that had to wait for a figure, from which that figure is taken for what holds up."""
WINDOW_CUT = 0.9
"""What is left of the window after a refusal: below what the endpoint took, so that others who ask it find room."""
RATE_CUT = 0.95
"""Of the rate that was measured: a rate at the very limit would be refused with every unevenness of the network. Runs
that share the limit each lower theirs for all: the others do not hear of a refusal before they are refused, too."""
LEAST_CUT = 0.7
"""No refusal takes more of the rate that was asked: what is measured of it is inexact where calls are few."""
SPARE_RATE = 1.25
"""Where the window is what holds up, the rate stays so far above what is measured."""
FIRST_SPREAD = 1.5
"""The first rate, in calls that the window alone would let start in a second: enough to break up bursts."""
PAUSE_SECONDS = (0.5, 8.0)
"""First and longest pause where the endpoint refuses a call alone and does not say how long to wait."""
PAUSE_GROWTH = 1.5
SPACING_SECONDS = 0.01
"""A call that starts within this of the time that the rate set for it has waited for the rate."""
SPARE_ROOM = 0.95
"""Of the rate that an endpoint's headers tell: others may be asking it, too."""
LONGEST_TOLD_SECONDS = 60.0
"""Between two calls, by what headers tell: a longer wait is asked for by refusing a call, and then counts as one."""

WaitedFor = Literal["", "window", "rate"]


class Turn(NamedTuple):
    """A call that has started."""

    started: float
    in_flight: int
    """Calls in flight with this one."""
    waited_for: WaitedFor
    """What kept it from starting earlier."""


class Figures(NamedTuple):
    """What a run has found of the limit, or has of it where it shares the limit with other runs."""

    window: float
    rate: float


class AdaptiveLimit:
    """The window and the rate of one endpoint."""

    def __init__(self, most: int) -> None:
        """`most`: calls in flight that are never exceeded."""
        self.window = float(min(FIRST_WINDOW, most))
        self.rate = math.inf
        """Calls a second; infinite until a refusal makes it worth knowing."""
        self.in_flight = 0
        self.refused_yet = False
        self._growth = 1.0
        """Of the window with every answer, until a refusal."""
        self._answers = 0
        """Since the last outage."""
        self._most = most
        self._window_hold, self._rate_hold = Hold(), Hold()
        self._window_cut = self._rate_cut = -math.inf
        """When each was last lowered: refusals of calls that started before are the same event."""
        self._was_full, self._full_at = False, -math.inf
        self._next_start = self._closed_until = -math.inf
        self._pause = PAUSE_SECONDS[0]
        self._round: Counter[WaitedFor] = Counter()
        self._call_seconds: float | None = None
        self._taken, self._pace = Taken(), Pace()
        self._told_rate = math.inf
        """Calls a second by the endpoint's headers; infinite where they leave room enough."""
        self._runs = 1
        """Runs that share the limit, this one included."""

    def may_start(self, now: float) -> float:
        """When the next call may start: not before `now`; infinite while only an answer can make room."""
        if self.in_flight >= self._most_now:
            self._was_full, self._full_at = True, now
            return math.inf
        return max(now, self._closed_until, self._next_start)

    @property
    def _most_now(self) -> int:
        """Whole calls in flight: rounded for one of several runs, since what all of them cut off would add up."""
        return int(self.window + (0.5 if self._runs > 1 else 0.0))

    def start(self, now: float) -> Turn:
        """A call starts."""
        self.in_flight += 1
        self._pace.started(now)
        spaced = self.effective_rate < math.inf and now - self._next_start < SPACING_SECONDS
        waited_for: WaitedFor = "window" if self._was_full and now > self._next_start else "rate" if spaced else ""
        self._was_full = False
        if self.effective_rate < math.inf:
            self._next_start = (self._next_start if spaced else now) + 1 / self.effective_rate
        return Turn(now, self.in_flight, waited_for)

    @property
    def effective_rate(self) -> float:
        """Calls a second, by refusals and by what the endpoint's headers tell."""
        return min(self.rate, self._told_rate)

    def told(self, now: float, left: float, per_second: float) -> None:
        """What the endpoint's headers say: so many calls may start at once, then so many a second.

        It matters only where few are left: what is left after the calls in flight, the next answer tells.
        """
        if left >= 2 * self.window:
            self._told_rate = math.inf
            return
        self._told_rate = max(SPARE_ROOM * per_second, 1 / LONGEST_TOLD_SECONDS)
        if left < 1:
            self._next_start = max(self._next_start, now + 1 / self._told_rate)

    def failed(self) -> None:
        """A call ended with neither an answer nor a refusal."""
        self.in_flight -= 1

    def restart(self, was_gone: bool) -> None:
        """The endpoint answers again: what has just started is not asked everything at once.

        Args:
            was_gone: it could not be reached. The more often that happens, the fewer calls are in flight when it
                happens again; a server that breaks under its load is spared, too.
        """
        self.window = min(self.window, FIRST_WINDOW)
        if was_gone:
            self._growth = 1 / ANSWERS_A_CALL
            self.window = max(1.0, min(self.window, self._growth * self._answers))
            self._answers = 0

    def figures(self) -> Figures | None:
        """What other runs may count on; None while the limit is not known, or this run could not make use of more."""
        held_up = self.refused_yet and self.window < self._most
        return Figures(self.window, self.rate) if held_up else None

    def share(self, now: float, runs: int, others: Sequence[Figures]) -> None:
        """So many runs share the limit, this one included; `others`: what those of them have that it holds up."""
        if runs != self._runs:
            self._divide(runs, others)
            self._runs = runs
            for hold in (self._window_hold, self._rate_hold):
                hold.shared(now, runs > 1)
        elif others and not self.refused_yet:
            self._take_part(others, len(others))
            self.refused_yet = True
        elif runs == len(others) + 1 and (own := self.figures()):
            self._take_part((own, *others), runs)

    def _divide(self, runs: int, others: Sequence[Figures]) -> None:
        """Some runs have come or gone, and the figures told are still those of before."""
        if self.refused_yet:
            self._take_part([Figures(self.window, self.rate)] * self._runs, runs)
        elif others:
            self._take_part([*others] * (runs - 1), runs * len(others))
            self.refused_yet = True
        elif runs > 1:
            self.window = min(self.window, float(FIRST_SHARED_WINDOW))

    def _take_part(self, figures: Sequence[Figures], parts: int) -> None:
        self.window = max(1.0, min(self._most, sum(each.window for each in figures) / parts))
        rate = sum(each.rate for each in figures) / parts
        self.rate = rate if rate < math.inf else self.rate

    def answered(self, now: float, turn: Turn) -> None:
        """The endpoint took the call."""
        self.in_flight -= 1
        self._pause = PAUSE_SECONDS[0]
        self._answers += 1
        self._measure(now, turn)
        if not self.refused_yet:
            if self._full_at >= turn.started:
                self.window = min(self._most, self.window + self._growth)
            return
        if self.rate == math.inf:
            self.rate = FIRST_SPREAD * self.full_rate
        self._round[turn.waited_for] += 1
        if self._round.total() >= self.window:
            self._raise(now)

    def _measure(self, now: float, turn: Turn) -> None:
        self._taken.add(now, turn.in_flight, True)
        took = now - turn.started
        self._call_seconds = took if self._call_seconds is None else 0.9 * self._call_seconds + 0.1 * took

    @property
    def full_rate(self) -> float:
        """Calls a second that a full window starts; 0 where nothing has been answered yet."""
        return 0.0 if self._call_seconds is None else self.window * self._one_by_one

    @property
    def _one_by_one(self) -> float:
        """Calls a second that are made one after another."""
        return 1 / max(1.0 if self._call_seconds is None else self._call_seconds, 0.001)

    def _raise(self, now: float) -> None:
        """After a round of answers: raise what calls waited for."""
        calls, waited = self._round.total(), self._round
        self._round = Counter()
        if waited["window"] >= FULL_SHARE * calls and (growth := self._window_hold.growth(now)) > 1:
            self.window = min(self._most, max(self.window + 1, self.window * growth))
        if waited["rate"] >= FULL_SHARE * calls:
            self.rate *= self._rate_hold.growth(now)

    def refused(self, now: float, turn: Turn, wait: float | None) -> None:
        """The endpoint is busy; `wait`: the seconds that it asks to wait, None where it does not say.

        Other calls go on within the lowered figures. Only where none is in flight is it certain that no call would be
        taken: then all wait.
        """
        self.in_flight -= 1
        self._taken.add(now, turn.in_flight, False)
        self._pace.refused(turn.started)
        if not self.in_flight:
            self._closed_until = max(self._closed_until, now + (self._pause if wait is None else wait))
            self._pause = min(PAUSE_SECONDS[1], self._pause * PAUSE_GROWTH)
        if not self.refused_yet:
            self.refused_yet = True
            self._window_cut = self._rate_cut = now
            if self._call_seconds is not None:
                self.rate = FIRST_SPREAD * max(1, self.in_flight) * self._one_by_one
            self._pace.clear()
        if turn.started <= self._window_cut or turn.in_flight > self._taken.most(now):
            self._lower_window(now, turn)
        elif turn.started > self._rate_cut and self.rate < math.inf:
            self._lower_rate(now, RATE_CUT**self._runs)
            self._rate_cut = now
            self._rate_hold.refused(now)
            self._next_start = max(self._next_start, now + 1 / self.rate)

    def _lower_window(self, now: float, turn: Turn) -> None:
        """To what the endpoint has in hand now, which is what it takes at once, and what a rate makes of it, too."""
        if turn.started <= self._window_cut:
            self.window = max(1.0, min(self.window, self.in_flight))
            return
        self.window = max(1.0, min(self.window, WINDOW_CUT * self.in_flight))
        self._window_cut = now
        self._window_hold.refused(now)
        self._rate_hold.fast = False
        if self.rate < math.inf:
            self._lower_rate(now, SPARE_RATE)

    def _lower_rate(self, now: float, share: float) -> None:
        """To this share of the calls a second that are taken, but not below one call after another."""
        asked = min(self.rate, self._pace.asked(now))
        least = max(LEAST_CUT * asked, min(self.rate, self._one_by_one))
        self.rate = max(least, min(self.rate, share * self._pace.taken(now)))
