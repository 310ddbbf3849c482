"""Progress display: lines in a log, a bar on a terminal. Tests of the report cover the artifact."""

import asyncio
import io
import os
import re
from contextlib import suppress
from typing import IO, Any

import pytest
from factories import counted_run, judgment
from served import shown_until_closed

from flows import run as flows_run
from flows.run import Progress
from tasks.judging.case import Call, Case
from tasks.judging.counts import CallCounts
from tasks.records import Place, Sample

CALLS = tuple(Call(dimension, "human_first", 1, "") for dimension in ("faithfulness", "readability"))


def case(*statuses: str, control: str = "") -> Case:
    """Return a sample with two calls, and replies with these statuses to the first ones."""
    sample = Sample(sample_id="s1", candidate="alpha", record=Place(path="test.json"), control=control)
    rows = [judgment(dimension=call.dimension, status=status) for call, status in zip(CALLS, statuses, strict=False)]
    return Case(sample, {}, {}, calls=CALLS, judgments=rows)


def counts_of(samples: int, *begun: Case) -> CallCounts:
    counts = CallCounts(samples=samples, calls=2 * samples)
    for each in begun:
        counts.begin(each, 2, 0)
    return counts


def answer_all(counts: CallCounts, *cases: Case) -> None:
    for each in cases:
        for call in each.calls:
            counts.answer(each, call)
        counts.end(each)


def run(counts: CallCounts, stream: IO[str] | None, *cases: Case, closes: int = -1, **given: Any) -> None:
    """Show the progress of answers; `closes`: descriptor to close after one of them."""

    async def work() -> None:
        async with Progress(counted_run(counts, **given), "diagram", "diagram", stream).shown():
            await asyncio.sleep(0.01)
            for each in cases:
                answer_all(counts, each)
                await asyncio.sleep(0.05)
                with suppress(OSError):
                    os.close(closes)

    asyncio.run(work())


def log_lines(counts: CallCounts, *cases: Case, **given: Any) -> list[str]:
    log = io.StringIO()
    run(counts, log, *cases, **given)
    return log.getvalue().splitlines()


def test_log_begins_with_start_and_ends_with_totals() -> None:
    done, kept = case("ok", "ok"), list[str]()
    words = ["starting · 2 calls · 1 sample", "2/2 calls · 1/1 samples"]
    assert log_lines(counts_of(1, done), done, keep=kept.append) == [f"diagram {each}" for each in words]
    assert [*dict.fromkeys(kept)] == words, "other processes read the same texts"


def test_log_lines_are_spaced_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows_run, "SHOW_SECONDS", 0.001)
    cases = [case("ok", "ok") for _ in range(4)]
    assert len(log_lines(counts_of(4, *cases), *cases)) == 2
    monkeypatch.setattr(flows_run, "LINE_SECONDS", 0)
    cases = [case("ok", "ok") for _ in range(4)]
    lines = log_lines(counts_of(4, *cases), *cases)
    assert [line.split()[4] for line in lines[1:]] == ["1/4", "2/4", "3/4", "4/4"]


def test_log_shows_cost_time_left_and_reason_for_delay() -> None:
    half = counts_of(2, case("ok", "ok"))
    answer_all(half, case("ok", "ok"))
    half._times[0] = half._times[-1] - 10
    costs = {"cost": lambda done, calls: f"0.0{done} of about 0.0{calls}"}
    assert log_lines(half, **costs) == ["diagram 2/4 calls · 1/2 samples · 0.02 of about 0.04 · 10 s left"]
    assert log_lines(half, held_up=lambda: "limited")[0] == "diagram 2/4 calls · 1/2 samples · limited"


def test_failed_calls_are_counted_by_status_after_the_last_attempt() -> None:
    counts = counts_of(3, case())
    again = case("invalid", "refused")
    for call in again.calls:
        counts.answer(again, call)
    assert counts.done == 1 and counts.not_ok == {"refused": 1}, "the invalid call will be retried"
    counts.end(again)
    counts.end(again)
    counts.end(case("ok", "ok", control="blank"))
    assert (counts.done, counts.samples_done) == (2, 1)
    assert log_lines(counts)[0].startswith("diagram 2/6 calls · 1/3 samples · 2 not ok (1 invalid, 1 refused)")


def test_reused_answers_do_not_count_as_calls() -> None:
    counts = CallCounts(samples=1, calls=2)
    taken = case("ok", "ok")
    counts.begin(taken, 2, 2)
    counts.end(taken)
    assert counts.share == 1.0 and log_lines(counts) == ["diagram 1/1 samples · 2 answers reused"]


def test_progress_goes_to_stderr_only(capsys: pytest.CaptureFixture[str]) -> None:
    run(counts_of(1), None)
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("diagram starting")


def test_terminal_shows_a_bar_and_may_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    reader, writer = os.openpty()
    cases = [case("refused", "ok") for _ in range(3)]
    with os.fdopen(writer, "w", encoding="utf-8") as terminal:
        run(counts_of(3, *cases), terminal, *cases)
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown_until_closed(reader))
    assert "6/6 calls · 3/3 samples · 3 not ok (3 refused)" in shown
    assert "━" in shown and "diagram 1/3 samples" not in shown
    reader, writer = os.openpty()
    run(counts_of(3, *cases), os.fdopen(writer, "w", closefd=False), cases[0], closes=reader)
