"""Cost of the present month so far, and of scheduled runs a day, as `jury status` reports them.

The history has the costs; the ledgers have them, too, and decide how much of the month's budget is left.
"""

from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from tasks.errors import InputError
from tasks.history.asking import query
from tasks.ledger.removed import removed_costs
from tasks.spending.money import money
from tasks.spending.month import VARIABLE, Month, month_budget, month_of
from tasks.text import number_of

DAYS = 7
"""Number of past days over which the daily cost of scheduled runs is averaged."""
_PAID = """
    WITH paid AS (
        SELECT j.judged_at AS moment, j.price, j.estimated, j.status, r.scheduled
        FROM judgments j JOIN runs r USING (run_id) WHERE j.reused_from = '' AND j.judged_at >= least($1, $2)
        UNION ALL
        SELECT asked_at, price, estimated, status, false FROM other_calls WHERE asked_at >= least($1, $2)
    ), amounts AS (
        SELECT *, coalesce(price, 0) + coalesce(estimated, 0) AS amount,
               price IS NULL AND status NOT IN ('rejected', 'unavailable') AS unknown
        FROM paid
    )
    SELECT coalesce(sum(amount) FILTER (moment >= $1), 0), count(*) FILTER (moment >= $1 AND unknown),
           coalesce(sum(amount) FILTER (moment >= $2 AND scheduled), 0)
    FROM amounts"""


class MonthSpent(NamedTuple):
    """Cost of a month so far."""

    amount: float
    """Amount, including the possible cost of calls without a reply."""
    unknown: int
    """Calls with an unknown price, which are in neither amount."""
    at_its_end: float | None
    """Amount at the month's end if scheduled runs go on as in the last days; None: they cost nothing."""


def month_spent(store: Path, now: datetime) -> MonthSpent:
    """Return the cost of the present month, from the runs in the history.

    Args:
        now: present time, UTC, with a time zone.

    Raises:
        InputError: there is no history, or it was made by another version.
    """
    begun = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    over = (begun + timedelta(days=32)).replace(day=1)
    moments = [each.replace(tzinfo=None) for each in (begun, now - timedelta(days=DAYS))]
    [(amount, unknown, lately)] = query(store, _PAID, moments).rows
    rest = (over - now) / timedelta(days=DAYS)
    amount += sum(removed_costs(store, f"{now:%Y-%m}").values())
    return MonthSpent(amount, unknown, amount + lately * rest if lately else None)


def month_lines(store: Path, now: datetime) -> list[str]:
    """Return lines about the month's money; none if nothing was spent and nothing is limited.

    Args:
        now: present time, UTC, with a time zone.
    """
    if not store.is_dir():
        return []
    try:
        spent = month_spent(store, now)
    except InputError:  # the last line of the status reports it
        spent = None
    try:
        amount = month_budget()
        return _of_budget(store, now, amount, spent) if amount else _without_budget(now, spent)
    except (InputError, OSError) as error:
        return [f"budget     {error}"]


def _of_budget(store: Path, now: datetime, amount: float, spent: MonthSpent | None) -> list[str]:
    found = Month(store, month_of(now), amount).sum()
    unspent = sum(each.unspent for each in found.open.values())
    runs = number_of(len(found.open), "run")
    may_be = f", {money(unspent)} may be by {runs} at work or waiting" if found.open else ""
    left = money(max(amount - found.spent - unspent, 0.0))
    line = (
        f"budget     {month_of(now)}: {money(found.spent)} of {money(amount)} spent{may_be}, {left} left ({VARIABLE})"
    )
    return [line, *_more(spent and spent.at_its_end, found.unknown)]


def _without_budget(now: datetime, spent: MonthSpent | None) -> list[str]:
    if not spent or not (spent.amount or spent.unknown):
        return []
    line = f"spent      {month_of(now)}: {money(spent.amount)}; {VARIABLE} is not set, so that nothing limits it"
    return [line, *_more(spent.at_its_end, spent.unknown)]


def _more(at_its_end: float | None, unknown: int) -> list[str]:
    expected = f"about {money(at_its_end)} at its end, if scheduled runs go on as in the last {DAYS} days"
    uncounted = f"without {number_of(unknown, 'call')} whose price is unknown"
    return [f"           {words}" for words in (expected if at_its_end else "", uncounted if unknown else "") if words]
