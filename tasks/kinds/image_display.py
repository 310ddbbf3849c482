"""How generated images are shown: scores 0-10 by tag and aspect, and the image with the prompt it was made from."""

from collections.abc import Mapping, Sequence
from typing import Any

from tasks.kinds.display import Display, Headline, Labels, Quoted, Shown, Terms
from tasks.kinds.image_chart import image_chart
from tasks.kinds.image_tables import gradeboard, image_number_notes, ranked
from tasks.presentation.chart_style import Chart
from tasks.presentation.tables import Grid
from tasks.presentation.wording import (
    coverage_words,
    full_run_notes,
    judge_notes,
    score_in_full,
    vs_best_notes,
    worst_case_notes,
)
from tasks.records import Outcome
from tasks.statistics.image_scores import GradeRow, by_tag
from tasks.text import number_words

SCALE_0_10 = "Scores are 0-10: the judge's overall score, averaged over prompts. GenEval's own score is a detector's."
MEANS = "By image: the mean over images. Aspects: their mean."

_CHECKED = {True: " What was asked for is there.", False: " What was asked for is not there.", None: ""}


class ImageDisplay(Display[GradeRow]):
    """Scores by tag, with each tag's aspects beneath it. There are no groups of samples besides."""

    row = GradeRow
    instrument = (
        "A vision-language model judged each generated image against its prompt, by the rubric of the prompt's GenEval "
        "tag: aspects and an overall score of 0-10. No number here is a GenEval score, which is a detector's."
    )
    counted = "images"
    scale = "of 10"
    sides = ("Image",)
    columns = ("tag", "score")
    false_findings = "false alarms on clean images"

    def headline(self, scores: Sequence[GradeRow]) -> list[Headline]:
        """The score of every candidate's tag."""
        tags = [grades.score for grades in by_tag(scores)]
        return [Headline(f"{row.candidate}, {row.dimension}", row) for row in tags]

    def in_words(self, scores: Sequence[GradeRow]) -> list[tuple[str, str]]:
        """The score of each tag with its interval and coverage."""
        return [(candidate, ", ".join(map(self._tag_in_words, rows))) for candidate, rows in ranked(scores)]

    def _tag_in_words(self, row: GradeRow) -> str:
        return f"{row.dimension} {score_in_full(row)} ({coverage_words(row)} {self.counted})"

    def grid(self, scores: Sequence[GradeRow], grouping: str = "all") -> Grid:
        """Scores, means and shares by tag and aspect."""
        return gradeboard(scores)

    def notes(self, scores: Sequence[GradeRow], terms: Terms) -> list[str]:
        """How far missing scores may reach, what the scale is, what the columns of the table are, and who is best."""
        beside = vs_best_notes(row for row in scores if row.measure == "score")
        missing = [*full_run_notes(scores), *worst_case_notes(scores)]
        return [*missing, *image_number_notes(scores), *beside, *_of_columns(terms)]

    def headline_notes(self, scores: Sequence[GradeRow], terms: Terms) -> list[str]:
        """What the scale is, and what counts as good."""
        good = f"Good: share of prompts with an image of {terms.good_from} or more."
        missing = [*full_run_notes(scores), *worst_case_notes(scores)]
        return [*missing, *image_number_notes(scores), SCALE_0_10, good, *judge_notes(terms.endpoint)]

    def chart(self, scores: Sequence[GradeRow], grouping: str = "all", terms: Terms | None = None) -> Chart:
        """The score of every tag and aspect."""
        return image_chart(scores, _of_columns(terms) if terms else ())

    def shown(self, outcome: Outcome, reasons: Mapping[str, str]) -> Shown:
        """The prompt, and the score of each aspect with its explanation."""
        lines = [[each.aspect, number_words(each.score), each.explanation] for each in outcome.aspects]
        return Shown(
            above=(Quoted(f"Prompt ({outcome.tag}): ", outcome.prompt),),
            outcome=Quoted("Outcome: ", outcome.path, _CHECKED[outcome.satisfied]),
            table=Grid(["aspect", "score", "the judge's reasons"], lines),
            below=(),
        )

    def labels(self, row: Mapping[str, Any], answers: Mapping[str, str], good_from: float) -> Labels:
        """The score, or why there is none, and whether it is good."""
        if row["score"] is None:
            return Labels(row["status"].replace("_", " "), {row["tag"]: "missing"}, row["path"])
        words = f"{good_from:g} or more" if row["score"] >= good_from else f"below {good_from:g}"
        return Labels(number_words(row["score"]), {row["tag"]: words}, "")


def _of_columns(terms: Terms) -> list[str]:
    good = f"Good: prompts with an image of {number_words(terms.good_from, 1)} or more."
    return [SCALE_0_10, f"{MEANS} {good}", *judge_notes(terms.endpoint)]
