"""Runs that stop at a budget: what they cost more than it.

As a program it prints its table of `docs/measurements.md` (`make simulate-budget`); the tests run a part. Judges are
simulated by what their calls cost and come to; the order of the samples and the budget are the program's own. Calls end
in a random order, as many of them in flight as the budget has room for.
"""

import asyncio
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tasks.records import Place, Sample
from tasks.spending.budget import Budget, CallCosts, in_random_order
from tasks.spending.prices import Rates, Tariff

SAMPLES, RUNS = 292, 100
DIMENSIONS = ("faithfulness", "conciseness", "readability", "aesthetics")
LONGEST_REPLY, SENT = 10_000, 12_000
"""Tokens: of a reply, and most of a question."""
TARIFF = Tariff((Rates(1.25, 0.125, 1.25, 10.0),), "simulated")
VERDICTS = ((100.0, 0.35), (50.0, 0.25), (0.0, 0.40))

Call = tuple[int, str]
Randoms = np.random.Generator


class Judge(NamedTuple):
    """How long the replies of a judge are, in tokens: their median and the spread of their logarithm."""

    name: str
    median: float
    spread: float
    longer_for_losers: float = 0.0
    """The logarithm by which replies about samples that the Model loses are longer."""


JUDGES = (
    Judge("short replies", 90, 0.2), Judge("long replies", 400, 0.35), Judge("reasoning", 1500, 0.6),
    Judge("reasoning, longer about losers", 1500, 0.6, 0.4),
)  # fmt: skip


class World(NamedTuple):
    """A dataset in its random order: the score of each sample, and what its calls cost; a forfeit has none."""

    scores: list[float]
    prices: list[dict[Call, float]]

    @property
    def whole(self) -> float:
        """What a run without a budget costs."""
        return sum(sum(calls.values()) for calls in self.prices)


class Stopped(NamedTuple):
    """Where a run with a budget ended."""

    judged: int
    spent: float
    percentile: float
    """95th percentile of a call."""


def world(judge: Judge, random: Randoms, forfeits: float = 0.0, samples: int = SAMPLES) -> World:
    """A dataset, and what a judge makes of it."""
    order = in_random_order([_sample(number) for number in range(samples)], str(random.integers(2**32)))
    values, weights = zip(*VERDICTS, strict=True)
    scores = random.choice(values, size=samples, p=weights)
    lost = random.random(samples) < forfeits
    found = {
        name: (0.0, {}) if lost[at] else (float(scores[at]), _calls(judge, at, float(scores[at]), random))
        for at, name in enumerate(str(number) for number in range(samples))
    }
    return World([found[each.sample_id][0] for each in order], [found[each.sample_id][1] for each in order])


def _sample(number: int) -> Sample:
    return Sample(sample_id=str(number), candidate="one", record=Place("", row=number))


def _calls(judge: Judge, sample: int, score: float, random: Randoms) -> dict[Call, float]:
    longer = judge.longer_for_losers if score == 0 else 0.0
    sent = 2_500 + 1_500 * random.random()  # the same texts and pictures in all calls of a sample
    out = np.minimum(LONGEST_REPLY, judge.median * np.exp(longer + judge.spread * random.standard_normal(4)))
    return {
        (sample, dimension): (sent * 1.25 + tokens * 10) / 1e6
        for dimension, tokens in zip(DIMENSIONS, out, strict=True)
    }


class Replies:
    """Calls that are in flight, and the judge that ends them one by one in a random order."""

    def __init__(self, budget: Budget, random: Randoms) -> None:
        self._budget, self._random = budget, random
        self._calls: list[tuple[Call, float]] = []
        self._ending: asyncio.Task[None] | None = None

    async def send(self, prices: dict[Call, float]) -> bool:
        """Whether there was room for all of them, if only one after another."""
        for call, price in prices.items():
            if not await self._budget.covers(call, self._budget.expected(call[1], SENT)):
                return False
            self._send({call: price})
        return True

    def _send(self, prices: dict[Call, float]) -> None:
        self._calls += prices.items()
        if self._ending is None or self._ending.done():
            self._ending = asyncio.create_task(self._end_all())

    async def _end_all(self) -> None:
        while self._calls:
            call, price = self._calls.pop(self._random.integers(len(self._calls)))
            self._budget.settle(call, call[1], price)
            await asyncio.sleep(0)

    async def all_ended(self) -> None:
        if self._ending:
            await self._ending


async def judged(there: World, limit: float, random: Randoms) -> Stopped:
    """A run with a budget, from its first sample to its end."""
    budget, started = Budget(limit, CallCosts(TARIFF, LONGEST_REPLY)), 0
    replies = Replies(budget, random)
    for prices in there.prices:
        if not await budget.starts(lambda calls=prices: {call: budget.expected(call[1], SENT) for call in calls}):
            break
        started += await replies.send(prices)
    await replies.all_ended()
    billed = [price for calls in there.prices for price in calls.values()]
    return Stopped(started, budget.spent, float(np.quantile(billed, 0.95)))


class Cost(NamedTuple):
    """What runs with random budgets cost."""

    over: float
    """Most that one cost more than its budget, as a share of it."""
    over_calls: float
    """The same in 95th percentiles of a call."""
    left: float
    """Median share of the budget that was not spent."""


def costs_of(judge: Judge, runs: int, random: Randoms) -> Cost:
    """Runs with budgets between 2% and 98% of what the whole would cost, at random."""
    over, calls, left = list[float](), list[float](), list[float]()
    for _ in range(runs):
        there = world(judge, random, forfeits=0.1)
        limit = float(random.uniform(0.02, 0.98)) * there.whole
        found = asyncio.run(judged(there, limit, random))
        over.append(found.spent / limit - 1)
        calls.append((found.spent - limit) / found.percentile)
        left.append(1 - found.spent / limit)
    return Cost(max(over), max(calls), float(np.median(left)))


def main(seeds: Sequence[int]) -> None:
    """Print the table for each seed."""
    for seed in seeds:
        random = np.random.default_rng(seed)
        lines = [
            f"| {judge.name} | {max(found.over, 0):.2%} | {max(found.over_calls, 0):.2f} | {found.left:.1%} |"
            for judge in JUDGES
            for found in [costs_of(judge, RUNS, random)]
        ]
        print(f"seed {seed}: {RUNS} runs with random budgets, {SAMPLES} samples, 10% of them forfeits\n")
        print(
            "| judge | most over its budget | in 95th percentiles of a call | left of it (median) |\n|---|---|---|---|"
        )
        print("\n".join(lines))


if __name__ == "__main__":
    main([int(seed) for seed in sys.argv[1:]] or [1])
