"""Simulation of corrected scores: coverage of their intervals (`make simulate-labels`, seeds on the command line).

A judge is 10 points too kind, and agrees with people according to a correlation. People judge some of 292 figures,
drawn at random; the truth is people's mean over infinitely many figures. Each line is one population, judge and number
of labels over 1,000 runs a seed: coverage and width of the corrected score's interval, and those of people alone
(Student's t) and of the judge alone. A second table has the bounds for skipped figures, with three judges: people skip
half of the figures on which they differ from the judge, all of them, or a tenth of all figures.
"""

import sys
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit

from tasks.statistics.intervals import Floats, bounded_by_skipped, corrected, interval

N, RUNS, BIAS = 292, 1000, 10.0
NUMBERS = (15, 30, 60, 100, 150)


class World(NamedTuple):
    name: str
    human: float
    """Share of figures that people judge to lose."""
    tie: float
    correlation: float
    """Correlation between the qualities that people and judge see."""

    @property
    def truth(self) -> float:
        return 50 * self.tie + 100 * (1 - self.human - self.tie)


SHARES = (("wins and losses", 0.45, 0.25), ("mostly losses", 0.85, 0.08), ("mostly wins", 0.2, 0.2))
WORLDS = tuple(World(*shares, correlation) for shares in SHARES for correlation in (0.55, 0.8, 0.95))
HARD = (World("hardly a win", 0.95, 0.03, 0.8), World("judge and people are one but for the bias", 0.45, 0.25, 0.999))


class Found(NamedTuple):
    covered: float
    width: float
    people_covered: float
    people_width: float
    judge_covered: float
    bias: float


def scores(quality: Floats, world: World) -> Floats:
    cuts = ndtri([world.human, world.human + world.tie])
    return np.select([quality < cuts[0], quality < cuts[1]], [0.0, 50.0], 100.0)


@cache
def kindness(world: World) -> float:
    """Return the added quality with which a judge's mean is 10 points above that of people."""
    steps = np.linspace(0, 2.5, 101)
    lost, no_win = (ndtr(ndtri(share) - steps) for share in (world.human, world.human + world.tie))
    return float(np.interp(BIAS + world.truth, 100 - 50 * lost - 50 * no_win, steps))


def draw_scores(random: np.random.Generator, world: World) -> tuple[Floats, Floats]:
    quality, own = random.standard_normal((2, N))
    seen = world.correlation * quality + (1 - world.correlation**2) ** 0.5 * own
    return scores(quality, world), scores(seen + kindness(world), world)


def simulate(world: World, labels: int, runs: int = RUNS, seed: int = 1) -> Found:
    random = np.random.default_rng(seed)
    found: list[tuple[float, ...]] = []
    for run in range(runs):
        people, judge = draw_scores(random, world)
        drawn = random.choice(N, labels, replace=False)
        score = corrected(judge, judge[drawn], people[drawn])
        assert score
        half = stdtrit(labels - 1, 0.975) * people[drawn].std(ddof=1) / labels**0.5
        alone = abs(people[drawn].mean() - world.truth) <= half
        raw = interval(judge) if run < 100 else None  # its resampling takes most of the time
        covers = float("nan") if raw is None else float((raw.ci_low or 0) <= world.truth <= (raw.ci_high or 0))
        inside = score.ci_low <= world.truth <= score.ci_high
        found.append((inside, score.ci_high - score.ci_low, alone, 2 * half, covers, score.value - world.truth))
    return Found(*np.nanmean(found, axis=0))


def lines(seeds: list[int]) -> Iterator[str]:
    for world in (*WORLDS, *HARD):
        for labels in NUMBERS:
            mean = Found(*np.mean([simulate(world, labels, seed=seed) for seed in seeds], axis=0))
            yield (
                f"{world.name}, truth {world.truth:.1f}, correlation {world.correlation:g}, {labels} labels: covers "
                f"{mean.covered:.1%}, width {mean.width:.1f}, off by {mean.bias:+.1f}; people alone "
                f"{mean.people_covered:.1%}, {mean.people_width:.1f}; judge alone {mean.judge_covered:.0%}"
            )


JUDGES = ("12 points too kind", "always 50", "kind to a third of the figures")
SKIPPED = ("half of the disagreements", "all disagreements", "10% of all")


class Bounded(NamedTuple):
    covered: float
    """Share of the bounds that cover the truth; NaN if all runs left too few labels."""
    excess: float
    """Width beyond that of the interval, as a multiple of the scale x share skipped."""


def bounded(world: World, judge: str, skipping: str, labels: int, runs: int = RUNS, seed: int = 1) -> Bounded:
    random = np.random.default_rng(seed)
    found: list[tuple[float, float]] = []
    for _ in range(runs):
        people, judged_so = _by(judge, random, world)
        drawn = random.choice(N, labels, replace=False)
        f, y = judged_so[drawn], people[drawn]
        likely = {SKIPPED[0]: 0.5 * (f != y), SKIPPED[1]: 1.0 * (f != y)}.get(skipping, np.full(labels, 0.1))
        skipped = random.random(labels) < likely
        score = corrected(judged_so, f[~skipped], y[~skipped])
        if score is None or not skipped.any():
            continue
        lowest, best = (corrected(judged_so, f, np.where(skipped, end, y)) for end in (0.0, 100.0))
        low, high = bounded_by_skipped(score, lowest or score, best or score)
        wider = (high - low - (score.ci_high - score.ci_low)) / (100 * skipped.mean())
        found.append((low <= world.truth <= high, wider))
    return Bounded(*(np.mean(found, axis=0) if found else (np.nan, np.nan)))


def _by(judge: str, random: np.random.Generator, world: World) -> tuple[Floats, Floats]:
    quality, own = random.standard_normal((2, N))
    seen = world.correlation * quality + (1 - world.correlation**2) ** 0.5 * own
    if judge == JUDGES[1]:
        return scores(quality, world), np.full(N, 50.0)
    kind = np.where(random.random(N) < 1 / 3, 1.2, -0.2) if judge == JUDGES[2] else 1.2 * kindness(world)
    return scores(quality, world), scores(seen + kind, world)


def bounds_table(runs: int = RUNS) -> Iterator[str]:
    yield "| people | judge | skipped | labels | bounds hold the truth | wider by, of scale x share skipped |"
    yield "|---|---|---|---|---|---|"
    for world, judge, skipping, labels in product(WORLDS[1::3], JUDGES, SKIPPED, NUMBERS):
        found = bounded(world, judge, skipping, labels, runs)
        if not np.isnan(found.covered):
            yield f"| {world.name} | {judge} | {skipping} | {labels} | {found.covered:.1%} | {found.excess:.2f} |"


def main() -> None:
    for line in lines([int(seed) for seed in sys.argv[1:]] or [1]):
        print(line, flush=True)
    for line in bounds_table():
        print(line, flush=True)


if __name__ == "__main__":
    main()
