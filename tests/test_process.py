"""The garbage collector is set for a run, and is as it was before after it."""

import asyncio
import gc
import subprocess
import sys

import pytest
from prefect.exceptions import TerminationSignal

from flows.runtime.process import THRESHOLDS, bounded_memory, ended_by_sigterm, run_async, settle_garbage_collector


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


def test_sigterm_that_comes_within_a_callback_of_the_event_loop_is_not_lost() -> None:
    async def work() -> None:
        def callback() -> None:
            raise TerminationSignal(signal=15)

        asyncio.get_running_loop().call_soon(callback)
        await asyncio.sleep(5)

    with pytest.raises(KeyboardInterrupt), ended_by_sigterm():
        run_async(work())
