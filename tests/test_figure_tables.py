"""The scores of figures as a table: its lines and columns, and the notes beneath it."""

import pytest
from factories import DIMENSIONS, outcome, score_rows

from tasks.kinds.figure_tables import leaderboard, score_notes
from tasks.records import OVERALL
from tasks.statistics.scores import ScoreRow


def overall(*scores: str) -> ScoreRow:
    """The overall row of samples with these outcomes."""
    rows = score_rows(outcome(f"s{number}", overall=score or None) for number, score in enumerate(scores))
    return next(row for row in rows if row.dimension == OVERALL)


def test_kinds_of_verdict_that_nobody_got_have_no_column() -> None:
    assert leaderboard(score_rows([outcome("s1")])).header == ["", "score", "95% interval", "Model", "Human", "scored"]


def test_the_best_candidate_comes_first_and_one_without_a_score_last() -> None:
    rows = score_rows(
        [
            outcome("s1", "----", None, status="no_reference", candidate="none"),
            outcome("s1", "HHHH", "Human", candidate="worse"),
            outcome("s1", "MMMM", "Model", candidate="better"),
        ]
    )
    names = [line[0] for line in leaderboard(rows).lines if len(line) == 1]
    assert names == ["better", "worse", "none"]


def test_groups_of_samples_stay_out_of_the_leaderboard() -> None:
    grid = leaderboard(score_rows([outcome("s1", category="bar", difficulty="easy")]))
    assert len(grid.lines) == 1 + len(DIMENSIONS) + 1


def test_groups_are_lines_of_their_candidate_the_best_candidate_first() -> None:
    rows = [
        *(outcome(f"s{n}", "HHHH", "Human", category="agent", candidate="worse") for n in range(2)),
        *(outcome(f"s{n}", category=f"c{n}", candidate="better") for n in range(2)),
    ]
    found = leaderboard(score_rows(rows), "category")
    assert found.header == ["", "score", "95% interval", "Model", "Human", "scored"]
    assert [line[:2] + line[3:] for line in found.lines] == [
        ["better"],
        ["c0", "100.0", "1", "0", "1/1"],
        ["c1", "100.0", "1", "0", "1/1"],
        ["worse"],
        ["agent", "0.0", "0", "2", "2/2"],
    ]


def test_samples_with_a_carried_picture_have_a_column_and_a_note_where_there_are_any() -> None:
    rows = score_rows([outcome("s1", carried_from="critic0"), outcome("s2"), outcome("s1", candidate="other")])
    grid = leaderboard(rows)
    assert grid.header == ["", "score", "95% interval", "Model", "Human", "car-\nried", "scored"]
    assert {tuple(line[-2:]) for line in grid.lines if len(line) > 1} == {("1", "2/2"), ("0", "1/1")}
    assert "last picture before the stage" in " ".join(score_notes("diagram", rows))
    assert "last picture" not in " ".join(score_notes("diagram", score_rows([outcome("s1")])))


def test_the_ceiling_of_plot_faithfulness_is_told_wherever_it_is_among_the_rows() -> None:
    rows = score_rows([outcome("s1")])
    assert "cannot exceed 50" in " ".join(score_notes("plot", rows))
    assert "cannot exceed 50" not in " ".join(score_notes("diagram", rows))
    assert "cannot exceed 50" not in " ".join(score_notes("plot", [overall("Model")]))


def test_scores_of_the_embedded_judge_are_said_to_come_from_no_model() -> None:
    assert "no model" in " ".join(score_notes("diagram", [overall("Model")], "embedded"))
    assert "no model" not in " ".join(score_notes("diagram", [overall("Model")], "https://judge.example"))


@pytest.mark.parametrize(
    ("orders", "by_votes"),
    [
        ({"human_first": "Model", "model_first": "Human"}, 0),
        ({"human_first": "Mixed"}, 1),
        ({"human_first": "Mixed", "model_first": "Mixed"}, 1),
        ({"human_first": "Model", "model_first": "Mixed"}, 1),
    ],
)
def test_verdicts_mixed_by_votes_are_counted_apart_from_those_mixed_by_orders(
    orders: dict[str, str], by_votes: int
) -> None:
    sample = outcome("s1", "XMMM")
    mixed = sample.dimensions[0].model_copy(update={"human_first": None, **orders})
    rows = score_rows([sample.model_copy(update={"dimensions": (mixed, *sample.dimensions[1:])})])
    assert (rows[0].mixed, rows[0].mixed_votes) == (1, by_votes)
    assert ("Mixed: 1 of them because votes" in " ".join(score_notes("diagram", rows))) is bool(by_votes)
