"""Simulation of the nightly alarm: false alarms, and delay until a drop is found (`make simulate-alarm`).

A judge decides each figure again every night: a figure has a place on a scale from Human to Model, the judge adds an
error, and the sum decides between Human 0, Tie 50 and Model 100. Each night also has an error shared by all its
figures, so nights scatter more than their figures explain. It may depend on the previous night's error (AR 1), or on
the weekday. Same figures: places stay. New figures every night: most of a place is drawn again.

Usage: python tests/simulate_alarm.py [SEED …] [--series N]
"""

import argparse
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.statistics.cusum import BASELINE, Night, watch

FIGURES, NIGHTS, MOST = 292, 60, 100.0
CENTRE = 1.0
"""Places below minus this value are Human's, places above it Model's."""
SPREAD = 3.0
"""Standard deviation of the places."""
STEP = 0.05


WAVES = {
    "sine": np.sin(2 * np.pi * np.arange(7) / 7),
    "weekend": np.array([0, 0, 0, 0, 0, -1.0, -1.0]),
    "one day": np.array([0, 0, 0, 0, 0, 0, -1.0]),
}
"""Value added on each weekday, in heights of the wave, by its shape."""


class Judge(NamedTuple):
    error: float
    """Standard deviation of the judge's error."""
    renewed: float = 0.0
    """Share of a place's variance that is drawn again each night."""
    scatter: float = 1.0
    """Scatter of nights, as a multiple of what their figures alone explain."""
    figures: int = FIGURES
    alike: float = 0.0
    """Correlation of a night's shared error with that of the previous night."""
    wave: str = ""
    height: float = 0.0
    """Height of the weekly wave, as a multiple of a night's error by its figures alone."""

    def nights(self, random: np.random.Generator, drop: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
        """Return scores of nights x figures; `drop`: points by which the mean score is lowered, night by night."""
        kept = random.normal(0, SPREAD * (1 - self.renewed) ** 0.5, self.figures)
        size = len(drop), self.figures
        anew = random.normal(0, SPREAD * self.renewed**0.5, size) + random.normal(0, self.error, size)
        points = self.shared(random, len(drop)) * alone(self.of_figures) - np.asarray(drop)
        return scored(kept + anew + (points / slope(self.error))[:, None])

    @property
    def of_figures(self) -> "Judge":
        """The judge without shared errors of nights."""
        return Judge(self.error, self.renewed, figures=self.figures)

    def shared(self, random: np.random.Generator, nights: int) -> NDArray[np.float64]:
        """Return the shared error of each night, as multiples of a night's error by its figures alone."""
        drawn = random.normal(0, (self.scatter**2 - 1) ** 0.5, nights)
        drawn[1:] *= (1 - self.alike**2) ** 0.5
        for at in range(1, nights):
            drawn[at] += self.alike * drawn[at - 1]
        days = (np.arange(nights) + random.integers(7)) % 7
        return drawn + (self.height * WAVES[self.wave][days] if self.wave else 0.0)


@cache
def alone(judge: Judge) -> float:
    """Return the standard deviation of a night's score by its figures alone, in points."""
    random = np.random.default_rng(0)
    kept = random.normal(0, SPREAD * (1 - judge.renewed) ** 0.5, (1, 20_000))
    size = 100, 20_000
    anew = random.normal(0, SPREAD * judge.renewed**0.5, size) + random.normal(0, judge.error, size)
    return float((scored(kept + anew).var(axis=0, ddof=1).mean() / judge.figures) ** 0.5)


@cache
def slope(error: float) -> float:
    """Return the rise of the mean score, in points, if all places rise by one."""
    places = np.random.default_rng(0).normal(0, (SPREAD**2 + error**2) ** 0.5, 1_000_000)
    return float((scored(places + STEP).mean() - scored(places - STEP).mean()) / (2 * STEP))


def scored(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the scores of places: Human 0, Tie 50, Model 100."""
    return 50.0 * ((places > -CENTRE).astype(float) + (places > CENTRE))


class Found(NamedTuple):
    alarms: float
    """Mean number in a series."""
    any_alarm: float
    """Share of the series with at least one."""
    by_night: list[float]
    """Share of the series with an alarm by the first, second … night after the baseline."""


def simulate(judge: Judge, random: np.random.Generator, series: int, drop: NDArray[np.float64]) -> Found:
    """Simulate many series of one judge; `drop` covers all nights, baseline included."""
    found = [raised(watch(judge.nights(random, drop), MOST)) for _ in range(series)]
    first = [min((night - BASELINE for night in each if night >= BASELINE), default=NIGHTS) for each in found]
    return Found(
        alarms=float(np.mean([len(each) for each in found])),
        any_alarm=float(np.mean([bool(each) for each in found])),
        by_night=[float(np.mean([night <= last for night in first])) for last in range(len(drop) - BASELINE)],
    )


def raised(nights: Sequence[Night]) -> list[int]:
    return sorted({night.alarm for night in nights if night.alarm is not None})


def quiet(nights: int = NIGHTS) -> NDArray[np.float64]:
    return np.zeros(nights)


def step(points: float, nights: int = 7) -> NDArray[np.float64]:
    return np.r_[np.zeros(BASELINE), np.full(nights, points)]


def decline(points: float, nights: int = 30) -> NDArray[np.float64]:
    return np.r_[np.zeros(BASELINE), points * np.arange(1, nights + 1)]


JUDGES = {
    "same figures, outcomes repeat in 85%": Judge(0.5),
    "same figures, a noisier judge": Judge(1.6),
    "new figures every night": Judge(1.0, renewed=0.9),
}
SCATTER = 1.3
ALIKE = (0.0, 0.3, 0.5, 0.8)
HEIGHTS = (1, 2, 3, 4, 6)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("seeds", nargs="*", type=int, default=[1])
    parser.add_argument("--series", type=int, default=1000)
    return parser.parse_args()


def main() -> None:
    given = arguments()
    for seed in given.seeds:
        print(f"\nSeed {seed}, {given.series:,} series each of {NIGHTS} nights that scatter {SCATTER:g} times")
        print("\n| figures | nights | false alarms in 60 nights (series with any; any of six flows) |\n|---|---|---|")
        for name, judge in JUDGES.items():
            for line in _quiet(judge._replace(scatter=SCATTER), np.random.default_rng(seed), given.series):
                print(f"| {name} | {line} |", flush=True)
        print("\n| figures | n | -5 found by night 1 / 3 / 7 (median) | -6.5 | -0.2 a night, by night 20 / 30 |")
        print("|---|---|---|---|---|")
        for name, judge in JUDGES.items():
            for figures in (FIGURES, 50):
                dropped = judge._replace(scatter=SCATTER, figures=figures)
                print(f"| {name} | {_dropping(dropped, np.random.default_rng(seed), given.series // 5)} |", flush=True)


def _quiet(judge: Judge, random: np.random.Generator, series: int) -> Iterator[str]:
    for alike in ALIKE:
        found = simulate(judge._replace(alike=alike), random, series, quiet())
        yield f"AR(1) {alike:g} | {_false(found)}"
    for wave in WAVES:
        waved = (judge._replace(wave=wave, height=height) for height in HEIGHTS)
        found = max((simulate(each, random, series // 4, quiet()) for each in waved), key=lambda found: found.alarms)
        yield f"a weekly wave: {wave}, the worst of heights {HEIGHTS[0]}-{HEIGHTS[-1]} | {_false(found)}"


def _false(found: Found) -> str:
    return f"{found.alarms:.3f} ({found.any_alarm:.0%}; {1 - (1 - found.any_alarm) ** 6:.0%})"


def _dropping(judge: Judge, random: np.random.Generator, series: int) -> str:
    steps = [simulate(judge, random, series, step(points, 30)).by_night for points in (5.0, 6.5)]
    slow = simulate(judge, random, series, decline(0.2)).by_night
    fallen = [f"{' / '.join(f'{each[at]:.0%}' for at in (0, 2, 6))} ({_median(each)})" for each in steps]
    return f"{judge.figures} | {' | '.join(fallen)} | {slow[19]:.0%} / {slow[29]:.0%}"


def _median(by_night: Sequence[float]) -> str:
    return next((f"{night}" for night, share in enumerate(by_night, 1) if share >= 0.5), f"after {len(by_night)}")


if __name__ == "__main__":
    main()
