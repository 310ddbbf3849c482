"""What `jury status` says of the present month: what it has cost, what is left of its budget, what it will come to."""

from datetime import UTC, datetime
from pathlib import Path

from flows.commands.messages import number_of
from tasks.errors import HistoryLocked, InputError
from tasks.history.month import DAYS, MonthSpent, month_spent
from tasks.ledger.bucket import Bucket
from tasks.ledger.remote import is_remote, local_cache
from tasks.spending.money import money
from tasks.spending.reservations import VARIABLE, Month, month_budget, month_of
from tasks.spending.shelves import BucketShelf, LocalShelf


def month_lines(store: str) -> list[str]:
    """Lines for people; none of a store where nothing was spent and nothing is limited."""
    folder, now = local_cache(store), datetime.now(UTC)
    if not folder.is_dir():
        return []
    try:
        spent = month_spent(folder, now)
    except (HistoryLocked, InputError):  # the last line of the status tells of it
        spent = None
    try:
        amount = month_budget()
        return _of_budget(store, folder, now, amount, spent) if amount else _without_budget(now, spent)
    except (InputError, OSError) as error:
        return [f"budget     {error}"]


def _of_budget(store: str, folder: Path, now: datetime, amount: float, spent: MonthSpent | None) -> list[str]:
    shelf = BucketShelf(Bucket(store), to_change=False) if is_remote(store) else LocalShelf(folder)
    month = Month(folder, shelf, month_of(now), amount, "")
    stands = month.standing()
    claimed = (
        f", {money(stands.claimed)} claimed by {number_of(stands.open, 'run')} at work or waiting"
        if stands.open
        else ""
    )
    left = money(max(amount - stands.spent - stands.claimed, 0.0))
    line = (
        f"budget     {month.month}: {money(stands.spent)} of {money(amount)} spent{claimed}, {left} left ({VARIABLE})"
    )
    return [line, *_more(spent and spent.at_its_end, stands.unknown)]


def _without_budget(now: datetime, spent: MonthSpent | None) -> list[str]:
    if not spent or not (spent.amount or spent.unknown):
        return []
    line = f"spent      {month_of(now)}: {money(spent.amount)}; {VARIABLE} is not set, so that nothing limits it"
    return [line, *_more(spent.at_its_end, spent.unknown)]


def _more(at_its_end: float | None, unknown: int) -> list[str]:
    expected = f"about {money(at_its_end)} at its end, if scheduled runs go on as in the last {DAYS} days"
    uncounted = f"without {number_of(unknown, 'call')} whose price is unknown"
    return [f"           {words}" for words in (expected if at_its_end else "", uncounted if unknown else "") if words]
