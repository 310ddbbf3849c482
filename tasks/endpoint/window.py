"""Adaptive window: the number of calls that an endpoint accepts at once, found from its answers and refusals.

It has no clock and never waits: each method takes the time in seconds of a monotonic clock.
"""

import math
import random

FIRST_WINDOW = 16
"""Calls in flight at the start. Until the first refusal each answer adds one, so that they double every round."""
CUT = 0.15
"""Share of the window that a refusal removes, once a round trip."""
GROWTH = 0.006
"""Speed of growth: the window grows by this x its root x the square of the rounds since the last cut, each round.

Growth by the root brings runs that share an endpoint to equal shares, as additive increase does, with fewer refusals
of small windows. Growth that begins at zero after a cut slows down by itself if refusals are frequent."""
LONGEST_CALM = 100.0
"""Most rounds since the last cut that count."""
SHORTEST_ROUND = 1.0
"""Shortest round in seconds: faster answers are no more evidence about a limit than those of one second."""
LEAST_RATE = 0.5
"""Lower bound of the window: calls a second, or one call in flight. Eight runs can share five calls a second."""
YIELD_BELOW = 3.0
YIELD_SHARE = 0.4
"""Longest pause after an answer, as a share of a call, of a window below three calls. Without the pause a run takes the
slot that it has just left, and runs beside it are refused for as long as it runs."""
SPARE_ROOM = 0.95
"""Share of the rate that headers allow, since others may use the same endpoint."""
LONGEST_TOLD_SECONDS = 60.0
"""Longest time between two calls by headers alone. An endpoint that needs a longer one refuses a call."""


class Window:
    """Number of calls that one run may have in flight at one endpoint.

    Below one call, and after the first refusal, starts are spaced: a window of 0.5 with calls of 2 s starts a call
    every 4 s. `tests/simulated_limits.py` tries these rules and constants against limits of calls at once and a second,
    with 1 to 8 runs and with calls that are always refused.
    """

    def __init__(self, most: int) -> None:
        """Begin with a full first window; `most` is the upper limit of calls in flight."""
        self.size = float(min(FIRST_WINDOW, most))
        """Calls in flight; below 1, the share of the time in which one is in flight."""
        self.in_flight = 0
        self.was_refused = False
        """True once the endpoint has refused a call as busy."""
        self._most = most
        self._call_seconds: float | None = None
        """Mean seconds of the last answered calls."""
        self._calm_since = 0.0
        """Time of the last cut; a cut that may be an accident moves it only in part."""
        self._cut_at = self._grown_at = self._next_start = -math.inf
        self._longest_gap = math.inf
        """Upper bound of the seconds between two starts, until a call is answered."""
        self._told_gap = 0.0
        """Seconds between two calls that the endpoint's headers require."""

    def may_start(self, now: float) -> float:
        """Return the earliest time of the next call, at least `now`; infinite until a call in flight ends."""
        if self.in_flight >= max(1, int(self.size)):
            return math.inf
        return max(now, self._next_start)

    def start(self, now: float) -> float:
        """Start a call; return the time."""
        self.in_flight += 1
        self._next_start = now + self._gap
        return now

    def end(self) -> None:
        """End a call that was neither answered nor refused."""
        self.in_flight -= 1

    def answered(self, now: float, started: float) -> None:
        """End a call that the endpoint accepted or rejected."""
        self.in_flight -= 1
        self._longest_gap = math.inf
        took = now - started
        self._call_seconds = took if self._call_seconds is None else 0.9 * self._call_seconds + 0.1 * took
        if not self.was_refused:
            self.size = min(self._most, self.size + 1)
            return
        if self.size < YIELD_BELOW:
            pause = YIELD_SHARE * self._call_seconds * random.random()
            self._next_start = max(self._next_start, now + pause)
        self._grow(now)

    def _grow(self, now: float) -> None:
        """Grow the window by the time since the last answer."""
        length = max(SHORTEST_ROUND, self._call_seconds or 0.0)
        rounds = min(1.0, (now - self._grown_at) / length)
        calm = min(LONGEST_CALM, (now - self._calm_since) / length)
        self._grown_at = now
        self.size = min(self._most, self.size + GROWTH * math.sqrt(self.size) * calm**2 * rounds)

    def refused(self, now: float, started: float, weight: float) -> None:
        """End a call that the endpoint refused as busy, and make the window smaller, once a round trip.

        Args:
            weight: likelihood that load caused the refusal, 0 to 1; the cut is multiplied by it.
        """
        self.in_flight -= 1
        if not weight:
            return
        if not self.was_refused:
            # The calls still in flight were accepted: the endpoint takes so many at once.
            self.was_refused = True
            self.size = max(1.0, min(self.size, self.in_flight))
            self._calm_since = self._cut_at = self._grown_at = now
            self._next_start = max(self._next_start, now + self._gap)
        elif started >= self._cut_at:
            least = min(1.0, LEAST_RATE * (self._call_seconds or 1.0))
            self.size = max(least, self.size * (1 - CUT * weight))
            self._calm_since += (now - self._calm_since) * weight
            self._cut_at = now
            self._next_start = max(self._next_start, now + self._gap * weight)

    def pace(self, now: float, left: float, per_second: float) -> None:
        """Keep to the limits in headers: so many calls at once, then so many a second."""
        if left >= 2 * self.size:
            self._told_gap = 0.0
            return
        self._told_gap = min(LONGEST_TOLD_SECONDS, 1 / (SPARE_ROOM * per_second) if per_second else math.inf)
        if left < 1:
            self._next_start = max(self._next_start, now + self._told_gap)

    def reopen(self, longest_gap: float) -> None:
        """Allow one call at a time again: the endpoint has just answered a small question.

        Args:
            longest_gap: longest time between two starts in seconds, until a call is answered.
        """
        self.size = max(1.0, self.size)
        self._longest_gap = longest_gap

    def restart(self) -> None:
        """Begin with one call again, to spare an endpoint that has just come back."""
        self.size = 1.0
        self.was_refused = False

    @property
    def rate(self) -> float | None:
        """Calls a second that the gap between starts allows; None if there is no gap."""
        return 1 / self._gap if self._gap else None

    @property
    def _gap(self) -> float:
        """Seconds between two starts."""
        paced = self._call_seconds / self.size if self.was_refused and self._call_seconds else 0.0
        return max(min(paced, self._longest_gap), self._told_gap)
