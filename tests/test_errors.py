"""One error tells everything that is wrong, within bounds."""

import pytest

from tasks.errors import SHOWN, Problems
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


def test_no_problem_stops_nothing():
    Problems().stop("dataset d")


@pytest.mark.parametrize(("values", "words"), [([], "none"), (["a"], "a"), (["a", "b", "c"], "a, b and 1 more")])
def test_a_list_is_cut_after_so_many_values(values: list[str], words: str):
    assert listed(values, 2) == words
