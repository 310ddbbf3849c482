"""Display of the kind: the share of statements that are true, and each picture with its statement."""

from collections.abc import Sequence

from tasks.presentation.charts import Chart, bar, label_room, stacked
from tasks.presentation.charts import rows as panel
from tasks.presentation.tables import Grid
from tasks.presentation.wording import coverage_words, interval_words, score_words
from tasks.protocols.display import Display, Headline, Terms
from tasks.statistics.scores import ScoreRow, ranking


class PresenceDisplay(Display[ScoreRow]):
    """Scores by question."""

    row = ScoreRow
    counted = "samples"
    scale = "of 100"
    sides = ("Image",)
    false_findings = "false answers"

    def headline(self, scores: Sequence[ScoreRow]) -> list[Headline]:
        return [Headline(row.candidate, row) for row in ranking(scores)]

    def grid(self, scores: Sequence[ScoreRow], grouping: str = "all") -> Grid:
        rows = [row for row in scores if row.grouping == grouping]
        cells = [[f"{row.candidate} {row.dimension}", score_words(row), interval_words(row)] for row in rows]
        lines = [[*line, coverage_words(row)] for line, row in zip(cells, rows, strict=True)]
        return Grid(["", "score", "95% interval", "scored"], lines)

    def notes(self, scores: Sequence[ScoreRow], terms: Terms) -> list[str]:
        return ["A statement that is true scores 100, any other 0."]

    def chart(self, scores: Sequence[ScoreRow]) -> Chart:
        rows = [(row.candidate, bar(0, 3, row.score or 0, 20, "green")) for row in ranking(scores)]
        return stacked("Scores", [panel("", rows)], label_room(name for name, _ in rows), 100)


DISPLAY = PresenceDisplay()
