"""Simulation: how often the nightly alarm comes falsely, and how soon it finds a drop (`make simulate-alarm`).

A judge decides each of 292 figures anew every night: a figure has a place of its own on a scale from Human to Model,
the judge adds an error to it, and where the sum lies decides between Human 0, Tie 50 and Model 100. A night may add an
error that all its figures share, so that nights scatter more than their figures explain. Same figures: the places
stay. New figures every night: the candidate makes them anew, so that most of a place is drawn anew, too.

    python tests/simulate_alarm.py [SEED …] [--series N]
"""

import argparse
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.statistics.cusum import BASELINE, Night, watch

FIGURES, NIGHTS, MOST = 292, 60, 100.0
CENTRE = 1.0
"""Places below -this are Human's, above it Model's."""
SPREAD = 3.0
"""Standard deviation of the places."""
STEP = 0.05


class Judge(NamedTuple):
    error: float
    """Standard deviation of what the judge adds to a place."""
    renewed: float = 0.0
    """Share of a place's variance that is drawn anew each night."""
    scatter: float = 1.0
    """How far nights scatter, in multiples of what their figures alone explain."""

    def nights(self, random: np.random.Generator, drop: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores of nights x figures; `drop`: points that the score is to lie below the first level, night by night."""
        kept = random.normal(0, SPREAD * (1 - self.renewed) ** 0.5, FIGURES)
        size = len(drop), FIGURES
        anew = random.normal(0, SPREAD * self.renewed**0.5, size) + random.normal(0, self.error, size)
        level = slope(self.error)
        shared = random.normal(0, alone(self) * (self.scatter**2 - 1) ** 0.5 / level, (len(drop), 1))
        return scored(kept + anew + shared - np.asarray(drop)[:, None] / level)


@cache
def alone(judge: Judge) -> float:
    """Standard deviation of a night's score by its figures alone, in points."""
    random = np.random.default_rng(0)
    kept = random.normal(0, SPREAD * (1 - judge.renewed) ** 0.5, (1, 20_000))
    size = 100, 20_000
    anew = random.normal(0, SPREAD * judge.renewed**0.5, size) + random.normal(0, judge.error, size)
    return float((scored(kept + anew).var(axis=0, ddof=1).mean() / FIGURES) ** 0.5)


@cache
def slope(error: float) -> float:
    """Points that the mean score rises by where all places rise by one."""
    places = np.random.default_rng(0).normal(0, (SPREAD**2 + error**2) ** 0.5, 1_000_000)
    return float((scored(places + STEP).mean() - scored(places - STEP).mean()) / (2 * STEP))


def scored(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Human 0, Tie 50, Model 100."""
    return 50.0 * ((places > -CENTRE).astype(float) + (places > CENTRE))


class Found(NamedTuple):
    alarms: float
    """A series, on average."""
    any_alarm: float
    """Share of the series with one or more."""
    by_night: list[float]
    """Share of the series that have an alarm by the first, second … night after the baseline."""


def simulate(judge: Judge, random: np.random.Generator, series: int, drop: NDArray[np.float64]) -> Found:
    """Many series of one judge; `drop` has the nights from the first on, baseline included."""
    found = [raised(watch(judge.nights(random, drop), MOST)) for _ in range(series)]
    first = [min((night - BASELINE for night in each if night >= BASELINE), default=NIGHTS) for each in found]
    return Found(
        alarms=float(np.mean([len(each) for each in found])),
        any_alarm=float(np.mean([bool(each) for each in found])),
        by_night=[float(np.mean([night <= last for night in first])) for last in range(len(drop) - BASELINE)],
    )


def raised(nights: Sequence[Night]) -> list[int]:
    return sorted({night.raised for night in nights if night.raised is not None})


def quiet(nights: int = NIGHTS) -> NDArray[np.float64]:
    return np.zeros(nights)


def step(points: float, nights: int = 7) -> NDArray[np.float64]:
    return np.r_[np.zeros(BASELINE), np.full(nights, points)]


def decline(points: float, nights: int = 30) -> NDArray[np.float64]:
    return np.r_[np.zeros(BASELINE), points * np.arange(1, nights + 1)]


SAME = {
    "same figures, outcomes repeat in 85%": Judge(0.5),
    "same figures, a noisy judge": Judge(1.15),
    "same figures, a noisier judge": Judge(1.6),
}
NEW = {"new figures every night": Judge(1.0, renewed=0.9)}


HEADER = """
| nights | noise of a night | false alarms in 60 nights (series with any) | -5 by night 1 / 3 / 7 | -6.5 likewise | \
-0.2 a night: by night 20 / 30 |
|---|---|---|---|---|---|"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("seeds", nargs="*", type=int, default=[1])
    parser.add_argument("--series", type=int, default=1000)
    return parser.parse_args()


def main() -> None:
    given = arguments()
    for seed in given.seeds:
        random = np.random.default_rng(seed)
        print(f"\nSeed {seed}, {given.series:,} series each, {FIGURES} figures")
        print(HEADER)
        for name, judge in {**SAME, **NEW}.items():
            for scatter in (1.0, 1.3):
                print(_line(name, judge._replace(scatter=scatter), random, given.series), flush=True)


def _line(name: str, judge: Judge, random: np.random.Generator, series: int) -> str:
    false = simulate(judge, random, series, quiet())
    steps = [simulate(judge, random, series, step(points)).by_night for points in (5.0, 6.5)]
    slow = simulate(judge, random, series, decline(0.2)).by_night
    quietly = f"{alone(judge) * judge.scatter:.2f} | {false.alarms:.3f} ({false.any_alarm:.1%})"
    fallen = " | ".join(" / ".join(f"{each[at]:.0%}" for at in (0, 2, 6)) for each in steps)
    return f"| {name}, scatter x {judge.scatter:g} | {quietly} | {fallen} | {slow[19]:.0%} / {slow[29]:.0%} |"


if __name__ == "__main__":
    main()
