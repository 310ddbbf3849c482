"""The numbers of pairwise runs: what missing scores may come to, and the published protocol beside the score."""

import pytest
from factories import outcome, score_rows, start

from tasks.kinds import kind_of
from tasks.records import OVERALL, Outcome
from tasks.statistics.scores import PublishedScoreTally, ScoreRow


def overall(rows: list[ScoreRow]) -> ScoreRow:
    [found] = (row for row in rows if row.dimension == OVERALL)
    return found


def samples(won: int, lost: int, missing: int) -> list[Outcome]:
    words = ["Model"] * won + ["Human"] * lost + [None] * missing
    return [outcome(f"s{n}", overall=each) for n, each in enumerate(words)]


def test_missing_scores_may_all_be_the_lowest_or_all_the_highest() -> None:
    row = overall(score_rows(samples(60, 30, 10)))
    assert row.ci_low is not None and row.ci_high is not None
    half = (row.ci_high - row.ci_low) / 2
    assert (row.worst_low, row.worst_high) == (pytest.approx(60 - half), pytest.approx(70 + half))


@pytest.mark.parametrize("missing", [0, 1, 3])
def test_where_few_are_missing_there_is_no_worst_case(missing: int) -> None:
    row = overall(score_rows(samples(50, 50 - missing, missing)))
    assert (row.worst_low, row.worst_high) == (None, None)


def test_the_worst_case_stays_on_the_scale_and_needs_an_interval() -> None:
    few, lost = overall(score_rows(samples(4, 3, 9))), overall(score_rows(samples(0, 20, 2)))
    assert (few.worst_low, few.worst_high) == (None, None)
    assert lost.worst_low == 0 and lost.worst_high is not None and lost.worst_high > 100 * 2 / 22


def published(*pairs: tuple[str, str | None]) -> ScoreRow:
    """The published protocol's row of samples with these overall outcomes, all votes' and its own."""
    tally = PublishedScoreTally()
    for number, (found, alone) in enumerate(pairs):
        tally.add(outcome(f"s{number}", "MMMM", found, published=alone))
    return overall(tally.rows())


def test_the_published_protocol_is_paired_with_the_score_of_the_same_samples() -> None:
    row = published(*[("Tie", "Model")] * 10, *[("Model", "Model")] * 15, *[("Human", "Human")] * 15, ("Model", None))
    # Ten of 40 pairs rose by 50: s = 21.926, times t(39) = 2.02269 / sqrt(40) is 7.0122, both ends 0.6783 higher for
    # a skewness of 1.1547.
    assert (row.score, row.shift) == (62.5, 12.5)
    assert (row.shift_low, row.shift_high) == pytest.approx((6.1657, 20.1905), abs=1e-3)


def test_where_hardly_any_sample_differs_the_published_protocol_has_a_difference_without_interval() -> None:
    row = published(*[("Tie", "Model")] * 4, *[("Model", "Model")] * 36)
    assert (row.shift, row.shift_low, row.shift_high) == (5.0, None, None)


def test_a_score_by_itself_is_compared_with_nothing() -> None:
    row = overall(score_rows(samples(20, 20, 0)))
    assert (row.shift, row.shift_low, row.shift_high) == (None, None, None)


@pytest.mark.parametrize(("flow", "highest"), [("plot", 50.0), ("diagram", 100.0)])
def test_bounds_of_plot_faithfulness_end_where_its_verdicts_do(flow: str, highest: float) -> None:
    """Human or Both are good; of one in ten samples nothing is known."""
    tally = kind_of(flow).score_tally(start(flow=flow))
    for number in range(40):
        tally.add(outcome(f"s{number}", "-GGG" if number % 10 == 0 else "GGGG", "Tie"))
    [row] = (each for each in tally.rows() if each.dimension == "faithfulness")
    assert row.score == 50.0
    assert row.ci_high is not None and row.worst_high is not None and row.worst_low is not None
    assert (row.ci_high == 50.0) == (row.worst_high == 50.0) == (highest == 50.0) and row.worst_low < 45.0
    [other] = (each for each in tally.rows() if each.dimension == "readability")
    assert other.ci_high and other.ci_high > 50.0


def test_prompts_of_a_teams_own_may_allow_more_than_the_ceiling() -> None:
    tally = kind_of("plot").score_tally(start(flow="plot"))
    for number in range(10):
        tally.add(outcome(f"s{number}", "MGGG" if number else "GGGG", "Model"))
    [row] = (each for each in tally.rows() if each.dimension == "faithfulness")
    assert row.score == 95.0 and row.ci_high and row.ci_high > 95.0
