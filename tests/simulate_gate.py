"""Simulation of `jury gate`: how often it fails a candidate that is equally good, and one ten points worse.

Two generators draw figures for the same papers. A figure's quality consists of a part that both figures of a paper
share, and of chance; it decides between Model, neutral and Human. Run `python tests/simulate_gate.py [SEED …]`, or
`make simulate-gate`.
"""

import sys
from collections import Counter
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.comparing.candidate_gate import bounded
from tasks.statistics.intervals import difference

N = 292
PAIRS = 2000
BOUNDS = 0.6745, -0.1257
"""Qualities from which on a figure wins, or ties."""


class Case(NamedTuple):
    name: str
    shared: float
    """Correlation of a paper's two figures: 0.98 if the second is the first with few changes."""
    margin: float

    def __str__(self) -> str:
        return f"{self.name}, margin {self.margin:g}"


CASES = (Case("nearly the same figures", 0.98, 5.0), Case("figures of a common design", 0.8, 0.0))
"""Cases in which a drop of ten points must be found."""
OTHERS = (Case("figures of a common design", 0.8, 5.0), Case("new figures", 0.5, 0.0), Case("new figures", 0.5, 5.0))


def shares(case: Case, drop: float, pairs: int = PAIRS, seed: int = 1) -> Counter[str]:
    """Return the share of each decision over pairs of candidates, the second of which is `drop` points worse."""
    random = np.random.default_rng(seed)
    found: Counter[str] = Counter()
    for _ in range(pairs):
        common = random.standard_normal(N) * case.shared**0.5
        first, second = (common + random.standard_normal(N) * (1 - case.shared) ** 0.5 for _ in range(2))
        pair = difference(outcomes(first), outcomes(second - shift(drop)))
        found[bounded(pair, case.margin, 100.0).decision] += 1 / pairs
    return found


def outcomes(quality: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return scores: the best 25% win, the next 30% tie."""
    return np.select([quality > bound for bound in BOUNDS], [100.0, 50.0], 0.0)


@lru_cache
def shift(drop: float) -> float:
    """Return the fall in quality that lowers the mean score by this number of points."""
    quality = np.sort(np.random.default_rng(0).standard_normal(400_000))
    steps = np.linspace(0, 1, 201)
    better = sum(len(quality) - np.searchsorted(quality, bound + steps, "right") for bound in BOUNDS)
    return float(np.interp(drop, (better[0] - better) / len(quality) * 50, steps))


def main() -> None:
    for seed in map(int, sys.argv[1:] or ["1", "2"]):
        for case in (*CASES, *OTHERS):
            quiet, dropped = shares(case, 0.0, seed=seed), shares(case, 10.0, seed=seed)
            words = (f"{each['fails']:.1%} fail, {each['passes']:.1%} pass" for each in (quiet, dropped))
            print(f"seed {seed}, {case}: as good: {next(words)}; ten points worse: {next(words)}", flush=True)


if __name__ == "__main__":
    main()
