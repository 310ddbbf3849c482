"""Image Jury from Python: runs and tables, made in subprocesses that serve a long-running program."""

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
from forked_commands import forked_by
from loopback_judge import HeldJudge
from PIL import Image
from served import environment, wait_for
from written_datasets import encoded

from flows import api
from flows.api import (
    _IDLE,
    POLARS,
    FigureSample,
    ImageSample,
    InputError,
    Judge,
    PairwiseParameters,
    Result,
    RubricParameters,
    Worker,
)
from tasks.history.queries import query
from tasks.ledger.run_files import read_end, run_folders
from tasks.records import SCHEMA


def picture(shade: int) -> bytes:
    return encoded(Image.new("RGB", (64, 48), (shade, shade, shade)))


def figures(count: int = 2) -> list[FigureSample]:
    """Return figures; the first one's model image is missing."""
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
    """Result and log records of a run that was awaited in a running event loop; later runs share its process."""
    os.environ.pop("PYTEST_CURRENT_TEST", None)
    store, records, ticks = tmp_path_factory.mktemp("api") / "store", list[logging.LogRecord](), [0]
    handler, parameters = logging.Handler(), PairwiseParameters(store=os.path.relpath(store))
    handler.emit = records.append

    async def judge_figures() -> Result:
        async def tick() -> None:
            while True:
                ticks[0] += 1
                await asyncio.sleep(0.01)

        ticking = asyncio.create_task(tick())
        try:
            return await api.judge_async("diagram", figures(), parameters)
        finally:
            ticking.cancel()

    logger = logging.getLogger("flows")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        result = asyncio.run(judge_figures())
    finally:
        logger.setLevel(logging.NOTSET)
        logger.removeHandler(handler)
    assert ticks[0] > 5, "the event loop was blocked"
    return result, records


def test_run_returns_typed_results_without_invented_values(judged: tuple[Result, Any]) -> None:
    result, records = judged
    assert {record.levelname for record in records} == {"INFO"}
    assert (result.exit_code, result.statuses) == (0, {"forfeit": 1, "complete": 1})
    assert (result.judgments_by_status, result.calls, result.reused, result.cost) == ({"ok": 4}, 4, 0, 0.0)
    sentence = "mine scores 25.0 (no interval below 8) of 100."
    assert str(result) == repr(result) == f"Result(diagram: {sentence} Run {result.run_id})"
    assert result.sentence == sentence and result.facts[:2] == ("judged by pixel-baseline (embedded)", "no controls")
    overall = result.score()
    assert (overall.dimension, overall.candidate, overall.n, overall.ci_low) == ("overall", "mine", 2, None)
    assert {outcome.sample_id: outcome.status for outcome in result.outcomes} == {"0": "forfeit", "1": "complete"}
    assert all(row.schema_version == SCHEMA for row in result.outcomes)
    assert len(list(result.judgments())) == 4
    assert any("a forfeit in 1 sample" in warning for warning in result.warnings)
    assert Path(result.page).is_file() and given_folders(result.store) == [] and result.store.is_absolute()
    with pytest.raises(KeyError, match="0 scores of 'colour'"):
        result.score("colour")
    with pytest.raises(KeyError, match="0 scores of ''"):
        result.model_copy(update={"scores": ()}).score()


def test_notebook_view_of_a_result_escapes_all_text(judged: tuple[Result, Any]) -> None:
    result, _ = judged
    strange = [row.model_copy(update={"sample_id": "<script>", "overall": "<b>"}) for row in result.outcomes]
    for shown, count in ((result, 2), (result.model_copy(update={"outcomes": (*strange,) * 4}), 6)):
        text = shown._repr_html_()
        wanted = (result.sentence, *result.facts, *result.warnings, result.page, "missing output", "Model: no picture")
        assert all(words in html.unescape(text) for words in wanted)
        assert text.count("<figure") == count and "<script" not in text and "<b><" not in text
        assert text.rindex("<figure") < text.rindex("missing output"), "the last ones have nothing to look at"
    gone = result.model_copy(update={"store": result.store / "none"})
    assert gone._repr_html_().count("picture not kept") == 3


def test_frame_has_one_row_a_sample(judged: tuple[Result, Any]) -> None:
    result, _ = judged
    dimensions = ["faithfulness", "conciseness", "readability", "aesthetics"]
    frame = result.frame().sort("id")
    assert frame.columns == ["id", "candidate", "status", "overall", "score", "price", *dimensions]
    assert frame.row(0) == ("0", "mine", "forfeit", None, 0.0, 0.0, None, None, None, None)
    assert frame.row(1)[:6] == ("1", "mine", "complete", "Tie", 50.0, 0.0) and "Both are good" in frame.row(1)


def test_faulty_samples_raise_input_error(judged: tuple[Result, Any]) -> None:
    store, twice = judged[0].store, [*figures(), *figures()]
    with pytest.raises(InputError, match=r"(?s)dataset given.jsonl has 2 problems.*line 3"):
        api.judge("diagram", twice, PairwiseParameters(store=str(store)))
    assert given_folders(store) == [] and len(run_folders(store)) == 1


@pytest.fixture
def slow() -> Iterator[HeldJudge]:
    with HeldJudge(3) as judge:  # the first question, and replies for the ledger
        yield judge
        judge.may_answer.set()


def test_cancelled_run_ends_and_keeps_its_ledger(slow: HeldJudge, judged: tuple[Result, Any]) -> None:
    store = judged[0].store

    async def cancelled() -> None:
        parameters = PairwiseParameters(store=str(store), judge=Judge(model="m", base_url=slow.base_url))
        running = asyncio.create_task(api.judge_async("diagram", figures(), parameters))
        assert await asyncio.to_thread(slow.asked.wait, 60)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancelled())
    [run] = [run for run in run_folders(store) if run.name != judged[0].run_id]
    assert read_end(run) is None and given_folders(store) == []


@pytest.mark.parametrize(
    ("flow", "samples", "parameters", "words"),
    [
        ("graph", None, None, "flow is 'graph', allowed are diagram"),
        ("facts", [], None, "flow facts takes checks with its samples: write a manifest"),
        ("counting", None, PairwiseParameters(), "flow counting takes RubricParameters, not PairwiseParameters"),
        ("diagram", figures(), PairwiseParameters(results="r.json"), "samples are given, and results besides"),
        ("diagram", None, PairwiseParameters(quote="history"), "`jury run` is the way to them"),
        ("diagram", None, PairwiseParameters(shards=2), "`jury run` is the way to them"),
        ("diagram", None, PairwiseParameters(limit=2), "the parameters name no dataset"),
        ("diagram", [], PairwiseParameters(), "the list of samples is empty"),
        ("counting", 5, None, "samples are of type int, flow counting takes a list of ImageSample"),
        ("diagram", "drawn", None, "samples are of type str, flow diagram takes a list of FigureSample"),
        ("counting", figures(), RubricParameters(), "is of type FigureSample, flow counting takes ImageSample"),
    ],
)
def test_invalid_arguments_are_refused_before_a_run_begins(
    flow: str, samples: Any, parameters: Any, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Worker, "ask", None)
    monkeypatch.setenv("JURY_STORE", str(tmp_path))
    with pytest.raises(InputError, match=re.escape(words)):
        api.judge(flow, samples, parameters)
    assert given_folders(tmp_path) == []


def test_environment_names_the_judge_where_the_parameters_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JURY_JUDGE", "openai/m")
    given = PairwiseParameters(), PairwiseParameters(judge=Judge())
    assert [api._checked("diagram", [], each, "").judge.model for each in given] == ["m", "pixel-baseline"]


@pytest.fixture(scope="module", autouse=True)
def _forked_workers(commands: Path) -> Iterator[None]:
    """Fork worker processes from one that has done the imports; those of a script start anew unless it says so."""
    with forked_by(commands):
        yield


SCRIPT = """
import sys
from flows.api import FigureSample, Judge, PairwiseParameters, judge
sample = FigureSample(id="1", context="m", caption="c", human_image=sys.argv[3], model_image=sys.argv[3])
judge("diagram", [sample], PairwiseParameters(store=sys.argv[1], judge=Judge(model="m", base_url=sys.argv[2])))
"""


def test_interrupted_caller_ends_its_run(slow: HeldJudge, tmp_path: Path, prefect_server: str) -> None:
    (tmp_path / "a.png").write_bytes(picture(9))
    forking = f"import sys\nsys.executable = {sys.executable!r}\n{SCRIPT}"
    command = [sys.executable, "-c", forking, str(tmp_path), slow.base_url, str(tmp_path / "a.png")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as program:
        assert slow.asked.wait(90)
        program.send_signal(signal.SIGINT)
        _, stderr = program.communicate(timeout=60)
    assert program.returncode == -signal.SIGINT and stderr.strip().endswith("KeyboardInterrupt")
    wait_for(lambda: not given_folders(tmp_path), 60)
    [run] = run_folders(tmp_path)
    assert read_end(run) is None


EARLIER = 'judge("diagram", [sample], store=sys.argv[1])\nprint("judged", flush=True)\n'
TWICE = SCRIPT.replace("judge(", f"{EARLIER}judge(", 1)


def processes(program: subprocess.Popen[str]) -> list[str]:
    """Return ids of a program's worker process and of its server."""
    [kept] = children(str(program.pid))
    servers = [each for each in children(kept) if b"server_process" in Path(f"/proc/{each}/cmdline").read_bytes()]
    return [kept, *servers]


def children(pid: str) -> list[str]:
    return " ".join(each.read_text() for each in Path(f"/proc/{pid}/task").glob("*/children")).split()


def test_second_call_reuses_processes_that_die_with_the_caller(slow: HeldJudge, tmp_path: Path) -> None:
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


def test_worker_is_replaced_after_death_or_a_changed_environment(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def query_sample(*_: object) -> str:
        return api.table("outcomes", store=store)["sample_id"].item()

    def die() -> None:
        workers[-1].kill()
        workers[-1].wait()

    changed = (lambda name=name: monkeypatch.setenv(name, "1") for name in (POLARS, "JURY_X"))
    workers = list[subprocess.Popen[str]]()
    for change in (lambda: None, *changed, lambda: monkeypatch.chdir(tmp_path), die):
        change()
        assert query_sample() == "s1"
        [kept] = _IDLE.values()
        workers.append(kept.process)
    assert workers[0] == workers[1] and len({*workers}) == 4
    with ThreadPoolExecutor(3) as threads:
        assert [*threads.map(query_sample, range(3))] == ["s1"] * 3 and len(_IDLE) == 1
    assert [each.wait(60) for each in workers[1:4]] == [130, 130, -signal.SIGKILL], "stopped, or killed"


@pytest.fixture(scope="module")
def store(stored: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(shutil.copytree(stored, tmp_path_factory.mktemp("tables") / "store"))


def test_store_of_a_result_is_one_of_a_table(store: str) -> None:
    assert api.table("outcomes", store=Path(store))["sample_id"].item() == "s1"


def test_tables_return_frames(store: str) -> None:
    sql = "SELECT run_id, 1 AS a, 2 AS a, parameters, started_at, protocol FROM runs -- newest"
    found = api.tables("leaderboard", sql, "outcomes", store=store)
    leaderboard, own, outcomes = found.values()
    expected = query(Path(store), "leaderboard")
    assert tuple(leaderboard.columns) == expected.columns and leaderboard.height == len(expected.rows)
    assert own.columns == ["run_id", "a", "a_2", "parameters", "started_at", "protocol"]
    assert own.row(0)[:3] == (RUN, 1, 2) and own.schema["started_at"] == polars.Datetime("us")
    assert outcomes["sample_id"].to_list() == ["s1"]


@pytest.mark.parametrize(
    ("question", "seconds", "words"),
    [
        ("leaderbord", 60, "no table or view is called 'leaderbord', did you mean leaderboard?"),
        ("SELECT INTERVAL 1 DAY AS i", 60, "cast it to another type"),
        ("SELECT count(*) FROM range(100000000) a, range(100000) b", 0.1, "took longer than the limit"),
    ],
)
def test_invalid_queries_are_refused_with_a_message(question: str, seconds: float, words: str, store: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        api.table(question, store=store, seconds=seconds)


def test_image_sample_has_the_fields_of_a_manifest() -> None:
    columns = {"id", "tag", "prompt", "image", "candidate", "include", "exclude"}
    assert ImageSample.model_fields.keys() == columns
