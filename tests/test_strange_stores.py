"""Stores of others, and of bad disks: what is in them is believed as far as it proves itself, and the rest is told."""

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

from tasks.history.forgetting import end_plan, keep_plan, make_plan
from tasks.history.landing import land, missing
from tasks.ledger.removals import tombstone_of
from tasks.ledger.reuse import Replies, earlier_replies
from tasks.ledger.run_files import END, JUDGMENTS, OUTCOMES, Ledger, run_folders
from tasks.ledger.run_files import RUN as START
from tasks.records import SCHEMA, BudgetStop, Judgment, RunStart

OTHER = "20261121T120000-diagram-0000aa"
JUNK = b"\xff\x00junk" * 1_500_000
NEWEST = b'"schema":%d' % SCHEMA

Damage = Callable[[Path], object]


def flip(path: Path, old: bytes, new: bytes) -> None:
    """Change the first of these words, as a bit on a bad disk does."""
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
    "a check of other objects": (lambda run: rewrite(run / JUDGMENTS, seen={"objects": ["dog"]}), "judgments.jsonl"),
    "a pipe for a start": (lambda run: replace(run / START, os.mkfifo), "no regular file"),
    "a pipe for judgments": (lambda run: replace(run / JUDGMENTS, os.mkfifo), "no regular file"),
    "a link for judgments": (lambda run: replace(run / JUDGMENTS, lambda to: to.symlink_to("/etc/passwd")), "a link"),
    "a link to nothing": (lambda run: replace(run / OUTCOMES, lambda to: to.symlink_to("nowhere")), "a link"),
    "a link for the folder": (lead_elsewhere, "it is a link"),
    "junk in a row": (write(JUDGMENTS, JUNK + b"\n"), "line 1: damaged"),
    "a row that has no end": (lambda run: os.truncate(run / JUDGMENTS, 1 << 34), "damaged"),
    "a start that has no end": (lambda run: os.truncate(run / START, 1 << 34), "more than"),
}
"""What can be wrong with a ledger -> how it comes to be so, and what is said of it."""


@pytest.mark.usefixtures("laid_out")
def test_ledgers_that_are_not_to_be_believed_are_left_out_and_told(tmp_path: Path) -> None:
    whole_run(tmp_path, OTHER)
    runs = {what: whole_run(tmp_path, f"20261120T1200{n:02}-diagram-0000aa") for n, what in enumerate(DAMAGED)}
    for what, (damage, _) in DAMAGED.items():
        damage(runs[what])
    done = land(tmp_path)
    assert done.loaded == (OTHER,) and not done.sentence_about(OTHER) and len(done.left_out) == len(DAMAGED)
    for what, (_, said) in DAMAGED.items():
        sentence = done.sentence_about(runs[what].name)
        assert sentence in done.left_out and "\n" not in sentence, what
        assert sentence.startswith(f"The ledger {runs[what]} was left out: ") and said in sentence, what
    assert ask(tmp_path, "SELECT DISTINCT run_id FROM runs UNION SELECT run_id FROM judgments") == [(OTHER,)]
    assert ask(tmp_path, "SELECT count(*) FROM outcomes") == [(1,)]
    ended = {run.name for run in runs.values() if (run / END).is_file()}
    assert {*missing(tmp_path)} >= ended, "the commands that ask the history tell of them"


# Replies of others


def asked(number: int) -> Judgment:
    return judgment(f"s{number}", key=f"k{number}")


@pytest.fixture
def replied(tmp_path: Path) -> Path:
    """A finished run that could lend four replies."""
    return write_run(tmp_path, start(), [asked(number) for number in range(4)], end())


def found(store: Path) -> tuple[list[int], Replies]:
    there = earlier(store, now_asking(), 1e6)
    return [number for number in range(4) if there.find(f"k{number}")], there


LENT: dict[str, tuple[Damage, list[int], int]] = {
    "nothing": (lambda run: None, [0, 1, 2, 3], 0),
    "a start that cannot be read": (write(START, b"{"), [0, 1, 2, 3], 0),
    "a bit of a key": (lambda run: flip(run / JUDGMENTS, b'"k0"', b'"k9"'), [1, 2, 3], 0),
    "a bit of a status": (lambda run: flip(run / JUDGMENTS, b'"ok"', b'"oj"'), [1, 2, 3], 0),
    "a torn line takes the next with it": (lambda run: tear(run / JUDGMENTS), [2, 3], 1),
    "the last row": (lambda run: drop_last(run / JUDGMENTS), [0, 1, 2], 0),
    "a folder in its place": (lambda run: replace(run / JUDGMENTS, os.mkdir), [], 1),
    "a link in its place": (lambda run: replace(run / JUDGMENTS, lambda to: to.symlink_to("/etc/passwd")), [], 1),
    "junk before a row": (lambda run: flip(run / JUDGMENTS, b"{", JUNK + b"{"), [1, 2, 3], 1),
}
"""What a ledger has lost -> how, which replies it lends still, and how many rows are told of."""


@pytest.mark.parametrize(("damage", "lent", "told"), LENT.values(), ids=LENT)
def test_what_is_damaged_is_asked_anew_and_told(replied: Path, damage: Damage, lent: list[int], told: int) -> None:
    damage(replied)
    numbers, there = found(replied.parents[1])
    assert (numbers, there.unreadable) == (lent, told)
    assert (str(replied / JUDGMENTS) in there.first_unreadable) == bool(told)


def test_rows_under_the_name_of_another_run_lend_nothing(replied: Path) -> None:
    shutil.copytree(replied, replied.parent / OTHER)
    shutil.rmtree(replied)
    assert found(replied.parents[1])[0] == []


# The ledger gives back what was paid for


NOW = datetime.now(UTC)
FOUND: list[Replies] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Release the ledgers that a test has read."""
    yield
    while FOUND:
        FOUND.pop().close()


def hours_ago(hours: float) -> str:
    return (NOW - timedelta(hours=hours)).isoformat()


def written(store: Path, run_id: str, rows: list[Judgment], finished: bool = True, **changes: object) -> None:
    write_run(store, start(run_id, **changes), [*rows], end() if finished else None)


def now_asking(**changes: object) -> RunStart:
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
def test_a_reply_is_found_again_while_it_is_young_and_ok(
    tmp_path: Path, hours: float, reuse_hours: float, changes: dict[str, str], found: bool
) -> None:
    written(tmp_path, "r1", [judgment(key="k", judged_at=hours_ago(hours), **changes)])
    reply = earlier(tmp_path, now_asking(), reuse_hours).find("k")
    assert (reply is not None) == found


def test_an_unfinished_run_of_the_same_undertaking_is_resumed_at_any_age(tmp_path: Path) -> None:
    old = [judgment(key="k", judged_at=hours_ago(500))]
    written(tmp_path, "r1", old, finished=False, resume_key="same")
    assert earlier(tmp_path, now_asking(resume_key="same"), 20).find("k") is not None
    assert earlier(tmp_path, now_asking(resume_key="other"), 20).find("k") is None


def test_a_run_with_the_same_questions_that_is_being_written_is_told(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, start(RUN, resume_key="same"))
    ledger.append(judgment(key="k"))
    words = f"some replies are paid for twice: {RUN} asks the same now (stop this run,"
    assert earlier(tmp_path, now_asking(resume_key="same"), 20).at_work_words.startswith(words)
    assert not earlier(tmp_path, now_asking(resume_key="other"), 20).at_work_words
    ledger.close()
    assert not earlier(tmp_path, now_asking(resume_key="same"), 20).at_work_words


@pytest.mark.parametrize(("scheduled", "found"), [(False, True), (True, False)])
def test_a_run_stopped_at_its_budget_is_resumed_but_not_by_night(tmp_path: Path, scheduled: bool, found: bool) -> None:
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


def row(**changes: Any) -> str:
    """A reply of an hour ago as the ledger writes it, with fields of any kind, and without the end of its line."""
    values = json.loads(judgment(key="k", run_id="r1", judged_at=hours_ago(1)).model_dump_json()) | changes
    return line({name: value for name, value in values.items() if value is not ...}).removesuffix("\n")


@pytest.mark.parametrize(
    "strange",
    [
        row(key=...), row(key=7), row(judged_at="recently"), row(judged_at="2099-01-01T00:00:00"), row(schema=99),
        "[1]", "{", "", row()[:300] + row(), "[" * 100_000, '{"key": "\\ud800"}',
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
    "changes", [{"vote": "all"}, {"another": 1}, {"pictures": {"human": {"key": "k"}}}, {"seen": {"status": "ok"}}]
)
def test_a_row_that_is_no_judgment_is_found_out_when_it_is_wanted(tmp_path: Path, changes: dict[str, Any]) -> None:
    written(tmp_path, "r1", [])
    written(tmp_path, "r2", [judgment(key="other", judged_at=hours_ago(1))])
    (tmp_path / "ledger" / "r2" / JUDGMENTS).write_text(row(run_id="r2", **changes) + "\n")
    replies = earlier(tmp_path, now_asking(), 20)
    assert [replies.find("k"), replies.find("k"), replies.unreadable] == [None, None, 1]


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


def test_where_something_is_still_to_be_forgotten_nothing_is_lent(tmp_path: Path) -> None:
    written(tmp_path, "20261120T120000-diagram-0000aa", [judgment(key="k", judged_at=hours_ago(1))])
    keep_plan(tmp_path, make_plan(tmp_path, "sample", "s1", ""))
    assert earlier(tmp_path, now_asking(), 20).find("k") is None
    end_plan(tmp_path)
    assert earlier(tmp_path, now_asking(), 20).find("k") is not None


def test_a_run_that_was_removed_lends_nothing(tmp_path: Path) -> None:
    run = "20261120T120000-diagram-0000aa"
    written(tmp_path, run, [judgment(key="k", judged_at=hours_ago(1))])
    (tmp_path / "ledger" / run / "removed.json").write_bytes(tombstone_of(run, {}))
    assert earlier(tmp_path, now_asking(), 20).find("k") is None


def test_a_ledger_that_is_gone_by_now_lends_nothing(tmp_path: Path) -> None:
    written(tmp_path, "r1", [judgment(key="k", judged_at=hours_ago(1))])
    replies = earlier(tmp_path, now_asking(), 20)
    (run_folders(tmp_path)[0] / JUDGMENTS).unlink()
    assert (replies.find("k"), replies.unreadable) == (None, 1)


def test_replies_in_memory_leave_the_garbage_collector_nothing_to_walk_through(tmp_path: Path) -> None:
    """It stops the event loop while it walks: through an object for each of 400,000 replies it walks long."""
    many = 2_000
    written(tmp_path, "r1", [judgment(key=f"{number:064}", judged_at=hours_ago(1)) for number in range(many)])
    gc.collect()
    before = len(gc.get_objects())
    replies = earlier(tmp_path, now_asking(), 20)
    gc.collect()
    assert len(replies) == many and len(gc.get_objects()) - before < many / 10
