"""The tier rule as a table: single cases, counts over all possible answers, votes, orders, pivotal dimensions."""

from collections import Counter
from itertools import product
from typing import Any

import pytest
from factories import judgment

from tasks.protocols.figures.tier_rule import (
    Overall,
    decide,
    merge_orders,
    merge_votes,
    overall,
    pivotal,
    tier,
    undecided,
)
from tasks.records import VERDICTS, Judgment, Order
from tasks.rubrics.rubric import Rubric
from tasks.statistics.scores import verdict_score

M, H, G, B, X = "Model", "Human", "Both are good", "Both are bad", "Mixed"
ASKED = ("faithfulness", "readability", "conciseness", "aesthetics")
"""The dimensions of tier 1, then of tier 2."""


def combine(rubric: Rubric, *verdicts: str | None) -> Overall:
    return overall(dict(zip(ASKED, verdicts, strict=True)), rubric)


def test_tier_rule_equals_the_published_one_in_all_256_cases(diagram: Rubric) -> None:
    def published(*verdicts: str) -> str:
        named = set(verdicts) & {M, H}
        return named.pop() if len(named) == 1 else "Tie"

    for answers in product(VERDICTS, repeat=4):
        first = published(*answers[:2])
        assert combine(diagram, *answers).outcome == (published(*answers[2:]) if first == "Tie" else first)


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ((M,), M), ((H,), H), ((G,), "Tie"), ((X,), "Tie"), ((M, X), M), ((H, X), H), ((G, X), "Tie"), ((X, X), "Tie"),
        ((M, M, H), M), ((M, H, H), H), ((M, G, X), M), ((M, H, B), "Tie"), ((G, B, X), "Tie"),
        ((M, M, H, H), "Tie"), ((M, M, H, G), M), ((H, G, G, G), H), ((M, M, M, H, H), M), ((H, H, H, M, B), H),
    ],
)  # fmt: skip
def test_tier_of_any_size_goes_to_the_majority(verdicts: tuple[str, ...], expected: str) -> None:
    assert tier(*verdicts) == expected == tier(*reversed(verdicts))


def test_outcome_counts_over_all_answers(diagram: Rubric, plot: Rubric) -> None:
    found = Counter(combine(diagram, *answers).outcome for answers in product(VERDICTS, repeat=4))
    assert found == {M: 110, H: 110, "Tie": 36}
    allowed = [plot.prompt(name).verdicts for name in ASKED]
    assert Counter(combine(plot, *answers).outcome for answers in product(*allowed)) == {M: 31, H: 79, "Tie": 18}


@pytest.mark.parametrize(
    ("answers", "outcome", "deciding"),
    [
        # A missing verdict is not neutral: beside M the tier is Model or Tie, and tier 2 would be Human.
        ((M, None, H, H), None, ""),
        # Whatever the readability verdict, the Model cannot lose tier 1, and tier 2 is Model, too.
        ((M, None, M, G), M, "either"),
        ((None, None, None, None), None, ""),
    ],
)
def test_missing_verdicts_allow_an_outcome_only_if_they_cannot_change_it(
    diagram: Rubric, answers: tuple[str | None, ...], outcome: str | None, deciding: str
) -> None:
    result = combine(diagram, *answers)
    assert (result.outcome, result.tier) == (outcome, deciding)


def test_path_describes_the_decision(diagram: Rubric) -> None:
    path = combine(diagram, M, H, G, M).path
    assert path == (
        "tier 1: faithfulness Model, readability Human -> Tie; "
        "tier 2: conciseness Both are good, aesthetics Model -> Model"
    )
    assert "readability missing" in combine(diagram, M, None, M, G).path


@pytest.mark.parametrize(
    ("votes", "expected"),
    [
        ([M], M),
        ([None], None),
        ([M, M, H], M),
        ([M, H, G], X),
        ([G, B, G], G),
        ([G, B, M], X),  # neutral has the majority, good and bad are level
        ([G, G, B, M, M], G),  # neutral has the majority, good leads in it
        ([M, M, H, G], M),  # not more than half, but more than the others
        ([M, M, G, B], X),  # Model and neutral are level
        ([M, None, M], M),
        ([M, None], M),  # half of the votes are ok
        ([M, None, None], None),  # fewer than half are ok
        ([], None),
    ],
)
def test_votes_of_one_order(votes: list[str | None], expected: str | None) -> None:
    assert merge_votes(votes) == expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (M, M, (M, False, False)), (M, H, (X, True, True)), (M, G, (X, True, False)), (G, B, (X, True, False)),
        (X, X, (X, False, False)), (M, None, (None, None, None)),
    ],
)  # fmt: skip
def test_two_orders(first: str, second: str | None, expected: tuple[str | None, bool | None, bool | None]) -> None:
    assert merge_orders({"human_first": first, "model_first": second}) == expected
    assert merge_orders({"human_first": first}) == (first, None, None), "a single order has no flip"


def test_scores_of_verdicts() -> None:
    assert [verdict_score(each) for each in (M, "Tie", G, B, X, H, None)] == [100, 50, 50, 50, 50, 0, None]


def judgment_on(dimension: str, verdict: str | None, **changes: Any) -> Judgment:
    return judgment(dimension=dimension, verdict=verdict, status="ok" if verdict else "unavailable", **changes)


def test_last_attempt_counts(diagram: Rubric) -> None:
    rows = [judgment_on(name, G) for name in ("readability", "conciseness", "aesthetics")]
    rows += [judgment_on("faithfulness", M, attempt=2), judgment_on("faithfulness", None, attempt=1)]
    decision = decide(rows, diagram, ("human_first",), 1)
    assert (decision.status, decision.overall, decision.score) == ("complete", M, 100)


def test_sample_with_a_deciding_verdict_missing_is_incomplete(diagram: Rubric) -> None:
    rows = [judgment_on(name, G) for name in ("faithfulness", "readability", "conciseness")]
    decision = decide([*rows, judgment_on("aesthetics", None)], diagram, ("human_first",), 1)
    assert (decision.status, decision.overall, decision.score) == ("incomplete", None, None)
    assert [each.score for each in decision.dimensions if each.dimension != "aesthetics"] == [50, 50, 50]


def test_disagreeing_orders_give_mixed_and_a_flip(diagram: Rubric) -> None:
    orders: tuple[Order, ...] = ("human_first", "model_first")
    rows = [judgment_on(name, H if (name, order) == ("aesthetics", orders[1]) else M, order=order)
            for name in ASKED for order in orders]  # fmt: skip
    decision = decide(rows, diagram, orders, 1)
    aesthetics = next(each for each in decision.dimensions if each.dimension == "aesthetics")
    assert (aesthetics.verdict, aesthetics.order_flip, aesthetics.reversal, aesthetics.score) == (X, True, True, 50)
    assert decision.overall == M


def test_votes_are_counted_over_both_orders_together(diagram: Rubric) -> None:
    cast = {("human_first", 1): H, ("human_first", 2): M, ("human_first", 3): M, ("model_first", 1): M}
    rows = [judgment_on("faithfulness", verdict, order=order, vote=vote) for (order, vote), verdict in cast.items()]
    decision = decide(rows, diagram, ("human_first", "model_first"), 3)
    assert decision.dimensions[0].human_first == M
    assert (decision.dimensions[0].votes, decision.dimensions[0].ok_votes) == (6, 4)


def test_forfeit_scores_zero_everywhere_and_no_reference_nothing(diagram: Rubric) -> None:
    forfeit = undecided("forfeit", "key absent", diagram)
    assert [each.score for each in forfeit.dimensions] == [0, 0, 0, 0] and forfeit.score == 0
    missing = undecided("no_reference", "no Human picture", diagram)
    assert [each.score for each in missing.dimensions] == [None] * 4 and missing.score is None


# Custom dimensions


WIDER = (*ASKED, "novelty")


def wider(rubric: Rubric, *names: str, number: int = 2, **changes: Any) -> Rubric:
    """Return the rubric with more dimensions in a tier."""
    like = rubric.prompt("aesthetics")
    more = [like.model_copy(update={"dimension": name, "tier": number, **changes}) for name in names or ("novelty",)]
    return rubric.model_copy(update={"prompts": (*rubric.prompts, *more)})


def test_fifth_dimension_counts_in_its_tier(diagram: Rubric) -> None:
    def decide_wider(number: int, *verdicts: str) -> Overall:
        return overall(dict(zip(WIDER, verdicts, strict=True)), wider(diagram, number=number))

    assert decide_wider(2, G, G, M, H, M)[:2] == (M, "tier 2") and decide_wider(1, G, G, M, M, H)[:2] == (H, "tier 1")
    assert decide_wider(1, M, H, H, H, G).outcome == H and decide_wider(1, M, H, H, H, M).outcome == M
    assert decide_wider(2, G, B, M, G, H).path == (
        "tier 1: faithfulness Both are good, readability Both are bad -> Tie; "
        "tier 2: conciseness Model, aesthetics Both are good, novelty Human -> Tie"
    )


@pytest.mark.parametrize("number", [1, 2])
def test_missing_and_pivotal_verdicts_match_exhaustive_search(diagram: Rubric, number: int) -> None:
    """Try all answers: the outcome known without a verdict, and the dimensions that alone could change it."""
    rubric = wider(diagram, number=number, verdicts=(H, G))
    allowed = [rubric.prompt(name).verdicts for name in WIDER]
    whole = {answers: overall(dict(zip(WIDER, answers, strict=True)), rubric)[:2] for answers in product(*allowed)}
    for given in product(*([M, H, G, None],) * 4, [H, G, None]):
        filled = product(*([verdict] if verdict else some for verdict, some in zip(given, allowed, strict=True)))
        found = {whole[answers] for answers in filled}
        outcomes, tiers = {outcome for outcome, _ in found}, {deciding for _, deciding in found}
        known = (outcomes.pop(), tiers.pop() if len(tiers) == 1 else "either") if len(outcomes) == 1 else (None, "")
        assert overall(dict(zip(WIDER, given, strict=True)), rubric)[:2] == known
    for answers, (outcome, _) in list(whole.items())[::7]:
        turned = {
            name
            for at, name in enumerate(WIDER)
            if any(whole[*answers[:at], other, *answers[at + 1 :]][0] != outcome for other in allowed[at])
        }
        assert set(pivotal(dict(zip(WIDER, answers, strict=True)), rubric)) == turned


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        # Tier 1: M and a neutral. With H on readability it would tie, but tier 2 is Model, too: not pivotal.
        ((M, G, M, M), ("faithfulness",)),
        # The same with a Human tier 2: now readability can change the outcome.
        ((M, G, H, H), ("faithfulness", "readability")),
        ((X, X, X, X), ASKED),
        # Without an outcome nothing is pivotal.
        ((M, None, H, H), ()),
        # Tier 1 decides without tier 2; without either of its verdicts it would not.
        ((H, G, None, None), ("faithfulness", "readability")),
    ],
)  # fmt: skip
def test_pivotal_dimensions(diagram: Rubric, verdicts: tuple[str | None, ...], expected: tuple[str, ...]) -> None:
    assert set(pivotal(dict(zip(ASKED, verdicts, strict=True)), diagram)) == set(expected)
