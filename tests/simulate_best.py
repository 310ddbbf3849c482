"""How often "vs best" names a loser among equal candidates, how wide its intervals are, and what they find.

Candidates draw figures for the same papers; the judge says Model, a neutral or Human by the figure's quality, which is
partly the paper's. A loser is false if it is as good as the best. Run as `python tests/simulate_best.py [RUNS]`, or
`make simulate-best`; 10,000 runs a cell take about two hours of one core.
"""

import sys
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.statistics import series as comparing
from tasks.statistics.intervals import difference
from tasks.statistics.series import Measure, Series, beside_best

OVERALL = Measure("overall")
WINS, WINS_OR_TIES = 0.15, 0.40
"""Shares of figures: mean score 27.5, as measured for generators beside human figures."""
CASES = ("equal", "a third alike", "one 20 worse", "half 20 worse")
Scores = NDArray[np.float64]
"""Scores of figures (rows) by candidate (columns)."""


class Found(NamedTuple):
    false: float
    """Share of runs in which a candidate as good as the best is shown worse, or a worse one is the best."""
    plain: float
    """The same with plain 95% intervals."""
    power: float
    """Share of runs in which the last candidate is shown worse than the best."""
    width: float
    """Mean width of an interval as a multiple of that of the plain one."""


@lru_cache
def normal() -> NDArray[np.float64]:
    return np.random.default_rng(0).standard_normal((400_000, 3))


def outcomes(quality: NDArray[np.float64]) -> NDArray[np.float64]:
    won, tied = limits()
    return np.select([quality > won, quality > tied], [100.0, 50.0], 0.0)


@lru_cache
def limits() -> tuple[float, float]:
    """Quality from which a figure wins, and from which it ties."""
    won, tied = np.quantile(normal()[:, 0], (1 - WINS, 1 - WINS_OR_TIES))
    return float(won), float(tied)


@lru_cache
def shift(drop: float) -> float:
    """By how much quality falls where the mean score falls by so many points."""
    quality, steps = normal()[:, 0], np.linspace(0, 2, 201)
    falls = outcomes(quality).mean() - np.array([outcomes(quality - step).mean() for step in steps])
    return float(np.interp(drop, falls, steps))


@lru_cache
def shared(correlation: float) -> float:
    """Share of the paper in the quality of which the scores of two candidates have this correlation."""
    shares = np.linspace(0, 0.999, 101)
    found = [np.corrcoef(*outcomes(mixed(share, normal()[:, :1], normal()[:, 1:])).T)[0, 1] for share in shares]
    return float(np.interp(correlation, found, shares))


def mixed(share: float, paper: NDArray[np.float64], own: NDArray[np.float64]) -> NDArray[np.float64]:
    return share**0.5 * paper + (1 - share) ** 0.5 * own


def draw(random: np.random.Generator, n: int, k: int, correlation: float, case: str, drop: float) -> Scores:
    """Draw candidates of which the last ones are worse."""
    quality = mixed(shared(correlation), random.standard_normal((n, 1)), random.standard_normal((n, k)))
    if case == "a third alike":
        alike = random.random(n) < 1 / 3
        quality[alike] = random.standard_normal((np.count_nonzero(alike), 1))
    quality[:, k - worse(case, k) :] -= shift(drop) if worse(case, k) else 0.0
    return outcomes(quality)


def worse(case: str, k: int) -> int:
    return {"one 20 worse": 1, "half 20 worse": k // 2, "one worse": 1}.get(case, 0)


def simulate(n: int, k: int, correlation: float, case: str, runs: int, drop: float = 20.0, seed: int = 1) -> Found:
    units = [f"{unit}" for unit in range(n)]
    random, good, counts = np.random.default_rng(seed), k - worse(case, k), np.zeros(4)
    for _ in range(runs):
        scores = draw(random, n, k, correlation, case, drop)
        values = ({OVERALL: dict(zip(units, its, strict=True))} for its in scores.T.tolist())
        sides = {f"{place:02}": Series(each, each, {}, 1.0) for place, each in enumerate(values)}
        best = int(scores.mean(axis=0).argmax())
        beside = beside_best(sides, f"{best:02}")
        found = {int(name): its[OVERALL].difference for name, its in beside.items()}
        plain = {place: difference(scores[:, best], scores[:, place]) for place in found}
        widths = [
            (pair.ci_high - pair.ci_low) / (plain[place].ci_high - plain[place].ci_low)  # pyright: ignore
            for place, pair in found.items()
            if pair.ci_low is not None
        ]
        counts += (
            best >= good or any(found[place].decision == "worse" for place in found.keys() & {*range(good)}),
            best >= good or any(plain[place].decision == "worse" for place in found.keys() & {*range(good)}),
            k - 1 in found and found[k - 1].decision == "worse",
            np.mean(widths) if widths else 1.0,
        )
    return Found(*(counts / runs))


def table(runs: int) -> Iterator[str]:
    yield f"{'n':>4}{'k':>4}{'corr':>6}  {'case':15}{'false':>7}{'plain':>7}{'width':>7}   ({runs:,} runs each)"
    false: list[float] = []
    for n, k, correlation, case in product((50, 292), (2, 3, 5, 10, 20), (0.0, 0.5, 0.9), CASES):
        if (case == "half 20 worse" and k < 4) or (case == "one 20 worse" and k < 3):
            continue
        found = simulate(n, k, correlation, case, runs)
        false.append(found.false)
        yield f"{n:4}{k:4}{correlation:6.1f}  {case:15}{found.false:7.1%}{found.plain:7.1%}{found.width:7.2f}"
    yield f"most false {max(false):.1%}, mean {np.mean(false):.2%}"
    for n, k, correlation in ((292, 3, 0.5), (292, 3, 0.9), (292, 10, 0.5)):
        found = simulate(n, k, correlation, "one worse", max(1000, runs // 4), drop=5.0)
        shown = f"shown in {found.power:.0%}, width {found.width:.2f}"
        yield f"5 points worse, n = {n}, k = {k}, corr {correlation:g}: {shown}"


if __name__ == "__main__":
    comparing.RESAMPLES = 1_000  # a tenth, for time: the quantile scatters more, and false losers are rather more
    for line in table(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000):
        print(line, flush=True)
