"""Two evaluations laid side by side, sample by sample.

Owns the rows of a comparison, and who is in no pair. What is paired stands in `kinds.series`, how sure a difference is
in `statistics.paired`; where the samples come from is the caller's: ledgers or the history.
"""

from collections import Counter

from tasks.kinds.series import ALL_PROMPTS, Series, paired
from tasks.kinds.values import Measure
from tasks.records import Record
from tasks.statistics.intervals import TAIL
from tasks.statistics.paired import Difference, holm
from tasks.text import natural

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


def rows(before: Series, after: Series, tail: float = TAIL) -> list[Row]:
    """The differences by every measure that both sides know: the headline, then the others with p adjusted together."""
    shared = [measure for measure in before.values if measure in after.values]
    found = [(measure, paired(before, after, measure, tail)) for measure in shared]
    tested = [(measure, each, each.p) for measure, each in found[1:] if each.p is not None]
    adjusted = holm([p for _, _, p in tested])
    others = [_row(measure, each, p) for (measure, each, _), p in zip(tested, adjusted, strict=True)]
    return [*(_row(measure, each) for measure, each in found[:1]), *others]


def _row(measure: Measure, found: Difference, p_holm: float | None = None) -> Row:
    return Row(dimension=measure.dimension, measure=measure.measure, difference=found, p_holm=p_holm)


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


def _by_size(change: Change) -> tuple[float, float, list[tuple[int, str]]]:
    return -abs(change.after - change.before), -sum(map(abs, change.moved.values())), natural(change.sample_id)
