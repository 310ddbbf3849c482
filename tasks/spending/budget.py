"""Budgets of a run and of the month that runs share, and the random order in which samples are judged."""

import asyncio
import math
import os
from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from tasks.errors import InputError
from tasks.ledger.bucket import in_daemon_thread
from tasks.ledger.removals import removed_costs
from tasks.ledger.run_files import (
    END,
    JUDGMENTS,
    RUN,
    folder,
    moment_of,
    parse_row,
    read_end,
    read_start,
    run_folders,
    validate_row,
    whole_lines,
)
from tasks.ledger.side_records import OTHER_CALLS, OtherCall, first_questions_of, other_calls_of
from tasks.records import ANCHOR, Judgment, RunStart, Sample, known_cost
from tasks.spending.prices import Amounts, Tariff
from tasks.text import money

if TYPE_CHECKING:
    from tasks.ledger.remote import Remote  # Pillow, which readers of bills do without

ENOUGH = 20
"""Billed calls of a dimension in this run that are enough for their own 95th percentile."""
PERCENTILE = 0.95
FEW = 4
"""Margin for fewer calls: n billed calls give the most expensive one times 1 + FEW / n. That is five times its price
after the first call, and a third more than the most expensive one after twelve."""
_ROUNDING = 1e-9


class CallCosts:
    """Highest cost of a call of each dimension in 95 of 100 cases.

    Args:
        earlier: dimension -> costs of its calls in earlier runs; where they are too few, they count as this run's.
    """

    def __init__(self, tariff: Tariff, longest_reply: int, earlier: Mapping[str, list[float]] | None = None) -> None:
        self.guessed = False
        """True once the highest possible cost of a call was used, for lack of other data."""
        self._tariff, self._longest_reply = tariff, longest_reply
        costs = {dimension: sorted(filter(None, some)) for dimension, some in (earlier or {}).items()}
        self._known = {dimension: _high(some) for dimension, some in costs.items() if len(some) >= ENOUGH}
        few = {dimension: some for dimension, some in costs.items() if len(some) < ENOUGH}
        self._billed = defaultdict[str, list[float]](list, few)

    def note(self, dimension: str, price: float) -> None:
        """Add the billed price of a call."""
        insort(self._billed[dimension], price)

    def known(self, dimension: str) -> float | None:
        """Return the highest cost of a call in 95 of 100 cases before this run; None if unknown."""
        return self._known.get(dimension)

    @property
    def are_unknown(self) -> bool:
        """Return whether the highest possible cost of a call is used, because no call was billed yet."""
        return self.guessed and not any(self._billed.values())

    def of(self, dimension: str, sent: int) -> float:
        """Return the highest cost of a call in 95 of 100 cases, for a question of at most `sent` tokens.

        This run decides once enough of its calls were billed. Else earlier runs do, with at least the most expensive
        call of this run. Else the few billed calls do, and before the first of them the highest possible cost.
        """
        billed = self._billed[dimension]
        if len(billed) >= ENOUGH:
            return _high(billed)
        known = self._known.get(dimension)
        if known is not None:
            return max([known, *billed[-1:]])
        self.guessed = self.guessed or not billed
        return min(self._most(sent), billed[-1] * (1 + FEW / len(billed))) if billed else self._most(sent)

    def _most(self, sent: int) -> float:
        written = (0, sent)  # tokens written to a cache may cost more than others
        return max(self._tariff.price(Amounts(sent, 0, each, self._longest_reply)) for each in written)


def _high(costs: Sequence[float]) -> float:
    """Return the highest of these costs, in ascending order, in 95 of 100 cases."""
    return costs[min(math.ceil(PERCENTILE * (len(costs) + 1)), len(costs)) - 1]


class Budget:
    """Budget of one run, for one event loop. `limit` is None without an own one, `share` without a month's."""

    def __init__(self, limit: float | None, costs: CallCosts, share: "MonthLimit | None" = None) -> None:
        self.spent = 0.0
        self.over = False
        """True once a unit did not fit: no further unit starts."""
        self.needed = 0.0
        """Possible cost of the unit that did not fit."""
        self.exhausted: MonthLimit | None = None
        """Limit of the month that it did not fit into; None for the run's own budget."""
        self.warnings: list[str] = []
        self.waits = False
        """True if reserved amounts outlast this process, because the calls are bought as a batch."""
        self.share = share
        self._limit, self._costs = limit, costs
        self._held: dict[Hashable, float] = {}
        self._was_asked = False
        """True once a call has ended."""
        self._turn = asyncio.Lock()
        self._settled = asyncio.Event()
        """Event that the next call to end sets, once."""

    @property
    def used(self) -> float:
        """Amount spent, and amount reserved for calls in flight."""
        return self.spent + sum(self._held.values())

    def expected(self, dimension: str, sent: int) -> float:
        """Return the amount to reserve for a call; see `CallCosts.of`."""
        return self._costs.of(dimension, sent)

    async def fits_now(self, calls: Mapping[Hashable, float]) -> bool:
        """Reserve the expected cost of these calls if there is room for all of them now; return whether there is."""
        async with self._turn:
            if not await self._has_room(self.used + sum(calls.values())):
                return False
            self._held.update(calls)
            return True

    async def fits(self, calls: Mapping[Hashable, float]) -> bool:
        """Reserve the cost of calls as soon as there is room. Return False, and end the run, if there is none left."""
        while True:
            next_one = self._settled
            if await self.fits_now(calls):
                return True
            if not await self._may_come(next_one, calls):
                return False

    async def starts(self, calls: Callable[[], Mapping[Hashable, float]]) -> bool:
        """Reserve the cost of a unit as `fits` does, unless the run ends meanwhile.

        Args:
            calls: returns the calls and their expected costs, which change as calls are billed.
        """
        while not self.over:
            next_one, found = self._settled, calls()
            if await self.fits_now(found):
                return True
            await self._may_come(next_one, found)
        return False

    async def _may_come(self, next_one: asyncio.Event, calls: Mapping[Hashable, float]) -> bool:
        """Wait until a call in flight has ended, which may make room; if there is none, end the run: return False."""
        if self._held or next_one.is_set():
            await next_one.wait()
            return True
        self._end(calls)
        return False

    async def fits_or_ends(self, calls: Mapping[Hashable, float]) -> bool:
        """Reserve the cost of calls of a batch. Return False, and end the run, if they do not fit.

        It never waits, since a batch releases no amount before it ends.
        """
        if await self.fits_now(calls):
            return True
        self._end(calls)
        return False

    async def wait(self) -> None:
        """Keep the reserved amounts, since the run waits for a batch."""
        self.waits = True
        if self.share:
            await in_daemon_thread(partial(self.share.keep, self.used))

    @property
    def unknown_words(self) -> str:
        """Reason to refuse a run before any call: nothing is known, and calls at their most do not fit; else empty."""
        if not self.over or self._was_asked or not self._costs.are_unknown:
            return ""
        return (
            "nothing is known of what calls of this judge cost. At their most, with the longest reply "
            f"(judge.max_output_tokens), those about the next sample cost {money(self.needed)}, for which the budget "
            "has no room. Ask about five samples first: the same command with --quote and without a budget. The "
            "run then reuses their replies"
        )

    def pay(self, price: float | None) -> None:
        """Count the price of a question about no sample; an unknown one (None) counts as nothing."""
        self.spent += price or 0.0

    async def covers(self, call: Hashable, price: float) -> bool:
        """Return whether a call of a started unit may be made: its cost is reserved, or fits as usual."""
        return call in self._held or await self.fits({call: price})

    def settle(self, call: Hashable, dimension: str, price: float | None) -> None:
        """Release the amount reserved for an ended call; it counts as spent if the price is unknown (None)."""
        held = self._held.pop(call, 0.0)
        self.spent += held if price is None else price
        self._was_asked = True
        if price:  # a refused call costs nothing, and is no evidence about others
            self._costs.note(dimension, price)
        self._wake()

    def release(self, calls: Iterable[Hashable]) -> None:
        """Release the amounts reserved for calls that are not made."""
        if any([self._held.pop(call, 0.0) for call in calls]):
            self._wake()

    def _end(self, calls: Mapping[Hashable, float]) -> None:
        self.over, self.needed = True, sum(calls.values())
        self._wake()

    def _wake(self) -> None:
        self._settled.set()
        self._settled = asyncio.Event()

    async def _has_room(self, total: float) -> bool:
        if self._limit is not None and total > self._limit * (1 + _ROUNDING):
            self.exhausted = None
            return False
        self.exhausted = self.share
        return self.share is None or await self.share.has_room(total)


T = TypeVar("T")


def in_random_order(samples: Sequence[Sample], seed: str) -> tuple[Sample, ...]:
    """Return the samples unit by unit, in an order that depends on the seed and the ids alone.

    Added or removed samples change nothing for the others. The seed is the dataset's key, so that the same command with
    more budget goes on where this one stops.
    """

    def place(sample: Sample) -> bytes:
        return sha256(f"{seed}\n{sample.subject}".encode("utf-8", "surrogatepass")).digest()

    return tuple(sorted(samples, key=place))


def units(ordered: Iterable[T], sample_of: Callable[[T], Sample]) -> Iterator[list[T]]:
    """Return the items of such an order, unit by unit; a control belongs to its sample's unit, an anchor to none."""

    def unit_of(one: T) -> tuple[bool, str]:
        sample = sample_of(one)
        return sample.control == ANCHOR, sample.subject

    return (list(unit) for _, unit in groupby(ordered, key=unit_of))


VARIABLE = "JURY_BUDGET_MONTH"
OPEN_HOURS = 48.0
"""Hours for which the limit of a run that has not ended counts: the run may have been killed."""
TOGETHER_SECONDS = 5.0
"""Seconds for which a new run rereads the sum, since another may have begun at the same time."""


class Spent(NamedTuple):
    """Cost of calls."""

    amount: float
    """Cost, including the estimate for calls without a reply."""
    unknown: int
    """Calls with an unknown price, which is missing from the amount."""


_NOTHING = Spent(0.0, 0)


class Open(NamedTuple):
    """A run that may spend more."""

    start: RunStart
    unspent: float


@dataclass
class Sum:
    """Spending of a store in one month, by its ledgers."""

    spent: float = 0.0
    unknown: int = 0
    by_run: dict[str, float] = field(default_factory=dict[str, float])
    open: dict[str, Open] = field(default_factory=dict[str, Open])

    def left_of(self, budget: float) -> float:
        """Return what neither was spent nor may be spent by others; below 0 if it is less than nothing."""
        return budget - self.spent - sum(each.unspent for each in self.open.values())

    def add(self, spent: Spent) -> None:
        """Add the cost of calls."""
        self.spent, self.unknown = self.spent + spent.amount, self.unknown + spent.unknown


def month_budget() -> float | None:
    """Return the budget of a month from the worker's environment; None if it sets none."""
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return None
    try:
        amount = float(text)
    except ValueError:
        amount = 0.0
    if not 0 < amount < float("inf"):
        raise InputError(f"{VARIABLE} is {text!r}: allowed is an amount above 0, such as 200; leave it unset for none")
    return amount


def month_of(moment: datetime) -> str:
    """Return the calendar month of a time, UTC: `2026-11`."""
    return f"{moment.astimezone(UTC):%Y-%m}"


class Month:
    """Budget of one month, and spending by the ledgers of a store. Every method reads files.

    Args:
        own: id of the run or passport that asks, whose own rows are left out; empty for none.
        fetch: downloads the ledgers of other machines; called before they are read.
    """

    def __init__(
        self, store: Path, month: str, budget: float, own: str = "", fetch: Callable[[], object] = lambda: None
    ) -> None:
        self.month, self.budget = month, budget
        self._store, self._own, self._fetch = store, own, fetch
        self._read: dict[str, tuple[int, dict[str, Spent]]] = {}
        """Run -> bytes of its rows, and their cost by month. Rows that have not grown are not read again."""

    def sum(self) -> Sum:
        """Return the spending so far, and the runs that may spend more."""
        self._fetch()
        found, since = Sum(), datetime.now(UTC) - timedelta(hours=OPEN_HOURS)
        others = {name: spent_for(rows) for name, rows in other_calls_of(self._store, self.month).items()}
        for name, spent in others.items():
            if name != self._own:
                found.add(spent)
        for run in run_folders(self._store):
            if run.name != self._own:
                costs = self._costs(run)
                spent = costs.get(self.month, _NOTHING)
                found.add(spent)
                of_others = others.get(run.name, _NOTHING).amount
                found.by_run[run.name] = spent.amount + of_others
                if each := _open(run, sum(each.amount for each in costs.values()) + of_others, since):
                    found.open[run.name] = each
        for run_id, amount in removed_costs(self._store, self.month).items():
            with suppress(InputError, OSError):
                end = read_end(folder(self._store, run_id))
                # An end with costs includes those of removed rows.
                found.spent += 0.0 if end and end.cost else amount
        return found

    def of_shards(self, evaluation_id: str, found: Sum) -> dict[int, float]:
        """Return the part of a sum that the shards of an evaluation have spent."""
        spent: defaultdict[int, float] = defaultdict(float)
        for run_id, amount in found.by_run.items():
            with suppress(InputError, OSError):
                if amount and (start := read_start(folder(self._store, run_id))).evaluation_id == evaluation_id:
                    spent[start.shard] += amount
        return dict(spent)

    def _costs(self, run: Path) -> dict[str, Spent]:
        """Return the cost of a run by month; empty for an unreadable ledger, which `jury store sync` reports."""
        rows = run / JUDGMENTS
        if not rows.exists() or month_of(datetime.fromtimestamp(rows.stat().st_mtime, UTC)) < self.month:
            return {}
        size, known = rows.stat().st_size, self._read.get(run.name)
        if known is None or known[0] != size:
            known = self._read[run.name] = size, costs_of(run)
        return known[1]


def costs_of(run: Path) -> dict[str, Spent]:
    """Return the cost of a run's calls by month, from its end, else from its rows; reused replies cost nothing.

    A damaged row counts as a call with an unknown price, in the month of the last write.
    """
    with suppress(InputError, OSError):
        if (end := read_end(run)) and end.cost and all(0 <= amount < math.inf for amount in end.cost.values()):
            return {month: Spent(amount, end.unpriced.get(month, 0)) for month, amount in end.cost.items()}
    rows, damaged, path = defaultdict[str, list[Judgment]](list), Counter[str](), run / JUDGMENTS
    with suppress(InputError, OSError):
        for number, (_, line) in enumerate(whole_lines(path), 1):
            try:
                row = validate_row(Judgment, parse_row(line, path, number), path, number)
            except InputError:
                row = None
            moment = moment_of(row.judged_at) if row else None
            if row is None or moment is None:
                damaged[month_of(datetime.fromtimestamp(path.stat().st_mtime, UTC))] += 1
            elif not row.reused_from:
                rows[month_of(moment)].append(row)
    costs = {month: spent_for(rows[month]) for month in [*rows, *damaged]}
    return {month: each._replace(unknown=each.unknown + damaged[month]) for month, each in costs.items()}


def spent_for(rows: Iterable[Judgment | OtherCall]) -> Spent:
    """Return the cost of these calls."""
    costs = [known_cost(row.status, row.price, row.estimated) for row in rows]
    return Spent(sum(amount for amount, _ in costs), sum(is_unknown for _, is_unknown in costs))


def spent_by_run(store: Path, run_id: str) -> float:
    """Return what a run has cost, its first question included."""
    asked = first_questions_of(store, {run_id}, datetime.now(UTC))
    return sum(each.amount for each in [*costs_of(folder(store, run_id)).values(), spent_for(asked)])


def _open(run: Path, spent: float, since: datetime) -> Open | None:
    """Return the run if it has a limit, has not ended and is young; else None."""
    if (run / END).exists() or not (run / RUN).exists():
        return None
    try:
        start = read_start(run)
    except (InputError, OSError):
        return None
    if start.spending_limit is None or datetime.fromisoformat(start.started_at) < since:
        return None
    return Open(start, max(0.0, start.spending_limit - spent))


def month_of_store(store: Path, remote: "Remote | None", amount: float, own: str) -> Month:
    """Return the current month's budget of a store, for one of its runs or passports."""
    now = datetime.now(UTC)
    young = now - timedelta(hours=OPEN_HOURS)
    # A run may have begun in the month before and go on in this one.
    since = now.replace(day=1, hour=0) - timedelta(hours=OPEN_HOURS)

    def fetch() -> None:
        nonlocal since
        if remote:
            remote.fetch(since)
            remote.fetch_starts(young)
            remote.fetch_folder(OTHER_CALLS.folder)
            since = young  # older ledgers do not grow any more

    return Month(store, month_of(now), amount, own, fetch)


class MonthLimit:
    """Limit on one run's spending in a month. Its methods read and write files, so they belong in a thread.

    The limit is written when the first call is due, so that a run that is refused before leaves no ledger.

    Args:
        start: the run; None for a passport, which announces no limit.
        wanted: most that it means to spend; None for all that is left.
    """

    write: Callable[[float], None] | None = None
    """Function that announces the limit to other runs, from the first call on; None: a passport announces none."""

    def __init__(self, month: Month, start: RunStart | None, wanted: float | None) -> None:
        self.month, self.amount, self.rest = month, 0.0, 0.0
        self._start, self._wanted = start, wanted
        first = month.sum()
        self.unknown = first.unknown
        self._before = {*first.open}
        """Runs that may spend more and began before this one: they count regardless of their ids."""
        self._settled: datetime | None = None
        """End of the time in which the sum is reread; None: the limit was not announced yet."""
        self._set(first)

    async def has_room(self, total: float) -> bool:
        """Return whether the run may cost this much in all."""
        if self.write and not self._settled:
            await in_daemon_thread(self.announce)
        if not self.is_settled:
            await in_daemon_thread(self.read_again)
        return total <= self.amount * (1 + _ROUNDING)

    def announce(self) -> None:
        """Write the limit for others to read, now and whenever it changes.

        Of two runs that begin together, the one with the later id gives way: it reads the sum until both have written.
        """
        self._say()
        self._settled = datetime.now(UTC) + timedelta(seconds=TOGETHER_SECONDS)

    @property
    def is_settled(self) -> bool:
        """Return whether the sum needs no further reading."""
        return not self._settled or datetime.now(UTC) > self._settled

    def read_again(self) -> None:
        """Update the limit, because others that count for this run may have begun meanwhile."""
        before = self.amount
        self._set(self.month.sum())
        if self._settled and self.amount != before:
            self._say()

    def keep(self, amount: float) -> None:
        """Leave all above this amount to others: the run waits for a batch, or has ended."""
        if self._settled and amount < self.amount:
            self.amount = amount
            self._say()

    def _say(self) -> None:
        if self.write:
            self.write(self.amount)

    def _set(self, found: Sum) -> None:
        rest = self.month.budget - found.spent - sum(each.unspent for each in found.open.values() if self._counts(each))
        self.rest = min(rest, self._of_shard(found, rest))
        self.amount = max(0.0, self.rest if self._wanted is None else min(self._wanted, self.rest))

    def _counts(self, other: Open) -> bool:
        own, theirs = self._start, other.start
        if own is None:
            return True
        if own.shards > 1 and (own.evaluation_id, own.shard) == (theirs.evaluation_id, theirs.shard):
            return False  # this run repeats that shard, since its process vanished
        return theirs.run_id in self._before or theirs.run_id < own.run_id

    def _of_shard(self, found: Sum, rest: float) -> float:
        """Return the rest of the shard's equal share of the money from before the evaluation.

        All processes of a shard use the same share.
        """
        own = self._start
        if own is None or own.shards == 1:
            return rest
        others = [each for each in found.open.values() if each.start.evaluation_id == own.evaluation_id]
        unspent = sum(each.unspent for each in others if self._counts(each))
        spent = self.month.of_shards(own.evaluation_id, found)
        return (rest + unspent + sum(spent.values())) / own.shards - spent.get(own.shard, 0.0)
