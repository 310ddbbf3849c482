"""What is shown of each kind of judging: its scores in words, and a sample's texts and labels."""

from typing import Any

from factories import grade_rows, image, outcome, score_rows, scored, start

from tasks.kinds import kind_of
from tasks.kinds.display import Quoted, Terms
from tasks.records import OVERALL

FIGURES, IMAGES = kind_of("diagram").display, kind_of("counting").display


def test_the_headline_of_figures_is_each_candidates_overall_score_and_of_images_that_of_each_tag() -> None:
    pairs = [outcome("s1", "HHHH", "Human"), outcome("s1", "MMMM", "Model", candidate="best")]
    assert [(name, row.score) for name, row in FIGURES.headline(score_rows(pairs))] == [("best", 100.0), ("alpha", 0.0)]
    rows = grade_rows([image("0/0", 9, aspects=scored(a=1)), image("1/0", 4, tag="colors")], 7)
    assert [(name, row.score) for name, row in IMAGES.headline(rows)] == [("alpha, counting", 9), ("alpha, colors", 4)]


def test_rows_of_a_tag_may_stand_apart() -> None:
    rows = grade_rows([image("0/0", 9, aspects=scored(a=1)), image("1/0", 4, tag="colors", aspects=scored(a=2))], 7)
    apart = sorted(rows, key=lambda row: row.grouping)
    assert apart != rows
    assert IMAGES.grid(apart) == IMAGES.grid(rows) and IMAGES.chart(apart) == IMAGES.chart(rows)


def test_scores_by_the_published_protocol_alone_are_no_headline_and_no_line_of_the_table() -> None:
    tally = kind_of("diagram").score_tally(start(parameters={"votes": 2}))
    tally.add(outcome("s1", "HHHH", "Human", published="Model"))
    rows = tally.rows()
    assert {row.measure for row in rows} == {"score", "published"}
    scores = [row for row in rows if row.measure == "score"]
    assert FIGURES.headline(rows) == FIGURES.headline(scores) and FIGURES.in_words(rows) == FIGURES.in_words(scores)
    assert FIGURES.grid(rows) == FIGURES.grid(scores) and FIGURES.chart(rows) == FIGURES.chart(scores)


def test_a_figure_is_shown_with_its_verdicts_and_an_image_with_its_aspects() -> None:
    found = FIGURES.shown(outcome("s1", "M-HG", "Model", caption="a caption"), {"faithfulness": "because"})
    assert found.table.lines[:2] == [["faithfulness", "Model", "because"], ["conciseness", "missing", ""]]
    assert found.outcome.before == "Outcome: Model (" and found.below == (Quoted("Caption: ", "a caption"),)
    found = IMAGES.shown(image(score=3, aspects=scored(a=1.5, b=None), satisfied=False, prompt="two cats"), {})
    assert [line[:2] for line in found.table.lines] == [["a", "1.50"], ["b", "–"]]
    assert found.above == (Quoted("Prompt (counting): ", "two cats"),)
    assert found.outcome.after == " What was asked for is not there."


def test_a_sample_without_a_score_is_labelled_by_its_status() -> None:
    row: dict[str, Any] = {"status": "bad_picture", "overall": None, "score": None, "path": "why", "tag": "counting"}
    assert FIGURES.labels(row, {"readability": "missing"}, 0.0) == (
        "bad picture",
        {OVERALL: "bad picture", "readability": "missing"},
        "why",
    )
    assert IMAGES.labels(row, {}, 7.0) == ("bad picture", {"counting": "missing"}, "why")
    assert IMAGES.labels({**row, "score": 7.0}, {}, 7.0) == ("7.00", {"counting": "7 or more"}, "")
    assert IMAGES.labels({**row, "score": 6.9}, {}, 7.0) == ("6.90", {"counting": "below 7"}, "")


def test_what_must_be_known_depends_on_the_flow_the_judge_and_the_threshold() -> None:
    [human, ceiling, bias, floor] = FIGURES.notes(score_rows([outcome("s1")]), Terms("plot", "embedded", 0.0))
    assert "Human is 50" in human and "cannot exceed 50" in ceiling and "no model" in floor
    assert "do not cover the judge's own bias" in bias
    assert IMAGES.notes([], Terms("counting", "https://judge.example", 6.5))[1].endswith("an image of 6.5 or more.")
