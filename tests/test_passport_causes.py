"""The passport's specification, by real requests: what is wrong with a judge fails exactly the lines of its row."""

from pathlib import Path

import pytest
from passport_judges import FAULTY, Judge, card_of, failed

from tasks.passport.lines import LINE, causes, causes_of


@pytest.mark.parametrize("cause", causes(), ids=lambda cause: cause.name)
def test_a_judge_with_a_fault_fails_exactly_the_lines_of_the_table(tmp_path: Path, cause: object) -> None:
    card = card_of(FAULTY[cause.name](), 1, tmp_path)
    assert failed(card) == cause.fails
    assert {line.state for line in card.failed()} == {"failed"}


@pytest.mark.parametrize("errs", [0.0, 0.03])
def test_a_good_judge_fails_none(tmp_path: Path, errs: float) -> None:
    card = card_of(Judge(errs=errs), 1, tmp_path)
    assert failed(card) == set()
    assert {line.state for line in card.lines} == {"passed"}


def test_every_line_that_can_fail_fails_for_some_cause() -> None:
    assert {line for cause in causes() for line in cause.fails} == {name for name, line in LINE.items() if line.without}
    assert {cause.name for cause in causes()} == FAULTY.keys()


def test_a_card_is_told_by_the_causes_that_fail_just_its_lines() -> None:
    assert [cause.name for cause in causes_of({"faint", "which_is_first"})] == ["names_the_first", "swaps_pictures"]
    assert causes_of({"text", "counting"}) == []
