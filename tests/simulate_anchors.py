"""Simulation of anchors: false alarms, and the attribution of a moved judge or candidate.

A judge decides each dimension of 292 figures and of 40 frozen anchors again every night, by the model of
`simulate_alarm`: a dimension has a place, the judge adds an error, and the sum decides. With this error, a dimension's
verdict repeats in 75-78% of cases. At night 20 the judge moves by 8 points, or the candidate falls by 8, or nothing
happens. The series consist of the mean of a figure's four dimensions.

Usage: python tests/simulate_anchors.py [SEED …] [--series N], or make simulate-anchors
"""

from collections import Counter
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from simulate_alarm import FIGURES, MOST, SPREAD, Judge, arguments, scored, slope

from tasks.statistics.cusum import anchor_series, watch

ANCHORS, DIMENSIONS, NIGHTS, FLOWS = 40, 4, 60, 6
AT, BY, POINTS = 19, 23, 8.0
"""Index of night 20, in which something moves; and of night 24, the last one for finding it."""
ERROR = 0.85
"""Error of the judge, with which verdicts repeat in 77%."""

Scores = NDArray[np.float64]


class Told(NamedTuple):
    """The first finding after the change in one series, and its attribution."""

    night: int
    """Index of the night with the first alarm of the score or the anchors; NIGHTS: none."""
    said: str
    said_last: str
    """Attribution in night 24."""


def judged(random: np.random.Generator, units: int, moved: Scores, renewed: float = 0.0) -> Scores:
    """Return the mean over dimensions of nights x units; `moved`: points that raise the mean score, night by night."""
    kept = random.normal(0, SPREAD * (1 - renewed) ** 0.5, (units, DIMENSIONS))
    size = len(moved), units, DIMENSIONS
    anew = random.normal(0, ERROR, size) + random.normal(0, SPREAD * renewed**0.5, size)
    return scored(kept + anew + (moved / slope(ERROR))[:, None, None]).mean(axis=2)


def after(points: float, nights: int) -> Scores:
    return np.where(np.arange(nights) >= AT, points, 0.0)


def false_alarms(random: np.random.Generator, judge: Judge, anchors: int = ANCHORS) -> int:
    """Return the number of anchor alarms of one flow in 60 quiet nights."""
    shared = random.normal(0, (judge.scatter**2 - 1) ** 0.5 * night_noise(anchors), NIGHTS)
    scores = judged(random, anchors, shared)
    found = anchor_series(scores, scores, MOST)
    since = [found.open_since(at) for at in range(NIGHTS)]
    return sum(now is not None and now != before for before, now in pairwise([None, *since]))


def night_noise(anchors: int) -> float:
    scores = judged(np.random.default_rng(0), 4000, np.zeros(20))
    return float((scores.var(axis=0, ddof=1).mean() / anchors) ** 0.5)


def told(random: np.random.Generator, judge: float, candidate: float, renewed: float = 0.0) -> Told:
    """Simulate a judge and a candidate that move by these points at night 20."""
    nights = BY + 1
    figures = judged(random, FIGURES, after(judge + candidate, nights), renewed)
    found = anchor_series(judged(random, ANCHORS, after(judge, nights)), figures, MOST)
    drops = watch(figures, MOST)
    for at in range(AT, nights):
        since = drops[at].since if drops[at].since is not None else found.open_since(at)
        if since is not None:
            last = since if drops[BY].since is None else drops[BY].since
            return Told(at, found.attribution(since, at).moved, found.attribution(last, BY).moved)
    return Told(NIGHTS, "", "")


def main() -> None:
    given = arguments()
    for seed in given.seeds:
        random = np.random.default_rng(seed)
        print(f"\nSeed {seed}, {given.series:,} series each; noise of a night {night_noise(ANCHORS):.2f}")
        for scatter in (1.0, 1.3):
            alarms = [false_alarms(random, Judge(ERROR, scatter=scatter)) for _ in range(given.series)]
            alone = FLOWS * np.mean(alarms)
            print(f"quiet, scatter x {scatter:g}: {alone:.3f} alarms of {FLOWS} flows in {NIGHTS} nights")
        for name, judge, candidate, renewed in (
            ("judge -8", -POINTS, 0.0, 0.0),
            ("judge +8", POINTS, 0.0, 0.0),
            ("judge -8, new figures every night", -POINTS, 0.0, 0.9),
            ("candidate -8", 0.0, -POINTS, 0.0),
            ("candidate -8, new figures every night", 0.0, -POINTS, 0.9),
            ("both -8", -POINTS, -POINTS, 0.0),
        ):
            each = [told(random, judge, candidate, renewed) for _ in range(given.series)]
            found = [one for one in each if one.night <= BY]
            said, last = Counter(one.said for one in found), Counter(one.said_last for one in found)
            share = f"{name}: found by night {BY + 1} in {len(found) / given.series:.1%}"
            print(f"{share}; {_shares(said)}; then {_shares(last)}", flush=True)


def _shares(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {n / counts.total():.1%}" for name, n in counts.most_common())


if __name__ == "__main__":
    main()
