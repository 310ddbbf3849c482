"""Amounts of money in words."""

from collections.abc import Collection

from tasks.spending.prices import FREE, GIVEN

UNKNOWN = "unknown"


def money(amount: float | None) -> str:
    """Return an amount with four decimals below 100, else two; `unknown` for None. No amount above 0 is shown as 0."""
    if amount is None:
        return UNKNOWN
    if 0 < amount < 0.00005:
        return "below 0.0001"
    return f"{amount:,.2f}" if abs(amount) >= 100 else f"{amount:,.4f}"


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
