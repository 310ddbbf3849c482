"""End of a run and of its process: at a signal, in time, and with a server that is gone."""

import asyncio
import atexit
import os
import signal
import sys
from collections.abc import Awaitable, Coroutine, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

END_SECONDS = 8.0
"""Longest wait for the rest of the work in a process to end by itself, once the work is done or was stopped."""
START_SECONDS = 30.0
"""Longest wait for the first answer of a server that accepts connections."""
LOOK_SECONDS = 5.0
"""Seconds between two checks of a server, and longest wait for the answer."""
SILENT = 2
"""Checks without an answer after which the wait for a server ends."""

_ENDED: ContextVar["asyncio.Future[State] | None"] = ContextVar("what the run came to", default=None)

T = TypeVar("T")
LEFT_BEHIND = Event()


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run work as `asyncio.run` does, but end it at SIGTERM as at Ctrl-C, and leave behind tasks that end too late.

    Prefect reports a stopped run to its server; if the server hangs, the report takes minutes.
    """
    runner = asyncio.Runner()
    loop = runner.get_loop()
    loop.set_exception_handler(_tell_but_sigterm)
    loop.add_signal_handler(signal.SIGTERM, _interrupt_loop)
    try:
        return runner.run(work)
    except BaseException as error:
        if _is_sigterm(error):  # Prefect's handler was first: the loop would still get the same signal, at its end
            loop.remove_signal_handler(signal.SIGTERM)
            signal.signal(signal.SIGTERM, signal.default_int_handler)
        raise
    finally:
        _end(runner)


def _interrupt_loop() -> None:
    """Raise SIGINT in the event loop's own thread, as Ctrl-C does.

    A background process of a shell script ignores Ctrl-C, so its handler is set first.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.raise_signal(signal.SIGINT)


def _tell_but_sigterm(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report an exception that nobody catches, as asyncio does, but not the one at SIGTERM.

    At SIGTERM Prefect raises an exception at the current point of the event loop. In a callback, or in a task that
    nobody awaits, it ends nothing. The loop also receives the signal itself, and ends the run.
    """
    if not _is_sigterm(context.get("exception")):
        loop.default_exception_handler(context)


def _end(runner: asyncio.Runner) -> None:
    if not LEFT_BEHIND.is_set() and not _all_ended(runner.get_loop()):
        leave_behind()
    if not LEFT_BEHIND.is_set():
        runner.close()


def _all_ended(loop: asyncio.AbstractEventLoop) -> bool:
    """End all tasks; return whether they do so in time. If the wait is interrupted, leave them behind."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    try:
        return not left or not loop.run_until_complete(asyncio.wait(left, timeout=END_SECONDS))[1]
    except BaseException:
        leave_behind()
        raise


def leave_behind() -> None:
    """Note that some work in this process will not end within reason, so that the process ends without it."""
    LEFT_BEHIND.set()


def end_without_the_rest(code: int) -> None:
    """End a process that has left work behind; return if it has not, since it then ends as any other."""
    if LEFT_BEHIND.is_set():
        atexit._run_exitfuncs()  # pyright: ignore
        sys.stdout.flush()
        os._exit(code)


@contextmanager
def ended_by_sigterm() -> Generator[None]:
    """Let SIGTERM end the work in the context as Ctrl-C does; for the main thread.

    While a flow runs, Prefect has a handler of its own, which raises an exception of its own.
    """
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except BaseException as error:
        if _is_sigterm(error):
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def hush() -> None:
    """Hide the output of DuckDB 2.0 at exit (nanobind's leak list) from the user; to be registered with `atexit`."""
    sys.stderr.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _is_sigterm(error: BaseException | None) -> bool:
    """Return whether this is Prefect's exception at SIGTERM, also within a task of a group."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(_is_sigterm, cast(BaseExceptionGroup[BaseException], error).exceptions))
    return type(error).__name__ == "TerminationSignal"


async def noting_end(work: Awaitable["State"]) -> "State":
    """Return the state of an ended evaluation, or raise its exception; note either for a command that waits for it."""
    ended = _ENDED.get() or asyncio.get_running_loop().create_future()
    try:
        ended.set_result(await work)
    except Exception as error:
        ended.set_exception(error)
        ended.exception()  # or asyncio warns that it was never retrieved
    return ended.result()


async def first_answer(api: str) -> None:
    """Wait for the first answer of a server, for Prefect's client would wait for minutes.

    Raises:
        httpx.HTTPError: the server is not there, or does not answer.
    """
    import httpx

    try:
        await _ask(api, START_SECONDS)
    except httpx.TimeoutException as error:
        raise httpx.ReadTimeout(f"no answer within {START_SECONDS:g} seconds") from error


async def run_to_end(flow: Coroutine[Any, Any, "State"], api: str) -> "tuple[State, bool]":
    """Run a flow to the end of its evaluation, and further while its server answers.

    Args:
        api: address of the server; empty: one that Prefect has in this process, which it ends with itself.

    Returns:
        The state, and whether the server has it, too.

    Raises:
        Exception: the flow raised it and the server did not record it, or Prefect raised it before the flow began.
    """
    ended: asyncio.Future[State] = asyncio.get_running_loop().create_future()
    _ENDED.set(ended)
    run = asyncio.create_task(flow)
    try:
        await asyncio.wait({run, ended}, return_when=asyncio.FIRST_COMPLETED)
        await _recorded(run, api)
    except asyncio.CancelledError:
        run.cancel()
        raise
    if run.done() and (not ended.done() or (not run.exception() and (ended.exception() or not raised(run.result())))):
        return run.result(), True
    # The server is gone, and Prefect would try for minutes to send it the rest of its record.
    leave_behind()
    return ended.result(), False


def raised(state: "State") -> bool:
    """Return whether a state is that of a flow that raised; our flows return the sentence that stopped them."""
    return state.is_crashed() or "encountered an exception" in str(state.message)


async def _recorded(run: "asyncio.Task[State]", api: str) -> None:
    """Wait until Prefect's steps at the end of a run are done, or its server is silent."""
    import httpx

    silent = 0
    while not run.done() and silent < SILENT:
        await asyncio.wait({run}, timeout=LOOK_SECONDS)
        try:
            if api and not run.done():
                await _ask(api, LOOK_SECONDS)
            silent = 0
        except httpx.HTTPError:
            silent += 1


async def _ask(api: str, seconds: float) -> None:
    import httpx

    async with httpx.AsyncClient(verify=False, timeout=seconds) as client:
        await client.get(f"{api}/health")
