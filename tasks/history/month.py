"""Cost of the present month so far, and of scheduled runs a day, from the history; for commands that only report it."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from tasks.history.asking import query
from tasks.ledger.removed import removed_costs

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
