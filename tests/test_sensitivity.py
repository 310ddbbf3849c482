"""What an outcome hangs on: chances worked out by hand, and the verdicts that would turn it."""

from itertools import product

import pytest

from tasks.kinds.sensitivity import chances, pivotal
from tasks.kinds.tier_rule import overall
from tasks.kinds.values import Chances
from tasks.records import VERDICTS, Order
from tasks.rubrics.rubric import Rubric, load_rubric

M, H, G, B, X = "Model", "Human", "Both are good", "Both are bad", "Mixed"
ASKED = ("faithfulness", "readability", "conciseness", "aesthetics")
"""Tier 1, then tier 2."""
MIRROR = {M: H, H: M}


def likely(rubric: Rubric, *votes: list[str | None], verdicts: tuple[str | None, ...] = ()) -> Chances | None:
    """Chances from the votes with the Human figure first; each dimension's verdict is its first unless given."""
    cast: dict[str, dict[Order, list[str | None]]] = {
        name: {"human_first": found} for name, found in zip(ASKED, votes, strict=True)
    }
    merged = verdicts or tuple(found[0] for found in votes)
    return chances(cast, dict(zip(ASKED, merged, strict=True)), rubric)


@pytest.mark.parametrize(
    ("votes", "expected"),
    [
        # One vote each leaves nothing open.
        (([M], [G], [H], [H]), (1, 0, 0)),
        (([G], [G], [M], [H]), (0, 1, 0)),
        # Faithfulness M or H, readability neutral: tier 1 goes with faithfulness.
        (([M, H], [G], [M], [M]), (0.5, 0, 0.5)),
        # M or H against M: won, or a tie that tier 2 decides, here as a tie.
        (([M, H], [M], [G], [B]), (0.5, 0.5, 0)),
        # Three of four votes for M in both dimensions of tier 1, else neutral: a tie takes two neutrals.
        (([M, M, M, G], [M, M, M, B], [H], [H]), (15 / 16, 0, 1 / 16)),
        # A vote that is not ok says nothing.
        (([M, None, H], [G], [G], [G]), (0.5, 0, 0.5)),
        # Four questions of M, H or neutral alike: 1/3 each, a tier is won with 1/9 + 2/9 and tied with 1/3.
        (([M, H, G],) * 4, (4 / 9, 1 / 9, 4 / 9)),
    ],
)  # fmt: skip
def test_chances_worked_out_by_hand(diagram: Rubric, votes: tuple[list[str | None], ...], expected: object) -> None:
    assert likely(diagram, *votes) == expected


def test_both_orders_weigh_alike_whatever_the_number_of_their_ok_votes(diagram: Rubric) -> None:
    neutral: dict[Order, list[str | None]] = {"human_first": [G], "model_first": [G]}
    cast = {
        "faithfulness": {"human_first": [H, H, H], "model_first": [M, None, None]},
        **dict.fromkeys(ASKED[1:], neutral),
    }
    assert chances(cast, {**dict.fromkeys(ASKED, G), "faithfulness": X}, diagram) == (0.5, 0, 0.5)


def test_one_order_is_drawn_for_all_dimensions(diagram: Rubric) -> None:
    """A judge that names the figure shown first says so everywhere at once; orders drawn apart would tie a half."""
    first_shown: dict[Order, list[str | None]] = {"human_first": [H], "model_first": [M]}
    assert chances(dict.fromkeys(ASKED, first_shown), dict.fromkeys(ASKED, X), diagram) == (0.5, 0, 0.5)


def test_votes_mirrored_give_mirrored_chances(diagram: Rubric) -> None:
    pairs = [[M, M, H], [M, G, B], [H, B, B], [M, H, G]]
    for votes in product(pairs, repeat=4):
        mirrored = likely(diagram, *([MIRROR.get(vote, vote) for vote in each] for each in votes))
        model, tie, human = likely(diagram, *map(list, votes)) or (None, None, None)
        assert mirrored == (human, tie, model)


def test_plot_faithfulness_makes_the_human_likelier(plot: Rubric) -> None:
    """Every allowed verdict alike: 31, 18 and 79 of 128."""
    every = [list(plot.prompt(name).verdicts) for name in ASKED]
    assert likely(plot, *every) == (31 / 128, 18 / 128, 79 / 128)


def test_a_missing_verdict_leaves_chances_only_where_no_draw_needs_it(diagram: Rubric) -> None:
    # Tier 1 is settled by any draw, so what tier 2 lacks is not needed.
    assert likely(diagram, [M, G], [M], [None], [H]) == (1, 0, 0)
    assert likely(diagram, [M, G], [G], [None], [H]) is None


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        # Tier 1: M against a neutral. H on readability would tie it, and tier 2 says Model too: not pivotal.
        ((M, G, M, M), ("faithfulness",)),
        # The same with a tier 2 that says Human: now readability can turn it.
        ((M, G, H, H), ("faithfulness", "readability")),
        # Both say M and tier 2 too: one H leaves a tie, then Model; no single verdict turns it.
        ((M, M, M, G), ()),
        ((M, M, H, G), ("faithfulness", "readability")),
        # A tie in tier 1 and in tier 2: everything can turn it.
        ((G, B, G, B), ASKED),
        ((X, X, X, X), ASKED),
        # Opposite winners in both tiers: any of the four that gives way.
        ((M, H, M, H), ASKED),
        # Tier 2 is won by two: neither of them alone would lose it, only tie it.
        ((G, G, M, M), ASKED),
        # Nothing to turn without an outcome.
        ((M, None, H, H), ()),
        # The outcome stands without tier 2; without either of tier 1 it would not.
        ((H, G, None, None), ("faithfulness", "readability")),
    ],
)  # fmt: skip
def test_pivotal_dimensions(diagram: Rubric, verdicts: tuple[str | None, ...], expected: tuple[str, ...]) -> None:
    assert set(pivotal(dict(zip(ASKED, verdicts, strict=True)), diagram)) == set(expected)


@pytest.mark.parametrize("flow", ["diagram", "plot"])
def test_an_outcome_with_a_verdict_missing_always_hangs_on_another(flow: str) -> None:
    rubric = load_rubric(flow)
    found = [dict(zip(ASKED, said, strict=True)) for said in product((M, H, G, None), repeat=4) if None in said]
    decided = [verdicts for verdicts in found if overall(verdicts, rubric).outcome]
    assert decided and all(pivotal(verdicts, rubric) for verdicts in decided)


def test_only_allowed_verdicts_can_turn_an_outcome(plot: Rubric, diagram: Rubric) -> None:
    # Faithfulness Human decides. Were it Model, it would turn; but on plots it can only be Human or Both are good,
    # and then readability and tier 2 say Human still.
    verdicts = dict(zip(ASKED, (H, H, M, M), strict=True))
    assert "faithfulness" in pivotal(verdicts, diagram)
    assert "faithfulness" not in pivotal(verdicts, plot)


def test_mirrored_verdicts_hang_on_the_same_dimensions(diagram: Rubric) -> None:
    for verdicts in product(VERDICTS, repeat=4):
        mirrored = (MIRROR.get(verdict, verdict) for verdict in verdicts)
        assert pivotal(dict(zip(ASKED, verdicts, strict=True)), diagram) == pivotal(
            dict(zip(ASKED, mirrored, strict=True)), diagram
        )
