"""Foreign and damaged stores: unusable ledgers are left out with a message, and damaged replies are not reused."""

import gc
import json
import os
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from factories import RUN, end, judgment, line, start, write_run
from written_history import ask, whole_run

from tasks.history.forgetting import keep_plan, make_plan
from tasks.history.landing import land, missing
from tasks.ledger.removals import UNFINISHED, tombstone_of
from tasks.ledger.reuse import Replies, earlier_replies
from tasks.ledger.run_files import BATCHES, END, JUDGMENTS, OUTCOMES, Ledger, run_folders
from tasks.ledger.run_files import RUN as START
from tasks.records import SCHEMA, BudgetStop, Judgment, RunStart

OTHER = "20261121T120000-diagram-0000aa"
JUNK = b"\xff\x00junk" * 1_500_000
NEWEST = b'"schema":%d' % SCHEMA

Damage = Callable[[Path], object]


def flip(path: Path, old: bytes, new: bytes) -> None:
    """Change the first occurrence of some bytes, like a bit error on a disk."""
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, 1))


def tear(path: Path) -> None:
    first, rest = path.read_bytes().split(b"\n", 1)
    path.write_bytes(first[:-50] + rest)


def replace(path: Path, made: Callable[[Path], object]) -> None:
    path.unlink()
    made(path)


def take_from_other(name: str) -> Damage:
    return lambda run: shutil.copy(run.parent / OTHER / name, run / name)


def lead_elsewhere(run: Path) -> None:
    run.rename(run.parents[1] / "elsewhere")
    run.symlink_to(run.parents[1] / "elsewhere")


def rewrite(path: Path, **changes: Any) -> None:
    first, rest = path.read_text().split("\n", 1)
    path.write_text(line({**json.loads(first), **changes}) + rest)


def add(name: str, text: str) -> Damage:
    return lambda run: (run / name).write_text(f"{(run / name).read_text()}{text}\n")


def write(name: str, data: bytes) -> Damage:
    return lambda run: (run / name).write_bytes(data)


def drop_last(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


DAMAGED: dict[str, tuple[Damage, str]] = {
    "a row of another schema": (lambda run: flip(run / JUDGMENTS, NEWEST, b'"schema":9'), "ledger schema 9"),
    "a row that is no JSON": (add(JUDGMENTS, "no JSON at all"), "line 5: damaged: expected ident"),
    "a row without fields": (add(JUDGMENTS, '{"schema": 7, "sample_id": "s9"}'), "NOT NULL constraint failed"),
    "a number for a list": (add(OUTCOMES, '{"schema": 7, "dimensions": 3}'), "outcomes.jsonl"),
    "more than a start": (add(START, "and more"), "trailing characters"),
    "a start without fields": (write(START, b'{"schema": 7}'), "Field required"),
    "an end without fields": (write(END, b"{}"), "ledger schema None"),
    "a torn line": (lambda run: tear(run / JUDGMENTS), "line 1: damaged"),
    "no judgments": (lambda run: (run / JUDGMENTS).unlink(), "damaged: 4 of the 4 rows that end.json counts"),
    "a judgment less": (lambda run: drop_last(run / JUDGMENTS), "damaged: 1 of the 4 rows that end.json counts"),
    "emptied outcomes": (write(OUTCOMES, b""), "damaged: 1 of the 1 rows that end.json counts"),
    "the start of another run": (take_from_other(START), f"of the run '{OTHER}'"),
    "judgments of another run": (take_from_other(JUDGMENTS), f"of the run '{OTHER}'"),
    "an invalid seen part": (lambda run: rewrite(run / JUDGMENTS, seen={"objects": ["dog"]}), "judgments.jsonl"),
    "a pipe for a start": (lambda run: replace(run / START, os.mkfifo), "no regular file"),
    "a pipe for judgments": (lambda run: replace(run / JUDGMENTS, os.mkfifo), "no regular file"),
    "a link for judgments": (lambda run: replace(run / JUDGMENTS, lambda to: to.symlink_to("/etc/passwd")), "a link"),
    "a link to nothing": (lambda run: replace(run / OUTCOMES, lambda to: to.symlink_to("nowhere")), "a link"),
    "a link for the folder": (lead_elsewhere, "it is a link"),
    "junk in a row": (write(JUDGMENTS, JUNK + b"\n"), "line 1: damaged"),
    "a row that has no end": (lambda run: os.truncate(run / JUDGMENTS, 1 << 34), "damaged"),
    "a start that has no end": (lambda run: os.truncate(run / START, 1 << 34), "more than"),
}
"""Damage -> its cause, and a part of the message."""


def test_damaged_ledgers_are_left_out_with_a_message(tmp_path: Path) -> None:
    whole_run(tmp_path, OTHER)
    runs = {damaged: whole_run(tmp_path, f"20261120T1200{n:02}-diagram-0000aa") for n, damaged in enumerate(DAMAGED)}
    for name, (damage, _) in DAMAGED.items():
        damage(runs[name])
    done = land(tmp_path)
    assert done.loaded == (OTHER,) and not done.sentence_about(OTHER) and len(done.left_out) == len(DAMAGED)
    for name, (_, words) in DAMAGED.items():
        sentence = done.sentence_about(runs[name].name)
        assert sentence in done.left_out and "\n" not in sentence, name
        assert sentence.startswith(f"The ledger {runs[name]} was left out: ") and words in sentence, name
    assert ask(tmp_path, "SELECT DISTINCT run_id FROM runs UNION SELECT run_id FROM judgments") == [(OTHER,)]
    assert ask(tmp_path, "SELECT count(*) FROM outcomes") == [(1,)]
    ended = {run.name for run in runs.values() if (run / END).is_file()}
    assert {*missing(tmp_path)} >= ended, "commands that read the history report them"


# Replies of others


@pytest.fixture
def lending_run(tmp_path: Path) -> Path:
    """Return a finished run whose four replies could be reused."""
    return write_run(tmp_path, start(), [judgment(f"s{n}", key=f"k{n}") for n in range(4)], end())


def find_reusable(store: Path) -> tuple[list[int], Replies]:
    there = earlier(store, current_run(), 1e6)
    return [number for number in range(4) if there.find(f"k{number}")], there


LENT: dict[str, tuple[Damage, list[int], int]] = {
    "nothing": (lambda run: None, [0, 1, 2, 3], 0),
    "a start that cannot be read": (write(START, b"{"), [0, 1, 2, 3], 0),
    "a bit of a key": (lambda run: flip(run / JUDGMENTS, b'"k0"', b'"k9"'), [1, 2, 3], 0),
    "a bit of a status": (lambda run: flip(run / JUDGMENTS, b'"ok"', b'"oj"'), [1, 2, 3], 0),
    "a torn line joined with the next": (lambda run: tear(run / JUDGMENTS), [2, 3], 1),
    "a folder for an end": (lambda run: replace(run / END, os.mkdir), [0, 1, 2, 3], 0),
    "a link for an end": (lambda run: replace(run / END, lambda to: to.symlink_to("/etc/passwd")), [0, 1, 2, 3], 0),
    "the last row": (lambda run: drop_last(run / JUDGMENTS), [0, 1, 2], 0),
    "a folder in its place": (lambda run: replace(run / JUDGMENTS, os.mkdir), [], 1),
    "a link in its place": (lambda run: replace(run / JUDGMENTS, lambda to: to.symlink_to("/etc/passwd")), [], 1),
    "junk before a row": (lambda run: flip(run / JUDGMENTS, b"{", JUNK + b"{"), [1, 2, 3], 1),
}
"""Damage of a ledger -> its cause, the replies still reused, and the number of rows reported."""


@pytest.mark.parametrize(("damage", "lent", "reported"), LENT.values(), ids=LENT)
def test_damaged_replies_are_asked_again(lending_run: Path, damage: Damage, lent: list[int], reported: int) -> None:
    damage(lending_run)
    numbers, there = find_reusable(lending_run.parents[1])
    assert (numbers, there.unreadable) == (lent, reported)
    assert (str(lending_run / JUDGMENTS) in there.first_unreadable) == bool(reported)


def test_rows_under_another_runs_name_are_not_reused(lending_run: Path) -> None:
    shutil.copytree(lending_run, lending_run.parent / OTHER)
    shutil.rmtree(lending_run)
    assert find_reusable(lending_run.parents[1])[0] == []


# Reuse of paid replies


NOW = datetime.now(UTC)
FOUND: list[Replies] = []


@pytest.fixture(autouse=True)
def close_replies() -> Iterator[None]:
    """Release the ledgers that a test has read."""
    yield
    while FOUND:
        FOUND.pop().close()


def hours_ago(hours: float) -> str:
    return (NOW - timedelta(hours=hours)).isoformat()


def write_replies(store: Path, run_id: str, rows: list[Judgment], finished: bool = True, **changes: object) -> None:
    write_run(store, start(run_id, **changes), [*rows], end() if finished else None)


def current_run(**changes: object) -> RunStart:
    return start("20991231T000000-diagram-new", started_at=NOW.isoformat(), **changes)


def earlier(store: Path, now: RunStart, reuse_hours: float) -> Replies:
    replies = earlier_replies(store, now, reuse_hours)
    FOUND.append(replies)
    return replies


@pytest.mark.parametrize(
    ("hours", "reuse_hours", "changes", "found"),
    [
        (1, 20, {}, True),
        (21, 20, {}, False),
        (21, 48, {}, True),
        (1, 0, {}, False),
        (30, 20, {"reused_from": "r0"}, False),  # by the age of the original call
        (1, 20, {"status": "invalid"}, False),
        (1, 20, {"status": "refused"}, False),
        (1, 20, {"status": "unavailable"}, False),
    ],
)
def test_recent_ok_reply_is_reused(
    tmp_path: Path, hours: float, reuse_hours: float, changes: dict[str, str], found: bool
) -> None:
    write_replies(tmp_path, "r1", [judgment(key="k", judged_at=hours_ago(hours), **changes)])
    reply = earlier(tmp_path, current_run(), reuse_hours).find("k")
    assert (reply is not None) == found


@pytest.mark.parametrize(("scheduled", "began", "found"), [(False, 24, True), (True, 24, False), (True, 19, True)])
def test_long_night_lends_no_reply_to_the_next(tmp_path: Path, scheduled: bool, began: int, found: bool) -> None:
    night = f"{NOW - timedelta(hours=began):%Y%m%dT%H%M%S}000-diagram-night"
    write_replies(tmp_path, night, [judgment(key="k", judged_at=hours_ago(10))])
    again = judgment(key="again", judged_at=hours_ago(10), reused_from=night)
    write_replies(tmp_path, f"{NOW:%Y%m%dT%H%M%S}000-diagram-other", [again])
    replies = earlier(tmp_path, current_run(scheduled=scheduled), 20)
    assert [replies.find(key) is not None for key in ("k", "again")] == [found, found]


def test_unfinished_run_with_equal_resume_key_is_resumed_at_any_age(tmp_path: Path) -> None:
    old = [judgment(key="k", judged_at=hours_ago(500))]
    write_replies(tmp_path, "r1", old, finished=False, resume_key="same")
    assert earlier(tmp_path, current_run(resume_key="same"), 20).find("k") is not None
    assert earlier(tmp_path, current_run(resume_key="other"), 20).find("k") is None


def test_concurrent_run_with_the_same_questions_is_reported(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, start(RUN, resume_key="same"))
    ledger.append(judgment(key="k"))
    words = f"some replies are paid for twice: {RUN} asks the same now (stop this run,"
    assert earlier(tmp_path, current_run(resume_key="same"), 20).at_work_words.startswith(words)
    assert not earlier(tmp_path, current_run(resume_key="other"), 20).at_work_words
    ledger.close()
    assert not earlier(tmp_path, current_run(resume_key="same"), 20).at_work_words
    (ledger.folder / BATCHES).write_text("a row")
    (tmp_path / "batches" / RUN).mkdir(parents=True)
    assert earlier(tmp_path, current_run(resume_key="same"), 20).at_work_words.startswith(words)
    by_batch = {"judge": {"service_tier": "batch"}}
    assert not earlier(tmp_path, current_run(resume_key="same", parameters=by_batch), 20).at_work_words, "it attaches"


@pytest.mark.parametrize(("scheduled", "found"), [(False, True), (True, False)])
def test_run_stopped_at_budget_is_resumed_except_by_schedule(tmp_path: Path, scheduled: bool, found: bool) -> None:
    stop = BudgetStop(budget=1.0, spent=0.9, judged=1, samples=3)
    old = [judgment(key="k", judged_at=hours_ago(500))]
    write_run(tmp_path, start("r1", resume_key="same"), [*old], end(stopped=stop))
    now = current_run(resume_key="same", scheduled=scheduled)
    assert (earlier(tmp_path, now, 20).find("k") is not None) == found
    write_replies(tmp_path, "r2", [], resume_key="same")
    assert earlier(tmp_path, now, 20).find("k") is None


def test_later_finished_run_supersedes_the_unfinished_one(tmp_path: Path) -> None:
    write_replies(tmp_path, "r1", [judgment(key="k", judged_at=hours_ago(500))], finished=False, resume_key="same")
    write_replies(tmp_path, "r2", [judgment(key="other", judged_at=hours_ago(400))], resume_key="same")
    assert earlier(tmp_path, current_run(resume_key="same"), 20).find("k") is None


def test_old_ledgers_are_not_read(tmp_path: Path) -> None:
    write_replies(tmp_path, "r1", [judgment(key="k", judged_at=hours_ago(30))])
    [run] = run_folders(tmp_path)
    (run / JUDGMENTS).write_text("this would not parse\n")
    past = (NOW - timedelta(hours=29)).timestamp()
    os.utime(run / JUDGMENTS, (past, past))
    assert len(earlier(tmp_path, current_run(), 20)) == 0


def row(**changes: Any) -> str:
    """Return a ledger row of an hour ago with any fields, without its line end."""
    values = json.loads(judgment(key="k", run_id="r1", judged_at=hours_ago(1)).model_dump_json()) | changes
    return line({name: value for name, value in values.items() if value is not ...}).removesuffix("\n")


@pytest.mark.parametrize(
    "strange",
    [
        row(key=...), row(key=7), row(judged_at="recently"), row(judged_at="2099-01-01T00:00:00"), row(schema=99),
        "[1]", "{", "", row()[:300] + row(), "[" * 100_000, '{"key": "\\ud800"}',
    ],
)  # fmt: skip
def test_invalid_row_is_counted_and_hides_no_other(tmp_path: Path, strange: str) -> None:
    write_replies(tmp_path, "r1", [judgment(key="before", judged_at=hours_ago(1))])
    [run] = run_folders(tmp_path)
    with (run / JUDGMENTS).open("a") as file:
        file.write(strange + "\n" + row(key="after") + "\n")
    replies = earlier(tmp_path, current_run(), 20)
    assert [replies.find(key) is not None for key in ("before", "k", "after")] == [True, False, True]
    assert replies.unreadable == 1


@pytest.mark.parametrize(
    "changes", [{"vote": "all"}, {"another": 1}, {"pictures": {"human": {"key": "k"}}}, {"seen": {"status": "ok"}}]
)
def test_row_with_invalid_fields_is_detected_on_use(tmp_path: Path, changes: dict[str, Any]) -> None:
    write_replies(tmp_path, "r1", [])
    write_replies(tmp_path, "r2", [judgment(key="other", judged_at=hours_ago(1))])
    (tmp_path / "ledger" / "r2" / JUDGMENTS).write_text(row(run_id="r2", **changes) + "\n")
    replies = earlier(tmp_path, current_run(), 20)
    assert [replies.find("k"), replies.find("k"), replies.unreadable] == [None, None, 1]


def test_ages_of_replies_respect_time_zones(tmp_path: Path) -> None:
    """+14:00 is ahead of UTC: compared as text, the old reply would be the newest and recent enough."""
    far = timezone(timedelta(hours=14))
    old, new = NOW - timedelta(hours=21), NOW - timedelta(hours=5)
    write_replies(tmp_path, "r1", [judgment(key="old", judged_at=old.astimezone(far).isoformat())])
    write_replies(tmp_path, "r2", [judgment(key="k", judged_at=new.astimezone(far).isoformat(), raw="older")])
    write_replies(tmp_path, "r3", [judgment(key="k", judged_at=hours_ago(1), raw="newer")])
    replies = earlier(tmp_path, current_run(), 20)
    found = replies.find("k")
    assert replies.find("old") is None and found is not None and found.raw == "newer"


def test_nothing_is_reused_while_forgetting_is_pending(tmp_path: Path) -> None:
    write_replies(tmp_path, "20261120T120000-diagram-0000aa", [judgment(key="k", judged_at=hours_ago(1))])
    keep_plan(tmp_path, make_plan(tmp_path, "sample", "s1", ""))
    assert earlier(tmp_path, current_run(), 20).find("k") is None
    (tmp_path / UNFINISHED).unlink()
    assert earlier(tmp_path, current_run(), 20).find("k") is not None


def test_removed_run_is_not_reused(tmp_path: Path) -> None:
    run = "20261120T120000-diagram-0000aa"
    write_replies(tmp_path, run, [judgment(key="k", judged_at=hours_ago(1))])
    (tmp_path / "ledger" / run / "removed.json").write_bytes(tombstone_of(run, {}))
    assert earlier(tmp_path, current_run(), 20).find("k") is None


def test_ledger_deleted_meanwhile_is_not_reused(tmp_path: Path) -> None:
    write_replies(tmp_path, "r1", [judgment(key="k", judged_at=hours_ago(1))])
    replies = earlier(tmp_path, current_run(), 20)
    (run_folders(tmp_path)[0] / JUDGMENTS).unlink()
    assert (replies.find("k"), replies.unreadable) == (None, 1)


def test_replies_in_memory_add_few_objects_for_the_garbage_collector(tmp_path: Path) -> None:
    """Collection stops the event loop: with an object for each of 400,000 replies it would take long."""
    many = 2_000
    write_replies(tmp_path, "r1", [judgment(key=f"{number:064}", judged_at=hours_ago(1)) for number in range(many)])
    gc.collect()
    before = len(gc.get_objects())
    replies = earlier(tmp_path, current_run(), 20)
    gc.collect()
    assert len(replies) == many and len(gc.get_objects()) - before < many / 10
