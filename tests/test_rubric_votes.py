"""Grades of an image from its votes."""

import pytest
from factories import judgment, scored

from tasks.protocols.images.protocol import grade
from tasks.records import Judgment, Place, Requirement, Sample, Seen, SeenObject

DOG = (Requirement(name="dog", color="red"),)
SAMPLE = Sample(sample_id="00000/0000", candidate="alpha", record=Place("x"), tag="colors", required=DOG)


def vote(overall: float = 8.0, seen: str | None = None, **aspects: float | None) -> Judgment:
    """Return an ok vote; `seen` is the color that the judge sees on the dog."""
    objects = Seen(objects=(SeenObject(name="dog", present=True, count=1, color=seen),)) if seen else None
    return judgment("s1", "colors", None, order="single", scores=scored(**aspects, overall_score=overall), seen=objects)


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
def test_score_is_the_mean_of_ok_votes_if_half_are_ok(votes: list[Judgment | None], score: float) -> None:
    assert grade(SAMPLE, votes).score == score


def test_aspect_is_the_mean_of_votes_where_it_applies() -> None:
    found = grade(SAMPLE, [vote(a=4.0, b=None, c=None), vote(a=6.0, b=9.0, c=None)])
    assert [(each.aspect, each.score) for each in found.aspects] == [("a", 5.0), ("b", 9.0), ("c", None)]
    assert found.aspect_mean == 7.0
    assert (found.tier_path, found.dimensions[0].ok_votes) == ("overall 8: why overall_score", 2)


def test_grade_without_applicable_aspects_has_no_aspect_mean() -> None:
    found = grade(SAMPLE, [vote(3.0, a=None)])
    assert (found.score, found.aspects, found.aspect_mean, found.satisfied) == (3.0, scored(a=None), None, None)


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
def test_majority_of_votes_with_seen_objects_decides(colors: list[str | None], satisfied: bool | None) -> None:
    assert grade(SAMPLE, [vote(seen=color) for color in colors]).satisfied is satisfied
