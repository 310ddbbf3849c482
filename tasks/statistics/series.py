"""Samples of one candidate, paired with those of another run, or of all other candidates of its run.

Two images of one prompt do not match. Images are therefore paired by prompt, with the mean of its scored images.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import combinations
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.records import Outcome
from tasks.statistics.intervals import (
    DECIMALS,
    RESAMPLES,
    TAIL,
    Bounded,
    Difference,
    Floats,
    Gaps,
    difference,
    holm,
    whole,
    with_missing,
)

ALL_PROMPTS = "all prompts"
"""Name of the flow's own score in a flow with several tags; `overall` would mean the mean of the tags of all flows."""


class Measure(NamedTuple):
    """One quantity that is measured for every sample."""

    dimension: str
    """Dimension or tag; `overall` or `all prompts`."""
    measure: str = "score"
    """`score`; for a tag also `aspect_mean` and `satisfied`."""
    highest: float = 100.0
    """Upper end of its scale, which begins at 0."""


class Measured(NamedTuple):
    """Values of a judged sample that are compared with those of another."""

    unit: str
    """Unit of the pairing: id of the sample, or of the generated image's prompt."""
    status: str
    tag: str
    """Empty for figures."""
    values: Mapping[Measure, float | None]
    """Value by each measure, None if missing; the sample is scored if the first one exists."""
    partial: Mapping[Measure, Bounded] = {}
    """Bounds of those values that lack a part."""


class Part(NamedTuple):
    """Score of one of the questions that make up a sample's score."""

    asked_key: str
    """Equal where the same was asked."""
    score: float | None
    weight: float


class Compared(NamedTuple):
    """Parts of an outcome that are compared, from a ledger or from the history."""

    sample_id: str
    prompt_id: str
    tag: str
    status: str
    score: float | None
    aspect_mean: float | None
    satisfied: bool | None
    scores: Mapping[str, float | None]
    """Dimension -> its score."""
    parts: Sequence[Part] = ()
    """Empty: the questions about a sample are the same in all runs of a series."""

    @classmethod
    def of(cls, outcome: Outcome) -> "Compared":
        """Return the parts of an outcome that are compared."""
        return cls(
            sample_id=outcome.sample_id,
            prompt_id=outcome.prompt_id,
            tag=outcome.tag,
            status=outcome.status,
            score=outcome.score,
            aspect_mean=outcome.aspect_mean,
            satisfied=outcome.satisfied,
            scores={each.dimension: each.score for each in outcome.dimensions},
            parts=[Part(each.asked_key, each.score, each.weight) for each in outcome.aspects if each.asked_key],
        )

    @property
    def unit(self) -> str:
        """Return the unit whose questions all of its samples share: the prompt, or the sample alone."""
        return self.prompt_id or self.sample_id

    @property
    def asked(self) -> set[tuple[str, str]]:
        """Return the unit with each of the questions."""
        return {(self.unit, part.asked_key) for part in self.parts}


class SharedParts(NamedTuple):
    """Outcomes of two evaluations, reduced to the questions that both ask about a unit."""

    before: Sequence[Compared]
    after: Sequence[Compared]
    left_out: int
    """Number of questions that only one of them asks about a unit of both."""
    of: int
    """Number of all questions about these units, in the evaluation that has more."""


LEAST_SHARED = 0.8
"""Least share of its questions that an evaluation must share with others to continue their series."""


def share_parts(before: Sequence[Compared], after: Sequence[Compared]) -> SharedParts:
    """Leave out the questions that only one of two evaluations asks about a unit, and samples without any other."""
    asked = [set[tuple[str, str]]().union(*(each.asked for each in side)) for side in (before, after)]
    both = {unit for unit, _ in asked[0]} & {unit for unit, _ in asked[1]}
    first, second = ({each for each in side if each[0] in both} for side in asked)
    sides = [[*_without(first ^ second, side)] if first != second else side for side in (before, after)]
    of = max(len(first), len(second))
    return SharedParts(*sides, left_out=of - len(first & second), of=of)


def _without(differing: Collection[tuple[str, str]], side: Sequence[Compared]) -> Iterator[Compared]:
    for each in side:
        kept = [part for part in each.parts if (each.unit, part.asked_key) not in differing]
        if kept or not each.parts:
            yield each._replace(parts=kept)


@dataclass(frozen=True)
class Series:
    """One candidate's side of a comparison."""

    values: Mapping[Measure, Mapping[str, float]]
    """Measure -> unit -> value. The headline comes first."""
    lacking: Mapping[Measure, Mapping[str, Bounded]]
    """Measure -> unit that lacks all of its scores or a part -> the bounds that those allow."""
    statuses: Mapping[str, str]
    """Unit -> status of its last sample, scored or not."""
    size: float
    """Mean number of samples in a unit; for generated images, of images of a prompt."""

    @property
    def headline(self) -> Mapping[str, float]:
        """Score that the comparison is about; empty if nothing was judged."""
        return next(iter(self.values.values()), dict[str, float]())


def series(samples: Iterable[Measured]) -> Series:
    """Return the samples of one candidate by measure and unit; a unit with several samples has their mean."""
    found = list(samples)
    several = len({each.tag for each in found}) > 1
    gathered: defaultdict[Measure, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    gaps: defaultdict[Measure, defaultdict[str, list[Bounded]]] = defaultdict(lambda: defaultdict(list))
    for each in found:
        for measure, value in _values(each, several):
            scores = gathered[measure][each.unit]
            if value is not None:
                scores.append(value)
            if value is None or measure in each.partial:
                gaps[measure][each.unit].append(each.partial.get(measure) or Bounded(None, 0.0, measure.highest, 0.0))
    values = {
        measure: {unit: fmean(scores) for unit, scores in units.items() if scores}
        for measure, units in gathered.items()
    }
    lacking = {
        measure: {unit: _bounds(units[unit], its) for unit, its in gaps[measure].items()}
        for measure, units in gathered.items()
    }
    statuses = {each.unit: each.status for each in found}
    return Series(values, lacking, statuses, len(found) / len(statuses) if found else 0.0)


def _values(sample: Measured, several: bool) -> Iterator[tuple[Measure, float | None]]:
    if several:
        measure, score = next(iter(sample.values.items()))
        yield measure._replace(dimension=ALL_PROMPTS), score
    yield from sample.values.items()


def _bounds(known: Sequence[float], gaps: Sequence[Bounded]) -> Bounded:
    """Return the bounds of a unit's mean, from the values of its samples and from the samples that lack something."""
    n = len(known) + sum(gap.value is None for gap in gaps)
    others = sum(known) - sum(gap.value or 0.0 for gap in gaps)
    low, high = ((others + sum(ends)) / n for ends in zip(*(gap[1:3] for gap in gaps), strict=True))
    return Bounded(fmean(known) if known else None, low, high, 1 - sum(1 - gap.share for gap in gaps) / n)


def paired(before: Series, after: Series, measure: Measure, tail: float = TAIL) -> Difference:
    """Return the difference by a measure that both series have, over the units with a value on both sides.

    Args:
        tail: share that the interval leaves out at either end.
    """
    first, second = before.values[measure], after.values[measure]
    units = sorted(first.keys() & second.keys())
    found = difference([first[unit] for unit in units], [second[unit] for unit in units], measure.highest, tail)
    return with_missing(found, gaps(before, after, measure), measure.highest)


def gaps(before: Series, after: Series, measure: Measure) -> Gaps:
    """Return the values of the units that both series have, and that lack something in either."""
    first, second = before.values[measure], after.values[measure]
    lacking, wanting = before.lacking[measure], after.lacking[measure]
    both = (lacking.keys() | first.keys()) & (wanting.keys() | second.keys())
    return [
        (lacking.get(unit) or whole(first[unit]), wanting.get(unit) or whole(second[unit]))
        for unit in sorted((lacking.keys() | wanting.keys()) & both)
    ]


# Several candidates

MANY_UNITS = 2_000
"""Number of units from which the sums of signs are drawn from their normal limit: flipping each sign takes longer."""
_CELLS = 4_000_000
"""Most signs, or sums of signs, held at once."""


class BesideBest(NamedTuple):
    """Difference of a candidate from the best of all, by one measure."""

    difference: Difference
    """Score minus that of the best, with an interval that is simultaneous over all pairs of candidates."""
    p: float | None
    """Probability of a difference as large between any two of equal candidates; for all measures but the first adjusted
    for their number (Holm, 1979). None without an interval."""


def beside_best(sides: Mapping[str, Series], best: str) -> dict[str, dict[Measure, BesideBest]]:
    """Return the paired differences of each other candidate from the best, by each measure of both.

    The best is chosen by the same figures that it is compared on, so an interval of 95% for one pair would name a loser
    among ten equal candidates in six of ten runs. The quantile is therefore that of the largest |t| of all pairs, by
    resamples that flip the signs of whole units (the max-t of Westfall and Young, 1993), each studentized anew. The
    seed comes from the names of the units, so that a rebuild gives the same interval. Two candidates have the plain
    interval.

    Args:
        sides: candidate -> its scores.
    """
    found: defaultdict[str, dict[Measure, BesideBest]] = defaultdict(dict)
    for measure in sides[best].values:
        having = {name: side for name, side in sides.items() if measure in side.values}
        largest = _largest([side.values[measure] for side in having.values()]) if len(having) > 2 else None
        for candidate in having.keys() - {best}:
            found[candidate][measure] = _beside(having[best], having[candidate], measure, largest)
    return {candidate: _adjusted(its) for candidate, its in found.items()}


def _adjusted(found: Mapping[Measure, BesideBest]) -> dict[Measure, BesideBest]:
    tested = [(measure, each.p) for measure, each in [*found.items()][1:] if each.p is not None]
    adjusted = holm([p for _, p in tested])
    return {**found} | {measure: found[measure]._replace(p=p) for (measure, _), p in zip(tested, adjusted, strict=True)}


def _beside(best: Series, own: Series, measure: Measure, largest: Floats | None) -> BesideBest:
    from scipy.special import stdtr  # pyright: ignore[reportMissingTypeStubs]  # slow to import

    first, second = best.values[measure], own.values[measure]
    changes = np.array([second[unit] - first[unit] for unit in sorted(first.keys() & second.keys())]).round(DECIMALS)
    dof = changes.size - 1
    # Where most changes are equal, few resamples differ: to adjust must not narrow the plain interval.
    tail = TAIL if largest is None or dof < 1 else min(TAIL, float(stdtr(dof, -np.quantile(largest, 1 - 2 * TAIL))))
    found = paired(best, own, measure, tail)
    if found.ci_low is None:
        return BesideBest(found, None)
    if not np.ptp(changes):  # of equal differences there is no t; their interval is the binomial one
        return BesideBest(found, found.p)
    t = abs(changes.mean()) / changes.std(ddof=1) * changes.size**0.5
    p = float(2 * stdtr(dof, -t))
    adjusted = p if largest is None else (1 + np.count_nonzero(largest >= t)) / (1 + largest.size)
    return BesideBest(found, max(p, adjusted))


def _largest(sides: Sequence[Mapping[str, float]]) -> Floats:
    """Return the largest |t| of all pairs of candidates in each resample, if all candidates were equal."""
    units = sorted(set[str]().union(*sides))
    if not units:
        return np.zeros(1)
    values = np.array([[side.get(unit, np.nan) for side in sides] for unit in units])
    pairs = [(values[:, one] - values[:, other]).round(DECIMALS) for one, other in combinations(range(len(sides)), 2)]
    known = [pair for pair in pairs if np.count_nonzero(~np.isnan(pair)) > 1 and np.nanmax(pair) > np.nanmin(pair)]
    if not known:
        return np.zeros(1)
    residuals: Floats = np.column_stack([np.nan_to_num(pair - np.nanmean(pair)) for pair in known]).astype(np.float64)
    n = np.array([np.count_nonzero(~np.isnan(pair)) for pair in known])
    seed = int.from_bytes(sha256("\n".join(units).encode()).digest()[:8])
    # The squares of a pair do not change with the signs, so that |t| follows from the sum alone.
    total = n * (residuals**2).sum(axis=0)
    shares = [np.minimum((sums**2 / total).max(axis=1), 1 - 1e-9) for sums in _sums(residuals, seed)]
    share, fewest = np.concatenate(shares), float(n.min())
    return np.sqrt(share * (fewest - 1) / (1 - share))


def _sums(residuals: Floats, seed: int) -> Iterator[NDArray[Any]]:
    """Yield the sums of each pair's differences, a row a resample that flips the signs of some units."""
    random, (units, pairs) = np.random.default_rng(seed), residuals.shape
    if units >= MANY_UNITS:
        values, vectors = np.linalg.eigh(residuals.T @ residuals)
        yield random.standard_normal((RESAMPLES, pairs)) @ (vectors * np.sqrt(np.maximum(values, 0))).T
        return
    at_once = max(1, _CELLS // max(units, pairs))
    for done in range(0, RESAMPLES, at_once):
        signs = random.integers(0, 2, (min(at_once, RESAMPLES - done), units), dtype=np.int8)
        yield (2 * signs.astype(np.float32) - 1) @ residuals.astype(np.float32)
