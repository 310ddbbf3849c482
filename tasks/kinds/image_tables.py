"""The scores of generated images as a table: each tag of each candidate, and beneath it its aspects."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from statistics import fmean

from tasks.presentation.tables import Grid
from tasks.presentation.wording import LONGEST_NAME, VS_BEST, coverage_words, interval_words, score_words, vs_best_words
from tasks.statistics.image_scores import GradeRow, by_tag
from tasks.text import bounded, number_words, one_line

MOST_NAMED = 4
"""Candidates whose number of images is told."""


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
    compared = any(grades.score.vs_best is not None for grades in found)
    lines: list[list[str]] = []
    for candidate, _ in ranked(rows):
        lines.append([candidate])
        for grades in found:
            if grades.score.candidate == candidate:
                shares = [_percent(grades.good.score), _percent(grades.good.image_mean)]
                shares += [_percent(grades.satisfied.score)] * checked
                means = [number_words(grades.score.image_mean), number_words(grades.aspect_mean.score)]
                last = [coverage_words(grades.score), *[vs_best_words(grades.score)] * compared]
                lines.append([grades.score.dimension, *_score(grades.score), *means, *shares, *last])
                empty, beside = [""] * (len(means) + len(shares)), [""] * compared
                lines += [
                    [f"  {row.group_name}", *_score(row), *empty, coverage_words(row), *beside]
                    for row in grades.aspects
                ]
    header = ["", "score", "95% interval", "by\nimage", "as-\npects", "good", "good\nim-\nages"]
    header += [*["as\nasked"] * checked, "scored", *[VS_BEST] * compared]
    return Grid(header, lines, VS_BEST)


def _score(row: GradeRow) -> list[str]:
    return [score_words(row), interval_words(row)]


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"


def image_number_notes(rows: Iterable[GradeRow]) -> list[str]:
    """A warning where candidates have other numbers of images a prompt, which the share of prompts grows with."""
    scores = [grades.score for grades in by_tag(rows)]
    tags = dict.fromkeys(row.dimension for row in scores)
    numbers = {tag: {row.candidate: _images_a_prompt(row) for row in scores if row.dimension == tag} for tag in tags}
    return [
        f"{tag}: images a prompt differ ({_named(found)}): compare good images, for good grows with their number."
        for tag, found in numbers.items()
        if len({*found.values()} - {""}) > 1
    ]


def _images_a_prompt(row: GradeRow) -> str:
    """Scored images of a prompt on average; nothing where none is scored."""
    return f"{row.scored / row.prompts:.2g}" if row.prompts else ""


def _named(found: Mapping[str, str]) -> str:
    """The first few, `steady 4, careless 1`."""
    shown = [f"{one_line(candidate, LONGEST_NAME)} {number}" for candidate, number in found.items() if number]
    return ", ".join(bounded(shown[:MOST_NAMED], len(shown)))
