"""Two evaluations laid side by side, sample by sample.

Owns what is paired: a figure with the same sample's figure, and of generated images a prompt with the same prompt, by
the mean of its scored images, because two images made of one prompt are no pair. How sure a difference is stands in
`paired`; where the samples come from is the caller's: ledgers or the history.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean

from tasks.kinds.values import Measure, Measured
from tasks.records import Record
from tasks.statistics.intervals import TAIL
from tasks.statistics.paired import Difference, difference, holm

ALL_PROMPTS = "all prompts"
"""What the flow's own score is called where the flow has several tags: `overall` would be the mean of all six."""
FIRST, SECOND = "the first", "the second"
ONLY_FIRST, ONLY_SECOND = f"only in {FIRST}", f"only in {SECOND}"


class Row(Record):
    """The paired difference by one measure."""

    dimension: str
    measure: str
    difference: Difference
    p_holm: float | None
    """p of the difference, adjusted for the other dimensions and measures; None for the headline, which is one test."""


class Change(Record):
    """A sample, or prompt, that came out otherwise."""

    sample_id: str
    """Of generated images the prompt's."""
    before: float
    """On the scale of the headline."""
    after: float
    moved: dict[str, float]
    """Dimension (or measure) -> after - before, where they differ."""


@dataclass(frozen=True)
class Series:
    """One candidate's side of a comparison."""

    values: Mapping[Measure, Mapping[str, float]]
    """Measure -> unit -> value. The headline comes first."""
    statuses: Mapping[str, str]
    """Unit -> status of its last sample, scored or not."""

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
    return Series(values, {each.unit: each.status for each in found})


def _values(sample: Measured, several: bool) -> Iterator[tuple[Measure, float | None]]:
    if several:
        measure, score = next(iter(sample.values.items()))
        yield measure._replace(dimension=ALL_PROMPTS), score
    yield from sample.values.items()


def rows(before: Series, after: Series, tail: float = TAIL) -> list[Row]:
    """The differences by every measure that both sides know: the headline, then the others with p adjusted together."""
    shared = [measure for measure in before.values if measure in after.values]
    found = [(measure, _difference(before, after, measure, tail)) for measure in shared]
    tested = [(measure, each, each.p) for measure, each in found[1:] if each.p is not None]
    adjusted = holm([p for _, _, p in tested])
    others = [_row(measure, each, p) for (measure, each, _), p in zip(tested, adjusted, strict=True)]
    return [*(_row(measure, each) for measure, each in found[:1]), *others]


def _row(measure: Measure, found: Difference, p_holm: float | None = None) -> Row:
    return Row(dimension=measure.dimension, measure=measure.measure, difference=found, p_holm=p_holm)


def _difference(before: Series, after: Series, measure: Measure, tail: float) -> Difference:
    first, second = before.values[measure], after.values[measure]
    units = sorted(first.keys() & second.keys())
    return difference([first[unit] for unit in units], [second[unit] for unit in units], measure.highest, tail)


def not_paired(before: Series, after: Series) -> Counter[str]:
    """Why units are in no pair of the headline -> how many: they are in one only, or have no score in one."""
    reasons: Counter[str] = Counter()
    for unit in before.statuses.keys() | after.statuses.keys():
        if unit not in before.statuses:
            reasons[ONLY_SECOND] += 1
        elif unit not in after.statuses:
            reasons[ONLY_FIRST] += 1
        elif unit not in before.headline:
            reasons[f"{before.statuses[unit].replace('_', ' ')} in {FIRST}"] += 1
        elif unit not in after.headline:
            reasons[f"{after.statuses[unit].replace('_', ' ')} in {SECOND}"] += 1
    return reasons


def most_changed(before: Series, after: Series, most: int) -> list[Change]:
    """Units that came out otherwise: first by how far the headline moved, then by how far all else did."""
    changed = [_change(before, after, unit) for unit in before.headline.keys() & after.headline.keys()]
    differing = [each for each in changed if each.before != each.after or each.moved]
    return sorted(differing, key=_by_size)[:most]


def _change(before: Series, after: Series, unit: str) -> Change:
    moved: dict[str, float] = {}
    headline, *others = before.values
    repeated = "score" if headline.dimension == ALL_PROMPTS else ""  # of a prompt that is its tag's score once more
    for measure in others:
        first, second = before.values[measure].get(unit), after.values.get(measure, {}).get(unit)
        if first is not None and second is not None and first != second and measure.measure != repeated:
            moved[measure.dimension if measure.measure == "score" else measure.measure] = second - first
    return Change(sample_id=unit, before=before.headline[unit], after=after.headline[unit], moved=moved)


def _by_size(change: Change) -> tuple[float, float, str]:
    return -abs(change.after - change.before), -sum(map(abs, change.moved.values())), change.sample_id
