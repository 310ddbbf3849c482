"""Display of checklists: shares of right answers over all checks and by group, and the picture with its checks."""

from collections.abc import Iterable, Sequence

from tasks.presentation import charts
from tasks.presentation.charts import Chart
from tasks.presentation.tables import Grid
from tasks.presentation.wording import (
    VS_BEST,
    coverage_words,
    judge_notes,
    score_words,
    vs_best_notes,
    vs_best_words,
    worst_case_notes,
)
from tasks.protocols.checklist.parameters import SOFT
from tasks.protocols.checklist.reply import RIGHT
from tasks.protocols.checklist.scores import GEOMETRIC, CheckRow
from tasks.protocols.display import Display, Headline, Terms, score_cells

SHARE = "Scores are shares of right answers, 0-100: by picture, then by prompt. A group has all answers of its checks."
ALL_RIGHT = "All right: share of a prompt's pictures without a wrong answer, then over prompts."
SOFT_SHARE = "Scores are probabilities of right answers, 0-100: by picture, then by prompt. A group has all its checks."
SOFT_RIGHT = "All right: share of a prompt's pictures whose right answers all have 50 or more, then over prompts."


class ChecklistDisplay(Display[CheckRow]):
    """Scores over all checks, with each group of checks below them."""

    row = CheckRow
    counted = "images"
    scale = "of 100"
    sides = ("Image",)
    false_findings = "false alarms on clean images"
    satisfied = ("not all checks are right", "all checks are right")

    def headline(self, scores: Sequence[CheckRow]) -> list[Headline]:
        """Return the score of every candidate over all checks, the best first."""
        return [Headline(row.candidate, row) for row in ranked(scores)]

    def grid(self, scores: Sequence[CheckRow], grouping: str = "all") -> Grid:
        """Return shares over all checks and by group, the best candidate first."""
        whole = {row.candidate: row for row in scores if row.measure == "satisfied"}
        means = {row.candidate: score_words(row) for row in scores if row.measure == GEOMETRIC}
        compared = any(row.vs_best is not None for row in scores)
        lines: list[list[str]] = []
        for best in ranked(scores):
            cells = [*score_cells(best), _all_right(whole[best.candidate]), coverage_words(best)]
            cells += [means[best.candidate]] if means else []
            lines += [[best.candidate], ["all checks", *cells, *[vs_best_words(best)] * compared]]
            for row in _groups(scores, best.candidate):
                empty = [""] * (bool(means) + compared)
                lines.append([f"  {row.group_name}", *score_cells(row), "", coverage_words(row), *empty])
        titles = ["", "score", "95% interval", "all\nright", "scored", *["geometric\nmean"] * bool(means)]
        return Grid([*titles, *[VS_BEST] * compared], lines, VS_BEST)

    def notes(self, scores: Sequence[CheckRow], terms: Terms) -> list[str]:
        """Return notes on missing answers, differences from the best, and the scale."""
        beside = vs_best_notes(row for row in scores if row.measure == "score")
        is_soft = any(row.dimension == SOFT for row in scores)
        scale = [SOFT_SHARE, SOFT_RIGHT] if is_soft else [SHARE, ALL_RIGHT]
        return [*worst_case_notes(scores), *beside, *scale, *judge_notes(terms.endpoint)]

    def chart(self, scores: Sequence[CheckRow]) -> Chart:
        """Draw a panel for each of the best candidates, with a bar for all checks and for each group, 0-100."""
        shown = [row for best in ranked(scores) for row in (best, *_groups(scores, best.candidate))]
        return charts.score_chart("Scores of checks with their 95% intervals", shown, RIGHT, "all checks")

    def aspect_words(self, score: float | None) -> str:
        """Return whether a check is right; after several votes, the share of those that say so."""
        return "not scored" if score is None else {RIGHT: "right", 0.0: "wrong"}.get(score, f"{score:.0f}% right")


def ranked(rows: Iterable[CheckRow]) -> list[CheckRow]:
    """Return the row of each candidate over all checks: the best first, candidates without a score last."""
    whole = [row for row in rows if row.measure == "score" and row.grouping == "all"]
    return sorted(whole, key=lambda row: -1.0 if row.score is None else row.score, reverse=True)


def _all_right(row: CheckRow) -> str:
    """Return the share of pictures with all right, and of how many where the others lack answers."""
    if row.score is None:
        return "–"
    return f"{row.score:.0%}" + f" of {row.scored}" * (row.scored < row.n)


def _groups(rows: Iterable[CheckRow], candidate: str) -> list[CheckRow]:
    return [row for row in rows if row.candidate == candidate and row.grouping == "aspect"]


DISPLAY = ChecklistDisplay()
