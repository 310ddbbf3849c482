"""Which call goes first, where others begin as it does: they wait until it has ended.

Owns the waits: for the first call about a sample, and for the first calls of a run. A cache can be read only once the
first reply with the same beginning has begun: calls that start together would each write what one of them writes. Who
waits holds no place in the line of calls.
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
    """The leaders of one sample, one for each group of calls that begin alike."""

    def __init__(self) -> None:
        self._leaders: dict[str, _Leader[C]] = {}
        self._given_up: list[Callable[[C], bool]] = []

    @asynccontextmanager
    async def turn(self, group: str, call: C, candidates: Sequence[C]) -> AsyncGenerator[None]:
        """The turn of a call: at once for the leader of its group, for the others when that has ended, however it did.

        Args:
            candidates: calls of the group that are to be made, this one among them, the one that should lead first.
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
        """These calls are not made any more by whoever should have: nobody waits for them."""
        self._given_up.append(which)
        for leader in self._leaders.values():
            if which(leader.call):
                leader.ended.set()


class FirstCalls:
    """The first call with each key in a run, which writes what all others with that key begin with."""

    def __init__(self) -> None:
        self._ended: dict[str, asyncio.Event] = {}

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncGenerator[None]:
        """The turn of a call: at once for the first with its key, for others when all such calls so far have ended.

        All, and not only the one with that key: the others would come in clumps of one key, and of one key a provider
        serves only so many a minute from one cache.
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
