"""Turns of calls that begin alike: they wait for the end of the first one, which writes the beginning to a cache.

If they started together, each would write it. A waiting call takes no place in the queue.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Generic, NamedTuple, TypeVar

C = TypeVar("C")


class _Leader(NamedTuple, Generic[C]):
    call: C
    ended: asyncio.Event


class Leading(Generic[C]):
    """Leaders of one sample, one for each group of calls that begin alike."""

    def __init__(self) -> None:
        self._leaders: dict[str, _Leader[C]] = {}
        self._given_up: list[Callable[[C], bool]] = []

    @asynccontextmanager
    async def turn(self, group: str, call: C, candidates: Sequence[C]) -> AsyncGenerator[None]:
        """Wait for the turn of a call: the leader of its group goes at once, the others when it has ended.

        Args:
            candidates: calls of the group to be made, including this one; the first that is not given up leads.
        """
        leader = self._leaders.get(group)
        if leader is None:
            able = (each for each in candidates if not any(gone(each) for gone in self._given_up))
            leader = self._leaders[group] = _Leader(next(able, call), asyncio.Event())
        if leader.call != call:
            await leader.ended.wait()
            yield
            return
        try:
            yield
        finally:
            leader.ended.set()

    def give_up(self, which: Callable[[C], bool]) -> None:
        """Give up these calls: their step makes them no more, so no call waits for them."""
        self._given_up.append(which)
        for leader in self._leaders.values():
            if which(leader.call):
                leader.ended.set()


class FirstCalls:
    """First call with each key in a run; it writes the common beginning of all calls with that key to the cache."""

    def __init__(self) -> None:
        self._ended: dict[str, asyncio.Event] = {}

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncGenerator[None]:
        """Wait for the turn of a call: the first with its key goes at once, others when all first calls have ended.

        They wait for all of these: otherwise they would come in clumps of one key, and a provider serves only so many
        calls a minute with one key.
        """
        if key in self._ended:
            for ended in [*self._ended.values()]:
                await ended.wait()
            yield
            return
        ended = self._ended[key] = asyncio.Event()
        try:
            yield
        finally:
            ended.set()
