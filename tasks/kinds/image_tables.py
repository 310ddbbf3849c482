"""The scores of generated images as a table: each tag of each candidate, and beneath it its aspects."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from statistics import fmean

from tasks.presentation.tables import Grid
from tasks.presentation.wording import coverage_words, interval_words, score_words
from tasks.statistics.image_scores import GradeRow, by_tag
from tasks.text import number_words


def ranked(rows: Iterable[GradeRow]) -> list[tuple[str, list[GradeRow]]]:
    """Each candidate with the scores of its tags, the best mean of them first and those without a score last."""
    scores = [grades.score for grades in by_tag(rows)]
    found = [(candidate, list(its)) for candidate, its in groupby(scores, key=lambda row: row.candidate)]
    return sorted(found, key=lambda each: _mean(each[1]), reverse=True)


def _mean(rows: Sequence[GradeRow]) -> float:
    known = [row.score for row in rows if row.score is not None]
    return fmean(known) if known else -1.0


def gradeboard(rows: Sequence[GradeRow]) -> Grid:
    """Scores, means and shares by tag, the best candidate first. A check that was not asked for has no column."""
    found = by_tag(rows)
    checked = any(grades.satisfied.score is not None for grades in found)
    lines: list[list[str]] = []
    for candidate, _ in ranked(rows):
        lines.append([candidate])
        for grades in found:
            if grades.score.candidate == candidate:
                shares = [_percent(grades.good)] + [_percent(grades.satisfied)] * checked
                means = [number_words(grades.score.image_mean), number_words(grades.aspect_mean.score)]
                lines.append([grades.score.dimension, *_score(grades.score), *means, *shares, *_scored(grades.score)])
                empty = [""] * (len(means) + len(shares))
                lines += [[f"  {row.group_name}", *_score(row), *empty, *_scored(row)] for row in grades.aspects]
    check = ["as\nasked"] * checked
    return Grid(["", "score", "95% interval", "by\nimage", "aspects", "good", *check, "scored"], lines)


def _score(row: GradeRow) -> list[str]:
    return [score_words(row), interval_words(row)]


def _scored(row: GradeRow) -> list[str]:
    return [coverage_words(row)]


def _percent(row: GradeRow) -> str:
    return "–" if row.score is None else f"{row.score:.0%}"
