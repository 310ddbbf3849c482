"""The ledger gives back what was paid for, and strange rows in it cost no more than their own replies."""

import gc
import json
import os
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from factories import end, judgment, line, start, write_run

from tasks.kinds import kind_of
from tasks.ledger import reading, reuse
from tasks.ledger.checksums import sealed
from tasks.ledger.forgotten import keep_mark, new_mark
from tasks.ledger.reading import JUDGMENTS, run_folders
from tasks.ledger.reuse import Replies, earlier_replies
from tasks.ledger.writing import Ledger
from tasks.records import BudgetStop, Judgment, RunStart

NOW = datetime.now(UTC)


def hours_ago(hours: float) -> str:
    return (NOW - timedelta(hours=hours)).isoformat()


def written(store: Path, run_id: str, rows: list[Judgment], finished: bool = True, **changes: object) -> RunStart:
    begun = start(run_id, **changes)
    ledger = Ledger(store, begun)
    for row in rows:
        ledger.append(row.model_copy(update={"run_id": run_id}))
    if finished:
        ledger.end(end(run_id))
    ledger.close()
    return begun


def now_asking(**changes: object) -> RunStart:
    return start("20991231T000000-diagram-new", started_at=NOW.isoformat(), **changes)


def earlier(store: Path, now: RunStart, reuse_hours: float) -> Replies:
    return earlier_replies(store, now, reuse_hours, kind_of(now.flow).confirms)


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
    reply = earlier(tmp_path, now_asking(), reuse_hours).find("k")
    assert (reply is not None) == found


def test_age_counts_from_the_original_call_also_through_reuse(tmp_path: Path) -> None:
    written(tmp_path, "r1", [judgment(key="k", judged_at=hours_ago(30), reused_from="r0")])
    assert earlier(tmp_path, now_asking(), 20).find("k") is None


def test_the_newest_reply_is_taken(tmp_path: Path) -> None:
    written(tmp_path, "r1", [judgment(key="k", judged_at=hours_ago(2), raw="newer")])
    written(tmp_path, "r2", [judgment(key="k", judged_at=hours_ago(5), raw="older")])
    reply = earlier(tmp_path, now_asking(), 20).find("k")
    assert reply is not None and reply.raw == "newer"


def test_an_unfinished_run_of_the_same_undertaking_is_resumed_at_any_age(tmp_path: Path) -> None:
    old = [judgment(key="k", judged_at=hours_ago(500))]
    written(tmp_path, "r1", old, finished=False, resume_key="same")
    assert earlier(tmp_path, now_asking(resume_key="same"), 20).find("k") is not None
    assert earlier(tmp_path, now_asking(resume_key="other"), 20).find("k") is None


@pytest.mark.parametrize(("scheduled", "found"), [(False, True), (True, False)])
def test_a_run_that_stopped_at_its_budget_is_gone_on_with_at_any_age_but_not_night_by_night(
    tmp_path: Path, scheduled: bool, found: bool
) -> None:
    stop = BudgetStop(budget=1.0, spent=0.9, judged=1, samples=3)
    old = [judgment(key="k", judged_at=hours_ago(500))]
    write_run(tmp_path, start("r1", resume_key="same"), [*old], end(stopped=stop))
    now = now_asking(resume_key="same", scheduled=scheduled)
    assert (earlier(tmp_path, now, 20).find("k") is not None) == found
    written(tmp_path, "r2", [], resume_key="same")
    assert earlier(tmp_path, now, 20).find("k") is None


def test_a_run_that_finished_since_supersedes_the_unfinished_one(tmp_path: Path) -> None:
    written(tmp_path, "r1", [judgment(key="k", judged_at=hours_ago(500))], finished=False, resume_key="same")
    written(tmp_path, "r2", [judgment(key="other", judged_at=hours_ago(400))], resume_key="same")
    assert earlier(tmp_path, now_asking(resume_key="same"), 20).find("k") is None


def test_ledgers_that_are_too_old_are_not_even_read(tmp_path: Path) -> None:
    written(tmp_path, "r1", [judgment(key="k", judged_at=hours_ago(30))])
    [run] = run_folders(tmp_path)
    (run / JUDGMENTS).write_text("this would not parse\n")
    past = (NOW - timedelta(hours=29)).timestamp()
    os.utime(run / JUDGMENTS, (past, past))
    assert len(earlier(tmp_path, now_asking(), 20)) == 0


def test_a_ledger_that_cannot_be_read_spares_no_call_and_stops_no_run(tmp_path: Path) -> None:
    written(tmp_path, "r1", [judgment(key="broken", judged_at=hours_ago(1))], finished=False)
    written(tmp_path, "r2", [judgment(key="whole", judged_at=hours_ago(1))])
    broken, _ = run_folders(tmp_path)
    (broken / JUDGMENTS).write_text("{\n")
    (broken / "run.json").write_text("{")
    replies = earlier(tmp_path, now_asking(), 20)
    assert replies.find("broken") is None and replies.find("whole") is not None
    assert replies.unreadable == 1


def row(**changes: Any) -> str:
    """A reply of an hour ago as the ledger writes it, with fields of any kind, and without the end of its line."""
    values = json.loads(judgment(key="k", run_id="r1", judged_at=hours_ago(1)).model_dump_json()) | changes
    return line({name: value for name, value in values.items() if value is not ...}).removesuffix("\n")


def unsealed(**changes: Any) -> str:
    """The same without a checksum."""
    return row(**changes).partition(',"crc32"')[0] + "}"


@pytest.mark.parametrize(
    "strange",
    [
        row(key=...), row(judged_at=...), row(key=7), row(key=None), row(judged_at=1e9), row(judged_at="recently"),
        row(judged_at="2099-01-01T00:00:00"), row(schema=99), row(schema="3"), row(schema=...), "[1]", '"text"', "7",
        "null", "{", "", row()[:-60], row()[:300] + row(), "[" * 100_000, '{"key": "\\ud800"}',
    ],
)  # fmt: skip
def test_a_strange_row_spares_no_call_is_counted_and_hides_no_other(tmp_path: Path, strange: str) -> None:
    written(tmp_path, "r1", [judgment(key="before", judged_at=hours_ago(1))])
    [run] = run_folders(tmp_path)
    with (run / JUDGMENTS).open("a") as file:
        file.write(strange + "\n" + row(key="after") + "\n")
    replies = earlier(tmp_path, now_asking(), 20)
    assert [replies.find(key) is not None for key in ("before", "k", "after")] == [True, False, True]
    assert replies.unreadable == 1


@pytest.mark.parametrize(
    "changes",
    [{"vote": "all"}, {"another": 1}, {"pictures": {"human": {"key": "k"}}}, {"seen": {"status": "ok"}}],
)
def test_a_row_that_is_no_judgment_is_found_out_when_it_is_wanted(tmp_path: Path, changes: dict[str, Any]) -> None:
    written(tmp_path, "r1", [])
    written(tmp_path, "r2", [judgment(key="other", judged_at=hours_ago(1))])
    (tmp_path / "ledger" / "r2" / JUDGMENTS).write_text(row(run_id="r2", **changes) + "\n")
    replies = earlier(tmp_path, now_asking(), 20)
    assert [replies.find("k"), replies.find("k"), replies.unreadable] == [None, None, 1]


def test_a_row_whose_fields_stand_elsewhere_lends_no_reply_to_another_call(tmp_path: Path) -> None:
    """The fields are looked for in the text of the row; a nested one of that name is not the row's own."""
    written(tmp_path, "r1", [judgment(judged_at=hours_ago(1))])
    inside = {"seen": {"status": "ok", "key": "wanted", "judged_at": hours_ago(1)}, "key": "own", "status": "invalid"}
    (run_folders(tmp_path)[0] / JUDGMENTS).write_text(line({"schema": 4, **inside}))
    assert earlier(tmp_path, now_asking(), 20).find("wanted") is None


def test_a_reply_that_is_older_than_it_looks_is_not_taken(tmp_path: Path) -> None:
    written(tmp_path, "r1", [judgment(judged_at=hours_ago(1))])
    twice = row().partition(',"crc32"')[0] + "}"
    twice = twice.replace('"prompt_sha256"', f'"judged_at":"{hours_ago(1)}","prompt_sha256"', 1)
    old = twice[: twice.rindex('"judged_at"')] + f'"judged_at":"{hours_ago(50)}","reused_from":""}}'
    (run_folders(tmp_path)[0] / JUDGMENTS).write_bytes(sealed(old))
    replies = earlier(tmp_path, now_asking(), 20)
    assert len(replies) == 1 and replies.find("k") is None and replies.unreadable == 1


def test_what_a_judge_wrote_is_no_field_of_the_row(tmp_path: Path) -> None:
    raw = f'{{"status":"ok","key":"forged","judged_at":"{hours_ago(0)}"}} "key":"forged",'
    written(tmp_path, "r1", [judgment(key="k", raw=raw, reasoning=raw, error=raw, judged_at=hours_ago(1))])
    replies = earlier(tmp_path, now_asking(), 20)
    assert len(replies) == 1 and replies.find("forged") is None
    found = replies.find("k")
    assert found is not None and found.raw == raw and replies.unreadable == 0


def test_rows_of_other_layouts_are_reused_as_well(tmp_path: Path) -> None:
    turned = dict(reversed(json.loads(unsealed(key="turned")).items()))
    rows = [
        line(judgment(key="schlüssel", run_id="r1", judged_at=hours_ago(1))),
        sealed(json.dumps(json.loads(unsealed(key="spaced")))).decode(),
        line(turned),
        unsealed(key="old", schema=1) + "\n",
    ]
    written(tmp_path, "r1", [judgment()])
    (run_folders(tmp_path)[0] / JUDGMENTS).write_text("".join(rows))
    replies = earlier(tmp_path, now_asking(), 20)
    assert all(replies.find(key) for key in ("schlüssel", "spaced", "turned", "old")) and replies.unreadable == 0


def test_ages_are_told_by_moments_and_not_by_how_they_are_written(tmp_path: Path) -> None:
    """+14:00 is ahead of UTC: by its text the old one would be the newest and young enough."""
    far = timezone(timedelta(hours=14))
    old, new = NOW - timedelta(hours=21), NOW - timedelta(hours=5)
    written(tmp_path, "r1", [judgment(key="old", judged_at=old.astimezone(far).isoformat())])
    written(tmp_path, "r2", [judgment(key="k", judged_at=new.astimezone(far).isoformat(), raw="older")])
    written(tmp_path, "r3", [judgment(key="k", judged_at=hours_ago(1), raw="newer")])
    replies = earlier(tmp_path, now_asking(), 20)
    found = replies.find("k")
    assert replies.find("old") is None and found is not None and found.raw == "newer"


def test_a_run_that_was_forgotten_elsewhere_lends_nothing(tmp_path: Path) -> None:
    for run in ("20261120T120000-diagram-0000aa", "20261120T130000-diagram-0000bb"):
        written(tmp_path, run, [judgment(key=run, judged_at=hours_ago(1))])
    keep_mark(tmp_path, new_mark("run", "20261120T120000-diagram-0000aa", ""))
    replies = earlier(tmp_path, now_asking(), 20)
    assert replies.find("20261120T120000-diagram-0000aa") is None
    assert replies.find("20261120T130000-diagram-0000bb") is not None


@pytest.mark.parametrize(
    ("kind", "name", "lent"),
    [
        ("sample", "s1", {"other", "later", "shared"}),
        ("candidate", "alpha", {"later", "shared"}),
        ("run", "20261120T100000-diagram-00evaluation", {"later", "shared"}),
    ],
)
def test_what_was_forgotten_elsewhere_is_lent_to_nobody(tmp_path: Path, kind: Any, name: str, lent: set[str]) -> None:
    earlier_run, keys = "20261120T120000-diagram-0000aa", ("secret", "other", "shared")
    rows = [judgment("s2" if key == "other" else "s1", key=key, judged_at=hours_ago(1)) for key in keys]
    before, after = ((NOW + timedelta(hours=hours)).isoformat() for hours in (-2, 2))
    evaluation = "20261120T100000-diagram-00evaluation"
    written(tmp_path, earlier_run, rows, started_at=before, evaluation_id=evaluation, shards=2)
    keep_mark(tmp_path, new_mark(kind, name, ""))
    again = [judgment("s1", key=key, judged_at=hours_ago(0)) for key in ("later", "shared")]
    written(tmp_path, "20261120T130000-diagram-0000bb", again, started_at=after)
    replies = earlier(tmp_path, now_asking(), 20)
    assert {key for key in (*keys, "later") if replies.find(key)} == lent


def test_a_ledger_that_is_gone_by_now_lends_nothing(tmp_path: Path) -> None:
    written(tmp_path, "r1", [judgment(key="k", judged_at=hours_ago(1))])
    replies = earlier(tmp_path, now_asking(), 20)
    (run_folders(tmp_path)[0] / JUDGMENTS).unlink()
    assert (replies.find("k"), replies.unreadable) == (None, 1)


def test_rows_that_cannot_be_opened_stop_no_run(tmp_path: Path) -> None:
    written(tmp_path, "r1", [judgment(key="lost", judged_at=hours_ago(1))])
    written(tmp_path, "r2", [judgment(key="k", judged_at=hours_ago(1))])
    rows = run_folders(tmp_path)[0] / JUDGMENTS
    rows.unlink()
    rows.mkdir()
    replies = earlier(tmp_path, now_asking(), 20)
    assert (len(replies), replies.unreadable) == (1, 1)


def test_replies_in_memory_leave_the_garbage_collector_nothing_to_walk_through(tmp_path: Path) -> None:
    """It stops the event loop while it walks: through an object for each of 400,000 replies it walks long."""
    many = 2_000
    written(tmp_path, "r1", [judgment(key=f"{number:064}", judged_at=hours_ago(1)) for number in range(many)])
    gc.collect()
    before = len(gc.get_objects())
    replies = earlier(tmp_path, now_asking(), 20)
    gc.collect()
    assert len(replies) == many and len(gc.get_objects()) - before < many / 10


def test_finding_replies_reads_each_row_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And parses none that the ledger wrote itself: only what is taken is read whole."""
    for run in ("r1", "r2", "r3"):
        written(tmp_path, run, [judgment(key=f"{run}/{number}", judged_at=hours_ago(1)) for number in range(50)])
    parsed: list[bytes] = []

    def parse(text: bytes, *others: Any, **named: Any) -> dict[str, Any]:
        parsed.append(text)
        return reading.parse_row(text, *others, **named)

    monkeypatch.setattr(reuse, "parse_row", parse)
    replies = earlier(tmp_path, now_asking(), 20)
    assert (len(replies), len(parsed)) == (150, 0)
    assert replies.find("r2/7") is not None and len(parsed) == 1
