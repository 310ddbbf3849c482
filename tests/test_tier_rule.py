"""The rule as a table: one line a case, and the counts over everything a judge may answer."""

from collections import Counter
from itertools import product

import pytest

from tasks.kinds.tier_rule import decide, merge_orders, merge_votes, overall, tier, undecided
from tasks.records import VERDICTS, Judgment
from tasks.rubrics.rubric import Rubric
from tasks.statistics.scores import verdict_score

M, H, G, B, X = "Model", "Human", "Both are good", "Both are bad", "Mixed"


def combine(rubric: Rubric, faithfulness: object, readability: object, conciseness: object, aesthetics: object):
    given = {
        "faithfulness": faithfulness,
        "readability": readability,
        "conciseness": conciseness,
        "aesthetics": aesthetics,
    }
    return overall(given, rubric)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (M, M, M), (M, H, "Tie"), (M, G, M), (M, B, M), (M, X, M),
        (H, M, "Tie"), (H, H, H), (H, G, H), (H, B, H), (H, X, H),
        (G, M, M), (G, H, H), (G, G, "Tie"), (G, B, "Tie"), (G, X, "Tie"),
        (B, M, M), (B, H, H), (B, G, "Tie"), (B, B, "Tie"), (B, X, "Tie"),
        (X, M, M), (X, H, H), (X, G, "Tie"), (X, B, "Tie"), (X, X, "Tie"),
    ],
)  # fmt: skip
def test_one_tier(first: str, second: str, expected: str) -> None:
    assert tier(first, second) == expected


def test_all_256_answers_on_diagrams_give_110_model_110_human_36_ties(diagram: Rubric) -> None:
    outcomes = Counter(combine(diagram, *answers).outcome for answers in product(VERDICTS, repeat=4))
    assert outcomes == {M: 110, H: 110, "Tie": 36}


def test_the_rule_is_symmetric(diagram: Rubric) -> None:
    swap = {M: H, H: M}
    for answers in product(VERDICTS, repeat=4):
        mirrored = combine(diagram, *(swap.get(each, each) for each in answers)).outcome
        outcome = combine(diagram, *answers).outcome
        assert mirrored == swap.get(outcome or "", outcome)


def test_all_128_answers_on_plots_give_31_model_79_human_18_ties(plot: Rubric) -> None:
    allowed = [plot.prompt(name).verdicts for name in ("faithfulness", "readability", "conciseness", "aesthetics")]
    assert Counter(combine(plot, *answers).outcome for answers in product(*allowed)) == {M: 31, H: 79, "Tie": 18}


@pytest.mark.parametrize(
    ("answers", "outcome", "deciding"),
    [
        ((M, G, H, H), M, "tier 1"),
        ((M, H, G, M), M, "tier 2"),
        ((G, B, M, H), "Tie", "tier 2"),
        # A missing verdict is no neutral one: with M beside it the tier is Model or Tie, and tier 2 says Human.
        ((M, None, H, H), None, ""),
        # Whatever readability says, faithfulness keeps the Model from losing tier 1, and tier 2 says Model too.
        ((M, None, M, G), M, "either"),
        # Tier 1 is settled, so what tier 2 lacks cannot matter.
        ((H, G, None, None), H, "tier 1"),
        ((G, G, None, M), None, ""),
        ((None, None, None, None), None, ""),
    ],
)
def test_missing_verdicts_leave_an_outcome_only_where_they_cannot_change_it(
    diagram: Rubric, answers: tuple[str | None, ...], outcome: str | None, deciding: str
) -> None:
    result = combine(diagram, *answers)
    assert (result.outcome, result.tier) == (outcome, deciding)


def test_only_allowed_answers_are_imagined_for_a_missing_verdict(diagram: Rubric, plot: Rubric) -> None:
    # Plot faithfulness can never be Model; diagram faithfulness could be, which would turn tier 1 into a Tie.
    assert combine(plot, None, H, M, M).outcome == H
    assert combine(diagram, None, H, M, M).outcome is None


def test_the_path_says_in_words_what_decided(diagram: Rubric) -> None:
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
        ([G, B, M], X),  # neutral holds the majority, good and bad are level
        ([G, G, B, M, M], G),  # neutral holds the majority, good leads in it
        ([M, M, H, G], M),  # no more than half, but more than the others
        ([M, M, G, B], X),  # Model and neutral are level
        ([M, None, M], M),
        ([M, None], M),  # half of the votes are ok
        ([M, None, None], None),  # fewer than half are
        ([], None),
    ],
)
def test_votes_of_one_order(votes: list[str | None], expected: str | None) -> None:
    assert merge_votes(votes) == expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (M, M, (M, False, False)),
        (M, H, (X, True, True)),
        (M, G, (X, True, False)),
        (G, B, (X, True, False)),
        (X, X, (X, False, False)),
        (M, None, (None, None, None)),
    ],
)
def test_two_orders(first: str, second: str | None, expected: tuple[str | None, bool | None, bool | None]) -> None:
    assert merge_orders({"human_first": first, "model_first": second}) == expected


def test_a_single_order_has_no_flip() -> None:
    assert merge_orders({"human_first": M}) == (M, None, None)


def test_scores() -> None:
    assert [verdict_score(each) for each in (M, "Tie", G, B, X, H, None)] == [100, 50, 50, 50, 50, 0, None]


def said(make_judgment, dimension: str, verdict: str | None, **changes: object) -> Judgment:
    status = "ok" if verdict else "unavailable"
    return make_judgment(dimension=dimension, verdict=verdict, status=status, **changes)


def test_the_last_attempt_counts(diagram: Rubric) -> None:
    from factories import judgment

    rows = [said(judgment, name, G) for name in ("readability", "conciseness", "aesthetics")]
    rows += [said(judgment, "faithfulness", M, attempt=2), said(judgment, "faithfulness", None, attempt=1)]
    decision = decide(rows, diagram, ("human_first",), 1)
    assert (decision.status, decision.overall.outcome, decision.score) == ("complete", M, 100)


def test_a_sample_with_an_open_verdict_is_incomplete_and_unscored(diagram: Rubric) -> None:
    from factories import judgment

    rows = [said(judgment, name, G) for name in ("faithfulness", "readability", "conciseness")]
    decision = decide([*rows, said(judgment, "aesthetics", None)], diagram, ("human_first",), 1)
    assert (decision.status, decision.overall.outcome, decision.score) == ("incomplete", None, None)
    assert [each.score for each in decision.dimensions if each.dimension != "aesthetics"] == [50, 50, 50]


def test_orders_that_disagree_leave_mixed_and_count_as_a_flip(diagram: Rubric) -> None:
    from factories import judgment

    rows = [
        said(judgment, prompt.dimension, H if prompt.dimension == "aesthetics" and order == "model_first" else M,
             order=order)
        for prompt in diagram.prompts for order in ("human_first", "model_first")
    ]  # fmt: skip
    decision = decide(rows, diagram, ("human_first", "model_first"), 1)
    aesthetics = next(each for each in decision.dimensions if each.dimension == "aesthetics")
    assert (aesthetics.verdict, aesthetics.order_flip, aesthetics.reversal, aesthetics.score) == (X, True, True, 50)
    assert decision.overall.outcome == M


def test_the_published_verdict_is_the_first_vote_with_the_human_figure_first(diagram: Rubric) -> None:
    from factories import judgment

    cast = {("human_first", 1): H, ("human_first", 2): M, ("human_first", 3): M, ("model_first", 1): M}
    rows = [said(judgment, "faithfulness", verdict, order=order, vote=vote) for (order, vote), verdict in cast.items()]
    rows += [said(judgment, "readability", None, order="human_first", vote=1)]
    decision = decide(rows, diagram, ("human_first", "model_first"), 3)
    published = {each.dimension: each.published for each in decision.dimensions}
    assert (published["faithfulness"], published["readability"]) == (H, None)
    assert decision.dimensions[0].human_first == M
    assert (decision.dimensions[0].votes, decision.dimensions[0].ok_votes) == (6, 4)


def test_a_forfeit_scores_nothing_on_all_five_and_no_reference_is_not_scored(diagram: Rubric) -> None:
    forfeit = undecided("forfeit", "key absent", diagram)
    assert [each.score for each in forfeit.dimensions] == [0, 0, 0, 0] and forfeit.score == 0
    missing = undecided("no_reference", "no Human picture", diagram)
    assert [each.score for each in missing.dimensions] == [None] * 4 and missing.score is None
