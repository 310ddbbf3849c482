"""Which samples become anchors: a share of each category, one of each reference, and the same each time."""

import random
from collections import Counter

from tasks.anchors.choosing import in_turn
from tasks.records import PictureSource, Place, Sample


def sample(number: int, category: str = "", candidate: str = "alpha", **changes: object) -> Sample:
    pictures = {"human": PictureSource(), "model": PictureSource()}
    made = {"sample_id": f"s{number}", "record": Place(path="test.json"), "pictures": pictures, **changes}
    return Sample(candidate=candidate, category=category, **made)  # pyright: ignore


def test_however_many_are_taken_each_category_has_its_share_of_them() -> None:
    samples = [sample(n, "vision" if n < 200 else "agent" if n < 280 else "rare") for n in range(292)]
    turn = in_turn(samples)
    assert len(turn) == len({each.sample_id for each in turn}) == 292
    for taken in (20, 40, 100):
        counts = Counter(each.category for each in turn[:taken])
        assert all(
            abs(counts[name] - taken * n / 292) <= 1 for name, n in (("vision", 200), ("agent", 80), ("rare", 12))
        )


def test_they_are_the_same_whatever_the_order_of_the_dataset_and_no_two_of_one_reference() -> None:
    figures = [sample(n, "ab"[n % 2], candidate) for n in range(50) for candidate in ("alpha", "beta")]
    images = [sample(n, tag="counting", prompt_id=f"p{n // 4}") for n in range(80)]
    for samples, references in ((figures, 50), (images, 20)):
        turn = in_turn(samples)
        assert len(turn) == references
        shuffled = random.Random(1).sample(samples, len(samples))
        assert in_turn(shuffled) == turn
    assert {each.candidate for each in in_turn(figures)} == {"alpha", "beta"}
    others = [sample(n, "ab"[n % 2], "gamma") for n in range(50)]
    assert [each.sample_id for each in in_turn(others)] == [each.sample_id for each in in_turn(figures)]


def test_a_sample_whose_picture_is_missing_is_none() -> None:
    missing = {"human": PictureSource(), "model": PictureSource(problem="no picture: it is not there")}
    assert [each.sample_id for each in in_turn([sample(1), sample(2, pictures=missing)])] == ["s1"]
