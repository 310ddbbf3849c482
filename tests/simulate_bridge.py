"""Simulation of bridges: coverage of the planted shift, and frequency of the three decisions.

In each sample the candidate is better, equal or worse to some degree; a judge adds noise in each call and answers
Model, Tie or Human. The new judge is kinder or stricter by a given number of points in the mean. `test_offsets` runs a
small part; `make simulate-bridge` runs everything.

Usage: python tests/simulate_bridge.py [--runs 1000] [--seed 1]
"""

import argparse
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import count, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from tasks.records import Offset
from tasks.statistics.intervals import offset

Floats = NDArray[np.float64]
LIMIT = 0.4
"""Lead that a figure must seem to have to be named."""


class World(NamedTuple):
    name: str
    lean: float
    """Mean lead of the candidate over the human."""
    spread: float
    """Standard deviation over samples."""
    noise: float
    """Noise of a judge's repeated calls; with 0.45 an outcome repeats in about 85%."""


WORLDS = (
    World("even", 0.0, 1.2, 0.45), World("Human ahead, 30 points", -0.5, 1.2, 0.45),
    World("Human far ahead, 10 points", -1.6, 1.2, 0.45), World("a noisy judge", -0.5, 1.2, 1.0),
)  # fmt: skip


def scores_by(leaning: Floats, random: np.random.Generator, world: World, kindness: float) -> Floats:
    return named(leaning + random.normal(0, world.noise, leaning.size) + kindness)


def named(seen: Floats) -> Floats:
    """Return scores for Model, Tie or Human by the candidate's apparent lead."""
    return np.where(seen > LIMIT, 100.0, np.where(seen < -LIMIT, 0.0, 50.0))


def level(world: World, kindness: float) -> float:
    """Return the mean score over all possible samples."""
    names_human, names_no_model = (
        float(ndtr((limit - kindness - world.lean) / np.hypot(world.spread, world.noise))) for limit in (-LIMIT, LIMIT)
    )
    return 100 - 50 * (names_human + names_no_model)


def kindness_for(world: World, shift: float) -> float:
    """Return the kindness of a judge that raises the mean by `shift`."""
    low, high = -6.0, 6.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if level(world, middle) - level(world, 0) < shift else (low, middle)
    return (low + high) / 2


def bridges(world: World, n: int, shift: float, seed: int) -> Iterator[Offset]:
    random, kindness = np.random.default_rng(seed), kindness_for(world, shift)
    for _ in count():
        leaning = random.normal(world.lean, world.spread, n)
        old, new = scores_by(leaning, random, world, 0), scores_by(leaning, random, world, kindness)
        yield offset(old.tolist(), new.tolist())


def image_bridges(prompts: int, shift: float, seed: int) -> Iterator[Offset]:
    """Yield bridges over prompts of four images, scored 0 to 10; the ceiling cuts hardly any score."""
    random = np.random.default_rng(seed)
    for _ in count():
        level = np.repeat(np.minimum(random.normal(6.0, 1.5, prompts), 7.0)[:, None], 4, axis=1)
        old, new = (np.clip(level + random.normal(0, 0.7, level.shape) + each, 0, 10) for each in (0, shift))
        yield offset(old.mean(axis=1).tolist(), new.mean(axis=1).tolist(), 10.0)


class Seen(NamedTuple):
    inside: float
    """Share of intervals that cover the planted shift."""
    width: float
    """Mean half-width."""
    decisions: Counter[str]


def watched(made: Iterator[Offset], shift: float, runs: int) -> Seen:
    """Return coverage, width and decisions of this number of bridges with the planted shift."""
    found = [next(made) for _ in range(runs)]
    ends = [(each.ci_low, each.ci_high) for each in found if each.ci_low is not None and each.ci_high is not None]
    inside = sum(low <= shift <= high for low, high in ends) / runs
    width = float(np.mean([(high - low) / 2 for low, high in ends])) if ends else float("nan")
    return Seen(inside, width, Counter(each.decision for each in found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(f"{options.runs} bridges a line, seed {options.seed}; the margin is 3 points")
    print(f"{'':34}{'n':>5}{'shift':>7}{'inside':>8}{'±':>6}  continued/offset/cannot tell")
    figures, images = product(WORLDS, (0.0, 5.0), (30, 60, 120, 292, 600)), product((0.0, 0.5), (30, 80))
    cases = [(world.name, n, shift, partial(bridges, world, n, shift)) for world, shift, n in figures]
    cases += [("images, a tenth of the points", n, shift, partial(image_bridges, n, shift)) for shift, n in images]
    for name, n, shift, made in cases:
        seen = watched(made(options.seed), shift, options.runs)
        shares = "/".join(f"{seen.decisions[one] / options.runs:.0%}" for one in DECISIONS)
        print(f"{name:34}{n:5}{shift:7.1f}{seen.inside:8.1%}{seen.width:6.2f}  {shares}")


DECISIONS = ("may be continued", "with an offset", "cannot tell")

if __name__ == "__main__":
    main()
