"""A Prefect server that dies, hangs or loses an answer: results, messages and exit code of a run stay right."""

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
from prefect.states import Cancelling
from served import JURY, environment, users_of

from flows import process
from flows.process import LEFT_BEHIND, UNRECORDED, first_answer, noting_end, run_to_end
from flows.server.server import answered
from tasks.demo.chat import PROBE
from tasks.demo.samples import drawn_samples
from tasks.errors import InputError

pytestmark = pytest.mark.timeout(600)  # a run waits for a lost server at several points
SAMPLES, CALLS = 4, 16
QUICK = {"PREFECT_CLIENT_MAX_RETRIES": "0"}
"""Let Prefect's client give up at once instead of after minutes."""


@pytest.fixture(scope="module", autouse=True)
def _drawn(tmp_path_factory: pytest.TempPathFactory) -> None:
    Run.dataset = drawn_samples(tmp_path_factory.mktemp("drawn"), "diagram", SAMPLES)


class Run:
    """`jury run` on drawn samples, at a judge that holds its answers until told to continue."""

    dataset: Path

    def __init__(self, store: Path, program: str | Path = JURY, **settings: str) -> None:
        self.store, self.program = store, program
        self.settings = {**environment(), **settings}

    def __enter__(self) -> "Run":
        self.judge = HeldJudge(4)
        self.judge.__enter__()
        given = judged_by(self.judge, **{"judge.concurrency": 4, "store": self.store})
        command = [self.program, "run", "diagram", "--dataset", str(self.dataset), "--json", *given]
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
        """Let the judge answer; return exit code, standard output, and the messages other than progress."""
        self.judge.may_answer.set()
        out, err = self.process.communicate(timeout=300)
        expected = ("diagram ", "starting a temporary", "jury: nobody has tested what the judge m sees")
        lines = [line for line in err.splitlines() if not line.startswith(expected)]
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


def test_killed_temporary_server_restarts_and_loses_at_most_its_record(tmp_path: Path, commands: Path) -> None:
    with Run(tmp_path / "store", commands / "jury") as run:
        os.killpg(temporary_server(run.store), signal.SIGKILL)
        code, out, messages = run.end()
        assert code == 0 and messages[0].startswith("the Prefect server has ended and starts again; its log is ")
        # A server that starts again slowly misses the report, the end, or both.
        missed = UNRECORDED, "its report could not be made: the Prefect server did not take it in within"
        assert all(any(words in line for words in missed) for line in messages[1:]) and is_whole(run, out)
        assert (run.judge.count, run.judge.by_name[PROBE]) == (1 + CALLS, 1), "the first question was asked once"
        assert (run.store / "prefect").stat().st_mode & 0o777 == 0o700


def test_lost_answer_to_the_final_state_loses_only_the_record(
    tmp_path: Path, prefect_server: str, commands: Path
) -> None:
    with (
        LoopbackRelay(prefect_server, lost=b'"type":"COMPLETED"') as relay,
        Run(tmp_path / "store", commands / "jury", PREFECT_API_URL=relay.api, **QUICK) as run,
    ):
        code, out, messages = run.end()
        assert relay.losses and (code, messages) == (0, [f"jury: {UNRECORDED}"]) and is_whole(run, out)


STOPPED = "jury: stopped; every reply so far is in the ledger, and the same command goes on from there"
IN_FLIGHT = "diagram: up to "


def test_stopping_a_run_stops_its_temporary_server(tmp_path: Path, commands: Path) -> None:
    with Run(tmp_path / "store", commands / "jury") as run:
        server = temporary_server(run.store)
        run.process.send_signal(signal.SIGHUP)  # as a closed terminal does; like Ctrl-C from there on
        out, err = run.process.communicate(timeout=300)
        assert (run.process.returncode, out, err.splitlines()[-1]) == (130, "", STOPPED)
        assert re.search(r"^diagram: up to [1-4] calls? in flight at the end may be billed as well$", err, re.MULTILINE)
        assert "Traceback" not in err and not Path(f"/proc/{server}").exists()


def test_stopped_run_does_not_wait_for_a_hanging_server(tmp_path: Path, prefect_server: str, commands: Path) -> None:
    with (
        LoopbackRelay(prefect_server) as relay,
        Run(tmp_path / "store", commands / "jury", PREFECT_API_URL=relay.api, **QUICK) as run,
    ):
        relay.hang()
        run.process.send_signal(signal.SIGTERM)
        out, err = run.process.communicate(timeout=60)
        assert (run.process.returncode, out) == (130, "")
        *before, stopped = err.splitlines()
        expected = ("waiting for other runs", "diagram starting", IN_FLIGHT)
        assert stopped == STOPPED and all(words.startswith(expected) for words in before), err


# Parts of a run


@contextmanager
def silent_server() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/api"


def test_silent_server_is_reported_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "START_SECONDS", 0.2)
    with silent_server() as api, pytest.raises(InputError) as caught, answered():
        monkeypatch.setenv("PREFECT_API_URL", api)
        asyncio.run(first_answer(api))
    message = f"the Prefect server of PREFECT_API_URL, {api}, does not answer: no answer within 0.2 seconds"
    assert str(caught.value) == message


@pytest.fixture
def left_behind(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Yield the event for threads left behind; close their loops afterwards, since this process continues."""
    loops: list[asyncio.AbstractEventLoop] = []

    def new_loop() -> asyncio.AbstractEventLoop:
        loops.append(asyncio.SelectorEventLoop())
        return loops[-1]

    monkeypatch.setattr(asyncio.runners.events, "new_event_loop", new_loop)
    monkeypatch.setattr(process, "LOOK_SECONDS", 0.05)
    yield LEFT_BEHIND
    LEFT_BEHIND.clear()
    for loop in loops:
        loop.set_exception_handler(lambda *_: None)  # an endless task is destroyed while pending
        loop.close()


async def return_state() -> Any:
    return "the state"


async def never_recorded() -> Any:
    """Behave like Prefect when no server accepts a flow's final state."""
    await noting_end(return_state())
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(1)


def test_result_is_known_although_no_server_records_it(left_behind: threading.Event) -> None:
    with silent_server() as api:
        assert process.run_async(run_to_end(never_recorded(), api)) == ("the state", False)
    assert left_behind.is_set()


def test_result_is_known_although_the_server_waits_for_a_cancel(left_behind: threading.Event) -> None:
    async def kept_cancelling() -> Any:
        await noting_end(return_state())
        return Cancelling()

    assert process.run_async(run_to_end(kept_cancelling(), "")) == ("the state", False)
    assert left_behind.is_set()


async def raise_fault() -> Any:
    raise ZeroDivisionError("a fault")


@pytest.mark.parametrize(
    ("evaluation", "raised"),
    [(return_state, None), (None, httpx.ConnectError), (raise_fault, ZeroDivisionError)],
    ids=["ended", "never started", "a fault of the program"],
)
def test_errors_of_prefect_after_the_end_do_not_change_the_result(
    evaluation: Callable[[], Any] | None, raised: type[Exception] | None, left_behind: threading.Event
) -> None:
    async def raising() -> Any:
        if evaluation:
            with suppress(ZeroDivisionError):
                await noting_end(evaluation())
        raise httpx.ConnectError("gone")

    with pytest.raises(raised) if raised else nullcontext():
        assert process.run_async(run_to_end(raising(), "http://127.0.0.1:9/api")) == ("the state", False)
    assert left_behind.is_set() == (evaluation is not None), "Prefect still sends to the lost server"


def test_endless_task_is_left_behind(left_behind: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "END_SECONDS", 0.1)

    async def work() -> str:
        task = asyncio.create_task(never_recorded())
        await asyncio.sleep(0)
        return task.get_name() and "done"

    began = time.monotonic()
    assert process.run_async(work()) == "done"
    assert left_behind.is_set() and time.monotonic() - began < 30
