"""How the candidates of a run stand: in a sentence, as a table, as a chart.

The one place where what is shown of pairwise runs and of text-to-image runs parts ways; `tables` and `charts` draw the
one, `grade_tables` and `grade_chart` the other.
"""

from tasks.controls.lights import red_words
from tasks.numbers.scores import ranking
from tasks.parameters import EMBEDDED
from tasks.showing.charts import verdict_chart
from tasks.showing.grade_chart import grade_chart
from tasks.showing.grade_tables import gradeboard, ranked
from tasks.showing.tables import Grid, leaderboard
from tasks.showing.wording import (
    PIXELS,
    SCALE_0_10,
    bounded,
    counted,
    coverage_words,
    number_words,
    one_line,
    score_notes,
    score_with_interval,
)
from tasks.summary import Summary


def standings(summary: Summary) -> list[tuple[str, str]]:
    """Each candidate, the best first, with its score in words."""
    if not summary.grades:
        return [
            (row.candidate, f"{score_with_interval(row)}, {coverage_words(row)} samples scored")
            for row in ranking(summary.rows)
        ]
    return [
        (
            candidate,
            ", ".join(f"{row.dimension} {score_with_interval(row)} ({coverage_words(row)} images)" for row in rows),
        )
        for candidate, rows in ranked(summary.grades)
    ]


def sentence(summary: Summary) -> str:
    """The run in one sentence: scores, coverage and the counts by status; and a second where the judge is at fault."""
    found = standings(summary)
    scores = bounded([f"{one_line(candidate, 40)} {words}" for candidate, words in found[:3]], len(found))
    counts = f"Judgments: {counted(summary.judgments.statuses())}. Outcomes: {counted(summary.outcomes.statuses)}."
    return " ".join(filter(None, [f"{'; '.join(scores)}. {counts}", red_words(summary.controls)]))


def grid(summary: Summary) -> Grid:
    """Scores and counts of all candidates."""
    return gradeboard(summary.grades) if summary.grades else leaderboard(summary.rows)


def notes(summary: Summary) -> list[str]:
    """What must be known to read these scores."""
    start = summary.start
    if not summary.grades:
        return score_notes(start.flow, summary.rows, start.endpoint)
    means = "By image: the mean over images. Aspects: their mean."
    good = f"Good: prompts with an image of {number_words(summary.outcomes.good_from, 1)} or more."
    return [SCALE_0_10, f"{means} {good}", *[PIXELS] * (start.endpoint == EMBEDDED)]


def chart(summary: Summary) -> bytes:
    """The scores as a PNG."""
    if summary.grades:
        return grade_chart(summary.grades, notes(summary))
    return verdict_chart(summary.rows, summary.start.flow)
