"""Budget of one run: a unit of samples starts only if all its calls fit, each at its 95th percentile.

None is skipped for a cheaper one behind it, or what was judged would be no random part of the samples.
"""

import asyncio
import math
from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from typing import Protocol

from tasks.spending.money import money
from tasks.spending.prices import Amounts, Tariff

ENOUGH = 20
"""Calls of a dimension that were billed in this run, from which on their own 95th percentile counts."""
PERCENTILE = 0.95
FEW = 4
"""Of fewer calls the dearest counts, and so many n-ths of it besides: after the first call five times its price, after
twelve a third more than the dearest."""
_ROUNDING = 1e-9

Known = Callable[[str], float | None]
"""Dimension -> 95th percentile of what a call of it cost before this run; None: it is not known."""


class CallCosts:
    """Cost of a call of each dimension at most, in 95 of 100 cases; `known` tells that of earlier runs."""

    def __init__(self, tariff: Tariff, longest_reply: int, known: Known = lambda _: None) -> None:
        self.guessed = False
        """The most that a call can cost had to stand for what one costs, for nothing else was known."""
        self._tariff, self._longest_reply, self._known = tariff, longest_reply, known
        self._billed: defaultdict[str, list[float]] = defaultdict(list)

    def note(self, dimension: str, price: float) -> None:
        """Take in what a call was billed."""
        insort(self._billed[dimension], price)

    def known(self, dimension: str) -> float | None:
        """What a call cost at most before this run, in 95 of 100 cases; None: it is not known."""
        return self._known(dimension)

    @property
    def are_unknown(self) -> bool:
        """Whether nothing was billed yet, and the most that a call can cost stands for what one does."""
        return self.guessed and not any(self._billed.values())

    def of(self, dimension: str, sent: int) -> float:
        """Return the cost of a call at most, in 95 of 100 cases, where the question takes at most so many tokens.

        By this run once enough of its calls were billed, else by earlier runs and no less than the dearest of this one,
        else by the few that were billed, and before the first of them by the most that the call can cost.
        """
        billed = self._billed[dimension]
        if len(billed) >= ENOUGH:
            return billed[min(math.ceil(PERCENTILE * (len(billed) + 1)), len(billed)) - 1]
        known = self._known(dimension)
        if known is not None:
            return max([known, *billed[-1:]])
        self.guessed = self.guessed or not billed
        return min(self._most(sent), billed[-1] * (1 + FEW / len(billed))) if billed else self._most(sent)

    def _most(self, sent: int) -> float:
        written = (0, sent)  # what is written to a cache may cost more than what is not
        return max(self._tariff.price(Amounts(sent, 0, each, self._longest_reply)) for each in written)


class Share(Protocol):
    """What of a month's budget is this run's."""

    @property
    def month(self) -> str:
        """Which month: `2026-11`."""
        ...

    @property
    def budget(self) -> float:
        """The budget that runs share."""
        ...

    async def has_room(self, total: float) -> bool:
        """Whether the run may come to so much in all."""
        ...

    async def keep(self, total: float) -> None:
        """Leave the rest to others: the run waits, and comes to no more than so much."""
        ...


class Budget:
    """Money of one run, for one event loop; a limit of None: no own one; a share of None: none of a month's."""

    def __init__(self, limit: float | None, costs: CallCosts, share: Share | None = None) -> None:
        self.spent = 0.0
        self.over = False
        """Something did not fit: no unit is started any more."""
        self.needed = 0.0
        """By what did not fit: what it may cost."""
        self.exhausted: Share | None = None
        """What it did not fit into; None: the run's own budget."""
        self.warnings: list[str] = []
        self.waits = False
        """What is held stays held when this process is done with the run: its calls are bought as a batch."""
        self.share = share
        self._limit, self._costs = limit, costs
        self._held: dict[Hashable, float] = {}
        self._one_by_one: set[Hashable] = set()
        """Calls of a unit that is judged call by call; see `starts`."""
        self._turn = asyncio.Lock()
        self._settled = asyncio.Event()
        """Set once, with the next call that ends."""

    @property
    def used(self) -> float:
        """What was spent and what is held for calls in flight."""
        return self.spent + sum(self._held.values())

    def expected(self, dimension: str, sent: int) -> float:
        """What is held for a call; see `CallCosts.of`."""
        return self._costs.of(dimension, sent)

    async def fits_now(self, calls: Mapping[Hashable, float]) -> bool:
        """Hold what these calls are expected to cost, if there is room for all of them at once."""
        async with self._turn:
            if not await self._has_room(self.used + sum(calls.values())):
                return False
            self._held.update(calls)
            return True

    async def fits(self, calls: Mapping[Hashable, float]) -> bool:
        """Hold the cost of calls as soon as there is room; False, and the run is over, where none is left."""
        while True:
            next_one = self._settled
            if await self.fits_now(calls):
                return True
            if not self._held and not next_one.is_set():
                self._end(sum(calls.values()))
                return False
            await next_one.wait()

    async def starts(self, calls: Callable[[], Mapping[Hashable, float]]) -> bool:
        """Wait until it is clear whether a unit may start; False: the run is over.

        Before anything is known of what calls cost, only the most that they can cost is, which is far more. Where a
        unit does not fit so, it starts if each call fits by itself: `covers` then lets them in one after another, and
        no other unit starts before they have ended.
        """
        while not self.over:
            next_one = self._settled
            if not self._one_by_one:
                found = calls()
                if await self.fits_now(found):
                    return True
                if not self._held and not next_one.is_set():
                    return await self._starts_one_by_one(found)
            await next_one.wait()
        return False

    async def fits_or_ends(self, calls: Mapping[Hashable, float]) -> bool:
        """Hold the cost of calls of a batch, of which none comes free; False, and the run is over, where none fits."""
        if await self.fits_now(calls):
            return True
        self.over, self.needed = True, sum(calls.values())
        return False

    async def wait(self) -> None:
        """Keep what is held, since the run waits for a batch."""
        self.waits = True
        if self.share:
            await self.share.keep(self.used)

    @property
    def limit(self) -> float:
        """Of its own; 0: none."""
        return self._limit or 0.0

    @property
    def guessed(self) -> bool:
        """Whether what is held for a call is the most that it can cost, for want of anything known; see `CallCosts`."""
        return self._costs.guessed

    async def covers(self, call: Hashable, price: float) -> bool:
        """Whether a call of a unit that was started may be made: it is held for, or fits as any other does."""
        return call in self._held or await self.fits({call: price})

    def settle(self, call: Hashable, dimension: str, price: float | None) -> None:
        """Free what is held for a call that has ended; of an unknown price (None), what was held counts as spent."""
        held = self._held.pop(call, 0.0)
        self._one_by_one.discard(call)
        self.spent += held if price is None else price
        if price:  # one that was refused costs nothing, and says nothing of the others
            self._costs.note(dimension, price)
        self._wake()

    async def _starts_one_by_one(self, calls: Mapping[Hashable, float]) -> bool:
        dearest, are_unknown = max(calls.values()), self._costs.are_unknown
        if are_unknown and await self._has_room(self.used + dearest):
            self._one_by_one = {*calls}
            return True
        if are_unknown:
            self.warnings.append(
                "Nothing is known yet of what calls of this judge cost, and one that replies at its longest "
                f"(judge.max_output_tokens) may cost {money(dearest)}, which does not fit into what is left. Give it "
                "that much, set judge.max_output_tokens lower, or ask for a quote first, without a budget: the run "
                "goes by what that finds, and takes its replies over"
            )
        self._end(sum(calls.values()))
        return False

    def _end(self, needed: float) -> None:
        self.over, self.needed = True, needed
        self._wake()

    def _wake(self) -> None:
        self._settled.set()
        self._settled = asyncio.Event()

    async def _has_room(self, total: float) -> bool:
        if self._limit is not None and total > self._limit * (1 + _ROUNDING):
            self.exhausted = None
            return False
        self.exhausted = self.share
        return self.share is None or await self.share.has_room(total)
