"""How many calls an endpoint takes, found out from what it answers and refuses.

Endpoints limit the calls in flight, the calls a second, or both, and seldom say which. Two figures are kept: the
*window*, the most calls in flight, and the *rate*, the most calls started a second. Both are raised while they are what
calls wait for, and lowered by refusals: additive increase and multiplicative decrease, as TCP does it. A refusal is
charged to the window where more calls were in flight than the endpoint lately takes at once, and else to the rate.

Owns these figures and nothing that waits: every method is given the time, in seconds of a monotonic clock. Who waits
for what is for `gate`.
"""

import math
from collections import Counter, deque
from typing import Literal, NamedTuple

FIRST_WINDOW = 16
"""Calls in flight at the start; each answer adds one, which doubles them with every answered round, until a refusal."""
FULL_SHARE = 0.3
"""Share of the calls of a round that had to wait for a figure, from which that figure is taken for what holds up."""
WINDOW_CUT = 0.9
"""What is left of the window after a refusal: below what the endpoint took, so that others who ask it find room."""
RATE_CUT = 0.95
"""Of the rate that was measured: a rate at the very limit would be refused with every unevenness of the network."""
LEAST_CUT = 0.7
"""No refusal takes more of the rate: the rate measured is too low while calls wait for something else."""
GROWTH = 1.05
"""Of window and rate, whenever they may be raised; of the window by one call at least."""
FAST_GROWTH = 1.25
"""Of both, with every round, until a refusal is charged to them."""
SPARE_RATE = 1.25
"""Where the window is what holds up, the rate stays so far above what is measured."""
FIRST_SPREAD = 1.5
"""The first rate, in calls that the window alone would let start in a second: enough to break up bursts."""
MEASURED_SECONDS = 2.0
"""Over which the rate of answers is measured."""
LEAST_MEASURED_SECONDS = 0.2
REMEMBERED_SECONDS = 10.0
"""For how long it is remembered how many calls in flight the endpoint took."""
TAKEN_SHARE = 0.9
TAKEN_CALLS = 3
"""A number in flight is one that the endpoint takes when it took so many calls at it, and this share of them."""
HOLD_SECONDS = (0.5, 4.0)
"""Shortest and longest time between two raises of a figure: doubled by each refusal, halved by each raise."""
RAISES = 3
"""Raises after the shortest time each, with no refusal between them, after which a figure is raised fast again."""
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


class Hold:
    """By how much a figure may be raised, and when."""

    def __init__(self) -> None:
        self.fast = True
        """Nothing speaks against raising it fast."""
        self._length = HOLD_SECONDS[0]
        self._until = 0.0
        self._raises = 0

    def growth(self, now: float) -> float:
        """What the figure may be multiplied with now; 1 while it must not be raised."""
        if self.fast:
            return FAST_GROWTH
        if now < self._until:
            return 1.0
        self._raises = self._raises + 1 if self._length == HOLD_SECONDS[0] else 0
        self.fast = self._raises >= RAISES
        self._length = max(HOLD_SECONDS[0], self._length / 2)
        self._until = now + self._length
        return GROWTH

    def refused(self, now: float) -> None:
        """The figure was too high."""
        self.fast = False
        self._raises = 0
        self._length = min(HOLD_SECONDS[1], self._length * 2)
        self._until = now + self._length


class Taken:
    """Which calls the endpoint took lately, and which it refused; small, however many there are in all."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int, bool]] = deque()

    def add(self, now: float, in_flight: int, taken: bool) -> None:
        """A call was taken or refused; `in_flight`: calls in flight with it."""
        self._seen.append((now, in_flight, taken))
        self._forget(now)

    def since(self, moment: float) -> int:
        """Calls taken since then, which is no longer ago than is remembered."""
        return sum(was_taken and when >= moment for when, _, was_taken in self._seen)

    def _forget(self, now: float) -> None:
        while self._seen and self._seen[0][0] < now - REMEMBERED_SECONDS:
            self._seen.popleft()

    def most(self, now: float) -> int:
        """The most calls in flight that it takes; 0 where that is not known."""
        self._forget(now)
        taken = Counter(in_flight for _, in_flight, was_taken in self._seen if was_taken)
        seen = Counter(in_flight for _, in_flight, _ in self._seen)
        calls, asked = 0, 0
        for in_flight in sorted(seen, reverse=True):
            calls, asked = calls + taken[in_flight], asked + seen[in_flight]
            if calls >= max(TAKEN_CALLS, TAKEN_SHARE * asked):
                return in_flight
        return 0


class AdaptiveLimit:
    """The window and the rate of one endpoint."""

    def __init__(self, most: int) -> None:
        """`most`: calls in flight that are never exceeded."""
        self.window = float(min(FIRST_WINDOW, most))
        self.rate = math.inf
        """Calls a second; infinite until a refusal makes it worth knowing."""
        self.in_flight = 0
        self.refused_yet = False
        self._most = most
        self._window_hold, self._rate_hold = Hold(), Hold()
        self._window_cut = self._rate_cut = -math.inf
        """When each was last lowered: refusals of calls that started before are the same event."""
        self._was_full, self._full_at = False, -math.inf
        self._next_start = self._closed_until = -math.inf
        self._pause = PAUSE_SECONDS[0]
        self._round: Counter[WaitedFor] = Counter()
        self._first_answer = math.inf
        self._call_seconds: float | None = None
        self._taken = Taken()
        self._told_rate = math.inf
        """Calls a second by the endpoint's headers; infinite where they leave room enough."""

    def may_start(self, now: float) -> float:
        """When the next call may start: not before `now`; infinite while only an answer can make room."""
        if self.in_flight >= int(self.window):
            self._was_full, self._full_at = True, now
            return math.inf
        return max(now, self._closed_until, self._next_start)

    def start(self, now: float) -> Turn:
        """A call starts."""
        self.in_flight += 1
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

    def restart(self) -> None:
        """The endpoint is back after it was away: what has just started is not asked everything at once."""
        self.window = min(self.window, FIRST_WINDOW)

    def answered(self, now: float, turn: Turn) -> None:
        """The endpoint took the call."""
        self.in_flight -= 1
        self._pause = PAUSE_SECONDS[0]
        self._measure(now, turn)
        if not self.refused_yet:
            self.window += self._full_at >= turn.started and self.window < self._most
            return
        if self.rate == math.inf:
            self.rate = FIRST_SPREAD * self.full_rate
        self._round[turn.waited_for] += 1
        if self._round.total() >= self.window:
            self._raise(now)

    def _measure(self, now: float, turn: Turn) -> None:
        self._first_answer = min(self._first_answer, turn.started)
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
        if not self.in_flight:
            self._closed_until = max(self._closed_until, now + (self._pause if wait is None else wait))
            self._pause = min(PAUSE_SECONDS[1], self._pause * PAUSE_GROWTH)
        if not self.refused_yet:
            self.refused_yet = True
            self._window_cut = self._rate_cut = now
            if self._call_seconds is not None:
                self.rate = max(self._measured(now), FIRST_SPREAD * max(1, self.in_flight) * self._one_by_one)
        if turn.started <= self._window_cut or turn.in_flight > self._taken.most(now):
            self._lower_window(now, turn)
        elif turn.started > self._rate_cut and self.rate < math.inf:
            self._lower_rate(now, RATE_CUT)
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
        """To this share of the rate of answers, but not below one call after another."""
        least = max(LEAST_CUT * self.rate, min(self.rate, self._one_by_one))
        self.rate = max(least, min(self.rate, share * self._measured(now)))

    def _measured(self, now: float) -> float:
        """Answers a second."""
        seconds = max(LEAST_MEASURED_SECONDS, min(MEASURED_SECONDS, now - self._first_answer))
        return self._taken.since(now - MEASURED_SECONDS) / seconds
