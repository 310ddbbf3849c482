"""The process of a run or a command: signals that end it, and how long it waits for what Prefect does at the end.

A Prefect server may die, hang or answer late: it costs Prefect's record, never the run. The result of an evaluation is
known as soon as its flow function has it (`noting_end`). What Prefect does after that only completes the record.
"""

import asyncio
import atexit
import os
import signal
import sys
from collections.abc import Awaitable, Coroutine, Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

END_SECONDS = 8.0
"""For what is left of the work in a process to end by itself, when the work is done or was stopped."""
START_SECONDS = 30.0
"""Longest wait for the first answer of a server that accepts connections."""
LOOK_SECONDS = 5.0
"""Between two questions whether a server is there, and longest wait for the answer."""
SILENT = 2
"""Questions without an answer after which a server is not waited for."""

_ENDED: ContextVar["asyncio.Future[State] | None"] = ContextVar("what the run came to", default=None)

T = TypeVar("T")
_LEFT_BEHIND = Event()


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, but SIGTERM ends it as Ctrl-C does, and what does not end in time once the work is done or stopped
    is left behind: Prefect tells a server that a run was stopped, and where the server hangs it tells it for minutes.
    """
    runner = asyncio.Runner()
    loop = runner.get_loop()
    loop.set_exception_handler(_tell_but_sigterm)
    with suppress(NotImplementedError):  # Windows
        loop.add_signal_handler(signal.SIGTERM, _interrupt_loop)
    try:
        return runner.run(work)
    finally:
        _end(runner)


def _interrupt_loop() -> None:
    """Do in the event loop's own thread what Ctrl-C does.

    What a shell script begins in the background ignores Ctrl-C, until it is told to end by SIGTERM.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.raise_signal(signal.SIGINT)


def _tell_but_sigterm(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report an exception that nobody takes, as asyncio does, but for SIGTERM.

    At SIGTERM Prefect raises one wherever the event loop is: in a callback, or in a task that nobody waits for, it ends
    nothing. The loop learns of the signal besides, and ends the run.
    """
    if not _is_sigterm(context.get("exception")):
        loop.default_exception_handler(context)


def _end(runner: asyncio.Runner) -> None:
    if not _LEFT_BEHIND.is_set() and not _all_ended(runner.get_loop()):
        leave_behind()
    if not _LEFT_BEHIND.is_set():
        runner.close()


def _all_ended(loop: asyncio.AbstractEventLoop) -> bool:
    """End all tasks; whether they do in time, and nobody stops the waiting."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    try:
        return not left or not loop.run_until_complete(asyncio.wait(left, timeout=END_SECONDS))[1]
    except BaseException:
        leave_behind()
        raise


def leave_behind() -> None:
    """Something in this process will not end by itself within reason: the process is to end without it."""
    _LEFT_BEHIND.set()


def end_without_the_rest(code: int) -> None:
    """End a process that has left something behind; return where it has not, for then it ends as any other."""
    if _LEFT_BEHIND.is_set():
        atexit._run_exitfuncs()  # pyright: ignore
        sys.stdout.flush()
        os._exit(code)


@contextmanager
def ended_by_sigterm() -> Generator[None]:
    """Let SIGTERM end what runs in the context as Ctrl-C does; for the main thread.

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
    """Keep what DuckDB 2.0 prints at exit (nanobind's leak list) from the user; to be registered with `atexit`."""
    sys.stderr.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _is_sigterm(error: BaseException | None) -> bool:
    """Whether this is what Prefect raises at SIGTERM, wherever the event loop is: within a task of a group, too."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(_is_sigterm, cast(BaseExceptionGroup[BaseException], error).exceptions))
    return type(error).__name__ == "TerminationSignal"


async def noting_end(work: Awaitable["State"]) -> "State":
    """The state that an evaluation comes to, or what it raises; noted for a command that waits for it."""
    ended = _ENDED.get() or asyncio.get_running_loop().create_future()
    try:
        ended.set_result(await work)
    except Exception as error:
        ended.set_exception(error)
        ended.exception()  # or asyncio says that nobody has looked at it
    return ended.result()


async def first_answer(api: str) -> None:
    """Wait for whatever a server answers first: Prefect's client would wait for minutes.

    Raises:
        httpx.HTTPError: nobody is there, or nobody answers.
    """
    import httpx

    try:
        await _ask(api, START_SECONDS)
    except httpx.TimeoutException as error:
        raise httpx.ReadTimeout(f"no answer within {START_SECONDS:g} seconds") from error


async def run_to_end(flow: Coroutine[Any, Any, "State"], api: str) -> "tuple[State, bool]":
    """Run a flow to the end of its evaluation, and as far beyond as its server answers.

    Args:
        api: address of the server; empty: one that Prefect has in this process, which it ends with itself.

    Returns:
        The state, and whether the server has it, too.

    Raises:
        Exception: what the flow raised where the server did not take it in, or Prefect of a flow that did not begin.
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
    if not run.done():
        leave_behind()
    elif not ended.done() or (not run.exception() and (ended.exception() or not raised(run.result()))):
        return run.result(), True
    return ended.result(), False


def raised(state: "State") -> bool:
    """Whether a state is that of a flow that raised; ours return the sentence that stopped them."""
    return state.is_crashed() or "encountered an exception" in str(state.message)


async def _recorded(run: "asyncio.Task[State]", api: str) -> None:
    """Wait for what Prefect does at the end of a run, or for its server to be silent."""
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
