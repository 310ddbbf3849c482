"""Budget of a month that the runs of a store share: a sum over their ledgers, and a limit that each run sets itself.

`JURY_BUDGET_MONTH` on the worker is the budget of a store for a calendar month (UTC), in the currency of the prices.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from tasks.errors import InputError
from tasks.ledger.other_calls import OtherCall, other_calls_of
from tasks.ledger.reading import END, JUDGMENTS, RUN, folder, read_end, read_judgments, read_start, run_folders
from tasks.ledger.removed import removed_costs
from tasks.records import Judgment, RunStart

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
        for run in run_folders(self._store):
            if run.name != self._own:
                costs = self._costs(run)
                spent = costs.get(self.month, Spent(0.0, 0))
                found.add(spent)
                found.by_run[run.name] = spent.amount
                if each := _open(run, costs, since):
                    found.open[run.name] = each
        for name, rows in other_calls_of(self._store, self.month).items():
            if name != self._own:
                found.add(spent_for(rows))
        for run_id, amount in removed_costs(self._store, self.month).items():
            with suppress(InputError, OSError):
                end = read_end(folder(self._store, run_id))
                # An end with costs includes those of removed rows.
                found.spent += 0.0 if end and end.cost else max(0.0, amount)
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
    """Return the cost of a run's calls by month, from its end, else from its rows; reused replies cost nothing."""
    with suppress(InputError, OSError):
        if (end := read_end(run)) and end.cost:
            return {month: Spent(amount, end.unpriced.get(month, 0)) for month, amount in end.cost.items()}
    rows: defaultdict[str, list[Judgment]] = defaultdict(list)
    with suppress(InputError):
        for row in read_judgments(run):
            if not row.reused_from:
                rows[month_of(datetime.fromisoformat(row.judged_at))].append(row)
    return {month: spent_for(its) for month, its in rows.items()}


def spent_for(rows: Iterable[Judgment | OtherCall]) -> Spent:
    """Return the cost of these calls."""
    amount, unknown = 0.0, 0
    for row in rows:
        amount += (row.price or 0.0) + (row.estimated or 0.0)
        unknown += row.price is None or row.estimated is None
    return Spent(amount, unknown)


def _open(run: Path, costs: dict[str, Spent], since: datetime) -> Open | None:
    """Return the run if it has a limit, has not ended and is young; else None."""
    if (run / END).exists() or not (run / RUN).exists():
        return None
    try:
        start = read_start(run)
    except (InputError, OSError):
        return None
    if start.spending_limit is None or datetime.fromisoformat(start.started_at) < since:
        return None
    return Open(start, max(0.0, start.spending_limit - sum(each.amount for each in costs.values())))


class MonthLimit:
    """MonthLimit of one run's spending in a month. Its methods read and write files, so they belong in a thread.

    Args:
        start: the run; None for a passport, which announces no limit.
        wanted: most that it means to spend; None for all that is left.
    """

    def __init__(self, month: Month, start: RunStart | None, wanted: float | None) -> None:
        self.month, self.amount = month, 0.0
        self._start, self._wanted = start, wanted
        first = month.sum()
        self.unknown = first.unknown
        self._before = {*first.open}
        """Runs that may spend more and began before this one: they count regardless of their ids."""
        self._write: Callable[[float], None] | None = None
        self._settled = datetime.max.replace(tzinfo=UTC)
        self._set(first)

    def announce(self, write: Callable[[float], None]) -> None:
        """Write the limit for others to read, now and whenever it changes.

        Of two runs that begin together, the one with the later id gives way: it reads the sum until both have written.
        """
        self._write = write
        write(self.amount)
        self._settled = datetime.now(UTC) + timedelta(seconds=TOGETHER_SECONDS)

    @property
    def is_settled(self) -> bool:
        """Return whether the sum needs no further reading."""
        return self._write is None or datetime.now(UTC) > self._settled

    def read_again(self) -> None:
        """Update the limit, because others that count for this run may have begun meanwhile."""
        before = self.amount
        self._set(self.month.sum())
        if self._write and self.amount != before:
            self._write(self.amount)

    def keep(self, amount: float) -> None:
        """Announce this amount in place of the limit: the run waits for a batch, and spends no more."""
        self.amount = amount
        if self._write:
            self._write(amount)

    def release(self, spent: float) -> None:
        """Leave the unspent amount to others: the run ends."""
        if self._write and spent < self.amount:
            self._write(spent)

    def _set(self, found: Sum) -> None:
        rest = self._rest(found)
        amount = rest if self._wanted is None else min(self._wanted, rest)
        self.amount = max(0.0, min(amount, self._of_shard(found, rest)))

    def _rest(self, found: Sum) -> float:
        return self.month.budget - found.spent - sum(each.unspent for each in found.open.values() if self._counts(each))

    def _counts(self, other: Open) -> bool:
        own = self._start
        if own is None or other.start.run_id in self._before:
            return own is None or not self._follows(other)
        return other.start.run_id < own.run_id and not self._follows(other)

    def _follows(self, other: Open) -> bool:
        """Return whether this run repeats the other's shard of an evaluation, since the other's process vanished."""
        own = self._start
        return own is not None and own.shards > 1 and _shard(own) == _shard(other.start)

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


def _shard(start: RunStart) -> tuple[Any, ...]:
    return start.evaluation_id, start.shard
