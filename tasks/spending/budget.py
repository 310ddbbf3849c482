"""Budget of one run: a unit of samples starts only if all its calls fit, each at its 95th percentile.

No unit is skipped for a cheaper one behind it; else the judged samples would be no random part of all.
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
"""Billed calls of a dimension in this run that are enough for their own 95th percentile."""
PERCENTILE = 0.95
FEW = 4
"""Margin for fewer calls: n billed calls give the most expensive one times 1 + FEW / n. That is five times its price
after the first call, and a third more than the most expensive one after twelve."""
_ROUNDING = 1e-9

Known = Callable[[str], float | None]
"""Dimension -> 95th percentile of the cost of its calls before this run; None if unknown."""


class CallCosts:
    """Highest cost of a call of each dimension in 95 of 100 cases; `known` returns that of earlier runs."""

    def __init__(self, tariff: Tariff, longest_reply: int, known: Known = lambda _: None) -> None:
        self.guessed = False
        """True once the highest possible cost of a call was used, for lack of other data."""
        self._tariff, self._longest_reply, self._known = tariff, longest_reply, known
        self._billed: defaultdict[str, list[float]] = defaultdict(list)

    def note(self, dimension: str, price: float) -> None:
        """Add the billed price of a call."""
        insort(self._billed[dimension], price)

    def known(self, dimension: str) -> float | None:
        """Return the highest cost of a call in 95 of 100 cases before this run; None if unknown."""
        return self._known(dimension)

    @property
    def are_unknown(self) -> bool:
        """Return whether the highest possible cost of a call is used, because no call was billed yet."""
        return self.guessed and not any(self._billed.values())

    def of(self, dimension: str, sent: int) -> float:
        """Return the highest cost of a call in 95 of 100 cases, for a question of at most `sent` tokens.

        This run decides once enough of its calls were billed. Else earlier runs do, with at least the most expensive
        call of this run. Else the few billed calls do, and before the first of them the highest possible cost.
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
        written = (0, sent)  # tokens written to a cache may cost more than others
        return max(self._tariff.price(Amounts(sent, 0, each, self._longest_reply)) for each in written)


class Share(Protocol):
    """Share of a month's budget for one run."""

    @property
    def month(self) -> str:
        """Month of the budget: `2026-11`."""
        ...

    @property
    def budget(self) -> float:
        """Budget that the runs share."""
        ...

    async def has_room(self, total: float) -> bool:
        """Return whether the run may cost this much in all."""
        ...

    async def keep(self, total: float) -> None:
        """Leave the rest to others: the run waits, and costs no more than this."""
        ...


class Budget:
    """Budget of one run, for one event loop. `limit` is None without an own one, `share` without a month's."""

    def __init__(self, limit: float | None, costs: CallCosts, share: Share | None = None) -> None:
        self.spent = 0.0
        self.over = False
        """True once a unit did not fit: no further unit starts."""
        self.needed = 0.0
        """Possible cost of the unit that did not fit."""
        self.exhausted: Share | None = None
        """Share that it did not fit into; None for the run's own budget."""
        self.warnings: list[str] = []
        self.waits = False
        """True if reserved amounts outlast this process, because the calls are bought as a batch."""
        self.share = share
        self._limit, self._costs = limit, costs
        self._held: dict[Hashable, float] = {}
        self._one_by_one: set[Hashable] = set()
        """Calls of a unit that is judged call by call; see `starts`."""
        self._turn = asyncio.Lock()
        self._settled = asyncio.Event()
        """Event that the next call to end sets, once."""

    @property
    def used(self) -> float:
        """Amount spent, and amount reserved for calls in flight."""
        return self.spent + sum(self._held.values())

    def expected(self, dimension: str, sent: int) -> float:
        """Return the amount to reserve for a call; see `CallCosts.of`."""
        return self._costs.of(dimension, sent)

    async def fits_now(self, calls: Mapping[Hashable, float]) -> bool:
        """Reserve the expected cost of these calls if there is room for all of them now; return whether there is."""
        async with self._turn:
            if not await self._has_room(self.used + sum(calls.values())):
                return False
            self._held.update(calls)
            return True

    async def fits(self, calls: Mapping[Hashable, float]) -> bool:
        """Reserve the cost of calls as soon as there is room. Return False, and end the run, if there is none left."""
        while True:
            next_one = self._settled
            if await self.fits_now(calls):
                return True
            if not self._held and not next_one.is_set():
                self._end(sum(calls.values()))
                return False
            await next_one.wait()

    async def starts(self, calls: Callable[[], Mapping[Hashable, float]]) -> bool:
        """Wait until it is clear whether a unit may start; return False if the run is over.

        Before the first call is billed, only the highest possible cost of a call is available, which is far too high. A
        unit that does not fit at that cost starts if each call fits by itself. `covers` then admits its calls one after
        another, and no other unit starts before they have ended.
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
        """Reserve the cost of calls of a batch. Return False, and end the run, if they do not fit.

        It never waits, since a batch releases no amount before it ends.
        """
        if await self.fits_now(calls):
            return True
        self.over, self.needed = True, sum(calls.values())
        return False

    async def wait(self) -> None:
        """Keep the reserved amounts, since the run waits for a batch."""
        self.waits = True
        if self.share:
            await self.share.keep(self.used)

    @property
    def limit(self) -> float:
        """Limit of the run's own budget; 0 if there is none."""
        return self._limit or 0.0

    @property
    def guessed(self) -> bool:
        """Return whether a call was reserved at its highest possible cost for lack of data; see `CallCosts`."""
        return self._costs.guessed

    async def covers(self, call: Hashable, price: float) -> bool:
        """Return whether a call of a started unit may be made: its cost is reserved, or fits as usual."""
        return call in self._held or await self.fits({call: price})

    def settle(self, call: Hashable, dimension: str, price: float | None) -> None:
        """Release the amount reserved for an ended call; it counts as spent if the price is unknown (None)."""
        held = self._held.pop(call, 0.0)
        self._one_by_one.discard(call)
        self.spent += held if price is None else price
        if price:  # a refused call costs nothing, and is no evidence about others
            self._costs.note(dimension, price)
        self._wake()

    async def _starts_one_by_one(self, calls: Mapping[Hashable, float]) -> bool:
        dearest, are_unknown = max(calls.values()), self._costs.are_unknown
        if are_unknown and await self._has_room(self.used + dearest):
            self._one_by_one = {*calls}
            return True
        if are_unknown:
            self.warnings.append(
                "The cost of this judge's calls is still unknown. A call with the longest reply "
                f"(judge.max_output_tokens) may cost {money(dearest)}, which is more than the budget has left. Allow "
                "that much, lower judge.max_output_tokens, or make a quote first, without a budget: the run uses the "
                "quote's prices and replies"
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
