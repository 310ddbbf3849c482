"""What a run would have scored that stopped before its last sample, with how sure that is.

What it judged is a random part of its samples (`spending.order`), so that its mean is what the mean of all is expected
to be. The interval of that mean is narrower than the ordinary one, by the correction for a finite population (Cochran,
1977, section 2.6): nothing is unknown of samples that were judged, and of one that judged all there would be no doubt.
`tests/simulate_budget.py` measures what it covers.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import sqrt
from typing import TypeVar

from tasks.statistics.image_scores import GradeRow
from tasks.statistics.scores import ScoreRow

Row = TypeVar("Row", bound=ScoreRow | GradeRow)

Part = tuple[int, int]
"""How many samples (of generated images: prompts) were judged, and how many there are."""


def with_full_run(rows: Iterable[Row], parts: Mapping[tuple[str, str], Part]) -> Iterator[Row]:
    """The rows, those over all samples with the interval of what the full run would have scored.

    Args:
        parts: by candidate and tag; the tag is empty for figures.
    """
    for row in rows:
        tag = row.dimension if isinstance(row, GradeRow) else ""
        part = parts.get((row.candidate, tag))
        yield _corrected(row, *part) if part and row.grouping in ("all", "aspect") else row


def _corrected(row: Row, judged: int, there: int) -> Row:
    low, high = full_run_interval(row.score, (row.ci_low, row.ci_high), judged / there)
    return row.model_copy(update={"full_n": there, "full_low": low, "full_high": high})


def full_run_interval(
    mean: float | None, ends: tuple[float | None, float | None], share: float
) -> tuple[float | None, float | None]:
    """95% interval of the mean of all values, where those of a random share of them are known.

    Args:
        mean: of those that are known.
        ends: of the ordinary interval of that mean; None: there is none, and none here.
        share: 0-1.
    """
    low, high = ends
    if mean is None or low is None or high is None:
        return None, None
    left = sqrt(1 - share)
    return mean - left * (mean - low), mean + left * (high - mean)
