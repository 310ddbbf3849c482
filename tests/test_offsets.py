"""Decisions on a shift between two judges: the three outcomes, their limits, and the interval's coverage."""

import pytest
from simulate_bridge import WORLDS, bridges, image_bridges, watched

from tasks.statistics.intervals import CANNOT_TELL, CONTINUED, WITH_OFFSET, decide_offset, offset, samples_for


@pytest.mark.parametrize(
    ("low", "high", "decision"),
    [
        (-1.0, 2.0, CONTINUED),
        (-3.0, 3.0, CONTINUED),
        (0.5, 2.9, CONTINUED),  # not 0, but certainly below the margin
        (-3.1, 2.0, WITH_OFFSET),
        (3.0, 9.0, WITH_OFFSET),
        (3.0, 9.1, CANNOT_TELL),
        (-40.0, 40.0, CANNOT_TELL),
        (None, None, CANNOT_TELL),
    ],
)
def test_decision_follows_from_the_interval(low: float | None, high: float | None, decision: str) -> None:
    assert decide_offset(low, high, 3.0) == decision


def test_number_of_samples_needed_for_a_decision() -> None:
    assert samples_for(100, -6.0, 6.0, 3.0) == 400
    assert samples_for(292, 1.0, 7.7, 3.0) == 370  # 364.2, rounded up to two digits
    assert samples_for(30, -60.0, 60.0, 3.0) == 12_000
    assert samples_for(100, -3.0, 3.0, 3.0) is None and samples_for(7, None, None, 3.0) is None


def test_equal_judges_continue_and_a_stricter_one_gets_an_offset() -> None:
    scores = [0.0, 50.0, 100.0] * 100
    same = offset(scores, scores)
    assert (same.shift, same.decision, same.enough) == (0.0, CONTINUED, None)
    assert same.ci_low is not None and same.ci_high is not None and same.ci_low < 0 < same.ci_high
    stricter = offset(scores, [max(0.0, each - 50) if place % 4 == 0 else each for place, each in enumerate(scores)])
    assert stricter.decision == WITH_OFFSET and stricter.shift == pytest.approx(-2500 / 300, abs=0.1)
    few = offset(scores[:30], scores[:30])
    assert few.decision == CANNOT_TELL and few.enough and few.enough > 30


def test_margin_uses_the_scale_of_the_scores() -> None:
    images = offset([5.0] * 100 + [7.0] * 100, [5.1] * 100 + [7.3] * 100, highest=10.0)
    assert images.margin == pytest.approx(0.3) and images.decision == CONTINUED
    assert offset([5.0] * 100 + [7.0] * 100, [5.1] * 100 + [7.3] * 100, 10.0, 1.0).decision == WITH_OFFSET
    assert offset([], []).decision == CANNOT_TELL


@pytest.mark.parametrize("world", WORLDS[:3])
def test_interval_covers_a_planted_shift(world: object) -> None:
    """A small part of `simulate_bridge`, seeded for equal results each time."""
    seen = watched(bridges(world, 120, 5.0, 7), 5.0, 100)  # type: ignore
    assert seen.inside >= 0.93
    assert seen.decisions[CONTINUED] == 0


def test_interval_covers_a_planted_shift_of_image_scores() -> None:
    seen = watched(image_bridges(80, 0.5, 7), 0.5, 300)
    assert seen.inside >= 0.93 and seen.decisions[WITH_OFFSET] >= 295
