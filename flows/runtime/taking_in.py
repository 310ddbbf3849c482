"""The replies of a batch, taken into the run that waited for them, sample by sample: each reply is written down, what
is left without one is asked again as the run wants it, and each sample with nothing left to ask is decided.

Owns what becomes of a call without a reply. Memory does not grow with the files: samples, requests and replies are read
from the disk one after another. Every step can be broken off and done again, for what is in the ledger is not written
twice.
"""

import asyncio
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from tasks.aggregate import aggregate_sample
from tasks.batches.cases import custom_id, place_of, read_cases
from tasks.batches.log import ROUNDS, Log
from tasks.batches.requests import RequestFiles, Requests, reseeded
from tasks.batches.taking_out import Replies
from tasks.batches.written import Written
from tasks.endpoint.requests import Request
from tasks.judge import write_down
from tasks.judging.affording import expected, name_of
from tasks.judging.case import Call, Case
from tasks.judging.run import Run
from tasks.records import Judgment
from tasks.spending.bill import billed
from tasks.spending.budget import Budget
from tasks.spending.prices import BATCH

ASKED_AT_ONCE = 64
"""Calls whose requests are in memory together."""


class Open(NamedTuple):
    """A call that has no reply yet that can be used."""

    case: Case
    call: Call


async def taken_in(log: Log, run: Run) -> bool:
    """Take in the replies of the last turn; whether calls were put down for another.

    Raises:
        InputError: the ledger of the run is damaged.
    """
    replies, written = await asyncio.gather(
        asyncio.to_thread(Replies, log, log.turn), asyncio.to_thread(Written, log.run)
    )
    return await _TakingIn(log, run, replies, written).all()


class _TakingIn:
    """One turn of one run."""

    def __init__(self, log: Log, run: Run, replies: Replies, written: Written) -> None:
        self._log, self._run, self._replies, self._written = log, run, replies, written
        told = log.prepared
        assert told
        self._manner = {"rung": told.rung, "not_sent": told.not_sent, "tier": BATCH}
        rest = run.parameters.batch_rest
        self._goes_live = rest == "live" and not log.cancelled
        self._goes_on = rest == "batch" and not log.cancelled and log.turn < ROUNDS
        self._next: RequestFiles | None = None
        """What is put down for another batch."""

    async def all(self) -> bool:
        """Sample after sample; whether calls were put down for another batch."""
        live: list[Case] = []
        if self._run.budget:
            await self._count_costs(self._run.budget)
        for case in read_cases(self._log.work):
            await self._take(case)
            left = [*_open_calls(case)]
            if left and self._goes_live:
                live.append(case)
            elif left and self._goes_on and await self._affords(case, left):
                self._put_down(case, left)
            else:
                self._decide(case)
            if sum(1 for each in live for _ in _open_calls(each)) >= ASKED_AT_ONCE:
                await self._ask_live(live)
                live = []
            await asyncio.sleep(0)
        await self._ask_live(live)
        if self._next:
            if self._run.budget:
                await self._run.budget.wait()
            self._log.add("prepared", turn=self._log.turn + 1, requests=self._next.close())
        return self._next is not None

    async def _take(self, case: Case) -> None:
        """Give a case what was said of it, and write down the replies to its calls that are not written down yet."""
        self._take_over(case, self._written.judgments(place_of(case)))
        for call in [*_open_calls(case)]:
            if len(case.attempts(call)) == self._log.turn - 1:
                found = self._replies.find(custom_id(case, call, self._log.turn), self._run.vlm.read)
                await write_down(self._run, case, call, found._replace(**self._manner))

    async def _count_costs(self, budget: Budget) -> None:
        """Take in the replies to all calls first: what they cost tells what may be asked again."""
        for case in read_cases(self._log.work):
            await self._take(case)
            for row in case.judgments:
                if not row.reused_from:
                    asked = next(call for call in case.calls if call.dimension == row.dimension)
                    budget.take_in(row.dimension, row, billed(row), expected(self._run, budget, case, asked))
            await asyncio.sleep(0)
        self._written = await asyncio.to_thread(Written, self._log.run)

    async def _affords(self, case: Case, left: Sequence[Call]) -> bool:
        """Whether the budget has room for these calls; then it is held for them."""
        run, budget = self._run, self._run.budget
        if not budget:
            return True
        fits = await budget.fits_now({name_of(case, call): expected(run, budget, case, call) for call in left})
        return fits or self._say_too_dear(budget)

    def _say_too_dear(self, budget: Budget) -> bool:
        words = "The budget had no room for asking again all that the batch left without a reply that can be used"
        budget.warnings = [words]
        return False

    def _take_over(self, case: Case, recorded: Sequence[Judgment]) -> None:
        """Replies of earlier runs, written down now if they are not, and the run's own."""
        known = {(row.dimension, row.order, row.vote) for row in recorded}
        for row in case.judgments:
            if (row.dimension, row.order, row.vote) not in known:
                self._run.ledger.append(row)
        known = {(row.dimension, row.order, row.vote) for row in case.judgments}
        case.judgments += [row for row in recorded if (row.dimension, row.order, row.vote) not in known]

    @cached_property
    def _requests(self) -> Requests:
        """The requests of the first turn, in which all that is asked again stands."""
        return Requests([self._log.requests(part.turn, part.number) for part in self._log.parts if part.turn == 1])

    def _body(self, case: Case, call: Call) -> bytes:
        """What a call sends when it is made again: after an invalid reply with another seed, as in any run."""
        body, seed = self._requests.body(custom_id(case, call, 1)), self._run.parameters.judge.seed
        turn, invalid = call.vote - 1, sum(row.status == "invalid" for row in case.attempts(call))
        again = turn + invalid * self._run.parameters.votes
        return reseeded(body, seed + turn, seed + again) if seed >= 0 else body

    def _put_down(self, case: Case, left: Sequence[Call]) -> None:
        turn = self._log.turn + 1
        self._next = self._next or RequestFiles(self._log, turn)
        for call in left:
            self._next.add(custom_id(case, call, turn), [self._body(case, call)])

    async def _ask_live(self, cases: Sequence[Case]) -> None:
        """Ask one call at a time what the batch left over of these samples, as often as any run does; then decide."""
        for _ in range(self._run.parameters.retries + 1):
            left = [Open(case, call) for case in cases for call in _open_calls(case)]
            for first in range(0, len(left), ASKED_AT_ONCE):
                async with asyncio.TaskGroup() as group:
                    for each in left[first : first + ASKED_AT_ONCE]:
                        group.create_task(self._ask(*each))
        for case in cases:
            self._decide(case)

    async def _ask(self, case: Case, call: Call) -> None:
        run, budget = self._run, self._run.budget
        if budget and not await budget.covers(name_of(case, call), expected(run, budget, case, call)):
            self._say_too_dear(budget)
            return
        answer = await run.vlm.ask(Request("", (), "", {}, body=self._body(case, call)))
        row = await write_down(run, case, call, answer)
        if budget:
            budget.settle(name_of(case, call), call.dimension, billed(row))

    def _decide(self, case: Case) -> None:
        aggregate_sample(self._run, case, self._written.outcome(place_of(case)))


def _open_calls(case: Case) -> Iterator[Call]:
    for dimension in dict.fromkeys(call.dimension for call in case.calls):
        yield from case.unsettled(dimension)
