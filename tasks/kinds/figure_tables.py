"""The scores of figures as a table, and what must be known to read it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tasks.presentation.tables import Grid
from tasks.presentation.wording import (
    VS_BEST,
    coverage_words,
    interval_words,
    judge_notes,
    score_words,
    vs_best_notes,
    vs_best_words,
)
from tasks.records import OVERALL
from tasks.statistics.scores import NEUTRAL_SCORE, ScoreRow, ranking

HUMAN_IS_50 = "Human is 50 by definition: Model 100, a neutral verdict or a tie 50, Human 0."
CARRIED = "Carried: judged by the last picture before the stage, since the generator's critic was content with it."
CEILINGS: Mapping[str, Mapping[str, float]] = {"plot": {"faithfulness": NEUTRAL_SCORE}}
"""Flow -> dimension -> its highest score, where verdicts that the protocol allows there end below 100."""
PLOT_CEILING = "Plot faithfulness cannot exceed 50: the judge may answer only Human or Both are good there."


def score_notes(flow: str, rows: Iterable[ScoreRow], endpoint: str = "") -> list[str]:
    """What must be known to read these scores of a run; `endpoint` is its judge's address."""
    shown = list(rows)
    ceiling = any(row.dimension in CEILINGS.get(flow, ()) for row in shown)
    carried = any(row.carried for row in shown)
    overall = [row for row in shown if row.dimension == OVERALL]
    return [
        HUMAN_IS_50,
        *[PLOT_CEILING] * ceiling,
        *[CARRIED] * carried,
        *_votes_notes(shown),
        *vs_best_notes(overall),
        *judge_notes(endpoint),
    ]


def _votes_notes(rows: Iterable[ScoreRow]) -> list[str]:
    level = sum(row.mixed_votes for row in rows if row.grouping == "all")
    return [f"Mixed: {level:,} of them because votes of one order tie, the others because the orders differ."] * bool(
        level
    )


def leaderboard(rows: Sequence[ScoreRow], grouping: str = "all") -> Grid:
    """Scores and counts, the best candidate first. Kinds of verdict that nobody got are left out.

    Args:
        rows: those of one run, those over all samples among them.
        grouping: `all`: a line for each dimension; `category` or `difficulty`: one for the outcomes of each group.
    """
    shown = [row for row in rows if row.grouping == grouping and (grouping == "all" or row.dimension == OVERALL)]
    counts = [column for column in _COUNTS if column.always or any(map(column.of, shown))]
    compared = any(row.vs_best is not None for row in shown)
    lines: list[list[str]] = []
    for best in ranking(rows):
        lines.append([best.candidate])
        its = (row for row in shown if row.candidate == best.candidate)
        lines += [
            [row.group_name or row.dimension, *_cells(row, counts), *[vs_best_words(row)] * compared] for row in its
        ]
    header = ["", "score", "95% interval", *(column.header for column in counts), "scored"]
    return Grid([*header, *[VS_BEST] * compared], lines, VS_BEST)


@dataclass(frozen=True)
class _Count:
    header: str
    of: Callable[[ScoreRow], int]
    always: bool = False
    only: Literal["", "dimension", "overall"] = ""
    """Kind of row that can have it; empty: both."""


_COUNTS = (
    _Count("Model", lambda row: row.model_wins, always=True),
    _Count("Human", lambda row: row.human_wins, always=True),
    _Count("both\ngood", lambda row: row.both_good, only="dimension"),
    _Count("both\nbad", lambda row: row.both_bad, only="dimension"),
    _Count("mixed", lambda row: row.mixed, only="dimension"),
    _Count("tie", lambda row: row.ties, only="overall"),
    _Count("for-\nfeit", lambda row: row.forfeits),
    _Count("car-\nried", lambda row: row.carried),
)


def _cells(row: ScoreRow, counts: Sequence[_Count]) -> list[str]:
    kind = "overall" if row.dimension == OVERALL else "dimension"
    numbers = [str(column.of(row)) if column.only in ("", kind) else "" for column in counts]
    return [score_words(row), interval_words(row), *numbers, coverage_words(row)]
