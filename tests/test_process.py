"""Our processes: termination, supervision with restarts, and a single process for each run."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from prefect.exceptions import TerminationSignal
from served import environment, on_ctrl_c, wait_for

from flows.process import ended_by_sigterm, run_async
from flows.server import supervision
from flows.server.supervision import UP, Supervised, end_process, has_process, lifeline
from tasks.files import is_locked


def test_sigterm_ends_a_run_like_ctrl_c_even_within_task_groups() -> None:
    raised = TerminationSignal(signal=15)
    for error in (raised, BaseExceptionGroup("outer", [BaseExceptionGroup("inner", [raised])])):
        with pytest.raises(KeyboardInterrupt), ended_by_sigterm():
            raise error
    with pytest.raises(ExceptionGroup), ended_by_sigterm():
        raise ExceptionGroup("of ours", [ValueError("a fault")])


ON_CTRL_C = {"on a terminal": signal.default_int_handler, "behind a script": signal.SIG_IGN}


@pytest.mark.parametrize("ctrl_c", ON_CTRL_C)
@pytest.mark.parametrize("within", ["a callback", "a task that nobody waits for"])
def test_sigterm_is_not_lost_inside_the_event_loop(
    within: str, ctrl_c: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Prefect's handler, installed while a flow runs, raises an exception wherever the loop is. Shells make background
    processes ignore Ctrl-C.
    """

    def handler(*_: object) -> None:
        raise TerminationSignal(signal=signal.SIGTERM)

    async def raise_in_task() -> None:
        signal.raise_signal(signal.SIGTERM)

    async def work() -> None:
        signal.signal(signal.SIGTERM, handler)
        loop = asyncio.get_running_loop()
        begin = loop.call_soon if within == "a callback" else lambda call, number: loop.create_task(raise_in_task())
        kept = begin(signal.raise_signal, signal.SIGTERM)
        await asyncio.sleep(5)
        assert not kept, "SIGTERM was lost"

    with on_ctrl_c(ON_CTRL_C[ctrl_c]), pytest.raises(KeyboardInterrupt), ended_by_sigterm():
        run_async(work())
    assert not capsys.readouterr().err


@pytest.mark.parametrize(("call", "continues"), [("main(['--version'])", True), ("main()", False)])
def test_only_the_main_command_exits_its_process(call: str, continues: bool) -> None:
    """A program that calls the command as a function continues, even with threads left behind."""
    lines = "import sys", "from flows.cli import main", "from flows.server.supervision import LEFT_BEHIND"
    program = "\n".join((*lines, "sys.argv[1:] = ['--version']", "LEFT_BEHIND.set()", call, "print('goes on')"))
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, env=environment())
    assert done.returncode == 0 and done.stdout.startswith("jury ")
    assert done.stdout.endswith("goes on\n") == continues


RUN = "a-run"
PROGRAM = "from flows.server.supervision import claim_run; claim_run(); print('mine', flush=True); {}"
WAITS = "import time; time.sleep(60)"


def start_run_process(program: str) -> "subprocess.Popen[str]":
    """Start a process of a run, like the runner of this `jury up`."""
    own = {**environment(), UP: os.environ[UP], "PREFECT__FLOW_RUN_ID": RUN}
    return subprocess.Popen([sys.executable, "-c", PROGRAM.format(program)], stdout=subprocess.PIPE, env=own, text=True)


def test_run_has_one_process_that_ends_with_jury_up(tmp_path: Path) -> None:
    with lifeline(tmp_path):
        up = Path(os.environ[UP])
        assert is_locked(up) and not has_process(RUN)
        first = start_run_process(WAITS)
        assert first.stdout and first.stdout.readline() == "mine\n" and has_process(RUN)
        second = start_run_process(WAITS)
        assert second.communicate(timeout=60)[0] == "" and second.returncode == 0
        assert first.poll() is None
    assert first.wait(60) == 1 and not is_locked(up)
    first.stdout.close()


@pytest.mark.parametrize("ended", [False, True], ids=["at work", "ended"])
def test_end_process_terminates_a_live_run_process(ended: bool, tmp_path: Path) -> None:
    with lifeline(tmp_path):
        process = start_run_process("" if ended else WAITS)
        assert process.stdout and process.stdout.readline() == "mine\n"
        if ended:
            process.wait(60)
        else:
            end_process(RUN)
        assert process.wait(60) == (0 if ended else -15) and not has_process(RUN)
        process.stdout.close()
        end_process("another")


class Child:
    def __init__(self, program: str) -> None:
        self.pids, self.program = list[int](), program

    def start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-S", "-c", self.program])
        self.pids.append(process.pid)
        return process


def test_killed_child_is_restarted_until_ended(capsys: pytest.CaptureFixture[str]) -> None:
    child = Child("import time; time.sleep(60)")
    kept = Supervised("child", "child.log", child.start)
    kept.keep()
    kept.now.kill()
    wait_for(lambda: len(child.pids) == 2 and kept.now.pid == child.pids[1])
    kept.end()
    assert kept.now.poll() == -signal.SIGTERM and len(child.pids) == 2
    assert capsys.readouterr().err == "the child has ended and starts again; its log is child.log\n"


def test_child_that_exits_at_once_is_restarted_and_can_be_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "FIRST_PAUSE", 0.01)
    child = Child("")
    kept = Supervised("child", "child.log", child.start)
    kept.keep()
    wait_for(lambda: len(child.pids) > 4)
    kept.end()
    assert kept.now.poll() is not None


def test_child_ignoring_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(supervision, "CHILD_SECONDS", 0.5)
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    child = Child(f"{deaf}; open({str(tmp_path / 'deaf')!r}, 'w').close(); time.sleep(60)")
    kept = Supervised("child", "child.log", child.start)
    wait_for((tmp_path / "deaf").exists)
    kept.end()
    assert kept.now.poll() == -signal.SIGKILL
