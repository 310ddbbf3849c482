"""What is computed of a whole evaluation, over all of its shards that have finished: the rows of its scores and rates.

Owns what is read for them; the numbers are made in `scores`, `grades` and `rates`.
"""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from tasks.ledger import evaluation_folders, read_judgments, read_outcomes, read_start
from tasks.numbers.grades import GradeRow, grade_rows, threshold
from tasks.numbers.rates import RateRow, rate_rows, repeated
from tasks.numbers.scores import ScoreRow, published_rows, score_rows
from tasks.parameters import T2I
from tasks.records import Outcome


def evaluation_is_complete(run: Path) -> bool:
    """Whether all shards have finished of the evaluation that the finished run in this folder belongs to."""
    return len(evaluation_folders(run)) == read_start(run).shards


def evaluation_scores(run: Path) -> list[ScoreRow] | list[GradeRow]:
    """Scores of the evaluation that the run in this folder belongs to."""
    start = read_start(run)
    if start.flow in T2I:
        return grade_rows(_outcomes(run), threshold(start))
    return [*score_rows(_outcomes(run)), *(published_rows(_outcomes(run)) if repeated(start) else [])]


def evaluation_rates(run: Path) -> list[RateRow]:
    """Rates of the evaluation that the run in this folder belongs to."""
    asked_again = evaluation_folders(run) if repeated(read_start(run)) else []
    return rate_rows(_outcomes(run), chain.from_iterable(map(read_judgments, asked_again)))


def _outcomes(run: Path) -> Iterator[Outcome]:
    return chain.from_iterable(map(read_outcomes, evaluation_folders(run)))
