"""One error tells everything that is wrong, within bounds."""

import pytest

from tasks.errors import SHOWN, Habitual, Problems
from tasks.text import listed


def test_all_problems_stand_in_one_error_with_their_rows():
    problems = Problems()
    problems.add("a.json, record 1", "id is null")
    problems.add("b.csv, row 7", "task is 'x'")
    with pytest.raises(ValueError, match=r"2 problems:\n  a.json, record 1: id is null\n  b.csv, row 7: task is 'x'$"):
        problems.stop("dataset d")


def test_only_the_first_problems_are_shown_and_the_rest_counted():
    problems = Problems()
    for number in range(SHOWN + 3):
        problems.add(f"row {number}", "is wrong")
    with pytest.raises(ValueError, match=f"has {SHOWN + 3} problems") as error:
        problems.stop("file f")
    assert str(error.value).endswith(f"row {SHOWN - 1}: is wrong\n  and 3 more")


def test_a_habit_is_told_once_with_how_often_it_was_met():
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


def test_no_problem_stops_nothing():
    Problems().stop("dataset d")


@pytest.mark.parametrize(("values", "words"), [([], "none"), (["a"], "a"), (["a", "b", "c"], "a, b and 1 more")])
def test_a_list_is_cut_after_so_many_values(values: list[str], words: str):
    assert listed(values, 2) == words
