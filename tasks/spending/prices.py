"""What the tokens of a call cost: by endpoint, model, tier, date and kind of token, each price with where it is from.

Four places are asked, one after another: the prices that the judge was given, the worker's file and ours (`overlay`),
and the table of public prices that comes with the package genai-prices, in US dollars. It takes a quarter of a second
to import, so that it is read in a thread while the first calls are out (`Prices`), and never for a judge on this
machine, whose price nobody else knows. What no place knows is unknown, and never 0.
"""

import asyncio
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple, get_args
from urllib.parse import urlsplit

from tasks.endpoint.api_keys import is_loopback
from tasks.endpoint.completion import Reply
from tasks.endpoint.usage import STANDARD, Usage
from tasks.parameters import EMBEDDED, Judge, Tier
from tasks.records import Judgment
from tasks.spending import overlay

MILLION = 1e6
SENT_SECONDS = 0.2
"""From the first call on until the calls that can be in flight at once have been sent: to read the table meanwhile
would hold them up, and models take longer to reply."""
TIERS = get_args(Tier)
"""Tiers that calls can be bought in."""
BATCH = "batch"
"""The tier of calls that go as a batch."""


class Amounts(NamedTuple):
    """Tokens of a call that is expected, in fractions; each kind as `endpoint.usage` tells it."""

    tokens_in: float = 0
    tokens_cached: float = 0
    tokens_written: float = 0
    tokens_out: float = 0


Tokens = Amounts | Usage | Reply | Judgment
"""Whatever tells the tokens of a call."""


class Rates(NamedTuple):
    """Prices of a million tokens of each kind."""

    input: float
    cached: float
    written: float
    output: float
    above: float = -1
    """Input tokens of a call above which these hold, for all of its tokens."""


class Tariff(NamedTuple):
    """What a model costs in one tier at one time."""

    rates: tuple[Rates, ...]
    """From the shortest calls to the longest."""
    source: str
    """Where it is from, for which model and tier, and of which day."""

    def price(self, usage: Tokens) -> float:
        """Of one call, each kind of token at its own price."""
        rates = next(each for each in reversed(self.rates) if usage.tokens_in > each.above)
        plain = usage.tokens_in - usage.tokens_cached - usage.tokens_written
        sent = plain * rates.input + usage.tokens_cached * rates.cached + usage.tokens_written * rates.written
        return (sent + usage.tokens_out * rates.output) / MILLION

    def uncached(self, usage: Tokens) -> float:
        """Of the same call with nothing read from a cache or written to it."""
        return self.price(Amounts(tokens_in=usage.tokens_in, tokens_out=usage.tokens_out))


GIVEN = "the judge's own parameters"
"""The place of prices that were given with the judge."""
FREE = Tariff((Rates(0.0, 0.0, 0.0, 0.0),), "the embedded judge costs nothing")


def tariff(judge: Judge, model: str, tier: str, at: datetime) -> Tariff | None:
    """The prices of a call; None: they are unknown.

    Args:
        model: that answered; empty: none did, or none yet. The model that was asked for is looked up where this one is
            not known.
        tier: as billed; empty: not told, which stands for the standard one.
        at: when the call was answered, with a time zone.

    Raises:
        InputError: a file of prices cannot be used.
    """
    if judge.price_in or judge.price_out:
        return _given(judge)
    if judge.base_url == EMBEDDED:
        return FREE
    minute = at.astimezone(UTC).replace(second=0, microsecond=0)
    names = [name for name in dict.fromkeys((model, judge.model)) if name]
    found = (place(judge.base_url, name, tier or STANDARD, minute) for name in names for place in (_overlaid, _listed))
    return next((each for each in found if each), None)


def is_looked_up(judge: Judge) -> bool:
    """Whether the table of public prices may be asked for this judge's."""
    given = judge.price_in or judge.price_out or judge.base_url == EMBEDDED
    return not given and not is_loopback(urlsplit(judge.base_url).hostname or "")


class Prices:
    """The prices of one run's judge, ready by the time that its first reply is in."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._begun = False
        self._table: asyncio.Future[None] | None = None

    def prepare(self) -> None:
        """Have the table read once the calls that are about to be sent are out. To be called with each of them."""
        if not self._begun and is_looked_up(self._judge):
            self._begun = True
            asyncio.get_running_loop().call_later(SENT_SECONDS, self._read)

    async def tariff(self, model: str, tier: str, at: datetime) -> Tariff | None:
        """As `prices.tariff`, once the table is there."""
        if is_looked_up(self._judge):
            await asyncio.shield(self._read())
        return tariff(self._judge, model, tier, at)

    def _read(self) -> asyncio.Future[None]:
        if self._table is None:
            self._table = asyncio.get_running_loop().run_in_executor(None, self._look_one_up)
        return self._table

    def _look_one_up(self) -> None:
        tariff(self._judge, self._judge.model, STANDARD, datetime.now(UTC))


def _given(judge: Judge) -> Tariff:
    into, cached, written = judge.price_in, judge.price_cached, judge.price_written
    return Tariff((Rates(into, cached or into, written or into, judge.price_out),), GIVEN)


def _overlaid(base_url: str, model: str, tier: str, at: datetime) -> Tariff | None:
    found = overlay.find(base_url, model, tier, at)
    if not found:
        return None
    entry, source = found.entry, f"{found.file} of {found.entry.looked_up}: {found.entry.name}, {tier}"
    if entry.of_standard is not None:
        standard = _overlaid(base_url, model, STANDARD, at) or _listed(base_url, model, STANDARD, at)
        return standard and _share(standard, entry.of_standard, source)
    into, out = entry.input or 0.0, entry.output or 0.0
    cached, written = (into if each is None else each for each in (entry.cached, entry.written))
    return Tariff((Rates(into, cached, written, out),), source)


def _share(standard: Tariff, share: float, source: str) -> Tariff:
    rates = tuple(Rates._make((*(share * price for price in each[:4]), each.above)) for each in standard.rates)
    return Tariff(rates, f"{source}, {share:g} of {standard.source}")


@lru_cache(maxsize=256)
def _listed(base_url: str, model: str, tier: str, at: datetime) -> Tariff | None:
    """From the table of public prices."""
    if is_loopback(urlsplit(base_url).hostname or ""):
        return None
    import genai_prices  # a quarter of a second, which commands that show no prices do without

    wanted = {"processing": BATCH} if tier == BATCH else {"service_tier": tier}
    try:
        found = genai_prices.calc_price(
            genai_prices.Usage(),
            model,
            provider_api_url=base_url,
            genai_request_timestamp=at,
            price_context=None if tier == STANDARD else wanted,
        )
    except LookupError:
        return None
    if tier != STANDARD and not _has_tier(found, wanted, at):
        return None
    rates = _rates(found.model_price)
    source = f"genai-prices {genai_prices.__version__}: {found.provider.id} {found.model.id}, {tier}, {at:%Y-%m-%d}"
    return Tariff(rates, source) if rates else None


def _has_tier(found: Any, wanted: dict[str, str], at: datetime) -> bool:
    """Whether the table knows the tier's price at that time; it would tell the standard one's in its place."""
    own = any(model is found.model for model in found.provider.models)
    known = [each for each in found.model.price_variants or () if each.when == wanted]
    return own and any(each.constraint is None or each.constraint.active(at) for each in known)


def _rates(listed: Any) -> tuple[Rates, ...]:
    """Prices of the table, which may rise from some length of a call on; none where it knows not both directions."""
    into, out = listed.input_mtok, listed.output_mtok
    if into is None or out is None:
        return ()
    cached, written = listed.cache_read_mtok, listed.cache_write_mtok
    kinds = (into, into if cached is None else cached, into if written is None else written, out)
    starts = sorted({tier.start for kind in kinds for tier in getattr(kind, "tiers", ())})
    return tuple(Rates._make((*(_at(kind, above) for kind in kinds), above)) for above in (-1, *starts))


def _at(price: Any, above: int) -> float:
    """One kind's price for calls of more input tokens than that."""
    reached = [tier.price for tier in getattr(price, "tiers", ()) if tier.start <= above]
    return float(reached[-1] if reached else getattr(price, "base", price))
