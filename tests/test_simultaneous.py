"""Differences of several candidates from the best: simultaneous intervals."""

import tracemalloc
from collections.abc import Mapping

import numpy as np
import pytest

from tasks.statistics.intervals import difference
from tasks.statistics.series import BesideBest, Measure, Series, beside_best

OVERALL, LOOKS, TEXT = Measure("overall"), Measure("aesthetics"), Measure("readability")


def scores(candidates: int, n: int, seed: int) -> dict[str, dict[str, float]]:
    """Return outcomes of equal candidates, correlated by figure."""
    random = np.random.default_rng(seed)
    quality = random.standard_normal((n, 1)) + random.standard_normal((n, candidates))
    found = np.select([quality > 1, quality > 0], [100.0, 50.0], 0.0)
    return {f"c{place}": {f"s{row}": float(found[row, place]) for row in range(n)} for place in range(candidates)}


def side(values: Mapping[Measure, Mapping[str, float]]) -> Series:
    return Series(values, {measure: {} for measure in values}, {}, 1.0)


def compare_with_best(sides: Mapping[str, Mapping[str, float]], best: str) -> dict[str, BesideBest]:
    found = beside_best({name: side({OVERALL: units}) for name, units in sides.items()}, best)
    return {name: its[OVERALL] for name, its in found.items()}


def test_two_candidates_get_the_plain_interval() -> None:
    sides = scores(2, 60, seed=1)
    units = sorted(sides["c0"])
    plain = difference([sides["c0"][unit] for unit in units], [sides["c1"][unit] for unit in units])
    assert compare_with_best(sides, "c0")["c1"].difference == plain.model_copy(update={"of": 60})


def test_third_candidate_equal_to_the_best_narrows_no_interval() -> None:
    best = dict(zip("abcdefgh", (10, 10, 5, 10, 10, 10, 5, 10), strict=True))
    sides = {"best": best, "low": dict(zip(best, (0, 5, 7.5, 2.5, 5, 5, 0, 5), strict=True))}
    plain = compare_with_best(sides, "best")["low"]
    assert compare_with_best({**sides, "same": best}, "best")["low"] == plain


def test_measure_without_a_value_is_compared_with_none() -> None:
    sides = {name: side({OVERALL: units, LOOKS: {}}) for name, units in scores(3, 20, seed=1).items()}
    found = beside_best(sides, "c0")["c1"]
    assert found[OVERALL].p is not None and (found[LOOKS].difference.n, found[LOOKS].p) == (0, None)


def test_equal_differences_have_the_p_of_the_sign_test() -> None:
    units = {f"s{number}": 50.0 for number in range(8)}
    [lower] = compare_with_best({"c0": units, "c1": dict.fromkeys(units, 49.0)}, "c0").values()
    same = compare_with_best({name: units for name in ("c0", "c1", "c2")}, "c0").values()
    assert lower.p == pytest.approx(2 / 2**8)
    assert [(each.p, each.difference.decision) for each in same] == [(None, "few differ")] * 2


def test_equal_candidates_are_seldom_called_worse_than_the_best() -> None:
    """Among ten equal candidates, plain intervals name a loser in more than half of the runs."""
    runs, adjusted, plain = 50, 0, 0
    for seed in range(runs):
        sides = scores(10, 50, seed)
        best = max(sides, key=lambda name: sum(sides[name].values()))
        first = [*sides[best].values()]
        adjusted += any(each.difference.decision == "worse" for each in compare_with_best(sides, best).values())
        plain += any(difference(first, [*own.values()]).decision == "worse" for own in sides.values())
    assert plain > 0.4 * runs and adjusted <= 0.09 * runs


def test_intervals_ignore_the_order_of_candidates_and_units() -> None:
    sides = scores(4, 80, seed=3)
    turned = {name: dict(reversed(units.items())) for name, units in reversed(sides.items())}
    assert compare_with_best(turned, "c0") == compare_with_best(sides, "c0")


def test_missing_units_reduce_only_their_own_pairs() -> None:
    sides = scores(3, 80, seed=4)
    sides["c2"] = dict([*sides["c2"].items()][:36])
    found = compare_with_best(sides, "c0")
    assert (found["c1"].difference.n, found["c2"].difference.n) == (80, 36)
    few = compare_with_best({**sides, "c2": dict([*sides["c2"].items()][:5])}, "c0")["c2"]
    assert (few.difference.decision, few.p) == ("too few", None)


@pytest.mark.parametrize("n", [292, 2_000])
def test_interval_width_matches_three_studentized_means(n: int) -> None:
    """1.19 times the plain width: the range of three studentized means (Tukey). 2,000 units use the limit's signs."""
    sides = scores(3, n, seed=5)
    pair = compare_with_best(sides, "c0")["c1"].difference
    plain = difference([*sides["c0"].values()], [*sides["c1"].values()])
    ends = [each for found in (pair, plain) for each in (found.ci_low, found.ci_high) if each is not None]
    assert (ends[1] - ends[0]) / (ends[3] - ends[2]) == pytest.approx(1.195, abs=0.025)


def test_secondary_measures_are_adjusted_for_their_number() -> None:
    same = scores(2, 60, seed=6)
    sides = {name: side(dict.fromkeys((OVERALL, LOOKS, TEXT), units)) for name, units in same.items()}
    found = beside_best(sides, "c0")["c1"]
    alone = found[OVERALL].p
    assert alone is not None and found[LOOKS].p == found[TEXT].p == pytest.approx(min(1, 2 * alone))


def test_memory_is_bounded_for_many_candidates() -> None:
    """All sums of 1,770 pairs at once would take 280 MB, those of 200 candidates 3 GB."""
    sides = scores(60, 20, seed=7)
    tracemalloc.start()
    compare_with_best(sides, "c0")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150e6
