"""Scores corrected by people: what they come to, and that their intervals cover the truth."""

import numpy as np
import pytest
from simulate_labels import HARD, WORLDS, simulate

from tasks.statistics.people import FEWEST, FIXED, TUNED_FROM, corrected


def test_below_15_labels_nothing_is_corrected() -> None:
    judge = [100.0, 0.0] * 50
    assert corrected(judge, judge[:14], judge[:14]) is None
    assert corrected(judge, judge[:FEWEST], judge[:FEWEST])


def test_a_judge_that_is_too_kind_is_brought_down_by_what_people_say() -> None:
    judge = [100.0] * 60 + [0.0] * 40
    people = [0.0] * 6 + [100.0] * 12 + [0.0] * 12
    found = corrected(judge, [100.0] * 18 + [0.0] * 12, people)
    assert found
    # 12 of 30 win in the eyes of people; the judge's 60% among the drawn is its 60% of all, and so moves nothing.
    assert found.value == pytest.approx(40) and found.weight == FIXED
    assert found.ci_low < 40 < found.ci_high < 60


def test_where_the_drawn_were_luckier_than_the_rest_the_judge_s_word_on_all_counts_by_its_weight() -> None:
    found = corrected([100.0] * 50 + [0.0] * 50, [100.0] * 20 + [0.0] * 10, [100.0] * 20 + [0.0] * 10)
    assert found and found.value == pytest.approx(100 * 20 / 30 - FIXED * (100 * 20 / 30 - 50))


def test_what_was_not_delivered_scores_nothing_whoever_judges() -> None:
    judge, drawn = [100.0] * 45 + [50.0] * 45, [100.0] * 15 + [50.0] * 15
    whole, part = corrected(judge, drawn, drawn), corrected(judge, drawn, drawn, zeros=10)
    assert whole and part and part.value == pytest.approx(0.9 * whole.value) and part.ci_high < whole.ci_high


def test_labels_that_are_all_equal_leave_room_for_others() -> None:
    found = corrected([0.0] * 100, [0.0] * 30, [0.0] * 30)
    assert found and (found.value, found.ci_low) == (0.0, 0.0) and 5 < found.ci_high < 20
    # Also where the judge's scores differ: that nobody said Model 30 times leaves 11.6% of it possible.
    mixed = corrected([100.0, 0.0] * 20, [100.0, 0.0] * 15, [0.0] * 30)
    assert mixed and mixed.value == 0.0 and mixed.ci_high == pytest.approx(11.57, abs=0.01)


def test_many_labels_choose_the_weight_themselves() -> None:
    random = np.random.default_rng(1)
    judge = random.choice([0.0, 50.0, 100.0], 400)
    noise = random.choice([0.0, 50.0, 100.0], 400)
    near, far = (corrected(list(judge), list(judge[:TUNED_FROM]), list(said[:TUNED_FROM])) for said in (judge, noise))
    assert near and far and near.weight > 0.9 and far.weight < 0.2
    assert near.ci_high - near.ci_low < far.ci_high - far.ci_low


@pytest.mark.parametrize(("labels", "least"), [(15, 0.9), (30, 0.93), (60, 0.93)])
def test_intervals_cover_the_truth_of_a_judge_that_is_ten_points_too_kind(labels: int, least: float) -> None:
    for world in (WORLDS[1], HARD[1]):
        found = simulate(world, labels, runs=200)
        assert found.covered >= least - 0.05  # three standard errors of 200 runs; `make simulate-labels` has 1,000
        assert found.width < found.people_width and found.judge_covered < 0.2 and abs(found.bias) < 2.5
