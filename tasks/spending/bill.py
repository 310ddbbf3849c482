"""What the calls of one run cost, reply by reply.

Owns what is written into a row: its price, where that is from, and an estimate of what came of sends that got no reply
in time and may have been billed all the same. Prices are those of `prices`; nothing here is written anywhere.
"""

from datetime import UTC, datetime
from typing import NamedTuple

from tasks.endpoint.completion import Reply
from tasks.endpoint.requests import Request
from tasks.parameters import Judge
from tasks.spending.prices import FREE, Amounts, Prices, Tariff

CHARACTERS_A_TOKEN, PICTURE_TOKENS, REPLY_TOKENS = 4, 1000, 500
"""What a call takes of which nothing is known: text by its letters, a picture of middling size, a short reply."""


class Charge(NamedTuple):
    """What one call cost."""

    price: float | None
    """None: unknown."""
    source: str
    """Where the price is from; empty: no price is known."""
    estimated: float | None
    """What its sends without a reply may have cost besides; see `Judgment.estimated`."""


class _Mean:
    """The mean reply about one dimension."""

    def __init__(self) -> None:
        self._replies, self._sums = 0, Amounts()

    def add(self, reply: Reply) -> None:
        self._replies += 1
        self._sums = Amounts(*(total + getattr(reply, kind) for kind, total in self._sums._asdict().items()))

    @property
    def amounts(self) -> Amounts:
        return Amounts(*(total / self._replies for total in self._sums))


class Bill:
    """The bill of one run."""

    def __init__(self, judge: Judge) -> None:
        self._prices = Prices(judge)
        self._means: dict[str, _Mean] = {}

    def prepare(self) -> None:
        """A call is about to be sent."""
        self._prices.prepare()

    async def charge(self, request: Request, reply: Reply, dimension: str) -> Charge:
        """What came of a call costs."""
        tariff = await self._prices.tariff(reply.model, reply.tier, datetime.now(UTC))
        if reply.tokens_in:
            self._means.setdefault(dimension, _Mean()).add(reply)
        return Charge(
            price=tariff and _price(tariff, reply),
            source=tariff.source if tariff else "",
            estimated=self._estimated(tariff, request, reply, dimension) if reply.timed_out else 0.0,
        )

    def _estimated(self, tariff: Tariff | None, request: Request, reply: Reply, dimension: str) -> float | None:
        """By the mean reply about this dimension, or else by the size of the question."""
        if tariff is None:
            return None
        mean = self._means.get(dimension)
        return reply.timed_out * tariff.price(mean.amounts if mean else _by_size(request))


def _price(tariff: Tariff, reply: Reply) -> float | None:
    """None: a reply came that tells no tokens. What never reached a model costs nothing."""
    if reply.tokens_in or reply.tokens_out:
        return tariff.price(reply)
    came = reply.model or reply.status not in ("refused", "rejected", "unavailable")
    return None if came and tariff is not FREE else 0.0


def _by_size(request: Request) -> Amounts:
    letters = len(request.system) + sum(len(part) for part in request.content if isinstance(part, str))
    return Amounts(letters / CHARACTERS_A_TOKEN + request.pictures * PICTURE_TOKENS, tokens_out=REPLY_TOKENS)
