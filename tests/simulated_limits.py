"""A judge with limits and the clients that ask it, on a clock that is only counted: nothing waits, all is repeatable.

Owns the world around `AdaptiveLimit`: when calls travel, which are taken, who is let in next. A client does here what
the gate does: the oldest of those who are ready goes first, and a refused call is ready again when it was told to be.
"""

import heapq
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tasks.endpoint.adaptive_limit import AdaptiveLimit, Figures, Turn

CALL_SECONDS = 0.2
TRAVEL_SECONDS = 0.002
"""Of a request or an answer, in the mean."""
EXCHANGE_SECONDS = 2.0
"""Between two exchanges of clients that tell each other what they find, as runs on one Prefect server do."""


@dataclass
class Limits:
    """What the judge takes, and what it says to a call too many."""

    a_second: float = 0.0
    """Calls a second, by a token bucket; 0: any number."""
    at_once: int = 0
    """Calls in flight; 0: any number."""
    wait: float | None = None
    """Seconds that it asks to wait; None: it does not say."""
    tells: bool = False
    """Every answer tells what is left in the bucket."""
    burst: float = 20.0
    in_flight: int = 0
    _tokens: float | None = None
    _filled: float = 0.0

    def takes(self, now: float) -> bool:
        if self.at_once and self.in_flight >= self.at_once:
            return False
        if self.a_second and self.left(now) < 1:
            return False
        self._tokens = self.left(now) - 1
        self.in_flight += 1
        return True

    def left(self, now: float) -> float:
        tokens = self.burst if self._tokens is None else self._tokens + (now - self._filled) * self.a_second
        self._tokens, self._filled = min(self.burst, tokens), now
        return self._tokens


class World:
    """The clock, and chance."""

    def __init__(self, seed: int, sigma: float = 0.0) -> None:
        """`sigma`: spread of the seconds of a call, in logarithms."""
        self._draws, self._sigma = random.Random(seed), sigma
        self._due: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._numbers = count()

    def at(self, moment: float, act: Callable[..., None], *about: Any) -> None:
        heapq.heappush(self._due, (moment, next(self._numbers), act, about))

    def travel(self) -> float:
        return TRAVEL_SECONDS * self._draws.uniform(0.5, 1.5)

    def call_seconds(self) -> float:
        return CALL_SECONDS * self._draws.lognormvariate(0, self._sigma)

    def run(self) -> None:
        while self._due:
            moment, _, act, about = heapq.heappop(self._due)
            act(moment, *about)


@dataclass
class Client:
    """One run: so many calls, let in as its limit says."""

    world: World
    judge: Limits
    most: int
    calls: int
    begins: float = 0.0
    refused: int = 0
    answered: list[float] = field(default_factory=list)
    """When each answer came."""

    def __post_init__(self) -> None:
        self.limit = AdaptiveLimit(self.most)
        self._ready = list(range(self.calls))
        self._alarm = -math.inf
        self.world.at(self.begins, self._let_in)

    def wake(self, now: float) -> None:
        """Its limit may have changed."""
        if now >= self.begins:
            self._let_in(now)

    def _let_in(self, now: float) -> None:
        while self._ready:
            start = self.limit.may_start(now)
            if start > now:
                self._wake_at(now, start)
                return
            number = heapq.heappop(self._ready)
            self.world.at(now + self.world.travel(), self._arrives, number, self.limit.start(now))

    def _wake_at(self, now: float, moment: float) -> None:
        if moment < math.inf and not now < self._alarm <= moment:
            self._alarm = moment
            self.world.at(moment, self._let_in)

    def _arrives(self, now: float, number: int, turn: Turn) -> None:
        if self.judge.takes(now):
            self.world.at(now + self.world.call_seconds(), self._leaves, turn)
        else:
            self.world.at(now + self.world.travel(), self._is_refused, number, turn)

    def _leaves(self, now: float, turn: Turn) -> None:
        self.judge.in_flight -= 1
        self.world.at(now + self.world.travel(), self._is_answered, turn, self.judge.left(now))

    def _is_answered(self, now: float, turn: Turn, left: float) -> None:
        self.answered.append(now)
        self.limit.answered(now, turn)
        if self.judge.tells and self.judge.a_second:
            self.limit.told(now, left, self.judge.a_second)
        self._let_in(now)

    def _is_refused(self, now: float, number: int, turn: Turn) -> None:
        self.refused += 1
        self.limit.refused(now, turn, self.judge.wait)
        self.world.at(now + (self.judge.wait or 0.0), self._is_ready, number)
        self._let_in(now)

    def _is_ready(self, now: float, number: int) -> None:
        heapq.heappush(self._ready, number)
        self._let_in(now)


class Board:
    """Where clients tell each other what they find, from a moment before their first call to their last answer."""

    def __init__(self, *clients: Client) -> None:
        self._told: dict[int, Figures | None] = {}
        for number, client in enumerate(clients):
            client.world.at(client.begins - TRAVEL_SECONDS * (len(clients) - number), self._exchange, number, client)

    def _exchange(self, now: float, number: int, client: Client) -> None:
        if len(client.answered) == client.calls:
            del self._told[number]
            return
        others = [figures for other, figures in self._told.items() if other != number]
        client.limit.share(now, 1 + len(others), [figures for figures in others if figures])
        self._told[number] = client.limit.figures()
        client.world.at(now + EXCHANGE_SECONDS, self._exchange, number, client)
        client.wake(now)
