"""Progress as it is seen: lines in a log, a bar on a real terminal. The artifact is tested with the report."""

import asyncio
import io
import os
import re
from collections.abc import Callable
from typing import IO, Any

import pytest
from factories import judgment
from served import shown_until_closed

from flows.progress import Progress
from tasks.records import Judgment

OK = [judgment("s1")]
REFUSED = [judgment("s1"), judgment("s1", "readability", None, status="refused")]


def run(
    samples: int, stream: IO[str] | None, judgments: Callable[[int], list[Judgment]] = lambda _: OK, **said: Any
) -> None:
    async def samples_decided() -> None:
        async with Progress("diagram", samples, stream, **said) as progress:
            for number in range(samples):
                progress.advance(judgments(number))

    asyncio.run(samples_decided())


def logged(samples: int, **given: Any) -> str:
    log = io.StringIO()
    run(samples, log, **given)
    return log.getvalue()


@pytest.mark.parametrize("samples", [1, 7, 10, 292, 1000])
def test_a_log_gets_at_most_ten_lines_and_the_last_says_all(samples: int) -> None:
    lines = logged(samples).splitlines()
    assert len(lines) == min(samples, 10)
    assert lines[-1] == f"diagram {samples}/{samples} samples"


def test_a_line_comes_with_each_tenth_and_none_without_samples() -> None:
    assert logged(30).split()[1::3] == [f"{done}/30" for done in range(3, 31, 3)]
    assert logged(0) == ""


def test_what_the_run_costs_is_said_and_what_holds_the_calls_up() -> None:
    assert logged(1, held_up=lambda: "limited") == "diagram 1/1 samples, limited\n"
    both = logged(1, held_up=lambda: "limited", cost=lambda: "0.0100 spent")
    assert both == "diagram 1/1 samples, 0.0100 spent, limited\n"


def test_judgments_that_are_not_ok_are_counted_by_status() -> None:
    invalid = [judgment("s1", verdict=None, status="invalid")]
    assert logged(3, judgments=lambda number: REFUSED if number else invalid).splitlines() == [
        "diagram 1/3 samples, 1 not ok (1 invalid)",
        "diagram 2/3 samples, 2 not ok (1 invalid, 1 refused)",
        "diagram 3/3 samples, 3 not ok (2 refused, 1 invalid)",
    ]


def test_progress_goes_to_stderr_and_leaves_stdout_to_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    run(1, None)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "diagram 1/1 samples\n"


def test_a_terminal_shows_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    reader, writer = os.openpty()
    with os.fdopen(writer, "w", encoding="utf-8") as terminal:
        run(3, terminal, lambda _: REFUSED)
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown_until_closed(reader))
    assert "3/3 samples, 3 not ok (3 refused)" in shown
    assert "━" in shown
    assert "diagram 1/3 samples" not in shown
