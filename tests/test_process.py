"""The garbage collector is set for a run, and is as it was before after it."""

import asyncio
import gc
import signal
import subprocess
import sys

import pytest
from prefect.exceptions import TerminationSignal
from served import environment, on_ctrl_c

from flows.runtime.process import (
    THRESHOLDS,
    bounded_memory,
    ended_by_sigterm,
    run_async,
    search_rarely,
    settle_garbage_collector,
)


def test_the_collector_is_set_while_a_run_lasts_and_put_back_after_it() -> None:
    before = gc.get_threshold()
    with settle_garbage_collector():
        assert gc.get_threshold() == THRESHOLDS and gc.get_freeze_count() > 0
    assert gc.get_threshold() == before and gc.get_freeze_count() == 0


def test_the_collector_is_put_back_after_a_run_that_fails() -> None:
    before = gc.get_threshold()
    with pytest.raises(ZeroDivisionError), settle_garbage_collector():
        raise ZeroDivisionError
    assert gc.get_threshold() == before and gc.get_freeze_count() == 0


def test_the_collector_searches_rarely_in_the_process_of_a_command() -> None:
    before = gc.get_threshold()
    try:
        search_rarely()
        assert gc.get_threshold() == THRESHOLDS
    finally:
        gc.set_threshold(*before)


def test_importing_the_runtime_leaves_the_collector_alone() -> None:
    look = "import gc, flows.runtime.process, flows.runtime.sending; print(gc.get_threshold(), gc.get_freeze_count())"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    plain = [sys.executable, "-c", "import gc; print(gc.get_threshold(), gc.get_freeze_count())"]
    assert done.stdout == subprocess.run(plain, capture_output=True, text=True, check=True).stdout


def test_what_does_not_fit_into_the_memory_allowed_is_an_error_and_the_bound_goes_again() -> None:
    with bounded_memory(200_000_000):
        with pytest.raises(MemoryError):
            bytearray(400_000_000)
        bytearray(50_000_000)
    bytearray(400_000_000)


def test_sigterm_ends_a_run_as_ctrl_c_does_also_where_it_comes_within_tasks_of_groups() -> None:
    raised = TerminationSignal(signal=15)
    for error in (raised, BaseExceptionGroup("outer", [BaseExceptionGroup("inner", [raised])])):
        with pytest.raises(KeyboardInterrupt), ended_by_sigterm():
            raise error
    with pytest.raises(ExceptionGroup), ended_by_sigterm():
        raise ExceptionGroup("of ours", [ValueError("a fault")])


ON_CTRL_C = {"on a terminal": signal.default_int_handler, "behind a script": signal.SIG_IGN}


@pytest.mark.parametrize("ctrl_c", ON_CTRL_C)
@pytest.mark.parametrize("within", ["a callback", "a task that nobody waits for"])
def test_sigterm_is_not_lost_wherever_the_event_loop_is(
    within: str, ctrl_c: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Prefect's handler, which a flow has while it runs, raises an exception there. What a shell script begins in the
    background ignores Ctrl-C.
    """

    def handler(*_: object) -> None:
        raise TerminationSignal(signal=signal.SIGTERM)

    async def aside() -> None:
        signal.raise_signal(signal.SIGTERM)

    async def work() -> None:
        signal.signal(signal.SIGTERM, handler)
        loop = asyncio.get_running_loop()
        begin = loop.call_soon if within == "a callback" else lambda call, number: loop.create_task(aside())
        kept = begin(signal.raise_signal, signal.SIGTERM)
        await asyncio.sleep(5)
        assert not kept, "it was lost"

    with on_ctrl_c(ON_CTRL_C[ctrl_c]), pytest.raises(KeyboardInterrupt), ended_by_sigterm():
        run_async(work())
    assert not capsys.readouterr().err


@pytest.mark.parametrize(("call", "goes_on"), [("main(['--version'])", True), ("main()", False)])
def test_only_the_command_itself_ends_its_process(call: str, goes_on: bool) -> None:
    """Where something is left behind, a program that calls the command as a function goes on all the same."""
    lines = "import sys", "from flows.cli import main", "from flows.runtime.process import leave_behind"
    program = "\n".join((*lines, "sys.argv[1:] = ['--version']", "leave_behind()", call, "print('goes on')"))
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, env=environment())
    assert done.returncode == 0 and done.stdout.startswith("jury ")
    assert done.stdout.endswith("goes on\n") == goes_on
