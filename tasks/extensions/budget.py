"""Budget of a run, its own or the month's: the samples that it starts, and the place where the run stopped."""

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from tasks.datasets.dataset import Dataset
from tasks.endpoint.requests import most_tokens
from tasks.errors import InputError
from tasks.judging.case import Call, Case, planned_calls
from tasks.judging.extension import Extension, Limit
from tasks.judging.run import Run
from tasks.ledger.bucket import in_daemon_thread
from tasks.ledger.remote import Remote
from tasks.records import ANCHOR, BudgetStop, Judgment, PictureNote, RunStart, Sample
from tasks.records.judge import Judge
from tasks.records.parameters import Parameters
from tasks.spending.bill import Charge, billed
from tasks.spending.budget import (
    VARIABLE,
    Budget,
    CallCosts,
    MonthLimit,
    in_random_order,
    month_budget,
    month_of_store,
    units,
)
from tasks.spending.prices import BATCH, FREE, Tariff, tariff
from tasks.spending.quote import past_replies, seen

ASKED_AGAIN = 1.25
"""Factor on the cost of all calls in 95 of 100 cases, because some are repeated after unusable replies."""
FORMAT_TOKENS = 2_000
"""Most tokens of the words and the schema of a reply's format."""
PICTURE_TOKENS = (1_600, 16_384)
"""Least and most tokens of a picture of any size: for OpenAI, Anthropic, Gemini and Qwen on vLLM."""
PIXELS_A_TOKEN = 750
"""Pixels a token for a picture in between: Anthropic's number, which gives the most tokens of these."""


def tariff_of(judge: Judge, budget: float | None) -> Tariff | None:
    """Return the prices of a judge for a run's own budget, or for the month's if there is none.

    Returns:
        None if there is no budget, or the judge costs nothing.

    Raises:
        InputError: there is a budget, and the judge has no known price; or the month's budget is no valid amount.
    """
    if not budget and not month_budget():
        return None
    found = tariff(judge, judge.model, judge.service_tier, datetime.now(UTC))
    if found is None:
        which = f"budget is {budget:g}" if budget else f"{VARIABLE} is set"
        raise InputError(
            f"{which}, and no price of {judge.model} at {judge.base_url} is known, so that nothing could be counted: "
            "give judge.price_in and judge.price_out, the prices of a million tokens, 0 for a judge that costs nothing"
        )
    return None if found is FREE else found


async def budget_of(
    asked: Parameters, tariff: Tariff, store: Path, remote: Remote | None, start: RunStart, planned: Mapping[str, int]
) -> Budget:
    """Return the budget of a run: its own, the month's or both.

    Args:
        planned: prompt -> its calls about the samples of the dataset.

    Raises:
        InputError: the month's budget is no valid amount, or the store cannot be used.
        OSError: the spending of the month cannot be read.
    """
    costs = await asyncio.to_thread(costs_of, asked, store, start, tariff)
    own, amount = asked.budget, month_budget()
    if amount is None:
        return Budget(own, costs)
    month = month_of_store(store, remote, amount, start.run_id)
    wanted = own or _estimate(asked, start, costs, planned)
    share = await in_daemon_thread(lambda: MonthLimit(month, start, wanted))
    budget = Budget(own, costs, share)
    if share.unknown:
        calls = f"{share.unknown:,} calls of {month.month} in this store"
        budget.warnings.append(f"{VARIABLE} does not count {calls}, for their price is not known")
    return budget


async def release(budget: Budget) -> None:
    """Release the unspent rest of the month's budget, unless a batch of the run waits."""
    if (share := budget.share) and not budget.waits:
        with suppress(OSError):  # the limit counts for two days at most
            await in_daemon_thread(lambda: share.keep(budget.spent))


def _estimate(asked: Parameters, start: RunStart, costs: CallCosts, planned: Mapping[str, int]) -> float | None:
    """Return the highest likely cost of all calls of a run; None if the cost of its judge's calls is unknown."""
    known = {prompt: costs.known(prompt) for prompt in planned}
    if None in known.values():
        return None
    besides = asked.controls + asked.anchors / max(start.samples, 1)
    return ASKED_AGAIN * (1 + besides) * sum(calls * (known[prompt] or 0.0) for prompt, calls in planned.items())


async def budget_of_calls(judge: Judge, store: Path, remote: Remote | None, asked_by: str) -> Budget | None:
    """Return the rest of the month's budget, for a passport or a draft; None if there is none, or the judge is free.

    Raises:
        InputError: the judge has no known price, the month's budget is no valid amount, or the store cannot be used.
        OSError: the spending of the month cannot be read.
    """
    amount = month_budget()
    tariff = await asyncio.to_thread(tariff_of, judge, None)
    if amount is None or tariff is None:
        return None
    month = month_of_store(store, remote, amount, asked_by)
    limit = await in_daemon_thread(lambda: MonthLimit(month, None, None))
    return Budget(None, CallCosts(tariff, judge.max_output_tokens), limit)


def costs_of(asked: Parameters, store: Path, start: RunStart, tariff: Tariff) -> CallCosts:
    """Return the highest cost of a call of each dimension in 95 of 100 cases, by earlier runs of this judge."""
    earlier = defaultdict[str, list[float]](list)
    for each in seen(past_replies(store, start), (), start.prompts):
        earlier[each.dimension].append(tariff.price(each.amounts))
    return CallCosts(tariff, most_tokens(asked.judge, bool(asked.needs_probabilities)), earlier)


def announce_limit(share: MonthLimit, run: Run, remote: Remote | None) -> None:
    """Make a run write its limit on the month's budget into its ledger, and send it, before its first call."""

    def write(amount: float) -> None:
        run.ledger.set_limit(amount)
        if remote and run.ledger.folder.exists():
            remote.send_start(run.start.run_id)

    share.write = write


class BudgetLimit(Extension):
    """Extension for a run with a budget."""

    _tariff: Tariff | None = None
    _planned: Mapping[str, int] = {}
    _limit: "RunLimit | None" = None

    async def prepare(self, dataset: Dataset) -> Dataset:
        """See `Extension.prepare`: put the samples in random order, because the run may end before the last of them."""
        asked = self.opening.asked
        self._tariff = await asyncio.to_thread(tariff_of, asked.judge, asked.budget)
        if not self._tariff:
            return dataset
        plans = (planned_calls(sample, self.opening.rubric, asked) for sample in dataset.samples)
        self._planned = sum(plans, Counter[str]())
        if asked.quote:
            return dataset
        self.opening.may_stop = True
        return dataset.model_copy(update={"samples": in_random_order(dataset.samples, dataset.key)})

    async def begin(self, run: Run) -> None:
        """See `Extension.begin`."""
        opening, tariff = self.opening, self._tariff
        if not tariff:
            return
        budget = await budget_of(opening.asked, tariff, opening.store, opening.remote, run.start, self._planned)
        if budget.share:
            announce_limit(budget.share, run, opening.remote)
        own = opening.asked.budget or math.inf, "all of its budget"
        month = budget.share.rest if budget.share else math.inf, "all that the month has left"
        run.bill.most, run.bill.most_is = min(own, month)
        self._limit = RunLimit(run, budget)

    def limit(self) -> Limit | None:
        """See `Extension.limit`."""
        return self._limit

    async def finish(self) -> Sequence[str]:
        """See `Extension.finish`."""
        return self._limit.budget.warnings if self._limit else ()

    async def close(self) -> None:
        """See `Extension.close`: release the unspent rest of the month's budget."""
        if self._limit:
            await release(self._limit.budget)


class RunLimit(Limit):
    """Budget of one run as the limit on its calls."""

    def __init__(self, run: Run, budget: Budget) -> None:
        self._run, self.budget = run, budget

    @property
    def over(self) -> bool:
        """See `Limit.over`."""
        return self.budget.over

    async def admit(self, cases: list[Case]) -> AsyncGenerator[list[Case]]:
        """See `Limit.admit`. Units that fit at the same time come together.

        Raises:
            InputError: calls do not fit at the highest price that they can have, and no other price is known.
        """
        run, budget = self._run, self.budget
        together: list[Case] = []
        for unit in units(cases, lambda case: case.sample):
            prices = partial(prices_of, run, budget, unit)
            if run.parameters.judge.service_tier == BATCH and not budget.over:
                calls = prices()
                if await budget.fits_or_ends(calls) and calls:
                    await run.ask_first_question()  # it counts before the next unit, since a batch releases nothing
            elif not budget.over and not await budget.fits_now(prices()):
                if together:
                    yield together  # their reserved amounts are released only when they are judged
                    together = []
                await budget.starts(prices)
            if budget.unknown_words and not run.parameters.quote:
                raise InputError(budget.unknown_words)
            if budget.over:
                for case in unit:
                    run.in_hand.free(case)
            else:
                together += unit
        if together:
            yield together

    def after_first_question(self, charge: Charge) -> None:
        """See `Limit.after_first_question`."""
        self.budget.pay(billed(charge))

    async def before_call(self, case: Case, call: Call) -> bool:
        """See `Limit.before_call`: the budget may have no room for a retry."""
        return await self.budget.covers(name_of(case, call), expected(self._run, self.budget, case, call))

    def after_call(self, case: Case, call: Call, row: Judgment) -> None:
        """See `Limit.after_call`."""
        self.budget.settle(name_of(case, call), call.prompt_name, billed(row))

    def after_answers(self, case: Case) -> None:
        """See `Limit.after_answers`."""
        needless = [call for call in case.calls if not case.attempts(call) and not case.is_open(call)]
        self.budget.release(name_of(case, call) for call in needless)

    def stopped(self, samples: Sequence[Sample], judged: int) -> BudgetStop | None:
        """See `Limit.stopped`."""
        run, budget = self._run, self.budget
        if not budget.over:
            return None
        month = budget.exhausted.month if budget.exhausted else None
        return BudgetStop(
            budget=month.budget if month else run.parameters.budget or 0.0,
            month=month.month if month else "",
            spent=budget.spent,
            needed=budget.needed,
            judged=judged,
            samples=len(samples),
            is_random=run.start.shards == 1 and 0 < judged < len(samples),
        )

    async def wait(self) -> None:
        """See `Limit.wait`."""
        await self.budget.wait()


def prices_of(run: Run, budget: Budget, cases: Iterable[Case]) -> dict[Hashable, float]:
    """Return each call about these samples that must be paid for, with its highest expected cost."""
    return {
        name_of(case, call): expected(run, budget, case, call)
        for case in cases
        for call in case.calls
        # Read, not only looked up: a damaged reply must be requested again, and paid for.
        if case.sample.control == ANCHOR or run.replies.find(call.key) is None
    }


def name_of(case: Case, call: Call) -> Hashable:
    """Return the name of a call of this run in the budget."""
    sample = case.sample
    return (sample.candidate, sample.sample_id, sample.control, call.dimension, call.order, call.vote)


def expected(run: Run, budget: Budget, case: Case, call: Call) -> float:
    """Return the highest expected cost of a call. No text has more tokens than bytes."""
    question = case.questions(run.rubric)[call.dimension]
    prompt, asked = question.prompt, case.reduced_to(question)
    texts = sum(len(asked.texts[name].encode()) for name in prompt.inputs if name in asked.texts)
    pictures = sum(map(_picture_tokens, asked.notes().values()))
    instructions = len(run.layout.instructions(prompt).encode())
    return budget.expected(prompt.dimension, FORMAT_TOKENS + instructions + texts + pictures)


def _picture_tokens(note: PictureNote) -> int:
    least, most = PICTURE_TOKENS
    return min(most, max(least, note.sent_width * note.sent_height // PIXELS_A_TOKEN))
