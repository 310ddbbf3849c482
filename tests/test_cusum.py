"""The sum over nights: when a series has dropped and is back, what scale it is measured on, and how rarely it errs."""

import numpy as np
import pytest
from numpy.typing import NDArray
from simulate_alarm import SAME, decline, quiet, raised, simulate, step

from tasks.statistics.cusum import BACK, BASELINE, LIMIT, Night, limit_of, watch

UNITS, MOST = 100, 100.0
OTHERS = [0, 1, -1] * BASELINE


def nights(*levels: float, units: int = UNITS) -> NDArray[np.float64]:
    """Nights with these mean scores, in which units go up and down by chance: by 20 points each, 2 points together."""
    random = np.random.default_rng(7)
    noise = random.normal(0, 20, (len(levels), units))
    return 50 + noise - noise.mean(axis=1, keepdims=True) + np.asarray(levels)[:, None]


def baseline(*after: float, first: int = BASELINE) -> list[Night]:
    """A baseline of so many nights that differ by a point, at the most, and nights after it."""
    return watch(nights(*OTHERS[:first], *after), MOST)


def test_a_drop_is_raised_when_the_sum_passes_its_limit_and_began_when_the_sum_did() -> None:
    found = baseline(0, 2, -6, -6, -6, -6)
    assert [night.phase for night in found] == ["baseline"] * BASELINE + ["watched"] * 6
    assert [night.raised for night in found[BASELINE:]] == [None, None, None, None, 18, 18]
    assert {night.since for night in found[18:]} == {16}
    before, now = found[17], found[18]
    assert before.sum <= LIMIT < now.sum == pytest.approx(sum(-each.change / each.scale - 0.5 for each in found[16:19]))  # type: ignore[operator]
    assert now.scale == pytest.approx(2.0, rel=0.05) and now.change == pytest.approx(-6.0, abs=0.1)
    assert now.baseline == pytest.approx(50.0, abs=0.1)


def test_a_rise_is_no_drop() -> None:
    assert raised(baseline(*[20.0] * 10)) == []


def test_a_drop_ends_after_three_nights_in_a_row_near_the_baseline_and_the_next_one_is_another() -> None:
    found = baseline(-20, -20, 0, 0, -20, *[0] * BACK, 0, -20)
    assert [night.raised for night in found[BASELINE:]] == [14, 14, 14, 14, 14, 14, 14, None, None, 23]


def test_a_slow_decline_stays_one_drop() -> None:
    found = baseline(*-0.5 * np.arange(1, 40))
    assert len(raised(found)) == 1 and found[-1].raised is not None


def test_the_baseline_is_frozen() -> None:
    one, other = baseline(*[3.0] * 30), baseline(*[-1.0] * 30)
    assert one[-1].baseline == other[-1].baseline


def test_before_the_baseline_is_whole_two_low_nights_in_a_row_are_a_drop_and_no_part_of_it() -> None:
    found = baseline(-20, 0, -20, -20, -20, first=5)
    assert [night.raised for night in found[5:]] == [None, None, None, 8, 8]
    assert found[-1].since == 7 and found[-1].baseline == pytest.approx(50 - 20 / 7, abs=0.5)
    assert [night.phase for night in found[5:]] == ["watched", "baseline", "watched", "watched", "watched"]


def test_after_an_early_drop_the_baseline_is_filled_up() -> None:
    found = baseline(-20, -20, *[0] * BACK, *[0] * BASELINE, first=5)
    assert [night.phase for night in found].count("baseline") == BASELINE


def test_one_outlier_neither_moves_the_baseline_nor_blinds_it() -> None:
    levels = [float(level) for level in OTHERS[:BASELINE]]
    levels[10] = -40.0
    found = watch(nights(*levels, *[-6.0] * 6), MOST)
    assert found[-1].raised is not None and found[-1].scale == pytest.approx(2.0, rel=0.3)


def test_nights_that_scatter_more_than_their_units_explain_set_the_scale() -> None:
    found = watch(nights(*[8.0 * level for level in OTHERS[:BASELINE]], -6, -6, -6), MOST)
    assert found[-1].raised is None and found[-1].scale == pytest.approx(6.7, rel=0.1)


def test_what_the_same_units_have_in_common_is_no_noise() -> None:
    """Half of the units score 0 and the others 100, always: the scale is that of what changes."""
    apart = nights(*OTHERS[:BASELINE], 0) / 2 + np.repeat([0.0, 50.0], UNITS // 2)
    assert watch(apart, MOST)[-1].scale == pytest.approx(1.0, rel=0.1)


def test_a_judge_that_always_repeats_itself_is_measured_in_halves_of_a_unit() -> None:
    same = np.tile(np.repeat([0.0, 100.0], 50), (BASELINE + 6, 1))
    same[-6:, -3:] = 0.0
    found = watch(same, MOST)
    assert (found[-1].scale, found[-1].change) == (0.5, -3.0) and raised(found) == [BASELINE + 1]
    assert raised(watch(same[: BASELINE + 1], MOST)) == []


def test_units_without_a_score_shift_nothing_and_make_a_night_less_sure() -> None:
    scores = nights(*OTHERS[:BASELINE], 0) + np.linspace(-40, 40, UNITS)
    scores[-1, -15:] = np.nan
    night = watch(scores, MOST)[-1]
    assert night.phase == "watched" and night.change == pytest.approx(0.0, abs=1.5)
    assert np.nanmean(scores[-1]) < 45
    whole = watch(scores[:-1], MOST)
    assert night.scale == pytest.approx(watch(np.r_[scores[:-1], scores[:1]], MOST)[-1].scale * (100 / 85) ** 0.5)  # type: ignore[operator]
    assert len(whole) == BASELINE


def test_a_night_of_which_too_little_was_scored_changes_nothing() -> None:
    scores = nights(*OTHERS[:BASELINE], -20, -20, -20, -20)
    scores[15, :21] = np.nan
    found = watch(scores, MOST)
    assert found[15].phase == "left out" and found[15].raised == 14
    scores[:BASELINE, :21] = np.nan
    assert {night.phase for night in watch(scores, MOST)[:BASELINE]} == {"left out"}


def test_a_limit_grows_with_the_nights_of_its_sum() -> None:
    limits = [limit_of(number) for number in (0, 1, 3, 4, 20, 37)]
    assert limits[:3] == [LIMIT] * 3 and limits == sorted(limits) and limits[-1] == pytest.approx(LIMIT * 3**0.5)


def test_few_units_or_one_night_raise_nothing() -> None:
    assert watch(np.empty((0, 5)), MOST) == []
    assert [night.phase for night in watch(np.empty((2, 0)), MOST)] == ["left out"] * 2
    assert watch(np.array([[50.0]]), MOST)[0].phase == "baseline"
    assert raised(watch(np.array([[50.0, 60.0], [0.0, 0.0], [0.0, 0.0]]), MOST)) == []


def test_quiet_nights_raise_few_alarms_and_drops_are_found() -> None:
    """Small, and with bounds that hold by far: `simulate_alarm.py` has the figures."""
    judge = SAME["same figures, a noisy judge"]
    random = np.random.default_rng(11)
    assert simulate(judge._replace(scatter=1.3), random, 40, quiet()).alarms <= 0.4
    found = simulate(judge, random, 30, step(5.0)).by_night
    assert found[2] >= 0.75 and found[6] >= 0.9
    assert simulate(judge, random, 20, decline(0.2)).by_night[29] >= 0.85
