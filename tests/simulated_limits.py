"""A judge with limits and the runs that call it, on a simulated clock: nothing waits, everything is repeatable.

A run here behaves like the gate, with the gate's own window, tickets and constants. Only the waiting is simulated.
"""

import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tasks.endpoint.gate import LIMITED_IN_A_ROW, REFUSED_GAP, TRY_SECONDS, Repeats, Ticket, Window, backoff

TRAVEL_SECONDS = 0.002
"""Mean travel time of a request or an answer."""
CALLS_A_SAMPLE = 4


@dataclass
class Limits:
    """Limits of the judge."""

    a_second: float = 0.0
    """Calls a second, by a token bucket; 0: unlimited."""
    at_once: int = 0
    """Calls in flight; 0: unlimited."""
    burst: float = 20.0
    in_flight: int = 0
    _filled: float = 0.0

    def __post_init__(self) -> None:
        self._tokens = self.burst

    def take(self, now: float) -> bool:
        self._tokens, self._filled = min(self.burst, self._tokens + (now - self._filled) * self.a_second), now
        if (self.at_once and self.in_flight >= self.at_once) or (self.a_second and self._tokens < 1):
            return False
        self._tokens -= 1
        self.in_flight += 1
        return True


class World:
    """The clock, and the random numbers."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        random.seed(seed)  # the window and the backoff use the shared generator
        self._due: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._numbers = itertools.count()

    def at(self, moment: float, act: Callable[..., None], *about: Any) -> None:
        heapq.heappush(self._due, (moment, next(self._numbers), act, about))

    def travel(self) -> float:
        return TRAVEL_SECONDS * self.chance.uniform(0.5, 1.5)

    def run(self) -> None:
        while self._due:
            moment, _, act, about = heapq.heappop(self._due)
            act(moment, *about)


@dataclass
class Run:
    """A run with four calls a sample, some of them always refused."""

    world: World
    judge: Limits
    calls: int
    bad: frozenset[int] = frozenset()
    """Calls that are always refused."""
    most: int = 16
    seconds: float = 0.2
    """Mean duration of a call."""
    call_seconds: float = 600.0
    wait: float | None = None
    """Seconds that a refusal asks the client to wait."""
    requests: int = 0
    bad_requests: int = 0
    answered: list[float] = field(default_factory=list)
    """Time of each answer."""
    ended: dict[int, float] = field(default_factory=dict)
    """Time at which a call ended without an answer, by call."""

    def __post_init__(self) -> None:
        self.window = Window(self.most)
        self._repeats = Repeats()
        self._tickets = [Ticket(str(number // CALLS_A_SAMPLE)) for number in range(self.calls)]
        self._fresh, self._limited = deque(range(self.calls)), deque[int]()
        self._in_a_row = 0
        self._taken, self._refused = 0, 0
        self._own = [[0, 0] for _ in range(self.calls // CALLS_A_SAMPLE + 1)]
        self._answered_at = self._tried_at = -1.0
        self._alarm = -1.0
        self.world.at(0.0, self._let_in)

    def _let_in(self, now: float) -> None:
        while self._fresh or self._limited:
            start = self.window.may_start(now)
            if start > now:
                if start < float("inf") and not now < self._alarm <= start:
                    self._alarm = start
                    self.world.at(start, self._let_in)
                return
            limited = bool(self._limited) and (self._in_a_row < LIMITED_IN_A_ROW or not self._fresh)
            self._in_a_row = self._in_a_row + 1 if limited else 0
            number = (self._limited if limited else self._fresh).popleft()
            self.requests += 1
            self.bad_requests += number in self.bad
            self.world.at(now + self.world.travel(), self._arrives, number, self.window.start(now))

    def _arrives(self, now: float, number: int, started: float) -> None:
        if number in self.bad or not self.judge.take(now):
            self.world.at(now + self.world.travel(), self._is_refused, number, started)
        else:
            took = self.seconds * self.world.chance.lognormvariate(0, 0.3)
            self.world.at(now + took, self._is_answered, number, started)

    def _is_answered(self, now: float, number: int, started: float) -> None:
        self.judge.in_flight -= 1
        self.window.answered(now, started)
        self.answered.append(now)
        self._repeats.answered(self._tickets[number])
        self._answered_at = now
        self._taken += 1
        self._own[number // CALLS_A_SAMPLE][0] += 1
        self._let_in(now)

    def _is_refused(self, now: float, number: int, started: float) -> None:
        ticket, own = self._tickets[number], self._own[number // CALLS_A_SAMPLE]
        ticket.refuse(now, (self._taken - own[0], self._refused - own[1]))
        self._refused += 1
        own[1] += 1
        self.window.refused(now, started, self._repeats.weigh(ticket))
        if self._taken and now - max(self._answered_at, self._tried_at) >= TRY_SECONDS:
            self._try_small_question(now)
        if ticket.may_end(now, self.call_seconds, self._answered_at, False):
            self.ended[number] = now
        else:
            wait = backoff(ticket.refusals) if self.wait is None else self.wait
            self.world.at(now + wait, self._is_ready, number)
        self._let_in(now)

    def _try_small_question(self, now: float) -> None:
        self._tried_at = now
        if self.judge.take(now):
            self.judge.in_flight -= 1
            self._answered_at = now
            self.window.reopen(REFUSED_GAP)

    def _is_ready(self, now: float, number: int) -> None:
        self._limited.append(number)
        self._let_in(now)

    @property
    def lost(self) -> set[int]:
        """Calls given up although they were not always refused."""
        return self.ended.keys() - self.bad


def simulate(seed: int, limits: Limits, runs: int, calls: int, bad_samples: int = 1, **settings: Any) -> list[Run]:
    """Simulate runs that start together; the first one has some samples that are always refused."""
    world = World(seed)
    samples = world.chance.sample(range(calls // CALLS_A_SAMPLE), bad_samples)
    bad = frozenset(CALLS_A_SAMPLE * sample + call for sample in samples for call in range(CALLS_A_SAMPLE))
    made = [Run(world, limits, calls, frozenset() if number else bad, **settings) for number in range(runs)]
    world.run()
    return made


def requests_over_calls(runs: list[Run]) -> float:
    """Return the number of requests for each call, without always refused ones."""
    good = sum(run.calls - len(run.bad) for run in runs)
    return sum(run.requests - run.bad_requests for run in runs) / good


def least_share(runs: list[Run]) -> float:
    """Return the smallest share of a run while all had calls left, relative to its fair share."""
    until = min(max(run.answered) for run in runs)
    counts = [sum(moment <= until for moment in run.answered) for run in runs]
    return min(counts) * len(runs) / sum(counts)


LIMITS = {"8 at once": {"at_once": 8}, "20 a second": {"a_second": 20.0}, "5 a second": {"a_second": 5.0}}
