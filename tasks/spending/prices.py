"""Token prices from the first source that has them, and amounts of money in words."""

import os
from collections.abc import Collection
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from tasks.endpoint.api_keys import is_loopback
from tasks.endpoint.catalog import endpoints, known_at, read_tables
from tasks.endpoint.replies import STANDARD, Usage
from tasks.errors import InputError
from tasks.records import Judgment, Record
from tasks.records.judge import EMBEDDED, Judge
from tasks.text import money

PRICES = "JURY_PRICES"
"""Environment variable of the worker that names a file of prices."""
SHIPPED = Path(__file__).with_name("prices.toml")
MILLION = 1e6
BATCH = "batch"


class Amounts(NamedTuple):
    """Expected tokens of a call, in fractions; the kinds are those of `endpoint.replies`."""

    tokens_in: float = 0
    tokens_cached: float = 0
    tokens_written: float = 0
    tokens_out: float = 0


Tokens = Amounts | Usage | Judgment


class Rates(NamedTuple):
    """Prices of a million tokens of each kind."""

    input: float
    cached: float
    written: float
    output: float
    above: float = -1
    """Number of input tokens of a call above which these prices hold, for all of its tokens."""


class Tariff(NamedTuple):
    """Prices of a model in one tier at one time."""

    rates: tuple[Rates, ...]
    """Rates from the shortest calls to the longest."""
    source: str
    """Source of the prices, with model, tier and day."""

    def price(self, usage: Tokens) -> float:
        """Return the price of one call, each kind of token at its own rate."""
        rates = next(each for each in reversed(self.rates) if usage.tokens_in > each.above)
        plain = usage.tokens_in - usage.tokens_cached - usage.tokens_written
        sent = plain * rates.input + usage.tokens_cached * rates.cached + usage.tokens_written * rates.written
        return (sent + usage.tokens_out * rates.output) / MILLION


class Entry(Record):
    """One entry of a file of prices; `prices.toml` explains the fields."""

    name: str
    endpoint: str = Field(pattern=r"^([a-z][a-z0-9]*|https?://\S+)$")
    model: str = Field(min_length=1)
    tier: str = Field(default=STANDARD, pattern="^[a-z0-9_]+$")
    since: date = date.min
    of_standard: float | None = Field(default=None, ge=0)
    input: float | None = Field(default=None, ge=0)
    cached: float | None = Field(default=None, ge=0)
    written: float | None = Field(default=None, ge=0)
    output: float | None = Field(default=None, ge=0)
    page: str = ""
    looked_up: date

    @model_validator(mode="after")
    def _says_one_price(self) -> "Entry":
        own = self.input is not None and self.output is not None
        if own == (self.of_standard is not None):
            raise InputError("either input and output are needed, or of_standard alone")
        if self.of_standard is not None and self.tier == STANDARD:
            raise InputError("of_standard is a share of the standard tier's price: name another tier")
        if "://" not in self.endpoint and self.endpoint not in endpoints():
            raise InputError(f"endpoint must be an address or one of {', '.join(endpoints())}")
        return self

    def fits(self, base_url: str, model: str, tier: str, at: datetime) -> bool:
        """Return whether it is the price of a call to this address, of this model and tier, at this time (UTC)."""
        known = endpoints().get(self.endpoint)
        # A judge's address has no slash at its end, that of an entry may have one.
        here = known.stands_at(base_url) if known else f"{base_url}/".startswith(self.endpoint)
        return here and tier == self.tier and self.since <= at.date() and fnmatchcase(model.lower(), self.model)


_checked: dict[Path, list[Entry]] = {}
"""File -> its entries as last checked: an edit during a run must stop no call, whose reply is paid for."""


def check_price_files() -> None:
    """Read the files of prices, so that mistakes in the worker's own file are listed before the first call."""
    for file in _files():
        if not file.is_file():
            raise InputError(f"{PRICES} names {str(file)!r}, which is no file: set it to a file of prices, or unset it")
        _checked[file] = list(read_tables(file, Entry).values())


def _files() -> list[Path]:
    """Return the files of prices in order of precedence."""
    named = os.environ.get(PRICES, "")
    return [Path(named), SHIPPED] if named else [SHIPPED]


GIVEN = "the judge's own parameters"
FREE = Tariff((Rates(0.0, 0.0, 0.0, 0.0),), "the embedded judge costs nothing")


def tariff(judge: Judge, model: str, tier: str, at: datetime) -> Tariff | None:
    """Return the prices of a call; None if they are unknown.

    Args:
        model: model that answered; empty if none did. If it has no price, the model asked for is looked up.
        tier: tier as billed; empty if not reported, which means the standard one.
        at: time of the answer, with a time zone.

    Raises:
        InputError: a file of prices cannot be used.
    """
    if given := _given(judge):
        return given
    if judge.base_url == EMBEDDED:
        return FREE
    minute = at.astimezone(UTC).replace(second=0, microsecond=0)
    names = [name for name in dict.fromkeys((model, judge.model)) if name]
    found = (place(judge.base_url, name, tier or STANDARD, minute) for name in names for place in (_overlaid, _listed))
    return next((each for each in found if each), None)


def tariffs(judge: Judge, answered: str) -> dict[str, Tariff]:
    """Return tier that the endpoint takes -> its known prices now. Prices given for a judge apply in any tier.

    Args:
        answered: model that answered; empty if none did.
    """
    now = datetime.now(UTC)
    known = known_at(judge.base_url)
    one_price = _given(judge) or judge.base_url == EMBEDDED
    tiers = [judge.service_tier] if one_price else [STANDARD, *(known.tiers if known else ())]
    found = {tier: tariff(judge, answered, tier, now) for tier in tiers}
    return {tier: each for tier, each in found.items() if each}


def _given(judge: Judge) -> Tariff | None:
    if judge.price_in is None or judge.price_out is None:
        return None
    cached, written = (
        judge.price_in if price is None else price for price in (judge.price_cached, judge.price_written)
    )
    return Tariff((Rates(judge.price_in, cached, written, judge.price_out),), GIVEN)


def _overlaid(base_url: str, model: str, tier: str, at: datetime) -> Tariff | None:
    """Return the prices of a file; of several entries that fit, the last of the first file counts."""
    for file in _files():
        if file not in _checked:
            check_price_files()
        fitting = [each for each in _checked[file] if each.fits(base_url, model, tier, at)]
        if fitting:
            return _of_entry(fitting[-1], file.name, base_url, model, at)
    return None


def _of_entry(entry: Entry, file: str, base_url: str, model: str, at: datetime) -> Tariff | None:
    source = f"{file} of {entry.looked_up}: {entry.name}, {entry.tier}"
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
    """Return the prices from the table of public prices."""
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
    """Return whether the table has the tier's own price at that time; without one, it returns the standard price."""
    own = any(model is found.model for model in found.provider.models)
    known = [each for each in found.model.price_variants or () if each.when == wanted]
    return own and any(each.constraint is None or each.constraint.active(at) for each in known)


def _rates(listed: Any) -> tuple[Rates, ...]:
    """Return the table's rates, which may depend on the length of a call; none without a price for input and output."""
    into, out = listed.input_mtok, listed.output_mtok
    if into is None or out is None:
        return ()
    cached, written = listed.cache_read_mtok, listed.cache_write_mtok
    kinds = (into, into if cached is None else cached, into if written is None else written, out)
    starts = sorted({tier.start for kind in kinds for tier in getattr(kind, "tiers", ())})
    return tuple(Rates._make((*(_at(kind, above) for kind in kinds), above)) for above in (-1, *starts))


def _at(price: Any, above: int) -> float:
    """Return the price of one kind of token for calls with more than `above` input tokens."""
    reached = [tier.price for tier in getattr(price, "tiers", ()) if tier.start <= above]
    return float(reached[-1] if reached else getattr(price, "base", price))


def place(price_source: str) -> str:
    """Return the source of a price, without the model, the tier and the day."""
    return price_source.partition(":")[0]


def in_currency(amount: float | None, places: Collection[str]) -> str:
    """Return an amount with its currency: tables and files are in US dollars, a judge's own prices in any currency."""
    own = {"", GIVEN} & {*places}
    listed = ", ".join(sorted({*places} - {"", GIVEN, FREE.source}))
    if not amount or not (own or listed):
        return money(amount)
    return f"{money(amount)} in the currency of the prices given" if own else f"{money(amount)} US dollars, by {listed}"
