"""Rates of agreement, position bias and deciding tiers: by hand for single samples, over runs, with intervals."""

from itertools import product
from typing import Any

import pytest
from factories import image, judgment, outcome, rate_rows, scored

from tasks.records import Judgment, Order, Outcome
from tasks.statistics.rates import Asked, RateRow, agreement, difference, first_position

M, H, G, B = "Model", "Human", "Both are good", "Both are bad"
BOTH: tuple[Order, Order] = ("human_first", "model_first")


@pytest.mark.parametrize(
    ("human_first", "model_first", "expected"),
    [
        ([H], [M], 1.0), ([M], [H], 0.0), ([M], [M], 0.5), ([H, H, M], [M, G, G], 5 / 6), ([G], [M], 1.0),
        ([G], [B], None),
    ],
)  # fmt: skip
def test_first_position_of_a_sample(human_first: list[str], model_first: list[str], expected: float | None) -> None:
    assert first_position({"human_first": human_first, "model_first": model_first}) == pytest.approx(expected)


def test_first_position_needs_both_orders() -> None:
    assert first_position({"human_first": [H, H]}) is None


@pytest.mark.parametrize(
    ("votes", "expected"),
    [
        ({"human_first": [M, M, M]}, 1.0),
        ({"human_first": [M, M, H]}, 1 / 3),
        ({"human_first": [G, B]}, 0.0),
        ({"human_first": [M, M], "model_first": [H, M]}, 0.5),
        # Orders that differ are not votes that differ.
        ({"human_first": [M], "model_first": [H]}, None),
        ({"single": [7.0, 7.0]}, None),
    ],
)
def test_agreement_is_the_share_of_equal_vote_pairs(votes: Asked, expected: float | None) -> None:
    assert agreement(votes) == expected


@pytest.mark.parametrize(
    ("votes", "expected"),
    [({"single": [7.0, 9.0]}, 2.0), ({"single": [6.0, 7.0, 9.0]}, 2.0), ({"single": [7.0]}, None), ({}, None)],
)
def test_difference_is_the_mean_distance_of_score_pairs(votes: Asked, expected: float | None) -> None:
    assert difference(votes) == expected


def by_place(rows: list[RateRow]) -> dict[tuple[str, str], tuple[int, float | None]]:
    return {(row.measure, row.dimension): (row.n, row.value) for row in rows}


def votes_on(sample: str, dimension: str, order: Order, *verdicts: str | None, **changes: Any) -> list[Judgment]:
    return [
        judgment(sample, dimension, verdict, order=order, vote=vote, status="ok" if verdict else "refused", **changes)
        for vote, verdict in enumerate(verdicts, 1)
    ]


def test_overall_rate_is_the_mean_of_the_samples_means() -> None:
    judgments = [
        *votes_on("s1", "faithfulness", "human_first", M, M),
        *votes_on("s1", "aesthetics", "human_first", M, H),
        *votes_on("s2", "faithfulness", "human_first", G, G),
        *votes_on("s2", "aesthetics", "human_first", G, None),
    ]
    found = by_place(rate_rows([], judgments))
    assert found == {
        ("repeat_agreement", "faithfulness"): (2, 1.0), ("repeat_agreement", "aesthetics"): (1, 0.0),
        ("repeat_agreement", "overall"): (2, 0.75),
    }  # fmt: skip


def test_rates_use_last_attempts_and_ignore_controls() -> None:
    judgments = [
        *votes_on("s1", "faithfulness", "human_first", None, M),
        *votes_on("s1", "faithfulness", "human_first", M, attempt=2),
        *votes_on("s1", "faithfulness", "human_first", H, H, control="blank"),
        *votes_on("s9", "faithfulness", "human_first", H, M, control="blank"),
    ]
    assert by_place(rate_rows([], judgments))["repeat_agreement", "faithfulness"] == (1, 1.0)


def test_votes_on_checks_have_no_rate() -> None:
    scores = [{"aspect": "red", "score": 100.0, "explanation": "yes"}]
    votes = [judgment("s1", "together", None, order="single", vote=vote, scores=scores) for vote in (1, 2)]
    assert rate_rows([], votes) == []


def flipping(sample_id: str, *flips: bool | None, **changes: Any) -> Outcome:
    """Return an outcome whose orders differ on these dimensions; every flip is also a reversal."""
    made = outcome(sample_id, **changes)
    both = zip(made.dimensions, flips, strict=True)
    dimensions = tuple(each.model_copy(update={"order_flip": flip, "reversal": flip}) for each, flip in both)
    return made.model_copy(update={"dimensions": dimensions})


def test_flips_count_only_with_verdicts_in_both_orders() -> None:
    found = by_place(rate_rows([flipping("s1", True, False, False, None), flipping("s2", *[False] * 4)], []))
    assert found["order_flip", "faithfulness"] == found["reversal", "faithfulness"] == (2, 0.5)
    assert found["order_flip", "aesthetics"] == (1, 0.0)
    assert found["order_flip", "overall"] == (2, pytest.approx(1 / 6))


def test_deciding_tiers_count_only_complete_outcomes() -> None:
    rows = [
        outcome("s1", tier="tier 1", pivotal=("faithfulness", "readability")),
        outcome("s2", tier="tier 2", pivotal=()),
        outcome("s3", tier="either", pivotal=("faithfulness",)),
        outcome("s4", "----", None, status="forfeit"),
        outcome("s5", "-GGG", None, status="incomplete"),
        outcome("s6", "M-M-", tier="tier 1", pivotal=("faithfulness", "readability")),
    ]
    found = by_place(rate_rows(rows, []))
    assert found == {
        ("tier_1", "overall"): (3, pytest.approx(2 / 3)), ("pivotal", "overall"): (4, 0.75),
        ("pivotal", "faithfulness"): (4, 0.75), ("pivotal", "readability"): (4, 0.5),
        ("pivotal", "conciseness"): (4, 0.0), ("pivotal", "aesthetics"): (4, 0.0),
    }  # fmt: skip


def test_each_candidate_has_its_own_rates() -> None:
    rows = [flipping("s1", *[True] * 4), flipping("s1", *[False] * 4, candidate="beta")]
    rates = rate_rows(rows, [])
    found = [row for row in rates if (row.measure, row.dimension) == ("reversal", "overall")]
    assert [(row.candidate, row.value) for row in found] == [("alpha", 1.0), ("beta", 0.0)]


def test_images_of_a_prompt_count_once_on_their_own_scale() -> None:
    def votes(sample_id: str, *scores: float) -> list[Judgment]:
        return [
            judgment(sample_id, "counting", None, order="single", vote=vote, scores=scored(overall_score=score))
            for vote, score in enumerate(scores, 1)
        ]

    images = [image("00000/0000"), image("00000/0001"), image("00001/0000")]
    judgments = [*votes("00000/0000", 6, 9), *votes("00000/0001", 7, 8), *votes("00001/0000", 4, 4)]
    [rate] = rate_rows(images, judgments)
    assert (rate.dimension, rate.measure, rate.n, rate.value) == ("counting", "repeat_difference", 2, 1.0)


def test_first_position_of_an_unbiased_judge_is_one_half() -> None:
    """All ways to vote twice in each order, weighted by their probability for a judge that favors the Model 3:1."""
    chance = {M: 0.6, H: 0.2, G: 0.2}
    total = known = 0.0
    for votes in product(chance, repeat=4):
        weight = chance[votes[0]] * chance[votes[1]] * chance[votes[2]] * chance[votes[3]]
        value = first_position({"human_first": votes[:2], "model_first": votes[2:]})
        if value is not None:
            total, known = total + weight * value, known + weight
    assert total / known == pytest.approx(0.5)
