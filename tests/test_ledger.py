"""The ledger survives what happens to it, and gives back what was paid for."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from factories import end, judgment, outcome, start

from tasks.ledger.reading import JUDGMENTS, read_end, read_judgments, read_outcomes, read_start, run_folders
from tasks.ledger.reuse import earlier_replies
from tasks.ledger.writing import Ledger
from tasks.records import Judgment, RunStart

NOW = datetime.now(UTC)


def hours_ago(hours: float) -> str:
    return (NOW - timedelta(hours=hours)).isoformat()


def written(store: Path, run_id: str, rows: list[Judgment], finished: bool = True, **changes: object) -> RunStart:
    begun = start(run_id, **changes)
    ledger = Ledger(store, begun)
    for row in rows:
        ledger.append(row)
    if finished:
        ledger.end(end(run_id))
    ledger.close()
    return begun


def now_asking(**changes: object) -> RunStart:
    return start("20991231T000000-diagram-new", started_at=NOW.isoformat(), **changes)


def test_rows_come_back_as_they_were_written(tmp_path: Path) -> None:
    row, made = judgment(raw='{"winner": "Model"} with a \n line', verdict="Model"), outcome()
    ledger = Ledger(tmp_path, start("r1"))
    ledger.append(row)
    ledger.append(made)
    [run] = run_folders(tmp_path)
    assert (list(read_judgments(run)), list(read_outcomes(run)), read_end(run)) == ([row], [made], None)
    ledger.end(end("r1"))
    assert read_end(run) == end("r1") and read_start(run) == start("r1")


def test_each_row_is_in_the_file_before_append_returns(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, start("r1"))
    for n in range(1, 4):
        ledger.append(judgment(sample_id=f"s{n}"))
        assert len((ledger.folder / JUDGMENTS).read_bytes().splitlines()) == n
    ledger.close()


def test_a_run_refused_before_its_first_row_leaves_nothing(tmp_path: Path) -> None:
    Ledger(tmp_path, start("r1")).close()
    assert run_folders(tmp_path) == [] and not any(tmp_path.iterdir())


def test_a_torn_last_line_is_ignored(tmp_path: Path) -> None:
    written(tmp_path, "r1", [judgment(sample_id="s1"), judgment(sample_id="s2")], finished=False)
    [run] = run_folders(tmp_path)
    whole = (run / JUDGMENTS).read_bytes()
    for cut in (1, 40, len(whole) // 2 - 1):
        (run / JUDGMENTS).write_bytes(whole[:-cut])
        assert [row.sample_id for row in read_judgments(run)] == ["s1"]


def test_a_damaged_row_in_the_middle_is_an_error_and_not_skipped(tmp_path: Path) -> None:
    written(tmp_path, "r1", [judgment(sample_id="s1"), judgment(sample_id="s2")])
    [run] = run_folders(tmp_path)
    first, second = (run / JUDGMENTS).read_bytes().splitlines(keepends=True)
    (run / JUDGMENTS).write_bytes(first[:-20] + b"\n" + second)
    with pytest.raises(ValueError, match=r"judgments\.jsonl, line 1: damaged"):
        list(read_judgments(run))
    (run / JUDGMENTS).write_text("[1]\n")
    with pytest.raises(ValueError, match="expected an object"):
        list(read_judgments(run))


def test_a_row_of_a_newer_schema_asks_for_an_upgrade(tmp_path: Path) -> None:
    written(tmp_path, "r1", [judgment()])
    [run] = run_folders(tmp_path)
    row = json.loads((run / JUDGMENTS).read_bytes()) | {"schema": 99}
    (run / JUDGMENTS).write_text(json.dumps(row) + "\n")
    with pytest.raises(ValueError, match=r"judgments\.jsonl, line 1: ledger schema 99.*upgrade"):
        list(read_judgments(run))


@pytest.mark.parametrize(
    ("hours", "reuse_hours", "status", "found"),
    [
        (1, 20, "ok", True),
        (21, 20, "ok", False),
        (21, 48, "ok", True),
        (1, 0, "ok", False),
        (1, 20, "invalid", False),
        (1, 20, "refused", False),
        (1, 20, "unavailable", False),
    ],
)
def test_a_reply_is_found_again_while_it_is_young_and_ok(
    tmp_path: Path, hours: float, reuse_hours: float, status: str, found: bool
) -> None:
    written(tmp_path, "r1", [judgment(key="k", status=status, judged_at=hours_ago(hours))])
    reply = earlier_replies(tmp_path, now_asking(), reuse_hours).find("k")
    assert (reply is not None) == found


def test_age_counts_from_the_original_call_also_through_reuse(tmp_path: Path) -> None:
    written(tmp_path, "r1", [judgment(key="k", judged_at=hours_ago(30), reused_from="r0")])
    assert earlier_replies(tmp_path, now_asking(), 20).find("k") is None


def test_the_newest_reply_is_taken(tmp_path: Path) -> None:
    written(tmp_path, "r1", [judgment(key="k", judged_at=hours_ago(2), raw="newer")])
    written(tmp_path, "r2", [judgment(key="k", judged_at=hours_ago(5), raw="older")])
    reply = earlier_replies(tmp_path, now_asking(), 20).find("k")
    assert reply is not None and reply.raw == "newer"


def test_an_unfinished_run_of_the_same_undertaking_is_resumed_at_any_age(tmp_path: Path) -> None:
    old = [judgment(key="k", judged_at=hours_ago(500))]
    written(tmp_path, "r1", old, finished=False, resume_key="same")
    assert earlier_replies(tmp_path, now_asking(resume_key="same"), 20).find("k") is not None
    assert earlier_replies(tmp_path, now_asking(resume_key="other"), 20).find("k") is None


def test_a_run_that_finished_since_supersedes_the_unfinished_one(tmp_path: Path) -> None:
    written(tmp_path, "r1", [judgment(key="k", judged_at=hours_ago(500))], finished=False, resume_key="same")
    written(tmp_path, "r2", [judgment(key="other", judged_at=hours_ago(400))], resume_key="same")
    assert earlier_replies(tmp_path, now_asking(resume_key="same"), 20).find("k") is None


def test_ledgers_that_are_too_old_are_not_even_read(tmp_path: Path) -> None:
    written(tmp_path, "r1", [judgment(key="k", judged_at=hours_ago(30))])
    [run] = run_folders(tmp_path)
    (run / JUDGMENTS).write_text("this would not parse\n")
    past = (NOW - timedelta(hours=29)).timestamp()
    os.utime(run / JUDGMENTS, (past, past))
    assert len(earlier_replies(tmp_path, now_asking(), 20)) == 0


def test_a_ledger_that_cannot_be_read_spares_no_call_and_stops_no_run(tmp_path: Path) -> None:
    written(tmp_path, "r1", [judgment(key="broken", judged_at=hours_ago(1))], finished=False)
    written(tmp_path, "r2", [judgment(key="whole", judged_at=hours_ago(1))])
    broken, _ = run_folders(tmp_path)
    (broken / JUDGMENTS).write_text("{\n")
    (broken / "run.json").write_text("{")
    replies = earlier_replies(tmp_path, now_asking(), 20)
    assert replies.find("broken") is None and replies.find("whole") is not None
