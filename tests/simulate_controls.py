"""Simulation of controls with judges of known habits: how often a good judge is RED, and a bad one.

As a program, print the table of `docs/measurements.md` (`make simulate-controls`); the tests run a part. Judges are
simulated by their answers on equal figures; everything afterwards is the real code.
"""

import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tasks.judging.results import ControlRate, control_rate
from tasks.protocols import control_rules_of
from tasks.protocols.controls import Heard
from tasks.protocols.figures.tier_rule import merge_orders, merge_votes
from tasks.records import SAME, DimensionOutcome, Order, Outcome

DIMENSIONS = ("faithfulness", "conciseness", "readability", "aesthetics")
GOOD = "Both are good"
ONE: tuple[Order, ...] = ("human_first",)
BOTH: tuple[Order, ...] = ("human_first", "model_first")
PAIRS, FEW_PAIRS = 6, 2
"""Pairs of equal figures in the default 18 controls of a run, and in 6 controls."""

Judge = Callable[[np.random.Generator], Callable[[Order], str]]
"""For each new pair and dimension, a function that answers any number of calls."""


class Found(NamedTuple):
    rate: float
    """Mean rate of false preference."""
    red: float
    """Share of RED runs."""


def erring(share: float) -> Judge:
    """Return a judge that names a random side in this share of its calls."""

    def meet(random: np.random.Generator) -> Callable[[Order], str]:
        return lambda _: ("Model", "Human")[random.integers(2)] if random.random() < share else GOOD

    return meet


def stubborn(share: float) -> Judge:
    """Return a judge that names the same winner in every call on this share of questions, and none on the others."""

    def meet(random: np.random.Generator) -> Callable[[Order], str]:
        winner = ("Model", "Human")[random.integers(2)] if random.random() < share else GOOD
        return lambda _: winner

    return meet


def first_place(share: float) -> Judge:
    """Return a judge that names the first figure in this share of its calls."""

    def meet(random: np.random.Generator) -> Callable[[Order], str]:
        return lambda order: {"human_first": "Human"}.get(order, "Model") if random.random() < share else GOOD

    return meet


def one_run(random: np.random.Generator, judge: Judge, pairs: int, orders: Sequence[Order], votes: int) -> ControlRate:
    rows = [_failures(random, judge, orders, votes) for _ in range(pairs)]
    failed = sum(map(sum, rows))
    return control_rate("false preference", len(DIMENSIONS) * pairs, failed, 0, pairs, sum(map(any, rows)))


def _failures(random: np.random.Generator, judge: Judge, orders: Sequence[Order], votes: int) -> list[float]:
    met = [(name, judge(random)) for name in DIMENSIONS]
    answers = {name: {order: [answer(order) for _ in range(votes)] for order in orders} for name, answer in met}
    dimensions = tuple(_outcome(name, by_order) for name, by_order in answers.items())
    control = Outcome.model_construct(flow="diagram", control=SAME, overall="Tie", dimensions=dimensions)
    shares = control_rules_of("diagram").failures(control, None, Heard(answers if votes > 1 else {}, {}))
    return [share for share in shares if share is not None]


def _outcome(name: str, by_order: dict[Order, list[str]]) -> DimensionOutcome:
    merged = {order: merge_votes(votes) for order, votes in by_order.items()}
    return DimensionOutcome.model_construct(
        dimension=name, verdict=merge_orders(merged).verdict, human_first=merged.get("human_first"),
        model_first=merged.get("model_first"),
    )  # fmt: skip


def many_runs(
    seed: int, judge: Judge, runs: int, pairs: int = PAIRS, orders: Sequence[Order] = ONE, votes: int = 1
) -> Found:
    random = np.random.default_rng(seed)
    found = [one_run(random, judge, pairs, orders, votes) for _ in range(runs)]
    return Found(
        rate=float(np.mean([each.value for each in found])),
        red=float(np.mean([each.status == "red" for each in found])),
    )


def main(runs: int = 1000, seed: int = 20_261_122) -> None:
    judges = {
        "errs in 3%": erring(0.03), "errs in 5%": erring(0.05), "same winner on 5%": stubborn(0.05),
        "errs in 30%": erring(0.3), "errs in 50%": erring(0.5), "first place in 40%": first_place(0.4),
    }  # fmt: skip
    ways = {"one order": (ONE, 1), "both": (BOTH, 1), "both, 3 votes": (BOTH, 3)}
    print("| judge on equal figures | asked in | rate | RED with 6 pairs | with 2 |\n|---|---|---|---|---|")
    for name, judge in judges.items():
        for way, (orders, votes) in ways.items():
            usual, few = (many_runs(seed, judge, runs, pairs, orders, votes) for pairs in (PAIRS, FEW_PAIRS))
            print(f"| {name} | {way} | {usual.rate:.2%} | {usual.red:.2%} | {few.red:.2%} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
