"""Which call about a sample goes first, where the others begin as it does: they wait until it has ended.

Owns the wait. A cache can be read only once the first reply with the same beginning has begun: calls that start
together would each write what one of them writes. Who waits holds no place in the line of calls.
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
