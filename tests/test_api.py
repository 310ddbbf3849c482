"""Image Jury from Python: runs and tables in processes of their own, for a program that goes on after them."""

import asyncio
import html
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars
import pytest
from factories import RUN
from loopback_judge import HeldJudge, LoopbackJudge
from PIL import Image
from served import environment, wait_for
from written_datasets import encoded

from flows import api
from flows.api import FigureSample, ImageSample, InputError, Judge, PairwiseParameters, Result, RubricParameters
from flows.subprocess import _IDLE, Worker
from tasks.history.queries import query
from tasks.ledger.run_files import read_end, run_folders
from tasks.records import SCHEMA


def picture(shade: int) -> bytes:
    return encoded(Image.new("RGB", (64, 48), (shade, shade, shade)))


def figures(count: int = 2) -> list[FigureSample]:
    """Figures of which the first was not delivered."""
    texts = {"context": "method", "caption": "caption", "candidate": "mine"}
    pictures = [None, *(picture(250 - number) for number in range(1, count))]
    return [
        FigureSample(id=str(number), human_image=picture(255), model_image=made, **texts)
        for number, made in enumerate(pictures)
    ]


def given_folders(store: Path) -> list[Path]:
    return [*store.glob("given-*")]


@pytest.fixture(scope="module")
def judged(prefect_server: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, list[logging.LogRecord]]:
    """A run that was asked for in a running loop, which went on, and what was logged of it."""
    store, records, ticks = tmp_path_factory.mktemp("api") / "store", list[logging.LogRecord](), [0]
    handler = logging.Handler()
    handler.emit = records.append

    async def asked() -> Result:
        async def tick() -> None:
            while True:
                ticks[0] += 1
                await asyncio.sleep(0.01)

        ticking = asyncio.create_task(tick())
        try:
            return await api.judge_async("diagram", figures(), PairwiseParameters(store=str(store)))
        finally:
            ticking.cancel()

    logger = logging.getLogger("flows")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        result = asyncio.run(asked())
    finally:
        logger.setLevel(logging.NOTSET)
        logger.removeHandler(handler)
    assert ticks[0] > 5, "the event loop stood still"
    return result, records


def test_a_run_returns_typed_results_and_makes_nothing_up(judged: tuple[Result, Any]) -> None:
    result, records = judged
    assert {record.levelname for record in records} == {"INFO"}
    assert (result.exit_code, result.statuses) == (0, {"forfeit": 1, "complete": 1})
    assert (result.judgments_by_status, result.calls, result.reused, result.cost) == ({"ok": 4}, 4, 0, 0.0)
    told = "mine scores 25.0 (no interval below 8) of 100."
    assert str(result) == repr(result) == f"Result(diagram: {told} Run {result.run_id})"
    assert result.sentence == told and result.facts[:2] == ("judged by pixel-baseline (embedded)", "no controls")
    overall = result.score()
    assert (overall.dimension, overall.candidate, overall.n, overall.ci_low) == ("overall", "mine", 2, None)
    assert {outcome.sample_id: outcome.status for outcome in result.outcomes} == {"0": "forfeit", "1": "complete"}
    assert all(row.schema_version == SCHEMA for row in result.outcomes)
    assert len(list(result.judgments())) == 4
    assert any("a forfeit in 1 sample" in warning for warning in result.warnings)
    assert Path(result.page).is_file() and given_folders(result.store) == []
    with pytest.raises(KeyError, match="0 scores of 'colour'"):
        result.score("colour")


def test_a_notebook_shows_a_result_and_nothing_in_it_is_markup(judged: tuple[Result, Any]) -> None:
    result, _ = judged
    strange = [row.model_copy(update={"sample_id": "<script>", "overall": "<b>"}) for row in result.outcomes]
    for shown, count in ((result, 2), (result.model_copy(update={"outcomes": (*strange,) * 4}), 6)):
        text = shown._repr_html_()
        told = (result.sentence, *result.facts, *result.warnings, result.page, "missing output", "Model: no picture")
        assert all(words in html.unescape(text) for words in told)
        assert text.count("<figure") == count and "<script" not in text and "<b><" not in text
    gone = result.model_copy(update={"store": result.store / "none"})
    assert gone._repr_html_().count("picture not kept") == 3


def test_a_frame_has_a_row_for_each_sample(judged: tuple[Result, Any]) -> None:
    result, _ = judged
    dimensions = ["faithfulness", "conciseness", "readability", "aesthetics"]
    frame = result.frame().sort("id")
    assert frame.columns == ["id", "candidate", "status", "overall", "score", "price", *dimensions]
    assert frame.row(0) == ("0", "mine", "forfeit", None, 0.0, 0.0, None, None, None, None)
    assert frame.row(1)[:6] == ("1", "mine", "complete", "Tie", 50.0, 0.0) and "Both are good" in frame.row(1)


def test_a_mistake_in_the_dataset_is_an_input_error(tmp_path: Path, prefect_server: str) -> None:
    twice = [*figures(), *figures()]
    with pytest.raises(InputError, match=r"(?s)dataset given.jsonl has 2 problems.*line 3"):
        api.judge("diagram", twice, PairwiseParameters(store=str(tmp_path)))
    assert given_folders(tmp_path) == [] and not (tmp_path / "ledger").exists()


@pytest.mark.parametrize(
    ("flow", "samples", "parameters", "words"),
    [
        ("graph", None, None, "flow is 'graph', allowed are diagram"),
        ("counting", None, PairwiseParameters(), "flow counting takes RubricParameters, not PairwiseParameters"),
        ("diagram", figures(), PairwiseParameters(results="r.json"), "samples are given, and results besides"),
        ("diagram", None, PairwiseParameters(quote="history"), "`jury run` is the way to them"),
        ("diagram", None, PairwiseParameters(shards=2), "`jury run` is the way to them"),
        ("diagram", [], PairwiseParameters(), "the list of samples is empty"),
        ("counting", figures(), RubricParameters(), "is of type FigureSample, flow counting takes ImageSample"),
    ],
)
def test_what_cannot_be_done_is_told_before_a_run_begins(
    flow: str, samples: Any, parameters: Any, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Worker, "ask", None)
    monkeypatch.setenv("JURY_STORE", str(tmp_path))
    with pytest.raises(InputError, match=re.escape(words)):
        api.judge(flow, samples, parameters)
    assert given_folders(tmp_path) == []


@pytest.fixture
def slow() -> Iterator[HeldJudge]:
    with HeldJudge(3) as judge:  # whether it is there, and replies for the ledger
        yield judge
        judge.may_answer.set()


def asked_of(judge: LoopbackJudge, store: Path) -> PairwiseParameters:
    return PairwiseParameters(store=str(store), judge=Judge(model="m", base_url=judge.base_url))


def test_a_cancelled_run_ends_and_leaves_its_ledger(slow: HeldJudge, tmp_path: Path, prefect_server: str) -> None:
    async def cancelled() -> None:
        running = asyncio.create_task(api.judge_async("diagram", figures(), asked_of(slow, tmp_path)))
        assert await asyncio.to_thread(slow.asked.wait, 60)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancelled())
    [run] = run_folders(tmp_path)
    assert read_end(run) is None and given_folders(tmp_path) == []


SCRIPT = """
import sys
from flows.api import FigureSample, Judge, PairwiseParameters, judge
sample = FigureSample(id="1", context="m", caption="c", human_image=sys.argv[3], model_image=sys.argv[3])
judge("diagram", [sample], PairwiseParameters(store=sys.argv[1], judge=Judge(model="m", base_url=sys.argv[2])))
"""


def test_a_run_ends_with_its_caller(slow: HeldJudge, tmp_path: Path, prefect_server: str) -> None:
    (tmp_path / "a.png").write_bytes(picture(9))
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), slow.base_url, str(tmp_path / "a.png")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as program:
        assert slow.asked.wait(90)
        program.send_signal(signal.SIGINT)
        _, told = program.communicate(timeout=60)
    assert program.returncode == -signal.SIGINT and told.strip().endswith("KeyboardInterrupt")
    wait_for(lambda: not given_folders(tmp_path), 60)
    [run] = run_folders(tmp_path)
    assert read_end(run) is None


EARLIER = 'judge("diagram", [sample], store=sys.argv[1])\nprint("judged", flush=True)\n'
TWICE = SCRIPT.replace("judge(", f"{EARLIER}judge(", 1)


def processes(program: subprocess.Popen[str]) -> list[str]:
    """Process of the runs of a program, and its server."""
    [kept] = children(str(program.pid))
    servers = [each for each in children(kept) if b"server_process" in Path(f"/proc/{each}/cmdline").read_bytes()]
    return [kept, *servers]


def children(pid: str) -> list[str]:
    return " ".join(each.read_text() for each in Path(f"/proc/{pid}/task").glob("*/children")).split()


def test_a_second_call_has_the_process_and_the_server_of_the_first_which_end_with_a_killed_caller(
    slow: HeldJudge, tmp_path: Path
) -> None:
    store, file = tmp_path / "store", tmp_path / "a.png"
    file.write_bytes(picture(9))
    command = [sys.executable, "-c", TWICE, str(store), slow.base_url, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as program:
        assert program.stdout and program.stdout.readline() == "judged\n"
        first = processes(program)
        assert slow.asked.wait(90)
        assert processes(program) == first and len(first) == 2
        program.kill()
    wait_for(lambda: not given_folders(store) and not any(Path(f"/proc/{pid}").exists() for pid in first))
    assert [read_end(run) is None for run in run_folders(store)] == [False, True]


def test_a_process_that_died_or_has_another_environment_is_started_anew(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*_: object) -> str:
        return api.table("outcomes", store=store)["sample_id"].item()

    def die() -> None:
        os.kill(pids[-1], signal.SIGKILL)
        os.waitid(os.P_PID, pids[-1], os.WEXITED | os.WNOWAIT)

    changes = lambda: None, lambda: monkeypatch.setenv("JURY_X", "1"), lambda: monkeypatch.chdir(tmp_path), die
    pids = list[int]()
    for change in (lambda: None, *changes):
        change()
        assert asked() == "s1"
        [kept] = _IDLE.values()
        pids.append(kept.process.pid)
    assert pids[0] == pids[1] and len({*pids}) == 4
    with ThreadPoolExecutor(3) as threads:
        assert [*threads.map(asked, range(3))] == ["s1"] * 3 and len(_IDLE) == 1
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids[:3]))


@pytest.fixture(scope="module")
def store(stored: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(shutil.copytree(stored, tmp_path_factory.mktemp("tables") / "store"))


def test_tables_are_frames_of_the_history_which_is_closed_then(store: str) -> None:
    sql = "SELECT run_id, 1 AS a, 2 AS a, parameters, started_at, protocol FROM runs"
    found = api.tables("leaderboard", sql, "outcomes", store=store)
    leaderboard, own, outcomes = found.values()
    told = query(Path(store), "leaderboard")
    assert tuple(leaderboard.columns) == told.columns and leaderboard.height == len(told.rows)
    assert own.columns == ["run_id", "a", "a_2", "parameters", "started_at", "protocol"]
    assert own.row(0)[:3] == (RUN, 1, 2) and own.schema["started_at"] == polars.Datetime("us")
    assert outcomes["sample_id"].to_list() == ["s1"]
    os.rename(Path(store) / "history.duckdb", Path(store) / "moved")  # noqa: PTH104
    os.rename(Path(store) / "moved", Path(store) / "history.duckdb")  # noqa: PTH104


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("leaderbord", "no table or view is called 'leaderbord', did you mean leaderboard?"),
        ("SELECT INTERVAL 1 DAY AS i", "cast it to another type"),
        ("SELECT count(*) FROM range(100000000) a, range(100000) b", "took longer than the limit"),
    ],
)
def test_what_is_no_question_is_refused_in_words(question: str, words: str, store: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        api.table(question, store=store, seconds=1)


def test_an_image_sample_takes_what_a_manifest_does() -> None:
    columns = {"id", "tag", "prompt", "image", "candidate", "include", "exclude"}
    assert ImageSample.model_fields.keys() == columns
