"""A Prefect server that dies, hangs, or loses an answer costs Prefect's record: the run, its words and its exit code
stay true."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from loopback_judge import HeldJudge, judged_by
from loopback_relay import LoopbackRelay
from served import JURY, environment, users_of

from flows import process
from flows.commands.running import UNRECORDED
from flows.process import first_answer, noting_end, run_to_end
from flows.server.server import answered
from tasks.demo.chat import PROBE
from tasks.demo.samples import drawn_samples
from tasks.errors import InputError

pytestmark = pytest.mark.timeout(600)  # a run whose server is gone waits for it, here and there
SAMPLES, CALLS = 4, 16
QUICK = {"PREFECT_CLIENT_MAX_RETRIES": "0"}
"""So that Prefect's client gives up at once, which it does after minutes."""


@pytest.fixture(scope="module", autouse=True)
def _drawn(tmp_path_factory: pytest.TempPathFactory) -> None:
    Run.dataset = drawn_samples(tmp_path_factory.mktemp("drawn"), "diagram", SAMPLES)


class Run:
    """`jury run` on drawn samples, at a judge that tells when it is under way, and goes on when it may."""

    dataset: Path

    def __init__(self, store: Path, **settings: str) -> None:
        self.store = store
        self.settings = {**environment(), **settings}

    def __enter__(self) -> "Run":
        self.judge = HeldJudge(4)
        self.judge.__enter__()
        given = judged_by(self.judge, **{"judge.concurrency": 4, "store": self.store})
        command = [JURY, "run", "diagram", "--dataset", str(self.dataset), "--json", *given]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, env=self.settings, **pipes)
        assert self.judge.asked.wait(300), self.process.communicate()
        return self

    def __exit__(self, *_: object) -> None:
        self.judge.may_answer.set()
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        self.judge.stop()

    def end(self) -> tuple[int, str, list[str]]:
        """Let the judge answer; exit code, standard output, and what was said besides how far the run is."""
        self.judge.may_answer.set()
        out, err = self.process.communicate(timeout=300)
        aside = ("diagram ", "starting a temporary", "jury: nobody has tested what the judge m sees")
        lines = [line for line in err.splitlines() if not line.startswith(aside)]
        return self.process.returncode, out, lines


def is_whole(run: Run, out: str) -> bool:
    [ledger] = (run.store / "ledger").iterdir()
    asked = {"dimension": "overall", "measure": "score", "grouping": "all"}
    overall = [row for row in json.loads(out) if asked.items() <= row.items()]
    assert json.loads((ledger / "end.json").read_bytes())["calls"] == CALLS
    return [row["scored"] for row in overall] == [SAMPLES] and (run.store / "history.duckdb").exists()


def temporary_server(store: Path) -> int:
    found = users_of(store / "prefect")
    return next(int(one.name) for one in found if b"flows.server.server_process" in (one / "cmdline").read_bytes())


def test_a_temporary_server_that_is_killed_starts_again_and_costs_its_record_at_most(tmp_path: Path) -> None:
    with Run(tmp_path / "store") as run:
        os.killpg(temporary_server(run.store), signal.SIGKILL)
        code, out, said = run.end()
        assert code == 0 and said[0].startswith("the Prefect server has ended and starts again; its log is ")
        assert said[1:] in ([], [f"jury: {UNRECORDED}"]) and is_whole(run, out)
        assert (run.judge.count, run.judge.by_name[PROBE]) == (1 + CALLS, 1), "asked ahead once, and not again"
        assert (run.store / "prefect").stat().st_mode & 0o777 == 0o700


def test_an_answer_to_the_final_state_that_is_lost_costs_nothing_else(tmp_path: Path, prefect_server: str) -> None:
    with (
        LoopbackRelay(prefect_server, lost=b'"type":"COMPLETED"') as relay,
        Run(tmp_path / "store", PREFECT_API_URL=relay.api, **QUICK) as run,
    ):
        code, out, said = run.end()
        assert relay.losses and (code, said) == (0, [f"jury: {UNRECORDED}"]) and is_whole(run, out)


STOPPED = "jury: stopped; every reply so far is in the ledger, and the same command goes on from there"
IN_FLIGHT = "diagram: up to "


def test_whoever_stops_a_run_stops_its_temporary_server_too(tmp_path: Path) -> None:
    with Run(tmp_path / "store") as run:
        server = temporary_server(run.store)
        run.process.send_signal(signal.SIGINT)
        out, err = run.process.communicate(timeout=300)
        assert (run.process.returncode, out, err.splitlines()[-1]) == (130, "", STOPPED)
        assert re.search(r"^diagram: up to [1-4] calls? in flight at the end may be billed as well$", err, re.MULTILINE)
        assert "Traceback" not in err and not Path(f"/proc/{server}").exists()


def test_a_stopped_run_waits_for_no_hanging_server(tmp_path: Path, prefect_server: str) -> None:
    with LoopbackRelay(prefect_server) as relay, Run(tmp_path / "store", PREFECT_API_URL=relay.api, **QUICK) as run:
        relay.hang()
        run.process.send_signal(signal.SIGTERM)
        out, err = run.process.communicate(timeout=60)
        assert (run.process.returncode, out) == (130, "")
        *before, stopped = err.splitlines()
        aside = ("waiting for other runs", "diagram starting", IN_FLIGHT)
        assert stopped == STOPPED and all(words.startswith(aside) for words in before), err


# The parts


@contextmanager
def silent_server() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/api"


def test_a_server_that_never_answers_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "START_SECONDS", 0.2)
    with silent_server() as api, pytest.raises(InputError) as told, answered():
        monkeypatch.setenv("PREFECT_API_URL", api)
        asyncio.run(first_answer(api))
    said = f"the Prefect server of PREFECT_API_URL, {api}, does not answer: no answer within 0.2 seconds"
    assert str(told.value) == said


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Whether something was left behind; in a process that goes on, it is closed after all."""
    loops: list[asyncio.AbstractEventLoop] = []

    def new_loop() -> asyncio.AbstractEventLoop:
        loops.append(asyncio.SelectorEventLoop())
        return loops[-1]

    monkeypatch.setattr(asyncio.runners.events, "new_event_loop", new_loop)
    monkeypatch.setattr(process, "LEFT_BEHIND", threading.Event())
    monkeypatch.setattr(process, "LOOK_SECONDS", 0.05)
    yield process.LEFT_BEHIND
    for loop in loops:
        loop.set_exception_handler(lambda *_: None)  # a task that never ends is destroyed while it is pending
        loop.close()


async def known() -> Any:
    return "the state"


async def endless() -> Any:
    """What Prefect makes of a flow whose final state no server takes in."""
    await noting_end(known())
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(1)


def test_what_an_evaluation_came_to_is_known_though_nobody_records_it(left: threading.Event) -> None:
    with silent_server() as api:
        assert process.run_async(run_to_end(endless(), api)) == ("the state", False)
    assert left.is_set()


async def faulty() -> Any:
    raise ZeroDivisionError("a fault")


@pytest.mark.parametrize(
    ("evaluation", "raised"),
    [(known, None), (None, httpx.ConnectError), (faulty, ZeroDivisionError)],
    ids=["it ended", "it never began", "a fault of the program"],
)
def test_what_prefect_raises_after_the_end_is_no_end(
    evaluation: Callable[[], Any] | None, raised: type[Exception] | None, left: threading.Event
) -> None:
    async def raising() -> Any:
        if evaluation:
            with suppress(ZeroDivisionError):
                await noting_end(evaluation())
        raise httpx.ConnectError("gone")

    with pytest.raises(raised) if raised else nullcontext():
        assert process.run_async(run_to_end(raising(), "http://127.0.0.1:9/api")) == ("the state", False)
    assert left.is_set() == (evaluation is not None), "what Prefect still sends to a server that is gone"


def test_what_does_not_end_is_not_waited_for(left: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "END_SECONDS", 0.1)

    async def work() -> str:
        task = asyncio.create_task(endless())
        await asyncio.sleep(0)
        return task.get_name() and "done"

    began = time.monotonic()
    assert process.run_async(work()) == "done"
    assert left.is_set() and time.monotonic() - began < 30
