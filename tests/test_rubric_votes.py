"""What the votes on one image come to."""

import pytest
from factories import judgment, scored

from tasks.protocols.images.protocol import Grade, grade
from tasks.records import Judgment, Place, Requirement, Sample, Seen, SeenObject

DOG = (Requirement(name="dog", color="red"),)
SAMPLE = Sample(sample_id="00000/0000", candidate="alpha", record=Place("x"), tag="colors", required=DOG)


def vote(overall: float = 8.0, seen: str | None = None, **aspects: float | None) -> Judgment:
    """An ok vote; `seen` is the color the judge sees the dog in."""
    told = Seen(objects=(SeenObject(name="dog", present=True, count=1, color=seen),)) if seen else None
    return judgment("s1", "colors", None, order="single", scores=scored(**aspects, overall_score=overall), seen=told)


LOST = judgment(verdict=None, status="refused")


@pytest.mark.parametrize(
    ("votes", "score"),
    [
        ([vote(8)], 8.0),
        ([vote(8), vote(5)], 6.5),
        ([vote(8), LOST], 8.0),
        ([vote(8), LOST, None], None),
        ([LOST], None),
        ([None], None),
    ],
)
def test_the_score_is_the_mean_of_the_ok_votes_when_half_are(votes: list[Judgment | None], score: float) -> None:
    assert grade(SAMPLE, votes).score == score


def test_aspects_are_means_of_the_votes_for_which_they_apply() -> None:
    found = grade(SAMPLE, [vote(a=4.0, b=None, c=None), vote(a=6.0, b=9.0, c=None)])
    assert [(each.aspect, each.score) for each in found.aspects] == [("a", 5.0), ("b", 9.0), ("c", None)]
    assert found.aspect_mean == 7.0
    assert found.explanation == "why overall_score"


def test_without_any_aspect_that_applies_there_is_no_mean_of_them() -> None:
    assert grade(SAMPLE, [vote(3.0, a=None)]) == Grade(3.0, scored(a=None), None, None, "why overall_score", 1)


@pytest.mark.parametrize(
    ("colors", "satisfied"),
    [
        (["red"], True),
        (["blue"], False),
        ([None], None),
        (["red", "blue", "red"], True),
        (["red", "blue"], None),
        (["blue", None, None], False),
    ],
)
def test_more_of_the_votes_that_tell_decide_what_is_seen(colors: list[str | None], satisfied: bool | None) -> None:
    assert grade(SAMPLE, [vote(seen=color) for color in colors]).satisfied is satisfied
