"""The money of a run that waited for a batch: what may still be spent of it, and what it came to, told to its month.

How a budget is counted is for `budgeting`, and for `tasks.spending`.
"""

import asyncio
import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from flows.runtime.budgeting import Shared, costs_of, judge_tariff, month_share
from flows.runtime.sending import in_daemon_thread
from tasks.batches.log import Event
from tasks.ledger.remote import Remote
from tasks.parameters import Parameters
from tasks.records import RunStart
from tasks.spending.budget import Budget
from tasks.spending.reservations import month_budget, month_of


@asynccontextmanager
async def budget_after(
    asked: Parameters, store: Path, remote: Remote | None, start: RunStart, told: Event
) -> AsyncGenerator[Budget | None]:
    """The budget of a run that waited for a batch, for what is asked again; None: it has none. Where the context ends
    well, what the run claims of its month is what it has spent, or may yet where it waits again.

    Args:
        asked: with the tier that is asked again in.

    Raises:
        InputError: no price of its judge is known any more; the store cannot keep a month's budget.
        OSError: the month's budget cannot be read.
    """
    tariff = judge_tariff(asked) if told.limit or told.month else None
    if tariff is None:
        yield None
        return
    month = None
    if told.month:
        amount = month_budget() or math.inf
        month = await in_daemon_thread(lambda: month_share(store, remote, amount, start.run_id, told.month))
    costs = await asyncio.to_thread(costs_of, asked, store, start, tariff)
    budget = Budget(told.limit or None, costs, Shared(month) if month else None)
    yield budget
    if month:
        await in_daemon_thread(lambda: month.keep(budget.used if budget.waits else budget.spent))
        await in_daemon_thread(lambda: _count_once(store, remote, start.run_id, told.month))


def _count_once(store: Path, remote: Remote | None, run_id: str, month: str) -> None:
    """What was claimed of an earlier month counts there: replies that come later are none of this month's."""
    if month < month_of(datetime.now(UTC)):
        month_share(store, remote, math.inf, run_id).close(0.0)


async def never_handed_in(store: Path, remote: Remote | None, run_id: str) -> None:
    """Give back what a run claimed that was killed before anything of it was sent."""
    if month_budget():
        month = f"{run_id[:4]}-{run_id[4:6]}"
        found = await in_daemon_thread(lambda: month_share(store, remote, math.inf, run_id, month))
        await in_daemon_thread(lambda: found.close(0.0))
