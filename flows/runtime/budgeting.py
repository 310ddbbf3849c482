"""The money of a run: where its budget comes from, which samples it starts, and where it stopped.

Owns what a budget means for the order of a run and for its end. The rule is `tasks.spending.budget`'s, the month that
runs share is `tasks.spending.reservations`'.
"""

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from prefect.logging import get_logger

from flows.runtime.sending import in_daemon_thread
from tasks.datasets.dataset import Dataset
from tasks.errors import InputError
from tasks.judging.affording import prices_of
from tasks.judging.case import Case
from tasks.judging.run import Run
from tasks.ledger.other_calls import OTHER_CALLS
from tasks.ledger.remote import Remote
from tasks.parameters import Judge, Parameters
from tasks.passport.costs import expected_price
from tasks.records import BudgetStop, RunStart, Sample
from tasks.spending.budget import Budget, CallCosts
from tasks.spending.expected import Expected, past_replies, seen
from tasks.spending.money import money
from tasks.spending.order import in_random_order, units
from tasks.spending.prices import BATCH, FREE, Tariff, tariff
from tasks.spending.reservations import RENEW_SECONDS, VARIABLE, Month, month_budget, month_of
from tasks.spending.shelves import BucketShelf, LocalShelf

AHEAD = 0.02
"""Share of the month's budget that a run claims beyond what it needs, so that it need not ask before every chunk."""

_log = get_logger("image-jury")


def tariff_of(asked: Parameters) -> Tariff | None:
    """The prices that the budget of a run is counted in; None: it has no budget, or its judge costs nothing.

    Raises:
        InputError: it has one, and no price of its judge is known.
    """
    if not (asked.budget or month_budget()):
        return None
    return judge_tariff(asked)


def judge_tariff(asked: Parameters) -> Tariff | None:
    """The same of a run that has one."""
    return _tariff_of(asked.judge, f"budget is {asked.budget:g}" if asked.budget else f"{VARIABLE} is set")


def _tariff_of(judge: Judge, which: str) -> Tariff | None:
    found = tariff(judge, judge.model, judge.tier, datetime.now(UTC))
    if found is None:
        raise InputError(
            f"{which}, and no price of {judge.model} at {judge.base_url} is known, so that nothing could be counted: "
            "give judge.price_in and judge.price_out, the prices of a million tokens; those of a judge that costs "
            "nothing stand as 0 in a file that JURY_PRICES names"
        )
    return None if found is FREE else found


def in_order(dataset: Dataset, tariff: Tariff | None) -> Dataset:
    """The dataset, its samples in a random order where a budget may end the run before the last."""
    if tariff is None:
        return dataset
    return dataset.model_copy(update={"samples": in_random_order(dataset.samples, dataset.key)})


@asynccontextmanager
async def budget_of(
    asked: Parameters,
    tariff: Tariff | None,
    store: Path,
    remote: Remote | None,
    start: RunStart,
    spent_before: float = 0.0,
) -> AsyncGenerator[Budget | None]:
    """The budget of a run, its own, the month's or both, for as long as the context lasts; None: it has none.

    Args:
        spent_before: of its own budget, by a pilot.

    Raises:
        InputError: the store cannot keep a month's budget.
        OSError: the month's budget cannot be read.
    """
    if tariff is None:
        yield None
        return
    costs = await asyncio.to_thread(costs_of, asked, store, start, tariff)
    limit, amount = asked.budget - spent_before if asked.budget else None, month_budget()
    if amount is None:
        yield Budget(limit, costs)
        return
    month = await in_daemon_thread(lambda: month_share(store, remote, amount, start.run_id))
    share = Shared(month, lambda: month_share(store, remote, amount, start.run_id))
    async with _sharing(share, Budget(limit, costs, share)) as budget:
        if month.unknown:
            calls = f"{month.unknown:,} calls of {month.month} in this store"
            budget.warnings.append(f"{VARIABLE} does not count {calls}, for their price is not known")
        yield budget


@asynccontextmanager
async def budget_of_passport(
    judge: Judge, store: Path, remote: Remote | None, passport_id: str, questions: int
) -> AsyncGenerator[Budget | None]:
    """What the month's budget has for a passport, for as long as the context lasts; None: there is no such budget.

    Raises:
        InputError: what the passport is expected to cost does not fit into it, no price of the judge is known, or the
            store cannot keep such a budget.
        OSError: the month's budget cannot be read.
    """
    amount = month_budget()
    tariff = await asyncio.to_thread(_tariff_of, judge, f"{VARIABLE} is set") if amount else None
    if amount is None or tariff is None:
        yield None
        return
    month = await in_daemon_thread(lambda: month_share(store, remote, amount, passport_id))
    expected, left = expected_price(store, judge, tariff, questions), await in_daemon_thread(month.left)
    if expected.amount > left:
        raise InputError(
            f"a passport of {judge.model} is {questions} questions for about {money(expected.amount)}, {expected.by}, "
            f"and does not fit: of the {money(amount)} that {VARIABLE} allows in {month.month}, "
            f"{money(max(left, 0.0))} are left. Raise that budget, or wait for the next month"
        )
    costs = CallCosts(tariff, judge.max_output_tokens)
    share = Shared(month)
    async with _sharing(share, Budget(None, costs, share)) as budget:
        yield budget


@asynccontextmanager
async def _sharing(share: "Shared", budget: Budget) -> AsyncGenerator[Budget]:
    """A budget with a share of the month: claimed while the context lasts, and then what was spent."""
    renewing = asyncio.create_task(_renew(share, budget))
    try:
        yield budget
    finally:
        renewing.cancel()
        with suppress(OSError, InputError):  # the claim expires by itself, and from then on counts what the ledger says
            if not budget.waits:
                await share.close(budget.spent)


def costs_of(asked: Parameters, store: Path, start: RunStart, tariff: Tariff) -> CallCosts:
    """What calls of each dimension cost in earlier runs of this judge, in 95 of 100 cases.

    Of a batch nothing is billed before all of it is bought, so that a few earlier replies tell more than none.
    """
    replies = seen(past_replies(store, start), ())
    expected = Expected(replies)
    known = {dimension: expected.percentile(dimension, tariff) for dimension in start.dimensions}
    costs = CallCosts(tariff, asked.judge.max_output_tokens, known.get)
    for each in replies if _is_batch(start) else ():
        if known.get(each.dimension) is None and (price := tariff.price(each.amounts)):
            costs.note(each.dimension, price)
    return costs


def _is_batch(start: RunStart) -> bool:
    judge: Any = start.parameters.get("judge")
    return bool(judge) and judge.get("tier") == BATCH


def month_share(store: Path, remote: Remote | None, amount: float, run_id: str, waited: str = "") -> Month:
    """A run's share of this month, or of the one in which it was handed in. Reads ledgers: for a thread."""
    now = datetime.now(UTC)

    def fetch() -> None:
        if remote:
            remote.fetch(now.replace(day=1, hour=0, minute=0, second=0, microsecond=0))
            remote.fetch_folder(OTHER_CALLS.folder)

    shelf = BucketShelf(remote.bucket) if remote else LocalShelf(store)
    return Month(store, shelf, waited or month_of(now), amount, run_id, bool(waited), fetch)


class Shared:
    """A run's share of the month, asked in a thread. At the turn of the month it begins anew: what was spent until then
    is the old month's, what comes afterwards has to fit into the new one.

    Args:
        opened: the share of the month that it is then; None: it stays with its month, whenever that is over.
    """

    def __init__(self, month: Month, opened: Callable[[], Month] | None = None) -> None:
        self._month, self._opened = month, opened
        self._before = 0.0
        """Spent in months that are over."""
        self.budget = month.budget

    @property
    def month(self) -> str:
        """See `budget.Share`."""
        return self._month.month

    async def claim(self, total: float, spent: float) -> bool:
        """See `budget.Share`."""
        if self._opened and self.month != month_of(datetime.now(UTC)):
            await self.close(spent)
            self._month, self._before = await in_daemon_thread(self._opened), spent
        ahead = AHEAD * self.budget if math.isfinite(self.budget) else 0.0
        return await in_daemon_thread(lambda: self._month.claim(total - self._before, ahead))

    async def keep(self, total: float) -> None:
        """See `budget.Share`."""
        await in_daemon_thread(lambda: self._month.keep(total - self._before))

    async def renew(self, used: float) -> None:
        """Tell that the run lives, and give back what it has claimed and does not use."""
        await in_daemon_thread(lambda: self._month.renew(used - self._before))

    async def close(self, spent: float) -> None:
        """The run has ended, or its month is over; this is what it spent in all."""
        await in_daemon_thread(lambda: self._month.close(spent - self._before))


async def _renew(share: Shared, budget: Budget) -> None:
    """Tell that the run lives, until this is cancelled. What fails is tried again before the claim expires."""
    while True:
        await asyncio.sleep(RENEW_SECONDS)
        try:
            await share.renew(budget.used)
        except (OSError, InputError) as error:
            _log.debug("The claim on the budget of %s could not be renewed: %s", share.month, error)


async def affordable(run: Run, cases: list[Case]) -> AsyncIterator[list[Case]]:
    """Those samples that may be started, in their order and as soon as they may; the others are let go.

    Where several units fit at once, they come together. Without a budget all of them do.
    """
    budget = run.budget
    if budget is None:
        yield cases
        return
    together: list[Case] = []
    for unit in units(cases, lambda case: case.sample):
        prices = partial(prices_of, run, budget, unit)
        if run.parameters.judge.tier == BATCH and not budget.over:
            await budget.fits_or_ends(prices())
        elif not budget.over and not await budget.fits_now(prices()):
            if together:
                yield together  # what is held for them comes free only when they are judged
                together = []
            await budget.starts(prices)
        if budget.over:
            for case in unit:
                run.in_hand.free(case)
        else:
            together += unit
    if together:
        yield together


def where_stopped(run: Run, samples: Sequence[Sample], judged: int) -> BudgetStop | None:
    """Where the run stopped at its budget; None: it did not.

    Args:
        judged: how many samples it came to.
    """
    budget = run.budget
    if not budget or not budget.over:
        return None
    month = budget.exhausted
    return BudgetStop(
        budget=month.budget if month else run.parameters.budget,
        month=month.month if month else "",
        spent=budget.spent,
        needed=budget.needed,
        judged=judged,
        samples=len(samples),
        whole=_numbers(samples) if run.start.shards == 1 and judged < len(samples) else {},
    )


def _numbers(samples: Sequence[Sample]) -> dict[str, dict[str, int]]:
    """Candidate -> tag -> units that there are."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for candidate, tag, _ in {(each.candidate, each.tag, each.subject) for each in samples}:
        found[candidate][tag] += 1
    return {candidate: dict(tags) for candidate, tags in found.items()}
