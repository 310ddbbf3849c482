"""Simulation of intervals: coverage, width and power, by models of judges (`make simulate-intervals`).

The command line gives seeds (`tests/simulate_intervals.py 3 4 --runs 2000`). Each line is one model and number of
samples (prompts), over the runs of all seeds. A line passes if the measured share keeps the limits below, or misses
them by less than two standard errors of the simulation.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from tasks.statistics.intervals import Floats, difference, interval, worst_case

Random = np.random.Generator
Levels = Callable[[Random, int], Floats]
"""Draws scores of independent samples, or prompts."""
Pairs = Callable[[Random, int], tuple[Floats, Floats]]
"""Draws samples (prompts) measured twice."""
Ends = tuple[float, float]

COVERED, COVERED_OF_DIFFERENCES = (0.92, 0.99), (0.93, 0.98)
MANY = 20
"""From this number on, coverage is at most 98.5%."""
AT_MOST_FROM_MANY = 0.985
GIVEN = 0.2
"""Differences count if this share of runs has an interval: with fewer, having one depends on the change itself."""
POPULATION = 1_000_000
"""Number of samples behind the true mean."""


# Models of judges


def verdicts(human: float, ties: float) -> Levels:
    """Return outcomes by their shares; `ties` is the share of ties among those that Human does not win."""
    shares = np.array([human, (1 - human) * ties, (1 - human) * (1 - ties)])
    return lambda random, n: random.choice([0.0, 50.0, 100.0], n, p=shares)


class Tiers(NamedTuple):
    """A judge of four dimensions by the tier rule; samples and dimensions lean to a side, and replies scatter."""

    lean: float
    """Mean lean, in standard deviations of the samples; negative to Human."""
    neutral: float
    """Leanings below this value give neutral verdicts."""
    stray: float
    """Standard deviation of one reply."""

    def scores(self, random: Random, leanings: Floats) -> Floats:
        """Return the scores of one run (0, 50 or 100) from leanings of samples (rows) on dimensions (columns)."""
        replies = leanings + random.normal(0, self.stray, leanings.shape)
        found = np.where(np.abs(replies) < self.neutral, 0, np.sign(replies))
        first, second = np.sign(found[:, 0] + found[:, 1]), np.sign(found[:, 2] + found[:, 3])
        return 50.0 + 50.0 * np.where(first == 0, second, first)

    def leanings(self, random: Random, n: int) -> Floats:
        return random.normal(self.lean, 1, (n, 1)) + random.normal(0, 0.7, (n, 4))

    def level(self, random: Random, n: int) -> Floats:
        return self.scores(random, self.leanings(random, n))

    def twice(self, drop: float) -> Pairs:
        def pairs(random: Random, n: int) -> tuple[Floats, Floats]:
            leanings = self.leanings(random, n)
            return self.scores(random, leanings), self.scores(random, leanings - drop)

        return pairs


@cache
def tiers(human: float, neutral: float, stray: float = 0.45) -> Tiers:
    low, high = -6.0, 2.0
    for _ in range(30):
        middle = (low + high) / 2
        won = np.mean(Tiers(middle, neutral, stray).level(np.random.default_rng(0), 200_000) == 0)
        low, high = (middle, high) if won > human else (low, middle)
    return Tiers(low, neutral, stray)


IMAGES = 4


class Images(NamedTuple):
    """Prompts of which a share reaches the ceiling; a prompt's score is the mean of its images."""

    ceiling: float
    """Share of prompts with images near 10."""
    top: float = 10.0
    top_noise: float = 0.2
    rest: Ends = (1.0, 8.0)
    """Range of the other prompts' means."""
    noise: float = 1.2
    """Standard deviation of an image around its prompt's mean."""
    whole: bool = True
    """Whether the judge gives whole numbers."""

    def means(self, random: Random, n: int) -> tuple[Floats, Floats]:
        """Return each prompt's mean, and the noise of its images."""
        at_top = random.random(n) < self.ceiling
        return np.where(at_top, self.top, random.uniform(*self.rest, n)), np.where(at_top, self.top_noise, self.noise)

    def mean_scores(self, random: Random, means: Floats, noise: Floats) -> Floats:
        images = means[:, None] + random.normal(0, 1, (means.size, IMAGES)) * noise[:, None]
        return np.clip(np.round(images) if self.whole else images, 0, 10).mean(axis=1)

    def level(self, random: Random, n: int) -> Floats:
        return self.mean_scores(random, *self.means(random, n))

    def twice(self, drop: float, share: float = 1.0) -> Pairs:
        def pairs(random: Random, n: int) -> tuple[Floats, Floats]:
            means, noise = self.means(random, n)
            first = self.mean_scores(random, means, noise)
            return first, self.mean_scores(random, means - drop * (random.random(n) < share), noise)

        return pairs


class Ordinary(Images):
    def means(self, random: Random, n: int) -> tuple[Floats, Floats]:
        return random.normal(7.5, self.top_noise, n), np.full(n, self.noise)


def ordinary(prompts: float, images: float, whole: bool = True) -> Ordinary:
    """Return prompts with means that scatter by `prompts` around 7.5, and images by `images` around these."""
    return Ordinary(0, top_noise=prompts, noise=images, whole=whole)


def levels() -> Iterator[tuple[str, Levels, float, tuple[int, ...]]]:
    """Yield name, model, upper end of the scale, and numbers of samples or prompts."""
    figures = (8, 12, 20, 30, 50, 292)
    for human in (0.5, 0.9, 0.95):
        for words, ties in (("no ties", 0.0), ("half ties", 0.5), ("ties alone", 1.0)):
            yield f"{human:.0%} Human, else {words}", verdicts(human, ties), 100, figures
        for words, neutral in (("few", 0.3), ("many", 1.0)):
            yield f"{human:.0%} Human, tiers, {words} neutral", tiers(human, neutral).level, 100, figures
    prompts = (8, 12, 20, 50, 80)
    for share in (0.8, 0.97):
        yield f"{share:.0%} at 10", Images(share).level, 10, prompts
        decimal = Images(share, top=9.8, rest=(3, 9), whole=False)
        yield f"{share:.0%} near 10, decimals", decimal.level, 10, prompts
    yield "7.5 +- 1, images alike", ordinary(1, 0.05, whole=False).level, 10, prompts
    yield "7.5 +- 1, images 7.5 +- 1.3", ordinary(0.9, 0.9).level, 10, prompts


def differences() -> Iterator[tuple[str, Pairs, float]]:
    """Yield name, model, and upper end of the scale."""
    for human in (0.5, 0.9):
        for words, stray in (("verdicts repeat 75%", 0.45), ("repeat 90%", 0.15)):
            for drop in (0.0, 0.3):
                name = f"{human:.0%} Human, {words}, {'fell' if drop else 'quiet'}"
                yield name, tiers(human, 0.5, stray).twice(drop), 100
    for drop in (0.0, 2.0):
        yield f"80% at 10, {'a third fell' if drop else 'quiet'}", Images(0.8).twice(drop, 0.3), 10
    for drop in (0.0, 0.3):
        yield f"7.5 +- 1, {'fell' if drop else 'quiet'}", ordinary(1, 0.8).twice(drop), 10


# Measurements


class Seen(NamedTuple):
    name: str
    n: int
    covered: float
    width: float
    """Mean width, on the scale of the scores."""
    rest: str
    passes: bool


def within(found: float, limits: Ends, runs: int) -> bool:
    """Return whether a share keeps its limits, with a tolerance of two standard errors."""
    low, high = (2 * (limit * (1 - limit) / runs) ** 0.5 for limit in limits)
    return limits[0] - low <= found <= limits[1] + high


def covers(ends: Ends, truth: float) -> bool:
    return ends[0] - 1e-9 <= truth <= ends[1] + 1e-9


def seen_of(name: str, n: int, found: list[Ends], truth: float, limits: Ends, rest: str = "") -> Seen:
    covered = float(np.mean([covers(each, truth) for each in found]))
    width = float(np.mean([high - low for low, high in found]))
    return Seen(name, n, covered, width, rest, within(covered, limits, len(found)))


def seen_level(name: str, draw: Levels, highest: float, n: int, seeds: list[int], runs: int) -> Seen:
    """Return coverage and width of a mean's interval."""
    truth = float(draw(np.random.default_rng(99), POPULATION).mean())

    @cache
    def ends(sample: bytes) -> Ends:
        found = interval(np.frombuffer(sample), high=highest)
        assert found.ci_low is not None and found.ci_high is not None
        return found.ci_low, found.ci_high

    found = [
        ends(np.sort(draw(random, n)).tobytes())
        for random in map(np.random.default_rng, seeds)
        for _ in range(runs // len(seeds))
    ]
    return seen_of(name, n, found, truth, (COVERED[0], AT_MOST_FROM_MANY if n >= MANY else COVERED[1]))


def seen_difference(name: str, draw: Pairs, highest: float, n: int, seeds: list[int], runs: int) -> Seen | None:
    """Return coverage, width and power of a difference's interval; None if too few runs have one."""
    first, second = draw(np.random.default_rng(99), POPULATION)
    truth = float((second - first).mean())
    given: list[Ends] = []
    runs = runs // len(seeds) * len(seeds)
    for random in map(np.random.default_rng, seeds):
        for _ in range(runs // len(seeds)):
            found = difference(*draw(random, n), highest)
            if found.ci_low is not None and found.ci_high is not None:
                given.append((found.ci_low, found.ci_high))
    if len(given) < GIVEN * runs:
        return None
    shown = float(np.mean([not covers(each, 0) for each in given]))
    rest = f"given {len(given) / runs:4.0%}, shown {shown:4.0%}"
    return seen_of(name, n, given, truth, COVERED_OF_DIFFERENCES, rest)


SILENT = {0.0: 0.2, 50.0: 0.1, 100.0: 0.05}
"""Share of samples without a reply from the judge, by outcome."""


def seen_worst_case(n: int, seeds: list[int], runs: int) -> Seen:
    """Return the coverage of the bounds, and of the plain interval, for scores not missing at random."""
    draw = verdicts(0.5, 0.3)
    shown, alone = list[Ends](), list[Ends]()
    truth = float(draw(np.random.default_rng(99), POPULATION).mean())
    for random in map(np.random.default_rng, seeds):
        for _ in range(runs // len(seeds)):
            values = draw(random, n)
            known = values[random.random(n) >= np.vectorize(SILENT.get)(values)]
            found, sure = interval(known), known.sum() / n
            worst = worst_case(found, (sure, sure + 100 * (1 - known.size / n)), known.size / n)
            assert found.ci_low is not None and found.ci_high is not None
            alone.append((found.ci_low, found.ci_high))
            # Occasionally so few of 100 are missing that there are no bounds.
            none = worst.worst_low is None or worst.worst_high is None
            shown.append(alone[-1] if none else (worst.worst_low, worst.worst_high))
    of_known = float(np.mean([covers(each, truth) for each in alone]))
    name = "worst case, silent on 20% of Human, 5% of Model"
    return seen_of(name, n, shown, truth, (0.95, 1.0), f"the interval alone covers {of_known:.1%}")


def simulate_all(seeds: list[int], runs: int, only: str) -> Iterator[Seen]:
    """Yield the lines whose names begin with `only`, levels first."""
    for name, draw, highest, numbers in levels():
        for n in numbers if name.startswith(only) else ():
            yield seen_level(name, draw, highest, n, seeds, runs)
    for n in (100, 292) if "worst case".startswith(only) else ():
        yield seen_worst_case(n, seeds, runs)
    for about, draw, highest in differences():
        name = f"difference, {about}"
        for n in (20, 30, 50, 100, 292) if name.startswith(only) else ():
            if found := seen_difference(name, draw, highest, n, seeds, runs):
                yield found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--runs", type=int, default=1000, help="of each line, shared by the seeds (1000)")
    parser.add_argument("--only", default="", help="lines whose names begin so: '95%%', '7.5', 'difference' …")
    given = parser.parse_args()
    print(f"{'':52}   n  covers   width")
    missed = 0
    for each in simulate_all(given.seeds, given.runs, given.only):
        missed += not each.passes
        words = "pass" if each.passes else "MISS"
        numbers = f"{each.covered:6.1%}  {each.width:6.2f}"
        print(f"{each.name:52} {each.n:3}  {numbers}  {words}  {each.rest}".rstrip(), flush=True)
    print(f"{missed} missed; seeds {given.seeds}, {given.runs} runs a line")
    return int(missed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
