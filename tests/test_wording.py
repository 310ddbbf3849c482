"""Phrases: untrusted texts on one line, counts, scores with intervals, judge names, lists of problems."""

import pytest
from factories import grade_rows, image, outcome, score_rows, scored

from tasks.errors import SHOWN, Habitual, Problems
from tasks.presentation.wording import (
    coverage_words,
    judge_words,
    score_with_interval,
    worst_case_notes,
    worst_case_words,
)
from tasks.records import OVERALL
from tasks.statistics.scores import ScoreRow
from tasks.text import bounded, counted, listed, one_line


def overall(*scores: str) -> ScoreRow:
    rows = score_rows(outcome(f"s{number}", overall=score or None) for number, score in enumerate(scores))
    return next(row for row in rows if row.dimension == OVERALL)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""), ("plain words", "plain words"), ("größer 图表", "größer 图表"),
        ("two\nlines\r\nand\ttabs", "two lines and tabs"), ("\x1b[31mred\x1b[0m", "[31mred [0m"),
        ("name\u202egpj.exe", "name gpj.exe"), ("zero\u200bwidth", "zero width"),
        ("a" * 30, "a" * 19 + "…"), ("ab" + " " * 500 + "cd", "ab…"),
    ],
)  # fmt: skip
def test_untrusted_text_becomes_one_short_printable_line(text: str, line: str) -> None:
    assert one_line(text, 20) == line


def test_counts_are_sorted_without_zeros() -> None:
    assert counted({"invalid": 2, "ok": 1093, "no_reference": 2, "refused": 0}) == "1,093 ok, 2 invalid, 2 no reference"
    assert counted({}) == "none"


def test_score_is_shown_with_its_interval_or_a_reason() -> None:
    assert score_with_interval(overall(*["Model"] * 5, "Human")) == "83.3 (no interval below 8)"
    assert score_with_interval(overall("")) == "nothing scored"
    row = overall(*["Model"] * 20, *["Human"] * 20)
    assert score_with_interval(row) == f"50.0 [{row.ci_low:.1f}, {row.ci_high:.1f}]"


def test_bounds_are_shown_if_many_scores_are_missing() -> None:
    rows = score_rows(outcome(f"s{n}", overall="Model" if n < 12 else None) for n in range(20))
    row = next(each for each in rows if each.dimension == OVERALL)
    assert worst_case_words(row) == f"[{row.worst_low:.1f}, 100.0]"
    # Every dimension has its verdict: only outcomes are missing.
    assert worst_case_notes(rows) == [
        f"Worst case of alpha, were all missing scores the lowest, or all the highest: overall {worst_case_words(row)}."
    ]
    assert worst_case_notes(score_rows([outcome("s1")])) == [] and worst_case_words(overall("Model")) == ""


def test_inapplicable_aspect_differs_from_a_missing_one() -> None:
    *_, aspect = grade_rows([image("0/0", aspects=scored(material_consistency=None))], 7)
    unjudged, *_ = grade_rows([image("0/0", None)], 7)
    assert (score_with_interval(aspect), coverage_words(aspect)) == ("n/a", "")
    assert (score_with_interval(unjudged), coverage_words(unjudged)) == ("nothing scored", "0/1")


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        ("embedded", "gpt-x (embedded)"),
        ("https://api.example/v1", "gpt-x at api.example"),
        ("http://127.0.0.1:8000/v1", "gpt-x at 127.0.0.1:8000"),
        ("http://[::1]:8000/v1", "gpt-x at [::1]:8000"),
        ("https://user:secret@api.example/secret/v1?key=secret", "gpt-x at api.example"),
    ],
)
def test_judge_name_shows_model_and_host_only(endpoint: str, words: str) -> None:
    assert judge_words("gpt-x", endpoint) == words


def test_problems_are_in_one_error_with_their_rows():
    problems = Problems()
    problems.stop("dataset d")  # none yet
    problems.add("a.json, record 1", "id is null")
    problems.add("b.csv, row 7", "task is 'x'")
    with pytest.raises(ValueError, match=r"2 problems:\n  a.json, record 1: id is null\n  b.csv, row 7: task is 'x'$"):
        problems.stop("dataset d")


def test_error_shows_first_problems_and_counts_the_rest():
    problems = Problems()
    for number in range(SHOWN + 3):
        problems.add(f"row {number}", "is wrong")
    with pytest.raises(ValueError, match=f"has {SHOWN + 3} problems") as error:
        problems.stop("file f")
    assert str(error.value).endswith(f"row {SHOWN - 1}: is wrong\n  and 3 more")


def test_repeated_problem_is_shown_once_with_its_count():
    problems = Problems()
    for number in range(1200):
        problems.add(f"row {number}", Habitual(f"id is {number}", "numbers"))
    problems.add("row 7", "is wrong")
    with pytest.raises(ValueError) as error:
        problems.stop("file f")
    assert problems.too_many
    assert str(error.value).splitlines() == [
        "file f has 2 problems, and was not read to its end:",
        "  row 0: id is 0 (1,199 more like it)",
        "  row 7: is wrong",
    ]


@pytest.mark.parametrize(("values", "words"), [([], "none"), (["a"], "a"), (["a", "b", "c"], "a, b and 1 more")])
def test_list_is_shortened_after_some_values(values: list[str], words: str):
    assert listed(values, 2) == words
    assert bounded(["a", "b"], 1500) == ["a", "b", "and 1,498 more"] and bounded(["a", "b"], 2) == ["a", "b"]
