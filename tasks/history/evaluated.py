"""What is computed of a whole evaluation, over all of its shards that have finished: the rows of its scores and rates.

Owns what is read for them; the numbers are made in `scores`, `grades` and `rates`.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from tasks.ledger.reading import read_judgments, read_outcomes
from tasks.parameters import T2I
from tasks.records import Outcome, RunStart
from tasks.statistics.image_scores import GradeRow, grade_rows, threshold
from tasks.statistics.rates import RateRow, rate_rows, repeated
from tasks.statistics.scores import ScoreRow, published_rows, score_rows


def evaluation_scores(start: RunStart, runs: Sequence[Path]) -> list[ScoreRow] | list[GradeRow]:
    """Scores of an evaluation, from the start of any of its runs and the folders of all."""
    if start.flow in T2I:
        return grade_rows(_outcomes(runs), threshold(start))
    return [*score_rows(_outcomes(runs)), *(published_rows(_outcomes(runs)) if repeated(start) else [])]


def evaluation_rates(start: RunStart, runs: Sequence[Path]) -> list[RateRow]:
    """Rates of an evaluation, from the start of any of its runs and the folders of all."""
    asked_again: Sequence[Path] = runs if repeated(start) else ()
    return rate_rows(_outcomes(runs), chain.from_iterable(map(read_judgments, asked_again)))


def _outcomes(runs: Sequence[Path]) -> Iterator[Outcome]:
    return chain.from_iterable(map(read_outcomes, runs))
