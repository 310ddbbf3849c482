"""Which ledgers belong together, and what is read of them as one."""

from pathlib import Path
from typing import Any

import pytest
from factories import NOON, end, judgment, outcome, start, write_run

from tasks.history.asking import query
from tasks.history.evaluations import stop_of
from tasks.history.loading import store_run
from tasks.ledger.evaluations import Evaluation, evaluation_folders, finished_before, read_evaluation
from tasks.ledger.reading import END, RUN, read_end, read_outcomes, read_start, run_folders
from tasks.records import BudgetStop, Outcome

pytestmark = pytest.mark.usefixtures("laid_out")

EVALUATION = "20261120T115900-diagram-00e0a1"
LATER = "2026-11-21T12:00:00+00:00"


def run_id(number: int) -> str:
    return f"20261120T12000{number}-diagram-00000{number}"


def shard(store: Path, number: int, which: int, finished: bool = True, **changes: Any) -> Path:
    values = {"evaluation_id": EVALUATION, "shard": which, "shards": 2, "samples": 1, **changes}
    rows = [judgment(f"s{number}"), outcome(f"s{number}")]
    return write_run(store, start(run_id(number), **values), rows, end() if finished else None)


def outcomes_of(evaluation: Evaluation) -> list[Outcome]:
    return [each for folder in evaluation.folders for each in read_outcomes(folder)]


def test_a_run_of_its_own_is_all_of_its_evaluation(tmp_path: Path) -> None:
    run = write_run(tmp_path, start("r1"), [outcome()], end())
    found = read_evaluation(tmp_path, "r1")
    assert (found.start, found.end, found.folders) == (read_start(run), read_end(run), [run])
    assert evaluation_folders(run) == [run] and [each.sample_id for each in outcomes_of(found)] == ["s1"]


def test_of_a_shard_that_ran_twice_the_newest_finished_run_counts(tmp_path: Path) -> None:
    shard(tmp_path, 1, which=1)
    second, newest = shard(tmp_path, 2, which=2), shard(tmp_path, 3, which=1)
    shard(tmp_path, 4, which=2, finished=False)
    shard(tmp_path, 5, which=2, dataset_key="another")
    shard(tmp_path, 6, which=2, evaluation_id="another")
    assert sorted(evaluation_folders(second)) == [second, newest]
    found = read_evaluation(tmp_path, EVALUATION)
    assert sorted(each.sample_id for each in outcomes_of(found)) == ["s2", "s3"]
    assert (found.start.run_id, found.start.samples, found.end and found.end.calls) == (EVALUATION, 2, 24)


def test_where_shards_stopped_at_the_months_budget_is_told_of_them_together(tmp_path: Path) -> None:
    stop = BudgetStop(budget=200.0, month="2026-11", spent=5.0, needed=0.5, judged=3, samples=10)
    values = {"evaluation_id": EVALUATION, "shards": 2, "samples": 10}
    for number, stopped in ((1, None), (2, stop)):
        begun = start(run_id(number), shard=number, **values)
        write_run(tmp_path, begun, [judgment(f"s{number}"), outcome(f"s{number}")], end(stopped=stopped))
    found = read_evaluation(tmp_path, EVALUATION).end
    assert found and found.stopped == stop.model_copy(update={"judged": 13, "samples": 20})
    store_run(tmp_path, run_id(1))
    store_run(tmp_path, run_id(2))
    [(told, measured)] = query(tmp_path, "SELECT stopped, measured FROM evaluations").rows
    assert stop_of(told) == found.stopped and measured is False
    [(words,)] = query(tmp_path, "SELECT stopped FROM coverage").rows
    assert words == "stopped at 200.00, 13 of 20"


def test_a_shard_asked_by_the_id_of_its_run_is_a_run(tmp_path: Path) -> None:
    shard(tmp_path, 1, which=1)
    second = shard(tmp_path, 2, which=2)
    found = read_evaluation(tmp_path, run_id(2))
    assert (found.folders, found.start.run_id, found.start.samples) == ([second], run_id(2), 1)


@pytest.mark.parametrize("file", [RUN, END])
def test_a_damaged_ledger_beside_them_keeps_no_shards_from_being_read(tmp_path: Path, file: str) -> None:
    stranger = write_run(tmp_path, start("20261120T110000-diagram-ffffff"), [outcome()], end())
    (stranger / file).write_text("{")
    shards = [shard(tmp_path, 1, which=1), shard(tmp_path, 2, which=2)]
    found = read_evaluation(tmp_path, EVALUATION)
    assert found.folders == shards and found.end


def test_evaluations_before_one_come_newest_first_and_once(tmp_path: Path) -> None:
    for number, which in ((1, 1), (2, 2)):
        shard(tmp_path, number, which)
    write_run(tmp_path, start(run_id(3)), [outcome()], end())
    write_run(tmp_path, start(run_id(4)), [outcome()], None)
    write_run(tmp_path, start(run_id(5), flow="plot"), [outcome()], end())
    write_run(tmp_path, start(run_id(6), dataset_key="another"), [outcome()], end())
    write_run(tmp_path, start(run_id(7), started_at=LATER), [outcome()], end())
    damaged = write_run(tmp_path, start(run_id(8)), [outcome()], end())
    (damaged / RUN).write_text('{"schema": 3}')
    assert len(run_folders(tmp_path)) == 8 and NOON < LATER
    before = finished_before(tmp_path, start("20261121T120000-diagram-000009", started_at=LATER))
    assert [each.start.run_id for each in before] == [run_id(3), EVALUATION]
