"""What a month has cost so far, by the history, and what scheduled runs cost a day: for commands that only tell."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from tasks.history.asking import query
from tasks.ledger.removed import removed_costs

DAYS = 7
"""That scheduled runs are looked at for what they cost a day."""
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
    """What a month has cost so far."""

    amount: float
    """With what calls without a reply may have cost."""
    unknown: int
    """Calls whose price is not known: they are in nothing of this."""
    at_its_end: float | None
    """What it comes to if scheduled runs go on as in the last days; None: there were none that cost anything."""


def month_spent(store: Path, now: datetime) -> MonthSpent:
    """What the present month has cost by the runs that the history has.

    Args:
        now: with a time zone; UTC.

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
