"""Numbers of a run with their intervals: of figures by candidate and dimension, of images by prompt and tag."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from statistics import fmean
from typing import Any, ClassVar, NamedTuple

from tasks.records import MIXED, OVERALL, TIE, HistoryRecord, Outcome
from tasks.statistics.intervals import Interval, interval, worst_case


@lru_cache(maxsize=10_000)
def alike(values: tuple[tuple[Any, float | None], ...]) -> Mapping[Any, float | None]:
    """Return one mapping for equal values, so that the memory of the others is freed."""
    return dict(values)


SCORES = {"Model": 100.0, "Human": 0.0}
NEUTRAL_SCORE = 50.0
HIGHEST = 100.0


def verdict_score(verdict: str | None) -> float | None:
    """Return the score of a verdict or overall outcome: Model 100, neutral or Tie 50, Human 0; None if missing."""
    return None if verdict is None else SCORES.get(verdict, NEUTRAL_SCORE)


class LevelRow(HistoryRecord):
    """Facts about any score of a candidate: its certainty, and its difference from others."""

    candidate: str
    """System whose figures or images were judged."""
    ci_low: float | None
    """Lower end of the 95% interval; None below 8 scored samples (of generated images: prompts)."""
    ci_high: float | None
    """Upper end of the 95% interval; None below 8 scored samples (of generated images: prompts)."""
    method: str
    """Method of the interval: bayesian bootstrap, binomial (all scores equal) or none."""
    worst_low: float | None
    """Lower end of the interval where every missing score is the lowest; None from 97% coverage on."""
    worst_high: float | None
    """Upper end of the interval where every missing score is the highest; None from 97% coverage on."""
    coverage: float
    """scored / n."""
    vs_best: float | None = None
    """Score minus that of the best candidate of the run, paired: on the samples (of generated images: prompts) that
    both scored. None for the best one itself, where there is one candidate, and for groups of samples and aspects."""
    vs_best_low: float | None = None
    """Lower end of the 95% interval of that difference, which holds for all pairs of the candidates together."""
    vs_best_high: float | None = None
    """Upper end of that interval."""
    vs_best_n: int | None = None
    """Pairs of that difference."""
    vs_best_of: int | None = None
    """Pairs that there would be if no score were missing."""
    vs_best_worst_low: float | None = None
    """Lower end of the interval where the missing scores are the worst for the candidate; None from 97% of the pairs
    on."""
    vs_best_worst_high: float | None = None
    """Upper end where they are the best for it."""
    vs_best_p: float | None = None
    """p of that difference, adjusted for choosing the best among all candidates, and for all but the flow's headline
    score also for the number of dimensions, aspects or tags (Holm)."""
    vs_best_among: int | None = None
    """Candidates that the best was chosen among."""


class ScoreRow(LevelRow):
    """One candidate on one dimension (`overall` among them) in one group of samples.

    The seven counts add up to `scored`; a forfeit is counted in `forfeits` alone and scores 0.
    """

    decimals: ClassVar[int] = 1
    """Decimals of the score, where it is shown."""
    inapplicable: ClassVar[bool] = False
    """False: every score of a figure applies."""

    dimension: str
    """A dimension, or overall: the result of the tier rule."""
    measure: str = "score"
    """Of figures: score."""
    grouping: str
    """all (no groups), category or difficulty."""
    group_name: str
    """The category or difficulty; empty where the grouping is all."""
    n: int
    """Samples of the group."""
    scored: int
    """Samples with a score."""
    model_wins: int
    """Verdicts (or outcomes) Model."""
    human_wins: int
    """Verdicts (or outcomes) Human; forfeits are not among them."""
    both_good: int
    """Verdicts Both are good."""
    both_bad: int
    """Verdicts Both are bad."""
    mixed: int
    """Votes or orders that disagree: a neutral."""
    mixed_votes: int
    """Mixed ones where the votes of one order have no majority, as is common with even numbers of votes; in the other
    mixed ones the orders disagree."""
    ties: int
    """Overall outcomes Tie."""
    forfeits: int
    """Samples without a Model picture: they score 0."""
    carried: int
    """Samples judged by the picture of an earlier stage, since the generator's critic was content then; another count
    has each, too."""
    score: float | None
    """Mean of the scored samples: Model 100, neutral or Tie 50, Human or forfeit 0; Human is 50 by definition. In the
    plot flow faithfulness cannot exceed 50."""


class _Place(NamedTuple):
    candidate: str
    dimension: str
    grouping: str = "all"
    group_name: str = ""


class _Mark(NamedTuple):
    verdict: str | None
    score: float | None
    forfeit: bool
    carried: bool
    level: bool = False
    """True if the votes of an order have no majority."""


_mark = lru_cache(maxsize=256)(_Mark)
"""Cached constructor: a tally keeps marks by the hundred thousand, and few of them are distinct."""


class ScoreTally:
    """Scores of a pairwise run while its outcomes are read."""

    def __init__(self, ceilings: Mapping[str, float] | None = None) -> None:
        """Begin a tally; `ceilings` maps a dimension to its highest score where that is not 100."""
        self._marks: defaultdict[_Place, list[_Mark]] = defaultdict(list)
        self._ceilings = ceilings or {}

    def add(self, outcome: Outcome) -> None:
        """Add the outcome of a real sample."""
        for grouping, group_name in _groups(outcome):
            for dimension, mark in _marks(outcome):
                self._marks[_Place(outcome.candidate, dimension, grouping, group_name)].append(mark)

    def rows(self) -> list[ScoreRow]:
        """Return rows for all samples, each category and each difficulty, in the order of first appearance."""
        return [_row(place, found, self._ceilings) for place, found in self._marks.items()]


def _groups(outcome: Outcome) -> list[tuple[str, str]]:
    named = [("category", outcome.category), ("difficulty", outcome.difficulty)]
    return [("all", ""), *((grouping, name) for grouping, name in named if name)]


def _marks(outcome: Outcome) -> list[tuple[str, _Mark]]:
    whole = outcome.status == "forfeit", bool(outcome.carried_from)
    dimensions = [
        (each.dimension, _mark(each.verdict, each.score, *whole, MIXED in (each.human_first, each.model_first)))
        for each in outcome.dimensions
    ]
    return [*dimensions, (OVERALL, _mark(outcome.overall, outcome.score, *whole))]


def _row(place: _Place, marks: list[_Mark], ceilings: Mapping[str, float]) -> ScoreRow:
    values = [mark.score for mark in marks if mark.score is not None]
    verdicts = Counter(mark.verdict for mark in marks if mark.verdict is not None)
    # Prompts of a team's own may allow more than the protocol; then a score shows that.
    highest = max([ceilings.get(place.dimension, HIGHEST), *values])
    coverage, sure = len(values) / len(marks), sum(values) / len(marks)
    ends = sure, sure + highest * (1 - coverage)
    return ScoreRow(
        **place._asdict(),
        n=len(marks),
        scored=len(values),
        model_wins=verdicts["Model"],
        human_wins=verdicts["Human"],
        both_good=verdicts["Both are good"],
        both_bad=verdicts["Both are bad"],
        mixed=verdicts[MIXED],
        mixed_votes=sum(mark.verdict == MIXED and mark.level for mark in marks),
        ties=verdicts[TIE],
        forfeits=sum(mark.forfeit for mark in marks),
        carried=sum(mark.carried for mark in marks),
        **level(interval(values, high=highest), ends, coverage, highest),
        coverage=coverage,
    )


def level(found: Interval, ends: tuple[float, float], coverage: float, highest: float) -> dict[str, Any]:
    """Return the fields of a row that hold its score and its certainty; see `worst_case`."""
    value, low, high, method = found
    bounds = worst_case(found, ends, coverage, highest)
    return {"score": value, "ci_low": low, "ci_high": high, "method": method, **bounds._asdict()}


def ranking(rows: Iterable[ScoreRow]) -> list[ScoreRow]:
    """Return the overall row of each candidate over all samples, the best first and those without a score last."""
    overall = [row for row in rows if row.dimension == OVERALL and row.grouping == "all"]
    return sorted(overall, key=lambda row: -1.0 if row.score is None else row.score, reverse=True)


HIGHEST_GRADE = 10.0


class GradeRow(LevelRow):
    """One candidate on one tag by one measure."""

    decimals: ClassVar[int] = 2
    """Decimals of the score, where it is shown."""

    dimension: str
    """Of generated images: the tag; of checklists the instrument."""
    measure: str
    """Of generated images: score (the judge's overall score) or aspect_mean. Also good (share of prompts with an image
    at or above the threshold) and satisfied (share of images that meet their prompt). Of checklists: score (share of
    right answers), satisfied (share of images with all answers right) or geometric_mean (of soft answers)."""
    grouping: str = "all"
    """Of generated images: all, or aspect (the score of one aspect, or of one group of checks)."""
    group_name: str = ""
    """Of generated images: the aspect, or the group of checks."""
    n: int
    """Of generated images: images."""
    scored: int
    """Of generated images: images with a value of the measure."""
    prompts: int
    """Text-to-image prompts with a value of the measure for at least one image."""
    score: float | None
    """Of generated images: mean over prompts of the means over their images, 0-10, of checklists 0-100 (a group of
    checks has all of its answers pooled); of good and satisfied a share, 0-1."""
    image_mean: float | None
    """Mean over images: 0-10, of checklists 0-100, or a share."""

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


class _ImageMark(NamedTuple):
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
        self._marks: defaultdict[tuple[str, str], list[_ImageMark]] = defaultdict(list)

    def add(self, outcome: Outcome) -> None:
        """Add the outcome of a real image."""
        mark = _ImageMark(outcome.prompt_id, alike(tuple(_values(outcome, self._good_from))))
        self._marks[outcome.candidate, outcome.tag].append(mark)

    def rows(self) -> list[GradeRow]:
        """Return the rows of every candidate and tag, in the order of first appearance."""
        return [row for place, found in self._marks.items() for row in _rows(*place, found)]


def by_tag(rows: Iterable[GradeRow]) -> list[Grades]:
    """Group the rows by candidate and tag, in the order of first appearance."""
    places: defaultdict[tuple[str, str], list[GradeRow]] = defaultdict(list)
    for row in rows:
        places[row.candidate, row.dimension].append(row)
    return [
        Grades(
            **{row.measure: row for row in found if row.grouping == "all"},
            aspects=[row for row in found if row.grouping == "aspect"],
        )
        for found in places.values()
    ]


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


def _rows(candidate: str, tag: str, marks: list[_ImageMark]) -> Iterator[GradeRow]:
    aspects = dict.fromkeys(aspect for mark in marks for _, aspect in mark.values if aspect)
    for measure in ("score", "aspect_mean", "good", "satisfied"):
        # A prompt with several images is good if any of them is; `image_mean` has the mean over images.
        together = max if measure == "good" else fmean
        highest = HIGHEST_GRADE if measure in ("score", "aspect_mean") else 1.0
        yield _image_row(candidate, tag, (measure, ""), marks, together, highest)
    for aspect in aspects:
        yield _image_row(candidate, tag, ("score", aspect), marks, fmean, HIGHEST_GRADE)


def _image_row(
    candidate: str,
    tag: str,
    which: tuple[str, str],
    marks: list[_ImageMark],
    together: Callable[[Sequence[float]], float],
    highest: float,
) -> GradeRow:
    known = [(mark.prompt_id, value) for mark in marks if (value := mark.values.get(which)) is not None]
    # An aspect that does not apply to an image is None, and not missing.
    missing = [mark.prompt_id for mark in marks if which not in mark.values]
    found = interval(of_prompts(known, together), high=highest)
    ends = [of_prompts([*known, *((prompt_id, end) for prompt_id in missing)], together) for end in (0.0, highest)]
    lowest, best = (fmean(values) if values else 0.0 for values in ends)
    share = len(known) / max(1, len(known) + len(missing))
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
        **level(found, (lowest, best), share, highest),
        image_mean=fmean(value for _, value in known) if known else None,
        coverage=len(known) / len(marks),
    )


def of_prompts(
    images: Iterable[tuple[str, float]], together: Callable[[Sequence[float]], float] = fmean
) -> list[float]:
    """Return the value of each prompt, from the values of its images."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for prompt_id, value in images:
        found[prompt_id].append(value)
    return [together(values) for values in found.values()]
