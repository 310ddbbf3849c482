"""What is remembered of an endpoint's answers and refusals, so that its limits are found with few of them.

Owns when a figure may be raised, how many calls a second are asked and taken, and how many in flight. What is made of
it, `adaptive_limit` decides. Times are seconds of a monotonic clock.
"""

import math
from collections import Counter, deque

GROWTH = 1.05
"""Of a figure, whenever it may be raised."""
FAST_GROWTH = 1.25
"""Of a figure, with every round, until a refusal is charged to it."""
HOLD_SECONDS = (0.5, 4.0)
"""Shortest and longest time between two raises of a figure: doubled by each refusal, halved by each raise."""
SHARED_HOLD_SECONDS = (6.0, 16.0)
"""The same where several runs share the limit: what one finds is found for all, so that each may try less often."""
RAISES = 3
"""Raises after the shortest time each, with no refusal between them, after which a figure is raised fast again; never
where the limit is shared."""
MEASURED_CALLS = 30
"""Calls over which their number in a second is measured, whether they are many a second or few."""
LEAST_MEASURED_CALLS = 4
"""Fewer may be as quick by chance."""
REMEMBERED_SECONDS = 10.0
"""For how long it is remembered how many calls in flight the endpoint took."""
TAKEN_SHARE = 0.9
TAKEN_CALLS = 3
"""A number in flight is one that the endpoint takes when it took so many calls at it, and this share of them."""


class Hold:
    """By how much a figure may be raised, and when."""

    def __init__(self) -> None:
        self.fast = True
        """Nothing speaks against raising it fast."""
        self._shortest, self._longest = HOLD_SECONDS
        self._length = self._shortest
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
        self._length = max(self._shortest, self._length / 2)
        self._until = now + self._length
        return GROWTH

    def refused(self, now: float) -> None:
        """The figure was too high."""
        self.fast = False
        self._raises = 0
        self._length = min(self._longest, self._length * 2)
        self._until = now + self._length

    def shared(self, now: float, several: bool) -> None:
        """Several runs share the limit from now on, or no more."""
        self._shortest, self._longest = SHARED_HOLD_SECONDS if several else HOLD_SECONDS
        self._length, self._raises, self.fast = self._shortest, 0, False
        self._until = now + self._length


class Pace:
    """How many calls start in a second, and how many of them the endpoint takes: it tells of a refusal at once."""

    def __init__(self) -> None:
        self._asked = deque[float](maxlen=MEASURED_CALLS)
        self._taken = deque[float](maxlen=MEASURED_CALLS)

    def clear(self) -> None:
        """What was taken before a limit was reached says nothing of it: it may have saved up for a burst."""
        self._asked.clear()
        self._taken.clear()

    def started(self, now: float) -> None:
        """A call starts."""
        self._asked.append(now)
        self._taken.append(now)

    def refused(self, started: float) -> None:
        """The call that started then was refused."""
        if started in self._taken:
            self._taken.remove(started)

    def asked(self, now: float) -> float:
        """Calls a second that started; infinite while too few have."""
        return _pace(self._asked, now)

    def taken(self, now: float) -> float:
        """Those of them that were not refused."""
        return _pace(self._taken, now)


def _pace(started: deque[float], now: float) -> float:
    known = len(started) >= LEAST_MEASURED_CALLS and now > started[0]
    return len(started) / (now - started[0]) if known else math.inf


class Taken:
    """Which calls the endpoint took lately, and which it refused; small, however many there are in all."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int, bool]] = deque()

    def add(self, now: float, in_flight: int, taken: bool) -> None:
        """A call was taken or refused; `in_flight`: calls in flight with it."""
        self._seen.append((now, in_flight, taken))
        self._forget(now)

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
