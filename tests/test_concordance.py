"""Agreement of two raters: values against published tables and scipy, intervals, and what is left undefined."""

import numpy as np
import pytest
from scipy.stats import kendalltau

from tasks.statistics.concordance import Pairs, Statistic, kappa, paired, quadratic_kappa, raw_agreement, tau_b


def table(*rows: list[int]) -> Pairs:
    """Pairs of a table of counts, each pair a sample of its own."""
    cells = [(a, b) for a, row in enumerate(rows) for b, n in enumerate(row) for _ in range(n)]
    return each_alone([a for a, _ in cells], [b for _, b in cells])


def each_alone(first: list[float], second: list[float]) -> Pairs:
    return paired(first, second, [f"s{n}" for n in range(len(first))])


# Values


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([[20, 5], [10, 15]], 0.4),
        ([[45, 15], [25, 15]], 6 / 46),
        ([[0, 10], [10, 0]], -1.0),
        ([[25, 25], [25, 25]], 0.0),
        # Cohen (1960), two psychologists and 200 patients: 0.70 agree, 0.41 would by chance.
        ([[88, 14, 18], [10, 40, 10], [2, 6, 12]], 0.29 / 0.59),
    ],
)
def test_kappa_is_that_of_published_and_hand_made_tables(counts: list[list[int]], expected: float) -> None:
    assert kappa(table(*counts)).value == pytest.approx(expected)


def test_quadratic_kappa_is_the_concordance_of_the_scores() -> None:
    # By hand: covariance 1.625, variances 1.25 and 2.1875, means 0.25 apart: 2 * 1.625 / (1.25 + 2.1875 + 0.0625).
    assert quadratic_kappa(each_alone([1, 2, 3, 4], [1, 2, 3, 5])).value == pytest.approx(13 / 14)
    assert quadratic_kappa(each_alone([0.5, 2.5], [2.5, 0.5])).value == pytest.approx(-1)


def test_quadratic_kappa_of_categories_is_that_of_the_table_with_quadratic_weights() -> None:
    counts = np.array([[5, 3, 1], [2, 8, 4], [0, 3, 9]])
    weights = np.subtract.outer(np.arange(3), np.arange(3)) ** 2
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    by_table = 1 - (weights * counts).sum() / (weights * expected).sum()
    assert quadratic_kappa(table(*counts.tolist())).value == pytest.approx(by_table)


@pytest.mark.parametrize("levels", [2, 3, 11, 1000])
@pytest.mark.parametrize("n", [5, 50, 300])
def test_tau_is_scipys_tau_b(levels: int, n: int) -> None:
    random = np.random.default_rng(levels * n)
    first = random.integers(0, levels, n)
    second = np.where(random.random(n) < 0.5, first, random.integers(0, levels, n))
    assert tau_b(each_alone([*first], [*second])).value == pytest.approx(kendalltau(first, second).statistic)


def test_raw_agreement_counts_what_is_near_enough() -> None:
    pairs = each_alone([1, 2, 3, 4], [1, 3, 3, 9])
    assert raw_agreement(pairs).value == 0.5
    assert raw_agreement(pairs, within=1).value == 0.75


# Intervals


def test_the_interval_is_near_that_of_the_normal_approximation() -> None:
    # Cohen's standard error: sqrt(0.6 * 0.4 / 100) / (1 - 0.54) = 0.1065 around 6/46.
    found = kappa(table([45, 15], [25, 15]))
    assert (found.ci_low, found.ci_high) == pytest.approx((-0.078, 0.339), abs=0.03)


def test_the_same_answers_give_the_same_interval() -> None:
    assert tau_b(table([9, 4], [3, 8])) == tau_b(table([9, 4], [3, 8]))


def test_images_of_one_prompt_are_drawn_together_so_that_copies_make_nothing_surer() -> None:
    first, second = [1, 2, 3, 4, 5, 6, 7, 8, 9, 9] * 5, [2, 2, 1, 5, 5, 9, 6, 8, 9, 7] * 5
    names = [str(n) for n in range(50)]
    once, fourfold = paired(first, second, names), paired(first * 4, second * 4, names * 4)
    for measure in (raw_agreement, quadratic_kappa, tau_b):
        one, four = measure(once), measure(fourfold)
        assert [four.value, four.ci_low, four.ci_high] == pytest.approx([one.value, one.ci_low, one.ci_high])
        assert one.ci_low is not None


def test_below_fifty_samples_there_is_a_value_and_no_interval() -> None:
    found = raw_agreement(each_alone([1] * 49, [1] * 48 + [2]))
    assert found == Statistic(value=48 / 49, why="no interval below 50 samples")
    assert raw_agreement(each_alone([1] * 50, [1] * 49 + [2])).ci_low is not None


def test_perfect_agreement_is_not_called_certain() -> None:
    pairs = each_alone([1, 2] * 25, [1, 2] * 25)
    raw = raw_agreement(pairs)
    assert (raw.value, raw.ci_low, raw.ci_high) == (1, pytest.approx(0.025 ** (1 / 50)), 1)
    for found in (kappa(pairs), quadratic_kappa(pairs), tau_b(pairs)):
        assert found.value == 1
        assert found.ci_low is None
        assert found.why.startswith("no interval: resampling cannot tell")


# What is undefined


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ([1] * 10, [1] * 10, "undefined: A and B always the same"),
        ([1] * 10, [1, 2] * 5, "undefined: A always the same"),
        ([1, 2] * 5, [1] * 10, "undefined: B always the same"),
        ([], [], "nothing paired"),
    ],
)
def test_a_rater_with_one_answer_has_no_kappa_and_no_tau(first: list[float], second: list[float], why: str) -> None:
    pairs = each_alone(first, second)
    assert kappa(pairs) == quadratic_kappa(pairs) == tau_b(pairs) == Statistic(value=None, why=why)


def test_a_single_different_answer_is_too_few_for_an_interval() -> None:
    # A third of all resamples miss it, and in those kappa is undefined.
    found = kappa(each_alone([1] * 49 + [2], [1] * 49 + [2]))
    assert found == Statistic(value=1.0, why="no interval: too few different answers")
