"""Numbers of a text-to-image run: means over prompts and over images, shares, intervals and coverage.

Images of one prompt are alike, so the mean over prompts is the score, and intervals resample prompts. A judge gives
these scores; GenEval scores are a detector's.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import ClassVar, NamedTuple

from tasks.records import Outcome
from tasks.statistics.alike import Alike
from tasks.statistics.intervals import interval, worst_case
from tasks.statistics.scores import LevelRow

HIGHEST = 10.0


class GradeRow(LevelRow):
    """One candidate on one tag by one measure."""

    decimals: ClassVar[int] = 2
    """Decimals of the score, where it is shown."""

    dimension: str
    """Of generated images: the tag."""
    measure: str
    """Of generated images: score (the judge's overall score) or aspect_mean. Also good (share of prompts with an image
    at or above the threshold) and satisfied (share of images that meet their prompt)."""
    grouping: str = "all"
    """Of generated images: all, or aspect (the score of one aspect)."""
    group_name: str = ""
    """Of generated images: the aspect."""
    n: int
    """Of generated images: images."""
    scored: int
    """Of generated images: images with a value of the measure."""
    prompts: int
    """Text-to-image prompts with a value of the measure for at least one image."""
    score: float | None
    """Of generated images: mean over prompts of the means over their images, 0-10; of good and satisfied a share,
    0-1."""
    image_mean: float | None
    """Mean over images, 0-10 or a share."""

    @property
    def inapplicable(self) -> bool:
        """True if this is an aspect that applied to no judged image; only judged images have aspects."""
        return self.grouping == "aspect" and not self.scored


class Grades(NamedTuple):
    """Rows of one candidate on one tag, by measure."""

    score: GradeRow
    aspect_mean: GradeRow
    good: GradeRow
    satisfied: GradeRow
    aspects: list[GradeRow]


class _Mark(NamedTuple):
    prompt_id: str
    values: Mapping[tuple[str, str], float | None]
    """(measure, aspect) -> value; None where an aspect does not apply."""


class GradeTally:
    """Scores of a text-to-image run while its outcomes are read.

    Args:
        good_from: score from which an image counts as good.
    """

    def __init__(self, good_from: float) -> None:
        self._good_from = good_from
        self._marks: defaultdict[tuple[str, str], list[_Mark]] = defaultdict(list)
        self._alike = Alike[tuple[str, str]]()

    def add(self, outcome: Outcome) -> None:
        """Add the outcome of a real image."""
        mark = _Mark(outcome.prompt_id, self._alike(dict(_values(outcome, self._good_from))))
        self._marks[outcome.candidate, outcome.tag].append(mark)

    def rows(self) -> list[GradeRow]:
        """Return the rows of every candidate and tag, in the order of first appearance."""
        return [row for place, found in self._marks.items() for row in _rows(*place, found)]


def by_tag(rows: Iterable[GradeRow]) -> list[Grades]:
    """Group the rows by candidate and tag, in the order of first appearance."""
    places: defaultdict[tuple[str, str], list[GradeRow]] = defaultdict(list)
    for row in rows:
        places[row.candidate, row.dimension].append(row)
    return [_grades(found) for found in places.values()]


def _grades(rows: list[GradeRow]) -> Grades:
    named = {row.measure: row for row in rows if row.grouping == "all"}
    return Grades(**named, aspects=[row for row in rows if row.grouping == "aspect"])


def _values(outcome: Outcome, good_from: float) -> Iterator[tuple[tuple[str, str], float | None]]:
    if outcome.score is not None:
        yield ("score", ""), outcome.score
        yield ("good", ""), float(outcome.score >= good_from)
    if outcome.aspect_mean is not None:
        yield ("aspect_mean", ""), outcome.aspect_mean
    if outcome.satisfied is not None:
        yield ("satisfied", ""), float(outcome.satisfied)
    for aspect in outcome.aspects:
        yield ("score", aspect.aspect), aspect.score


def _rows(candidate: str, tag: str, marks: list[_Mark]) -> Iterator[GradeRow]:
    aspects = dict.fromkeys(aspect for mark in marks for _, aspect in mark.values if aspect)
    for measure in ("score", "aspect_mean", "good", "satisfied"):
        # A prompt with several images is good if any of them is; `image_mean` has the mean over images.
        together = max if measure == "good" else fmean
        highest = HIGHEST if measure in ("score", "aspect_mean") else 1.0
        yield _row(candidate, tag, (measure, ""), marks, together, highest)
    for aspect in aspects:
        yield _row(candidate, tag, ("score", aspect), marks, fmean, HIGHEST)


def _row(
    candidate: str,
    tag: str,
    which: tuple[str, str],
    marks: list[_Mark],
    together: Callable[[Sequence[float]], float],
    highest: float,
) -> GradeRow:
    known = [(mark.prompt_id, value) for mark in marks if (value := mark.values.get(which)) is not None]
    # An aspect that does not apply to an image is None, and not missing.
    missing = [mark.prompt_id for mark in marks if which not in mark.values]
    found = interval(_of_prompts(known, together), high=highest)
    ends = [_of_prompts([*known, *((prompt_id, end) for prompt_id in missing)], together) for end in (0.0, highest)]
    lowest, best = (fmean(values) if values else 0.0 for values in ends)
    bounds = worst_case(found, (lowest, best), len(known) / max(1, len(known) + len(missing)), highest)
    measure, aspect = which
    return GradeRow(
        candidate=candidate,
        dimension=tag,
        measure=measure,
        grouping="aspect" if aspect else "all",
        group_name=aspect,
        n=len(marks),
        scored=len(known),
        prompts=len({prompt_id for prompt_id, _ in known}),
        score=found.value,
        image_mean=fmean(value for _, value in known) if known else None,
        ci_low=found.ci_low,
        ci_high=found.ci_high,
        method=found.method,
        **bounds._asdict(),
        coverage=len(known) / len(marks),
    )


def _of_prompts(images: Iterable[tuple[str, float]], together: Callable[[Sequence[float]], float]) -> list[float]:
    """Return the value of each prompt, from the values of its images."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for prompt_id, value in images:
        found[prompt_id].append(value)
    return [together(values) for values in found.values()]
