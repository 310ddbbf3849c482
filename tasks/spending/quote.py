"""Quote of a run: its calls, tokens, price and time, estimated in advance."""

from collections.abc import Mapping, Sequence

from tasks.parameters import Judge
from tasks.records import Record
from tasks.spending.expected import Call, Expected, Range
from tasks.spending.money import in_currency, money, place
from tasks.spending.prices import BATCH, FREE, Tariff
from tasks.text import duration

BATCH_HOURS = 24
"""Hours within which endpoints promise a batch."""


class TierPrice(Record):
    """Price of the calls in one tier."""

    tier: str
    price: Range
    source: str


class Taken(Record):
    """Expected tokens, prices and time of calls."""

    tokens_in: Range
    tokens_out: Range
    prices: tuple[TierPrice, ...]
    seconds: Range
    replies: int


class Quote(Record):
    """Expected calls, tokens, prices and time of a run."""

    flow: str
    model: str
    endpoint: str
    samples: int
    """Samples with calls to be made, including controls."""
    calls: int
    reused: int = 0
    """Earlier replies that are reused and cost nothing."""
    pictures: int
    """Pictures in the calls, each counted as often as it is sent."""
    in_flight: int
    """Calls in flight, on which the time is based."""
    taken: Taken | None = None
    """Estimate; None if there are no replies to estimate from, or no calls to be made."""
    pilot_samples: int = 0
    """Samples judged just now for the quote; 0 if it uses the judge's history alone."""
    pilot_price: float | None = 0.0

    @property
    def sentence(self) -> str:
        """Return the whole quote as one sentence."""
        return f"{'; '.join(self.lines())}."

    def lines(self) -> list[str]:
        """Return the quote as lines for people to read."""
        there = f"{self.reused:,} replies are there already and cost nothing"
        if not self.calls:
            return [f"no calls to be made: {there}", *self._pilot()]
        counts = f"{self.calls:,} calls to be made about {self.samples:,} samples, with {self.pictures:,} pictures"
        return [f"{counts}; {there}" if self.reused else counts, *self._taken(), *self._pilot()]

    def _taken(self) -> list[str]:
        if self.taken is None:
            return ["tokens, price and time: unknown, for this judge has not replied to these prompts in this store"]
        tokens = f"{_counted(self.taken.tokens_in)} tokens in, {_counted(self.taken.tokens_out)} out"
        prices = [_priced(each) for each in self.taken.prices]
        return [tokens, *(prices or ["price: unknown"]), self._time(self.taken)]

    def _time(self, taken: Taken) -> str:
        spans = dict.fromkeys((duration(taken.seconds.low), duration(taken.seconds.high)))
        batch = f"; as a batch up to {BATCH_HOURS} hours" if any(each.tier == BATCH for each in taken.prices) else ""
        return f"time: {' to '.join(spans)} with {self.in_flight:,} calls at once{batch}"

    def _pilot(self) -> list[str]:
        if not self.pilot_samples:
            return [f"by {self.taken.replies:,} earlier replies of this judge"] if self.taken else []
        cost = "for an unknown price" if self.pilot_price is None else f"for {money(self.pilot_price)}"
        samples = f"{self.pilot_samples} sample{'s' * (self.pilot_samples != 1)}"
        return [f"by the replies about {samples}, asked just now {cost}; the run reuses them"]


def quote_of(
    flow: str, judge: Judge, calls: Sequence[Call], expected: Expected, tariffs: Mapping[str, Tariff]
) -> Quote:
    """Return the quote of calls to be made; `tariffs` has the prices of each tier, as far as they are available."""
    counted = Quote(
        flow=flow,
        model=judge.model,
        endpoint=judge.base_url,
        samples=len({call.subject for call in calls}),
        calls=len(calls),
        pictures=sum(call.pictures for call in calls),
        in_flight=judge.concurrency,
    )
    if not calls or not all(expected.replies(call.dimension) for call in calls):
        return counted
    taken = Taken(
        tokens_in=expected.total(calls, lambda each: each.tokens_in),
        tokens_out=expected.total(calls, lambda each: each.tokens_out),
        prices=tuple(
            TierPrice(tier=tier, price=expected.total(calls, found.price), source=found.source)
            for tier, found in tariffs.items()
        ),
        seconds=expected.seconds(calls, judge.concurrency),
        replies=sum(expected.replies(dimension) for dimension in {call.dimension for call in calls}),
    )
    return counted.model_copy(update={"taken": taken})


def _counted(span: Range) -> str:
    return f"{span.middle:,.0f} ({span.low:,.0f} to {span.high:,.0f})"


def _priced(each: TierPrice) -> str:
    if each.source == FREE.source:
        return f"price: 0, {each.source}"
    amount = in_currency(each.price.middle, {place(each.source)})
    return f"price in the tier {each.tier}: {amount} ({money(each.price.low)} to {money(each.price.high)})"
