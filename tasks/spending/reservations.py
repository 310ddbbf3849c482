"""A month's budget that runs in parallel share: what each of them claims of it, while it runs and afterwards.

`JURY_BUDGET_MONTH` on the worker is the budget of a store for a calendar month (UTC), in the currency of the prices.
One small file of the store has an entry a run: what it claims in all, and until when that holds. A run that lives
renews its entry; when it ends, its entry says what it spent. A run that was killed does neither: its entry expires, and
from then on counts what its ledger says. The entry of a run that waits for a batch does not expire: it stands until the
run is settled, in the month in which it was handed in. Runs without an entry count by their ledgers, too. These are
read when a run begins, and anew when the entry of another expires. A passport is such a run here; its ledger is that
of calls that judge no sample, all of which count. Where the file lies, and how only one run at a time changes it, is
for `shelves`.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter, ValidationError

from tasks.errors import InputError
from tasks.ledger.other_calls import OtherCall, other_calls_of
from tasks.ledger.reading import JUDGMENTS, folder, is_waiting, read_judgments, run_folders
from tasks.records import Judgment, Record
from tasks.spending.shelves import Shelf

VARIABLE = "JURY_BUDGET_MONTH"
LEASE_SECONDS = 600.0
"""A claim that was not renewed for so long has expired. Clocks of machines that share a store differ by less."""
RENEW_SECONDS = 60.0


class Claim(Record):
    """What one run claims of the month."""

    amount: float
    """That it has spent in the month, or may yet; once it has ended, that it spent."""
    until: float | None
    """Unix time at which it expires unless it is renewed; None: never, for the run has ended, or waits for a batch."""


_CLAIMS: TypeAdapter[dict[str, Claim]] = TypeAdapter(dict[str, Claim])


class Spent(NamedTuple):
    """What a ledger says of a month."""

    amount: float
    unknown: int
    """Calls whose price is not known."""


class Standing(NamedTuple):
    """How it stands with a month's budget."""

    spent: float
    """By what has ended, with what calls without a reply may have cost."""
    claimed: float
    """By runs and passports at work, and runs that wait for a batch: what they have spent, and what they may yet."""
    open: int
    """How many those are."""
    unknown: int
    """Calls whose price is not known: they are in nothing of this."""


def month_budget() -> float | None:
    """The budget of a month that the worker's environment sets; None: it sets none.

    Raises:
        InputError: it is no amount.
    """
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
    """The calendar month of a moment, UTC: `2026-11`."""
    return f"{moment.astimezone(UTC):%Y-%m}"


class Month:
    """One run's share of the budget of one month. Every method but `unknown` reads and writes files.

    Args:
        month: `2026-11`, UTC.
        waited: the run waited for a batch, and what was claimed for it is still there.
        fetch: brings the ledgers here that the store has of the month; called before they are read.
    """

    def __init__(
        self,
        store: Path,
        shelf: Shelf,
        month: str,
        budget: float,
        run_id: str,
        waited: bool = False,
        fetch: Callable[[], object] = lambda: None,
    ) -> None:
        self.month, self.budget = month, budget
        self._store, self._shelf, self._run_id, self._fetch = store, shelf, run_id, fetch
        self._file = f"budget/{month}.json"
        self._claimed, self._kept = 0.0, waited
        claims = self._claims(self._shelf.read(self._file))
        if waited and run_id in claims:
            self._claimed = claims[run_id].amount
        self._ledgers: dict[str, Spent] = {}
        self._expired: set[str] = set()
        """Runs whose claims had expired when the ledgers were read: nothing is added to these any more."""
        self._read_ledgers(claims)

    def _read_ledgers(self, claims: Mapping[str, Claim]) -> None:
        self._fetch()
        self._expired = _expired(claims)
        told = {name for name, claim in claims.items() if claim.until is None}
        ledgers = (run for run in run_folders(self._store) if run.name not in told)
        self._ledgers = {run.name: spent_in(run, self.month) for run in ledgers}
        besides = other_calls_of(self._store, self.month).items()
        self._ledgers |= {name: _spent_for(rows) for name, rows in besides if name not in told}

    def left(self) -> float:
        """What the others leave of the month."""
        return self.budget - self._of_others(self._claims(self._shelf.read(self._file)))

    def standing(self) -> "Standing":
        """What is spent of the month, and what runs at work have claimed of it."""
        claims = self._claims(self._shelf.read(self._file))
        live = {name: each for name, each in claims.items() if self._is_open(name, each)}
        ended = {*claims, *self._ledgers} - {*live}
        spent = sum(self._of(name, claims.get(name)) for name in ended)
        return Standing(spent, sum(each.amount for each in live.values()), len(live), self.unknown)

    def _is_open(self, name: str, claim: Claim) -> bool:
        """Whether a claim is of a run that may spend more: one at work, or one that waits for a batch."""
        if claim.until is None:
            return is_waiting(folder(self._store, name))
        return claim.until > time.time()

    @property
    def unknown(self) -> int:
        """Calls of the month, by the ledgers that were read, whose price is not known: they are not counted."""
        return sum(spent.unknown for spent in self._ledgers.values())

    def claim(self, total: float, wanted: float = 0.0) -> bool:
        """Whether this run may come to so much in the month; from then on nobody else gets it.

        Args:
            wanted: beyond it, if there is room: what is claimed at once need not be asked for call by call.
        """
        if total > self._claimed:
            self._change(lambda left: min(total + wanted, left) if total <= left * (1 + 1e-9) else None)
        return total <= self._claimed * (1 + 1e-9)

    def renew(self, used: float) -> None:
        """Tell that the run lives, and give back what it has claimed and does not use."""
        if not self._kept:
            self._change(lambda _: used)

    def keep(self, total: float) -> None:
        """Claim so much until `close`, whether or not any process of the run lives meanwhile."""
        self._kept = True
        self._change(lambda _: total)

    def close(self, spent: float) -> None:
        """The run has ended; this is what it spent in the month."""
        self._kept = True
        self._change(lambda _: spent)

    def _change(self, wanted: Callable[[float], float | None]) -> None:
        """Set this run's claim by what the others leave of the month; None: it stays as it is."""

        def changed(data: bytes | None) -> bytes | None:
            claims = self._claims(data)
            amount = wanted(self.budget - self._of_others(claims))
            if amount is None:
                return None
            self._claimed = amount
            claims[self._run_id] = Claim(amount=amount, until=None if self._kept else time.time() + LEASE_SECONDS)
            return _CLAIMS.dump_json(claims)

        self._shelf.change(self._file, changed)

    def _claims(self, data: bytes | None) -> dict[str, Claim]:
        try:
            return _CLAIMS.validate_json(data) if data else {}
        except ValidationError:
            raise InputError(
                f"{self._file} of the store is damaged: remove it, and what runs spent is counted by their ledgers"
            ) from None

    def _of_others(self, claims: Mapping[str, Claim]) -> float:
        if _expired(claims) - self._expired - {self._run_id}:  # they went on after their ledgers were read
            self._read_ledgers(claims)
        runs = {*claims, *self._ledgers} - {self._run_id}
        return sum(self._of(run, claims.get(run)) for run in runs)

    def _of(self, run: str, claim: Claim | None) -> float:
        if claim and (claim.until is None or claim.until > time.time()):
            return claim.amount
        found = self._ledgers.get(run)
        return found.amount if found else claim.amount if claim else 0.0


def _expired(claims: Mapping[str, Claim]) -> set[str]:
    now = time.time()
    return {name for name, claim in claims.items() if claim.until is not None and claim.until <= now}


def spent_in(run: Path, month: str) -> Spent:
    """What the calls of a run cost in a month, by its ledger; nothing of a ledger that cannot be read.

    Estimates of what calls without a reply may have cost are in it; replies that were taken over are not.
    """
    rows = run / JUDGMENTS
    if not rows.exists() or month_of(datetime.fromtimestamp(rows.stat().st_mtime, UTC)) < month:
        return Spent(0.0, 0)
    own = (row for row in _believed(run) if not row.reused_from)
    return _spent_for(row for row in own if month_of(datetime.fromisoformat(row.judged_at)) == month)


def _believed(run: Path) -> Iterable[Judgment]:
    with suppress(InputError):  # `sync` reports it
        yield from read_judgments(run)


def _spent_for(rows: Iterable[Judgment | OtherCall]) -> Spent:
    amount, unknown = 0.0, 0
    for row in rows:
        amount += (row.price or 0.0) + (row.estimated or 0.0)
        unknown += row.price is None or row.estimated is None
    return Spent(amount, unknown)
