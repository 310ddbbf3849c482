"""Which replies of an evaluation are anew: the same from ledgers and from the history, whatever was taken over."""

from pathlib import Path
from typing import Any

import pytest
from factories import end, judgment, start, write_run

from tasks.history.asking import query
from tasks.history.loading import sync
from tasks.ledger.anew import Anew, replies_anew
from tasks.ledger.evaluations import read_evaluation
from tasks.records import BudgetStop, Judgment

pytestmark = pytest.mark.usefixtures("laid_out")


def run_of(hour: int) -> str:
    return f"20261120T{hour:02}0000-diagram-0000{hour:02}"


def replies(*asked_by: int, first: int = 0) -> list[Judgment]:
    """One reply a sample; each was asked for by the run of that hour, 0: by the run itself."""
    return [
        judgment(f"s{number}", reused_from=run_of(hour) if hour else "") for number, hour in enumerate(asked_by, first)
    ]


def keep(
    store: Path,
    hour: int,
    rows: list[Judgment],
    finished: bool = True,
    stopped: BudgetStop | None = None,
    **changes: Any,
) -> str:
    reused = sum(bool(row.reused_from) for row in rows)
    calls = len(rows) - reused
    asked_controls = sum(bool(row.control and not row.reused_from) for row in rows)
    ok = sum(row.status == "ok" and not row.control for row in rows)
    told = {"calls": calls, "control_calls": asked_controls, "reused": reused, "stopped": stopped}
    ended = end(**told, judgments={"ok": ok}, outcomes={})
    begun = start(run_of(hour), started_at=f"2026-11-20T{hour:02}:00:00+00:00", **changes)
    write_run(store, begun, [*rows], ended if finished else None)
    return begun.evaluation_id


AGAIN = "About these the judge was not asked again."


def anew(store: Path, evaluation_id: str) -> Anew:
    """What the ledgers say, and the view says the same."""
    found = replies_anew(store, read_evaluation(store, evaluation_id))
    sync(store)
    told = "SELECT replies, anew, measured FROM evaluations WHERE run_id = $1"
    [(in_history, of_these, measured)] = query(store, told, values=(evaluation_id,)).rows
    assert measured is found.measured
    assert not in_history or (in_history, of_these) == (found.replies, found.anew)
    return found


def test_a_repeat_that_asked_a_few_failed_calls_again_measured_nothing(tmp_path: Path) -> None:
    keep(tmp_path, 1, replies(*[0] * 20))
    found = anew(tmp_path, keep(tmp_path, 2, replies(*[1] * 17, *[0] * 3)))
    assert (found, found.measured) == (Anew(20, 3), False)
    assert (
        found.words
        == "Nothing was measured: 17 of 20 replies about samples were taken over from earlier runs. " + AGAIN
    )


@pytest.mark.parametrize(("taken", "measured"), [(10, True), (11, False), (20, False), (0, True)])
def test_half_of_the_replies_must_be_anew(tmp_path: Path, taken: int, measured: bool) -> None:
    keep(tmp_path, 1, replies(*[0] * 20))
    found = anew(tmp_path, keep(tmp_path, 2, replies(*[1] * taken, *[0] * (20 - taken))))
    assert found.measured is measured and bool(found.words) is not measured


def test_what_a_killed_run_asked_is_of_the_run_that_went_on_with_it_and_of_no_later_one(tmp_path: Path) -> None:
    keep(tmp_path, 1, replies(*[0] * 18), finished=False)
    resumed = keep(tmp_path, 2, replies(*[1] * 18, 0, 0))
    again = keep(tmp_path, 3, replies(*[1] * 18, 2, 2))
    assert anew(tmp_path, resumed) == Anew(20, 20)
    assert anew(tmp_path, again) == Anew(20, 0)


STOPPED = BudgetStop(budget=10.0, spent=9.9, needed=0.2, judged=12, samples=20, whole={"alpha": {"": 20}})


def test_what_a_run_asked_that_stopped_at_its_budget_is_of_the_run_that_went_on_with_it(tmp_path: Path) -> None:
    stopped = keep(tmp_path, 1, replies(*[0] * 12), stopped=STOPPED)
    later = keep(tmp_path, 2, replies(*[1] * 12, *[0] * 3), stopped=STOPPED)
    assert anew(tmp_path, keep(tmp_path, 3, replies(*[1] * 12, *[2] * 3, *[0] * 5))) == Anew(20, 20)
    assert anew(tmp_path, keep(tmp_path, 4, replies(*[1] * 12, *[2] * 3, *[3] * 5))) == Anew(20, 0)
    for run, found in ((stopped, Anew(12, 12, STOPPED)), (later, Anew(15, 15, STOPPED))):
        assert anew(tmp_path, run) == found
        assert not found.measured
    assert found.words == (
        "Stopped at its budget of 10.00: 9.90 spent in this run, 12 of 20 samples judged, a random part of them; "
        "the next may cost 0.20. The same command with more goes on."
    )


def test_what_shards_without_the_others_asked_is_of_the_evaluation_that_has_all(tmp_path: Path) -> None:
    keep(tmp_path, 1, replies(0, 0), evaluation_id="20261120T000000-diagram-00e001", shard=1, shards=2)
    assert anew(tmp_path, keep(tmp_path, 2, replies(1, 1, 0))) == Anew(3, 3)


def test_a_worker_killed_in_a_shard_costs_its_evaluation_no_reply(tmp_path: Path) -> None:
    whole = "20261120T000000-diagram-00e001"
    keep(tmp_path, 1, replies(0, 0), finished=False, evaluation_id=whole, shard=1, shards=2)
    keep(tmp_path, 2, replies(0, 0, first=2), evaluation_id=whole, shard=2, shards=2)
    keep(tmp_path, 3, replies(1, 1), evaluation_id=whole, shard=1, shards=2)
    assert anew(tmp_path, whole) == Anew(4, 4)


def test_replies_about_controls_and_failed_calls_measure_nothing(tmp_path: Path) -> None:
    keep(tmp_path, 1, replies(*[0] * 4))
    shown = [judgment(f"c{number}", control="blank") for number in range(9)]
    failed = [judgment(f"f{number}", verdict=None, status="refused") for number in range(9)]
    assert anew(tmp_path, keep(tmp_path, 2, [*replies(*[1] * 4), *shown, *failed])) == Anew(4, 0)


def test_a_run_without_any_reply_measured_what_it_asked_or_need_not_ask(tmp_path: Path) -> None:
    refused = [judgment(f"s{number}", verdict=None, status="refused") for number in range(3)]
    taken = [row.model_copy(update={"reused_from": run_of(1)}) for row in refused]
    assert anew(tmp_path, keep(tmp_path, 1, refused)).measured
    assert not anew(tmp_path, keep(tmp_path, 2, taken)).measured
    assert anew(tmp_path, keep(tmp_path, 3, [])).measured  # all of it forfeits
