"""Samples of one candidate, paired with those of another run or candidate.

Two images of one prompt do not match. Images are therefore paired by prompt, with the mean of its scored images.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from tasks.records import Outcome
from tasks.statistics.intervals import TAIL, Difference, difference, with_missing

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
        )


@dataclass(frozen=True)
class Series:
    """One candidate's side of a comparison."""

    values: Mapping[Measure, Mapping[str, float]]
    """Measure -> unit -> value. The headline comes first."""
    judged: Mapping[Measure, Collection[str]]
    """Measure -> all units that it was asked about, scored or not."""
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
    for each in found:
        for measure, value in _values(each, several):
            scores = gathered[measure][each.unit]
            if value is not None:
                scores.append(value)
    values = {
        measure: {unit: fmean(scores) for unit, scores in units.items() if scores}
        for measure, units in gathered.items()
    }
    statuses = {each.unit: each.status for each in found}
    return Series(values, gathered, statuses, len(found) / len(statuses) if found else 0.0)


def _values(sample: Measured, several: bool) -> Iterator[tuple[Measure, float | None]]:
    if several:
        measure, score = next(iter(sample.values.items()))
        yield measure._replace(dimension=ALL_PROMPTS), score
    yield from sample.values.items()


def paired(before: Series, after: Series, measure: Measure, tail: float = TAIL) -> Difference:
    """Return the difference by a measure that both series have, over the units with a value on both sides.

    Args:
        tail: share that the interval leaves out at either end.
    """
    first, second = before.values[measure], after.values[measure]
    units = sorted(first.keys() & second.keys())
    found = difference([first[unit] for unit in units], [second[unit] for unit in units], measure.highest, tail)
    lacking = {*before.judged[measure]} & {*after.judged[measure]} - {*units}
    return with_missing(found, [(first.get(unit), second.get(unit)) for unit in lacking], measure.highest)
