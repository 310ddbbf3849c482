"""Bill of one run, call by call, with an estimate for calls that got no reply in time and may be billed."""

import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from tasks.endpoint.completion import Reply
from tasks.endpoint.requests import Request
from tasks.endpoint.usage import STANDARD
from tasks.parameters import Judge
from tasks.records import Judgment
from tasks.spending.money import money
from tasks.spending.prices import BATCH, FREE, Amounts, Prices, Tariff

CHARACTERS_A_TOKEN, PICTURE_TOKENS, REPLY_TOKENS = 4, 1000, 500
"""Assumed size of a call without history: characters a token, tokens of a medium picture, tokens of a short reply."""


class Charge(NamedTuple):
    """Cost of one call, in the fields of a row of the ledger."""

    price: float | None = None
    """Price; None if unknown. This and the other fields are those of a ledger row."""
    price_source: str = ""
    estimated: float | None = 0.0
    saved_by_service_tier: float | None = None
    saved_by_cache: float | None = None


class _Mean:
    """Mean reply about one dimension."""

    def __init__(self) -> None:
        self._replies, self._sums = 0, Amounts()

    def add(self, reply: Reply) -> None:
        self._replies += 1
        self._sums = Amounts(*(total + getattr(reply, kind) for kind, total in self._sums._asdict().items()))

    @property
    def amounts(self) -> Amounts:
        return Amounts(*(total / self._replies for total in self._sums))


def billed(call: Judgment | Charge) -> float | None:
    """Return the cost of a call, including the estimate for attempts without a reply; None if unknown."""
    return None if call.price is None or call.estimated is None else call.price + call.estimated


class Bill:
    """Bill of one run."""

    def __init__(self, judge: Judge) -> None:
        self._prices = Prices(judge)
        self._tier = STANDARD if judge.service_tier == BATCH else judge.service_tier
        """Tier of a call without a reply; replies of a batch bring their own."""
        self._means: dict[str, _Mean] = {}
        self.spent: float | None = 0.0
        """Sum of the prices of all calls so far, without estimates; None if one of them is unknown."""
        self.most = math.inf
        """Most that the run may spend."""
        self._decided, self._cases, self._of_decided = 0, 0, 0.0

    def prepare(self) -> None:
        """Begin to read the table of prices, because a call is about to be sent."""
        self._prices.prepare()

    async def charge(self, request: Request, reply: Reply, dimension: str) -> Charge:
        """Return the cost of a call. A reply without a tier counts as standard, the most expensive tier requested."""
        came = reply.model or reply.tokens_in
        now, tier = datetime.now(UTC), reply.tier or (STANDARD if came else self._tier)
        tariff = await self._prices.tariff(reply.model, tier, now)
        standard = tariff if tier == STANDARD else await self._prices.tariff(reply.model, STANDARD, now)
        if reply.tokens_in:
            self._means.setdefault(dimension, _Mean()).add(reply)
        charge = _charge(tariff, standard, reply)
        if reply.timed_out:
            charge = charge._replace(estimated=self._estimated(tariff, request, reply, dimension))
        self._spend(charge, reply)
        return charge

    def expect(self, cases: int) -> None:
        """Set the number of samples in all."""
        self._cases = cases

    def decide(self, rows: Iterable[Judgment]) -> None:
        """Add the rows of a decided sample."""
        self._decided += 1
        self._of_decided += sum(row.price or 0.0 for row in rows)

    def words(self) -> str:
        """Return the amount spent so far and the amount expected at the end; empty while these are unknown or 0."""
        if not self.spent:
            return ""
        at_end = self._of_decided / self._decided * self._cases if self._decided else None
        ends = max(min(at_end or 0.0, self.most), self.spent)
        expected = f", about {money(ends)} expected at the end" if at_end else ""
        return f"{money(self.spent)} spent{expected}"

    def _spend(self, charge: Charge, reply: Reply) -> None:
        unbilled = charge.price is None and reply.status in ("rejected", "unavailable")
        if self.spent is not None and not unbilled:
            self.spent = None if charge.price is None else self.spent + charge.price

    def _estimated(self, tariff: Tariff | None, request: Request, reply: Reply, dimension: str) -> float | None:
        """Estimate timed-out attempts by the mean reply about this dimension, or else by the size of the question."""
        if tariff is None:
            return None
        mean = self._means.get(dimension)
        return reply.timed_out * tariff.price(mean.amounts if mean else _by_size(request))


def _charge(tariff: Tariff | None, standard: Tariff | None, reply: Reply) -> Charge:
    if tariff is None:
        return Charge()
    price = _price(tariff, reply)
    if price is None:
        return Charge(price_source=tariff.source)
    by_tier = standard.price(reply) - tariff.price(reply) if standard else None
    return Charge(price, tariff.source, 0.0, by_tier, tariff.uncached(reply) - tariff.price(reply))


def _price(tariff: Tariff, reply: Reply) -> float | None:
    """Return the price of a reply; None if it reports no tokens. A call that never reached a model costs nothing."""
    if reply.tokens_in or reply.tokens_out:
        return tariff.price(reply)
    came = reply.model or reply.status not in ("refused", "rejected", "unavailable")
    return None if came and tariff is not FREE else 0.0


def _by_size(request: Request) -> Amounts:
    letters = len(request.system) + sum(len(part) for part in request.content if isinstance(part, str))
    return Amounts(letters / CHARACTERS_A_TOKEN + request.pictures * PICTURE_TOKENS, tokens_out=REPLY_TOKENS)
