"""From the replies to a text-to-image rubric to the grade of an image: votes and means. Pure functions.

The score is the judge's own overall score, as in the published use of these rubrics; the mean of the aspects stands
beside it. Nothing is made up: with fewer than half of the votes there is no score.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from tasks.kinds.requirements_check import satisfied
from tasks.records import OVERALL_SCORE, AspectScore, Judgment, Sample


class Grade(NamedTuple):
    """What the votes on one image come to. Scores are 0-10."""

    score: float | None
    """Mean of the overall scores; None when fewer than half of the votes are ok."""
    aspects: tuple[AspectScore, ...] = ()
    """Mean of each aspect over the votes for which it applies, with the first vote's explanation."""
    aspect_mean: float | None = None
    """Mean of the aspects that apply."""
    satisfied: bool | None = None
    """What more of the votes that tell say; None when none does, or they are level."""
    explanation: str = ""
    """Of the first vote's overall score."""
    ok_votes: int = 0


def grade(sample: Sample, votes: Sequence[Judgment | None]) -> Grade:
    """The grade of an image from its votes: the last attempt of each, None where there is none."""
    ok = [vote for vote in votes if vote and vote.status == "ok"]
    if not ok or 2 * len(ok) < len(votes):
        return Grade(None, ok_votes=len(ok))
    merged = tuple(_merged([vote.scores[place] for vote in ok]) for place in range(len(ok[0].scores)))
    aspects = tuple(each for each in merged if each.aspect != OVERALL_SCORE)
    [overall] = (each for each in merged if each.aspect == OVERALL_SCORE)
    applicable = [each.score for each in aspects if each.score is not None]
    mean = fmean(applicable) if applicable else None
    return Grade(overall.score, aspects, mean, _checked(sample, ok), overall.explanation, len(ok))


def _merged(votes: Sequence[AspectScore]) -> AspectScore:
    applicable = [vote.score for vote in votes if vote.score is not None]
    score = fmean(applicable) if applicable else None
    return AspectScore(aspect=votes[0].aspect, score=score, explanation=votes[0].explanation)


def _checked(sample: Sample, votes: Sequence[Judgment]) -> bool | None:
    said = [satisfied(sample, vote.seen) for vote in votes]
    yes, no = said.count(True), said.count(False)
    return None if yes == no else yes > no
