"""What the intervals cover, how wide they are and what they find, by models of judges: `make simulate-intervals`.

Seeds are given on the command line (`tests/simulate_intervals.py 3 4 --runs 2000`); each line is one model and number
of samples (prompts), over the runs of all seeds. A line passes when what was measured keeps the limits below, or misses
them by less than two standard errors of the simulation. The former method (Student's t below 30 values, a percentile
bootstrap from there on, the exact binomial bound where all values are equal) stands here for comparison.
"""

import argparse
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from tasks.statistics.intervals import Floats, interval, of_equal_values, worst_case
from tasks.statistics.paired import difference

Random = np.random.Generator
Levels = Callable[[Random, int], Floats]
"""So many scores of independent samples, or prompts."""
Pairs = Callable[[Random, int], tuple[Floats, Floats]]
"""So many samples (prompts), measured twice."""
Ends = tuple[float, float]

COVERED, COVERED_OF_DIFFERENCES = (0.92, 0.99), (0.93, 0.98)
MANY = 20
"""From so many on coverage is at most 98.5%, and the width at most 1.35 times the former where that covers 92%."""
AT_MOST_FROM_MANY, WIDER_AT_MOST, POWER_LOST_AT_MOST = 0.985, 1.35, 0.05
GIVEN = 0.2
"""Differences are judged where an interval is given in this share of runs: in fewer, the runs that have one are chosen
by how much they changed."""
POPULATION = 1_000_000
"""Samples that the true mean is taken of."""


# Models of judges


def verdicts(human: float, ties: float) -> Levels:
    """Outcomes by their shares; `ties` is the share of ties among those that Human does not win."""
    shares = np.array([human, (1 - human) * ties, (1 - human) * (1 - ties)])
    return lambda random, n: random.choice([0.0, 50.0, 100.0], n, p=shares)


class Tiers(NamedTuple):
    """A judge of four dimensions by the tier rule. Sample and dimension lean to Human or Model, each reply strays."""

    lean: float
    """Of the mean sample, in standard deviations of the samples; below 0 to Human."""
    neutral: float
    """Leanings smaller than this are neutral verdicts."""
    stray: float
    """Standard deviation of one reply."""

    def scores(self, random: Random, leanings: Floats) -> Floats:
        """Scores of one run: 0, 50 or 100, of the leanings of samples (rows) on dimensions (columns)."""
        said = leanings + random.normal(0, self.stray, leanings.shape)
        found = np.where(np.abs(said) < self.neutral, 0, np.sign(said))
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
    """The judge that names Human in this share of outcomes; with these strays a verdict repeats in three of four."""
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
    """Share of prompts whose images are near 10."""
    top: float = 10.0
    top_noise: float = 0.2
    rest: Ends = (1.0, 8.0)
    """Where the other prompts' means lie."""
    noise: float = 1.2
    """Of an image around its prompt's mean."""
    whole: bool = True
    """Whether the judge gives whole numbers."""

    def means(self, random: Random, n: int) -> tuple[Floats, Floats]:
        """Each prompt's mean, and the noise of its images."""
        at_top = random.random(n) < self.ceiling
        return np.where(at_top, self.top, random.uniform(*self.rest, n)), np.where(at_top, self.top_noise, self.noise)

    def judged(self, random: Random, means: Floats, noise: Floats) -> Floats:
        images = means[:, None] + random.normal(0, 1, (means.size, IMAGES)) * noise[:, None]
        return np.clip(np.round(images) if self.whole else images, 0, 10).mean(axis=1)

    def level(self, random: Random, n: int) -> Floats:
        return self.judged(random, *self.means(random, n))

    def twice(self, drop: float, share: float = 1.0) -> Pairs:
        def pairs(random: Random, n: int) -> tuple[Floats, Floats]:
            means, noise = self.means(random, n)
            return self.judged(random, means, noise), self.judged(
                random, means - drop * (random.random(n) < share), noise
            )

        return pairs


class Ordinary(Images):
    """Prompts around 7.5."""

    def means(self, random: Random, n: int) -> tuple[Floats, Floats]:
        return random.normal(7.5, self.top_noise, n), np.full(n, self.noise)


def ordinary(prompts: float, images: float, whole: bool = True) -> Ordinary:
    """Prompts whose means scatter by `prompts` around 7.5, and their images by `images` around that."""
    return Ordinary(0, top_noise=prompts, noise=images, whole=whole)


def levels() -> Iterator[tuple[str, Levels, float, tuple[int, ...]]]:
    """Name, model, upper end of the scale, numbers of samples or prompts."""
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
    """Name, model, upper end of the scale."""
    for human in (0.5, 0.9):
        for words, stray in (("verdicts repeat 75%", 0.45), ("repeat 90%", 0.15)):
            for drop in (0.0, 0.3):
                name = f"{human:.0%} Human, {words}, {'fell' if drop else 'quiet'}"
                yield name, tiers(human, 0.5, stray).twice(drop), 100
    for drop in (0.0, 2.0):
        yield f"80% at 10, {'a third fell' if drop else 'quiet'}", Images(0.8).twice(drop, 0.3), 10
    for drop in (0.0, 0.3):
        yield f"7.5 +- 1, {'fell' if drop else 'quiet'}", ordinary(1, 0.8).twice(drop), 10


# The former method


def former(values: Floats, low: float, high: float) -> Ends:
    """The interval of version 1."""
    mean, n = float(values.mean()), values.size
    if np.ptp(values) == 0:
        return of_equal_values(mean, n, low, high)
    if n < 30:
        reach = float(stdtrit(n - 1, 0.975) * values.std(ddof=1)) / n**0.5
        return max(low, mean - reach), min(high, mean + reach)
    distinct, counts = np.unique(values, return_counts=True)
    means = np.random.default_rng(1).multinomial(n, counts / n, size=3000) @ distinct / n
    return float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


# What is measured


class Seen(NamedTuple):
    """One line of the table."""

    name: str
    n: int
    covered: float
    covered_before: float
    width: float
    """Mean width as a share of the former method's."""
    rest: str
    passes: bool


def within(found: float, limits: Ends, runs: int) -> bool:
    """Whether a share keeps its limits, but for two standard errors that so many runs have at each."""
    low, high = (2 * (limit * (1 - limit) / runs) ** 0.5 for limit in limits)
    return limits[0] - low <= found <= limits[1] + high


def covers(ends: Ends, truth: float) -> bool:
    return ends[0] - 1e-9 <= truth <= ends[1] + 1e-9


def seen_level(name: str, draw: Levels, highest: float, n: int, seeds: list[int], runs: int) -> Seen:
    """Coverage and width of a mean's interval."""
    truth = float(draw(np.random.default_rng(99), POPULATION).mean())

    @cache
    def ends(sample: bytes) -> tuple[Ends, Ends]:
        values = np.frombuffer(sample)
        found = interval(values, high=highest)
        assert found.ci_low is not None and found.ci_high is not None
        return (found.ci_low, found.ci_high), former(values, 0, highest)

    found = [
        ends(np.sort(draw(random, n)).tobytes())
        for random in map(np.random.default_rng, seeds)
        for _ in range(runs // len(seeds))
    ]
    now, before = (float(np.mean([covers(each[which], truth) for each in found])) for which in (0, 1))
    width, width_before = (float(np.mean([each[which][1] - each[which][0] for each in found])) for which in (0, 1))
    most = AT_MOST_FROM_MANY if n >= MANY else COVERED[1]
    narrow = n < MANY or before < COVERED[0] or width <= WIDER_AT_MOST * width_before
    passes = within(now, (COVERED[0], most), len(found)) and narrow
    return Seen(name, n, now, before, width / width_before, "", passes)


def seen_difference(name: str, draw: Pairs, highest: float, n: int, seeds: list[int], runs: int) -> Seen | None:
    """Coverage, width and power of a difference's interval, where one is given; None where there are too few."""
    first, second = draw(np.random.default_rng(99), POPULATION)
    truth = float((second - first).mean())
    given: list[tuple[Ends, Ends]] = []
    runs = runs // len(seeds) * len(seeds)
    for random in map(np.random.default_rng, seeds):
        for _ in range(runs // len(seeds)):
            values = draw(random, n)
            found = difference(*values, highest)
            if found.ci_low is not None and found.ci_high is not None:
                given.append(((found.ci_low, found.ci_high), former(values[1] - values[0], -highest, highest)))
    if len(given) < GIVEN * runs:
        return None
    now, before = (float(np.mean([covers(each[which], truth) for each in given])) for which in (0, 1))
    width = np.mean([each[0][1] - each[0][0] for each in given]) / np.mean([each[1][1] - each[1][0] for each in given])
    shown, shown_before = (float(np.mean([not covers(each[which], 0) for each in given])) for which in (0, 1))
    rest = f"given {len(given) / runs:4.0%}, shown {shown:4.0%}, by the former {shown_before:4.0%}"
    powerful = within(max(0.0, shown_before - shown), (0.0, POWER_LOST_AT_MOST), len(given))
    passes = within(now, COVERED_OF_DIFFERENCES, len(given)) and powerful
    return Seen(name, n, now, before, float(width), rest, passes)


SILENT = {0.0: 0.2, 50.0: 0.1, 100.0: 0.05}
"""Outcome -> share of its samples on which a judge says nothing."""


def seen_worst_case(n: int, seeds: list[int], runs: int) -> Seen:
    """What the worst case covers, and the interval of what is known alone, where scores are not missing at random."""
    draw, found = verdicts(0.5, 0.3), list[tuple[Ends, Ends]]()
    truth = float(draw(np.random.default_rng(99), POPULATION).mean())
    for random in map(np.random.default_rng, seeds):
        for _ in range(runs // len(seeds)):
            values = draw(random, n)
            known = values[random.random(n) >= np.vectorize(SILENT.get)(values)]
            alone, sure = interval(known), known.sum() / n
            worst = worst_case(alone, (sure, sure + 100 * (1 - known.size / n)), known.size / n)
            assert alone.ci_low is not None and alone.ci_high is not None
            ends = alone.ci_low, alone.ci_high
            # Now and then so few of 100 are missing that the interval stands alone.
            shown = ends if worst.worst_low is None or worst.worst_high is None else (worst.worst_low, worst.worst_high)
            found.append((shown, ends))
    covered, of_known = (float(np.mean([covers(each[which], truth) for each in found])) for which in (0, 1))
    width = np.mean([each[0][1] - each[0][0] for each in found]) / np.mean([each[1][1] - each[1][0] for each in found])
    name = "worst case, silent on 20% of Human, 5% of Model"
    return Seen(name, n, covered, of_known, float(width), "former: the interval alone", covered >= 0.95)


def everything(seeds: list[int], runs: int, only: str) -> Iterator[Seen]:
    """The lines whose names begin with `only`, those of levels first."""
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
    """Print a line for each model and number; 1 if any misses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--runs", type=int, default=1000, help="of each line, shared by the seeds (1000)")
    parser.add_argument("--only", default="", help="lines whose names begin so: '95%%', '7.5', 'difference' …")
    given = parser.parse_args()
    print(f"{'':52}   n  covers  former   width")
    missed = 0
    for each in everything(given.seeds, given.runs, given.only):
        missed += not each.passes
        words = "pass" if each.passes else "MISS"
        numbers = f"{each.covered:6.1%}  {each.covered_before:6.1%}  {each.width:6.2f}"
        print(f"{each.name:52} {each.n:3}  {numbers}  {words}  {each.rest}".rstrip(), flush=True)
    print(f"{missed} missed; seeds {given.seeds}, {given.runs} runs a line")
    return int(missed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
