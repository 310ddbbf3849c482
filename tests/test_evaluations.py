"""Evaluations: which ledgers belong to one, and what is read from them together."""

import fcntl
from pathlib import Path
from typing import Any

import pytest
from factories import end, judgment, outcome, start, write_run

from tasks.history.landing import land
from tasks.history.queries import query, stop_of
from tasks.ledger.evaluations import evaluation_folders, read_evaluation
from tasks.ledger.run_files import (
    JUDGMENTS,
    OUTCOMES,
    Ledger,
    is_written,
    read_end,
    read_judgments,
    read_outcomes,
    read_start,
    run_folders,
)
from tasks.records import BudgetStop, Judgment

EVALUATION = "20261120T115900-diagram-00e0a1"


def run_id(number: int) -> str:
    return f"20261120T12000{number}-diagram-00000{number}"


def shard(store: Path, number: int, which: int, finished: bool = True, **changes: Any) -> Path:
    values = {"evaluation_id": EVALUATION, "shard": which, "shards": 2, "samples": 1, **changes}
    rows = [judgment(f"s{number}"), outcome(f"s{number}")]
    return write_run(store, start(run_id(number), **values), rows, end() if finished else None)


def test_single_run_is_its_whole_evaluation(tmp_path: Path) -> None:
    run = write_run(tmp_path, start("r1"), [outcome()], end())
    found = read_evaluation(tmp_path, "r1")
    assert (found.start, found.end, found.folders) == (read_start(run), read_end(run), [run])
    assert evaluation_folders(run) == [run] and [each.sample_id for each in found.outcomes()] == ["s1"]


def test_newest_finished_run_of_a_shard_counts(tmp_path: Path) -> None:
    shard(tmp_path, 1, which=1)
    second, newest = shard(tmp_path, 2, which=2), shard(tmp_path, 3, which=1)
    shard(tmp_path, 4, which=2, finished=False)
    shard(tmp_path, 5, which=2, dataset_key="another")
    shard(tmp_path, 6, which=2, evaluation_id="another")
    assert sorted(evaluation_folders(second)) == [second, newest]
    found = read_evaluation(tmp_path, EVALUATION)
    assert sorted(each.sample_id for each in found.outcomes()) == ["s2", "s3"]
    assert (found.start.run_id, found.start.samples, found.end and found.end.calls) == (EVALUATION, 2, 24)


def test_budget_stop_is_summed_over_shards(tmp_path: Path) -> None:
    stop = BudgetStop(budget=200.0, month="2026-11", spent=5.0, needed=0.5, judged=3, samples=10)
    values = {"evaluation_id": EVALUATION, "shards": 2, "samples": 10}
    for number, stopped in ((1, None), (2, stop)):
        begun = start(run_id(number), shard=number, **values)
        write_run(tmp_path, begun, [judgment(f"s{number}"), outcome(f"s{number}")], end(stopped=stopped))
    found = read_evaluation(tmp_path, EVALUATION).end
    assert found and found.stopped == stop.model_copy(update={"judged": 13, "samples": 20})
    land(tmp_path)
    [(stopped, measured)] = query(tmp_path, "SELECT stopped, measured FROM evaluations").rows
    assert stop_of(stopped) == found.stopped and measured is False
    [(words,)] = query(tmp_path, "SELECT stopped FROM coverage").rows
    assert words == "stopped at 200.00, 13 of 20"


def test_shard_is_read_alone_by_its_run_id(tmp_path: Path) -> None:
    shard(tmp_path, 1, which=1)
    second = shard(tmp_path, 2, which=2)
    found = read_evaluation(tmp_path, run_id(2))
    assert (found.folders, found.start.run_id, found.start.samples) == ([second], run_id(2), 1)


@pytest.mark.parametrize("file", ["run.json", "end.json"])
def test_damaged_ledger_of_another_run_does_not_matter(tmp_path: Path, file: str) -> None:
    stranger = write_run(tmp_path, start("20261120T110000-diagram-ffffff"), [outcome()], end())
    (stranger / file).write_text("{")
    shards = [shard(tmp_path, 1, which=1), shard(tmp_path, 2, which=2)]
    found = read_evaluation(tmp_path, EVALUATION)
    assert found.folders == shards and found.end


# Ledgers: rows are on the disk before the next call


def test_rows_are_read_as_written(tmp_path: Path) -> None:
    raw = '{"winner": "Model"} with a \n line'
    row, made = judgment(run_id="r1", raw=raw, verdict="Model"), outcome(run_id="r1")
    ledger = Ledger(tmp_path, start("r1"))
    ledger.append(row)
    ledger.append(made)
    [run] = run_folders(tmp_path)
    assert (list(read_judgments(run)), list(read_outcomes(run)), read_end(run)) == ([row], [made], None)
    ledger.end(end("r1"))
    cost = {row.judged_at[:7]: (row.price or 0.0) + (row.estimated or 0.0)}
    assert read_end(run) == end("r1", ledger_rows={JUDGMENTS: 1, OUTCOMES: 1}, cost=cost)
    assert read_start(run) == start("r1")


def test_append_writes_the_row_before_it_returns(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, start("r1"))
    for n in range(1, 4):
        ledger.append(judgment(sample_id=f"s{n}"))
        assert len((ledger.folder / JUDGMENTS).read_bytes().splitlines()) == n
    ledger.close()


def test_run_refused_before_its_first_row_leaves_no_file(tmp_path: Path) -> None:
    Ledger(tmp_path, start("r1")).close()
    assert run_folders(tmp_path) == [] and not any(tmp_path.iterdir())


def test_run_counts_as_written_while_its_ledger_is_open_and_not_for_another_check(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, start("r1"))
    ledger.append(judgment(run_id="r1"))
    assert is_written(ledger.folder)
    ledger.close()
    with (ledger.folder / JUDGMENTS).open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)  # a check by another process
        assert not is_written(ledger.folder)


# New and reused replies


def run_of(hour: int) -> str:
    return f"20261120T{hour:02}0000-diagram-0000{hour:02}"


def replies(*asked_by: int, first: int = 0) -> list[Judgment]:
    """Return one reply a sample, asked for by the run of this hour; 0: by the run itself."""
    return [judgment(f"s{n}", reused_from=run_of(hour) if hour else "") for n, hour in enumerate(asked_by, first)]


STOPPED = BudgetStop(budget=10.0, spent=9.9, needed=0.2, judged=12, samples=20, is_random=True)
INCOMPLETE, WHOLE = (f"20261120T000000-diagram-00e00{number}" for number in (1, 2))
SHOWN = [judgment(f"c{number}", control="blank") for number in range(9)]
FAILED = [judgment(f"f{number}", verdict=None, status="refused") for number in range(9)]


def shard_of(evaluation: str, which: int) -> dict[str, Any]:
    return {"part": {"evaluation_id": evaluation, "shard": which, "shards": 2}}


KEPT: dict[int, tuple[list[Judgment], dict[str, Any]]] = {
    1: (replies(*[0] * 20), {}),
    # Half of the replies of the first, more than half, all, none.
    **{hour: (replies(*[1] * taken, *[0] * (20 - taken)), {}) for hour, taken in enumerate((10, 11, 20, 0), 2)},
    6: (replies(*[0] * 18), {"killed": True}),
    7: (replies(*[6] * 18, 0, 0), {}),  # resumes the killed run
    8: (replies(*[6] * 18, 7, 7), {}),
    9: (replies(*[0] * 12), {"stopped": STOPPED}),
    10: (replies(*[9] * 12, *[0] * 3), {"stopped": STOPPED}),
    11: (replies(*[9] * 12, *[10] * 3, *[0] * 5), {}),  # resumes the two stopped runs
    12: (replies(*[9] * 12, *[10] * 3, *[11] * 5), {}),
    13: (replies(0, 0), shard_of(INCOMPLETE, 1)),  # without the other shard
    14: (replies(13, 13, 0), {}),
    15: (replies(0, 0), {"killed": True, **shard_of(WHOLE, 1)}),
    16: (replies(0, 0, first=2), shard_of(WHOLE, 2)),
    17: (replies(15, 15), shard_of(WHOLE, 1)),  # resumes the killed shard
    18: (replies(*[0] * 4), {}),
    19: ([*replies(*[18] * 4), *SHOWN, *FAILED], {}),
    20: (FAILED, {}),
    21: ([row.model_copy(update={"reused_from": run_of(20)}) for row in FAILED], {}),
    22: ([], {}),  # all samples were forfeit
}
"""Hour of a run -> its replies, and what is unusual: killed, stopped, part of an evaluation."""


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Return, for each evaluation, its replies, the new ones, and whether it measured anything."""
    store = tmp_path_factory.mktemp("replies")
    for hour, (rows, changes) in KEPT.items():
        new = [row for row in rows if not row.reused_from]
        calls = {"calls": len(new), "control_calls": sum(bool(row.control) for row in new)}
        ended = end(**calls, reused=len(rows) - len(new), stopped=changes.get("stopped"))
        begun = start(run_of(hour), started_at=f"2026-11-20T{hour:02}:00:00+00:00", **changes.get("part", {}))
        write_run(store, begun, [*rows], None if changes.get("killed") else ended)
    land(store)
    return {
        run_id: found for run_id, *found in query(store, "SELECT run_id, replies, anew, measured FROM evaluations").rows
    }


@pytest.mark.parametrize(
    "expected",
    [
        {2: [20, 10, True], 3: [20, 9, False], 4: [20, 0, False], 5: [20, 20, True]},
        {7: [20, 20, True], 8: [20, 0, False]},
        {9: [12, 12, False], 10: [15, 15, False], 11: [20, 20, True], 12: [20, 0, False]},
        {14: [3, 3, True]},
        {19: [4, 0, False]},
        {20: [0, 0, True], 21: [0, 0, False], 22: [0, 0, True]},
    ],
    ids=[
        *("half must be new", "resumed killed run", "resumed stopped run", "of an incomplete evaluation"),
        *("controls and failed calls measure nothing", "without replies"),
    ],
)
def test_new_replies_are_counted_where_they_decide(
    counts: dict[str, list[Any]], expected: dict[int, list[Any]]
) -> None:
    assert {hour: counts[run_of(hour)] for hour in expected} == expected


def test_sentence_names_what_the_budget_left() -> None:
    assert STOPPED.sentence == (
        "Stopped at its budget of 10.0000: 9.9000 spent, 12 of 20 samples judged, a random part of them; "
        "the next may cost 0.2000, more than is left. The same command with more goes on."
    )


def test_killed_shard_costs_its_evaluation_no_reply(counts: dict[str, list[Any]]) -> None:
    assert counts[WHOLE] == [4, 4, True] and INCOMPLETE not in counts
