"""Samples of one candidate, paired with those of another run or candidate.

Two images made of one prompt are no pair, so images are paired by prompt, with the mean of its scored images.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean

from tasks.kinds.values import Measure, Measured
from tasks.statistics.paired import Difference, difference

ALL_PROMPTS = "all prompts"
"""What the flow's own score is called where the flow has several tags: `overall` would be the mean of all six."""


@dataclass(frozen=True)
class Series:
    """One candidate's side of a comparison."""

    values: Mapping[Measure, Mapping[str, float]]
    """Measure -> unit -> value. The headline comes first."""
    statuses: Mapping[str, str]
    """Unit -> status of its last sample, scored or not."""
    size: float
    """Samples of a unit on average: of generated images, the images of a prompt."""

    @property
    def headline(self) -> Mapping[str, float]:
        """The score that the comparison is about; empty where nothing was judged."""
        return next(iter(self.values.values()), dict[str, float]())


def series(samples: Iterable[Measured]) -> Series:
    """The samples of one candidate by measure and unit; a unit with several samples has their mean."""
    found = list(samples)
    several = len({each.tag for each in found}) > 1
    gathered: defaultdict[Measure, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for each in found:
        for measure, value in _values(each, several):
            units = gathered[measure]
            if value is not None:
                units[each.unit].append(value)
    values = {
        measure: {unit: fmean(all_of_it) for unit, all_of_it in units.items()} for measure, units in gathered.items()
    }
    statuses = {each.unit: each.status for each in found}
    return Series(values, statuses, len(found) / len(statuses) if found else 0.0)


def _values(sample: Measured, several: bool) -> Iterator[tuple[Measure, float | None]]:
    if several:
        measure, score = next(iter(sample.values.items()))
        yield measure._replace(dimension=ALL_PROMPTS), score
    yield from sample.values.items()


def paired(before: Series, after: Series, measure: Measure) -> Difference:
    """The difference by a measure that both have, over the units that have a value on both sides."""
    first, second = before.values[measure], after.values[measure]
    units = sorted(first.keys() & second.keys())
    return difference([first[unit] for unit in units], [second[unit] for unit in units], measure.highest)
