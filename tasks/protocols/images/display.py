"""Display of generated images: scores 0-10 by tag and aspect, and the image with its prompt."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from tasks.presentation import charts
from tasks.presentation.charts import Chart
from tasks.presentation.tables import Grid
from tasks.presentation.wording import (
    LONGEST_NAME,
    VS_BEST,
    coverage_words,
    judge_notes,
    vs_best_notes,
    vs_best_words,
    worst_case_notes,
)
from tasks.protocols.display import Display, Headline, Terms, score_cells
from tasks.statistics.scores import HIGHEST_GRADE, GradeRow, by_tag
from tasks.text import bounded, number_words, one_line

SCALE_0_10 = "Scores are 0-10: the judge's overall score, averaged over prompts. GenEval's own score is a detector's."
MEANS = "By image: the mean over images. Aspects: their mean."

MOST_NAMED = 4
"""Most candidates whose number of images is shown."""


class ImageDisplay(Display[GradeRow]):
    """Scores by tag, with each tag's aspects below it. Samples have no other groups."""

    row = GradeRow
    counted = "images"
    scale = "of 10"
    sides = ("Image",)
    false_findings = "false alarms on clean images"

    def headline(self, scores: Sequence[GradeRow]) -> list[Headline]:
        """Return the score of every candidate on every tag, the best candidate first."""
        return [Headline(f"{row.candidate}, {row.dimension}", row) for _, tags in ranked(scores) for row in tags]

    def grid(self, scores: Sequence[GradeRow], grouping: str = "all") -> Grid:
        """Return scores, means and shares by tag, the best candidate first; a check that was asked for has a column."""
        found = by_tag(scores)
        checked = any(grades.satisfied.score is not None for grades in found)
        compared = any(grades.score.vs_best is not None for grades in found)
        lines: list[list[str]] = []
        for candidate, _ in ranked(scores):
            lines.append([candidate])
            for grades in found:
                if grades.score.candidate == candidate:
                    shares = [_percent(grades.good.score), _percent(grades.good.image_mean)]
                    shares += [_percent(grades.satisfied.score)] * checked
                    means = [number_words(grades.score.image_mean), number_words(grades.aspect_mean.score)]
                    last = [coverage_words(grades.score), *[vs_best_words(grades.score)] * compared]
                    lines.append([grades.score.dimension, *score_cells(grades.score), *means, *shares, *last])
                    empty, beside = [""] * (len(means) + len(shares)), [""] * compared
                    lines += [
                        [f"  {row.group_name}", *score_cells(row), *empty, coverage_words(row), *beside]
                        for row in grades.aspects
                    ]
        header = ["", "score", "95% interval", "by\nimage", "as-\npects", "good", "good\nim-\nages"]
        header += [*["as\nasked"] * checked, "scored", *[VS_BEST] * compared]
        return Grid(header, lines, VS_BEST)

    def notes(self, scores: Sequence[GradeRow], terms: Terms) -> list[str]:
        """Return notes on missing scores, numbers of images, differences from the best, the scale and the columns."""
        beside = vs_best_notes(row for row in scores if row.measure == "score")
        good = f"Good: prompts with an image of {number_words(terms.good_from, 1)} or more."
        columns = [SCALE_0_10, f"{MEANS} {good}", *judge_notes(terms.endpoint)]
        return [*worst_case_notes(scores), *image_number_notes(scores), *beside, *columns]

    def chart(self, scores: Sequence[GradeRow]) -> Chart:
        """Draw a panel for each of the best candidates, with a bar for every tag and each of its aspects, 0-10."""
        shown = [
            row
            for candidate, _ in ranked(scores)
            for grades in by_tag(scores)
            for row in (grades.score, *grades.aspects)
            if row.candidate == candidate
        ]
        return charts.score_chart(charts.MEAN_SCORES, shown, HIGHEST_GRADE)


def ranked(rows: Iterable[GradeRow]) -> list[tuple[str, list[GradeRow]]]:
    """Return each candidate with the scores of its tags: the best mean first, candidates without a score last."""
    scores = [grades.score for grades in by_tag(rows)]
    found: dict[str, list[GradeRow]] = {}
    for row in scores:  # a run with a budget judges candidates and tags in random order
        found.setdefault(row.candidate, []).append(row)
    return sorted(found.items(), key=lambda each: _mean(each[1]), reverse=True)


def _mean(rows: Sequence[GradeRow]) -> float:
    known = [row.score for row in rows if row.score is not None]
    return fmean(known) if known else -1.0


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"


def image_number_notes(rows: Iterable[GradeRow]) -> list[str]:
    """Return a warning if candidates differ in images a prompt: the share of good prompts grows with them."""
    numbers: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for row in (grades.score for grades in by_tag(rows)):
        if row.prompts:
            numbers[row.dimension][row.candidate] = f"{row.scored / row.prompts:.2g}"
    return [
        f"{tag}: images a prompt differ ({_named(found)}): compare good images, for good grows with their number."
        for tag, found in numbers.items()
        if len({*found.values()}) > 1
    ]


def _named(found: Mapping[str, str]) -> str:
    """Return the first few candidates with their numbers, `steady 4, careless 1`."""
    shown = [f"{one_line(candidate, LONGEST_NAME)} {number}" for candidate, number in found.items()]
    return ", ".join(bounded(shown[:MOST_NAMED], len(shown)))


DISPLAY = ImageDisplay()
