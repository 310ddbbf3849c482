"""What a run would have scored that stopped at its budget, beside what it scored."""

from pathlib import Path

import pytest
from factories import end, image, outcome, start, write_run

from tasks.judging.results import results_of
from tasks.kinds import kind_of
from tasks.kinds.display import Terms
from tasks.records import BudgetStop
from tasks.statistics.full_run import full_run_interval


def test_the_doubt_shrinks_with_what_is_left() -> None:
    assert full_run_interval(50.0, (40.0, 62.0), 0.0) == (40.0, 62.0)
    assert full_run_interval(50.0, (40.0, 62.0), 0.75) == (45.0, 56.0)
    assert full_run_interval(50.0, (40.0, 62.0), 1.0) == (50.0, 50.0)
    assert full_run_interval(50.0, (None, None), 0.5) == full_run_interval(None, (None, None), 0.5) == (None, None)


def stop(whole: dict[str, dict[str, int]]) -> BudgetStop:
    return BudgetStop(budget=1.0, spent=0.9, judged=10, samples=40, whole=whole)


def test_figures_of_each_candidate_have_the_interval_of_all_their_samples(tmp_path: Path) -> None:
    rows = [
        outcome(f"s{number}", "MMHH", ("Model", "Human")[number % 2], candidate=name, category="agent")
        for name in ("alpha", "beta")
        for number in range(10)
    ]
    ended = end(stopped=stop({"alpha": {"": 40}, "beta": {"": 20}}))
    run = write_run(tmp_path, start(candidates=("alpha", "beta")), [*rows], ended)
    found = results_of(start(), [run]).scores
    overall = {row.candidate: row for row in found if (row.dimension, row.grouping) == ("overall", "all")}
    assert {name: row.full_n for name, row in overall.items()} == {"alpha": 40, "beta": 20}
    for name, share in (("alpha", 1 / 4), ("beta", 1 / 2)):
        row = overall[name]
        ends = full_run_interval(row.score, (row.ci_low, row.ci_high), share)
        assert (row.full_low, row.full_high) == pytest.approx(ends) and row.score == 50.0
    assert {row.full_n for row in found if row.grouping != "all"} == {None}
    notes = kind_of("diagram").display.notes(found, Terms("diagram", "", 0.0))
    assert notes[0].startswith("Expected of a whole run, alpha: faithfulness 100.0 [") and "(n = 40)" in notes[0]


def test_of_images_prompts_are_counted(tmp_path: Path) -> None:
    rows = [image(f"{prompt:05}/{number:04}", 2.0 + prompt % 7) for prompt in range(10) for number in range(4)]
    begun = start(flow="counting", parameters={"threshold": 7.0, "judge": {}}, dimensions=("counting",))
    run = write_run(tmp_path, begun, [*rows], end(stopped=stop({"alpha": {"counting": 40}})))
    [row] = [row for row in results_of(begun, [run]).scores if row.measure == "score" and row.grouping == "all"]
    assert (row.n, row.full_n) == (40, 40)
    assert (row.full_low, row.full_high) == pytest.approx(full_run_interval(row.score, (row.ci_low, row.ci_high), 0.25))


def test_what_is_no_random_part_tells_nothing_of_a_whole_run(tmp_path: Path) -> None:
    rows = [outcome(f"s{number}") for number in range(10)]
    run = write_run(tmp_path, start(), [*rows], end(stopped=stop({})))
    assert {row.full_n for row in results_of(start(), [run]).scores} == {None}
