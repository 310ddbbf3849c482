"""Display of pairwise figures: wins and losses, the mean score 0-100, and the two figures side by side."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tasks.presentation import charts
from tasks.presentation.charts import Chart
from tasks.presentation.tables import Grid
from tasks.presentation.wording import (
    VS_BEST,
    coverage_words,
    judge_notes,
    vs_best_notes,
    vs_best_words,
    worst_case_notes,
)
from tasks.protocols.display import Display, Headline, Level, Terms, score_cells
from tasks.records import OVERALL
from tasks.statistics.scores import HIGHEST, NEUTRAL_SCORE, ScoreRow, ranking

HUMAN_IS_50 = "Human is 50 by definition: Model 100, a neutral verdict or a tie 50, Human 0."
CARRIED = "Carried: judged by the last picture before the stage, since the generator's critic was content with it."
CEILINGS: Mapping[str, Mapping[str, float]] = {"plot": {"faithfulness": NEUTRAL_SCORE}}
"""Flow -> dimension -> its highest score, if the verdicts that the protocol allows there end below 100."""
PLOT_CEILING = "Plot faithfulness cannot exceed 50: the judge may answer only Human or Both are good there."


class FigureDisplay(Display[ScoreRow]):
    """Scores by dimension and group of samples."""

    row = ScoreRow
    counted = "samples"
    scale = "of 100"
    sides = ("Human", "Model")
    false_findings = "false preferences on clean pairs"
    level = Level("Human", NEUTRAL_SCORE)

    def headline(self, scores: Sequence[ScoreRow]) -> list[Headline]:
        """Return the overall score of every candidate, the best first."""
        return [Headline(row.candidate, row) for row in ranking(_scores(scores))]

    def grid(self, scores: Sequence[ScoreRow], grouping: str = "all") -> Grid:
        """Return scores and counts, the best candidate first: by dimension, or for the outcomes by group.

        Kinds of verdict with no count in any row are left out, except Model and Human.
        """
        rows = _scores(scores)
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

    def notes(self, scores: Sequence[ScoreRow], terms: Terms) -> list[str]:
        """Return notes on the score of Human, the highest possible scores, and the range that missing scores allow."""
        rows = _scores(scores)
        return [*worst_case_notes(rows), *score_notes(terms.flow, rows, terms.endpoint)]

    def chart(self, scores: Sequence[ScoreRow]) -> Chart:
        """Draw a panel for each of the best candidates, with a bar for the overall score and each dimension, 0-100."""
        rows = _scores(scores)
        shown = [
            row for best in ranking(rows) for row in rows if row.grouping == "all" and row.candidate == best.candidate
        ]
        return charts.score_chart(charts.MEAN_SCORES, shown, HIGHEST)


def _scores(rows: Sequence[ScoreRow]) -> list[ScoreRow]:
    return [row for row in rows if row.measure == "score"]


def score_notes(flow: str, rows: Iterable[ScoreRow], endpoint: str = "") -> list[str]:
    """Return the notes that readers of a run's scores need; `endpoint` is the address of its judge."""
    shown = list(rows)
    limited = [row for row in shown if row.dimension in CEILINGS.get(flow, ())]
    ceiling = limited and not any(row.model_wins or row.both_bad for row in limited)  # prompts of one's own allow more
    carried = any(row.carried for row in shown)
    overall = [row for row in shown if row.dimension == OVERALL]
    level = sum(row.mixed_votes for row in shown if row.grouping == "all")
    mixed = f"Mixed: {level:,} of them because votes of one order tie, the others because the orders differ."
    return [
        HUMAN_IS_50,
        *[PLOT_CEILING] * bool(ceiling),
        *[CARRIED] * carried,
        *[mixed] * bool(level),
        *vs_best_notes(overall),
        *judge_notes(endpoint),
    ]


@dataclass(frozen=True)
class _Count:
    header: str
    of: Callable[[ScoreRow], int]
    always: bool = False
    only: Literal["", "dimension", "overall"] = ""
    """Kind of row with this count; empty: both."""


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
    return [*score_cells(row), *numbers, coverage_words(row)]


DISPLAY = FigureDisplay()
