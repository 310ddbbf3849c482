"""How pairwise figures are shown: wins and losses, the mean score 0-100, and the two figures side by side."""

from collections.abc import Mapping, Sequence
from typing import Any

from tasks.kinds.display import Display, Headline, Labels, Level, Quoted, Shown, Terms
from tasks.kinds.figure_tables import leaderboard, score_notes
from tasks.kinds.verdict_chart import verdict_chart
from tasks.presentation.chart_style import Chart
from tasks.presentation.tables import Grid
from tasks.presentation.wording import coverage_words, full_run_notes, score_in_full, worst_case_notes
from tasks.records import OVERALL, DimensionOutcome, Outcome
from tasks.statistics.scores import NEUTRAL_SCORE, ScoreRow, ranking


class FigureDisplay(Display[ScoreRow]):
    """Scores by dimension and group of samples; those of the published protocol alone stand elsewhere."""

    row = ScoreRow
    instrument = (
        "A vision-language model judged each *Model* figure against the *Human* figure of the same paper, on four "
        "dimensions; two tiers combine the verdicts into Model, Human or Tie (the PaperBanana protocol). Scores: Model "
        "100, neutral or Tie 50, Human 0, so that Human is 50 by definition."
    )
    counted = "samples"
    scale = "of 100; Human is 50"
    sides = ("Human", "Model")
    columns = ("dimension", "verdict")
    false_findings = "false preferences on clean pairs"
    level = Level("Human", NEUTRAL_SCORE)

    def headline(self, scores: Sequence[ScoreRow]) -> list[Headline]:
        """The overall score of every candidate, the best first."""
        return [Headline(row.candidate, row) for row in ranking(_scores(scores))]

    def in_words(self, scores: Sequence[ScoreRow]) -> list[tuple[str, str]]:
        """The overall score with its interval and coverage."""
        return [
            (row.candidate, f"{score_in_full(row)}, {coverage_words(row)} {self.counted} scored")
            for row in ranking(_scores(scores))
        ]

    def grid(self, scores: Sequence[ScoreRow], grouping: str = "all") -> Grid:
        """Scores and counts by dimension, or of the outcomes by group."""
        return leaderboard(_scores(scores), grouping)

    def notes(self, scores: Sequence[ScoreRow], terms: Terms) -> list[str]:
        """Where Human stands, what no score can exceed, and how far missing scores may reach."""
        rows = _scores(scores)
        return [*full_run_notes(rows), *worst_case_notes(rows), *score_notes(terms.flow, rows, terms.endpoint)]

    def chart(self, scores: Sequence[ScoreRow], grouping: str = "all", terms: Terms | None = None) -> Chart:
        """How often the Model won, drew and lost, with the mean score beside it."""
        rows = _scores(scores)
        return verdict_chart(rows, score_notes(terms.flow, rows) if terms else (), grouping)

    def shown(self, outcome: Outcome, reasons: Mapping[str, str]) -> Shown:
        """The verdict on each dimension with its reason, and the figures' caption."""
        lines = [[each.dimension, _verdict(each), reasons.get(each.dimension, "")] for each in outcome.dimensions]
        return Shown(
            above=(),
            outcome=Quoted(f"Outcome: {outcome.overall or 'none'} (", outcome.path, ")"),
            table=Grid([*self.columns, "the judge's reasons"], lines),
            below=(Quoted("Caption: ", outcome.caption),),
        )

    def labels(self, row: Mapping[str, Any], answers: Mapping[str, str], good_from: float) -> Labels:
        """The winner, or why there is none, and each dimension's verdict."""
        overall = row["overall"] or row["status"].replace("_", " ")
        return Labels(overall, {OVERALL: overall, **answers}, row["path"])


def _scores(rows: Sequence[ScoreRow]) -> list[ScoreRow]:
    return [row for row in rows if row.measure == "score"]


def _verdict(dimension: DimensionOutcome) -> str:
    words = dimension.verdict or "missing"
    if not dimension.order_flip:
        return words
    return f"{words} (Human first: {dimension.human_first}; Model first: {dimension.model_first})"
