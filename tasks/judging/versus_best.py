"""Several candidates of one run beside the best of them: paired differences on the same samples.

Two candidates were shown with the same prompts and references, so that their scores rise and fall together: whether
their intervals overlap says little of which is better. Owns which rows get a difference; what is paired stands in
`kinds.series`.
"""

from collections.abc import Mapping, Sequence

from tasks.kinds.series import Series, paired, series
from tasks.kinds.values import Measured
from tasks.presentation.wording import Scored


def versus_best(rows: Sequence[Scored], by_candidate: Mapping[str, Sequence[Measured]], best: str) -> Sequence[Scored]:
    """The same rows, those over all samples with the difference of their candidate from the best one.

    Args:
        rows: the scores of a run.
        by_candidate: its samples.
        best: the candidate that stands first.
    """
    if len(by_candidate) < 2:
        return rows
    sides = {candidate: series(samples) for candidate, samples in by_candidate.items()}
    return [_beside(row, sides[row.candidate], sides[best]) if row.candidate != best else row for row in rows]


def _beside(row: Scored, own: Series, best: Series) -> Scored:
    if row.grouping != "all":
        return row
    named = {(measure.dimension, measure.measure): measure for measure in own.values.keys() & best.values.keys()}
    measure = named.get((row.dimension, row.measure))
    if measure is None:
        return row
    found = paired(best, own, measure)
    told = {"vs_best": found.change, "vs_best_low": found.ci_low, "vs_best_high": found.ci_high, "vs_best_n": found.n}
    return row.model_copy(update=told)
