"""Simulation of runs that stop at a budget: their cost beyond it.

As a program, print the table of `docs/measurements.md` (`make simulate-budget`); the tests run a part. Judges are
simulated by the cost and results of their calls; the order of samples and the budget are the real code. Calls end in a
random order, as many in flight as the budget allows.
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
"""In tokens: the longest reply, and the longest question."""
TARIFF = Tariff((Rates(1.25, 0.125, 1.25, 10.0),), "simulated")
VERDICTS = ((100.0, 0.35), (50.0, 0.25), (0.0, 0.40))

Call = tuple[int, str]
Randoms = np.random.Generator


class Judge(NamedTuple):
    """Length of a judge's replies in tokens: median, and spread of the logarithm."""

    name: str
    median: float
    spread: float
    longer_for_losers: float = 0.0
    """Logarithm of the factor by which replies on samples that the Model loses are longer."""


JUDGES = (
    Judge("short replies", 90, 0.2), Judge("long replies", 400, 0.35), Judge("reasoning", 1500, 0.6),
    Judge("reasoning, longer about losers", 1500, 0.6, 0.4),
)  # fmt: skip


class World(NamedTuple):
    """A dataset in random order: the score of each sample, and the cost of its calls; a forfeit has no calls."""

    scores: list[float]
    prices: list[dict[Call, float]]

    @property
    def whole(self) -> float:
        """Cost of a run without a budget."""
        return sum(sum(calls.values()) for calls in self.prices)


class Stopped(NamedTuple):
    """State of a run with a budget at its end."""

    judged: int
    spent: float
    percentile: float
    """95th percentile of a call's cost."""


def world(judge: Judge, random: Randoms, forfeits: float = 0.0, samples: int = SAMPLES) -> World:
    """Return a dataset with a judge's results."""
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
    return Sample(sample_id=str(number), candidate="one", record=Place("", start=number))


def _calls(judge: Judge, sample: int, score: float, random: Randoms) -> dict[Call, float]:
    longer = judge.longer_for_losers if score == 0 else 0.0
    sent = 2_500 + 1_500 * random.random()  # equal texts and pictures in all calls of a sample
    out = np.minimum(LONGEST_REPLY, judge.median * np.exp(longer + judge.spread * random.standard_normal(4)))
    return {
        (sample, dimension): (sent * 1.25 + tokens * 10) / 1e6
        for dimension, tokens in zip(DIMENSIONS, out, strict=True)
    }


class Replies:
    """Calls in flight, and the judge that ends them one by one in random order."""

    def __init__(self, budget: Budget, random: Randoms) -> None:
        self._budget, self._random = budget, random
        self._calls: list[tuple[Call, float]] = []
        self._ending: asyncio.Task[None] | None = None

    async def send(self, prices: dict[Call, float]) -> bool:
        """Send the calls one by one; return whether the budget had room for all of them."""
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


async def run_with_budget(there: World, limit: float, random: Randoms) -> Stopped:
    """Simulate a run with a budget to its end."""
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
    """Cost of runs with random budgets."""

    over: float
    """Largest excess over a budget, as a share of it."""
    over_calls: float
    """Largest excess, in 95th percentiles of a call's cost."""
    left: float
    """Median share of the budget left unspent."""


def costs_of(judge: Judge, runs: int, random: Randoms) -> Cost:
    """Simulate runs with random budgets between 2% and 98% of the whole cost."""
    over, calls, left = list[float](), list[float](), list[float]()
    for _ in range(runs):
        there = world(judge, random, forfeits=0.1)
        limit = float(random.uniform(0.02, 0.98)) * there.whole
        found = asyncio.run(run_with_budget(there, limit, random))
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
