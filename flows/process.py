"""A flow in the process of a command: checked before its server starts, run to its end, at a signal, and in time.

Prefect, and the judge's client, are imported in functions: each takes a second, in which the server starts.
"""

import asyncio
import signal
from collections.abc import Awaitable, Coroutine, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, cast

from flows.server.server import answered, prepare_prefect, temporary_server
from flows.server.supervision import LEFT_BEHIND
from tasks.datasets.paths import resolved
from tasks.endpoint.catalog import addressed
from tasks.errors import InputError
from tasks.extensions import extensions_of
from tasks.ledger.remote import local_cache
from tasks.protocols.loading import load_ahead
from tasks.records.parameters import Collect, Parameters, at_store
from tasks.text import print_aside

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
UNRECORDED = (
    "the Prefect server did not take in how this run ended, for it is gone, does not answer, or waits for a "
    "cancellation, which ends no command: its record there is unfinished, and the run ended as it says here"
)

_ENDED: ContextVar["asyncio.Future[State] | None"] = ContextVar("what the run came to", default=None)

T = TypeVar("T")


def settled(parameters: Parameters) -> Parameters:
    """Return the parameters of a run with its store, its judge's address, and the places of this moment filled in.

    Raises:
        InputError: no run can have these values.
    """
    asked = resolved(addressed(at_store(parameters)), datetime.now().astimezone())
    if asked.judge.service_tier == "batch":
        from tasks.batches.log import check_batch  # an extension, for batches alone

        check_batch(asked)
    return asked


def judged(flow: str, parameters: Parameters) -> dict[str, Any]:
    """Run a flow in this process, with the available Prefect server or a temporary one.

    Returns:
        The result of a completed run: `run_id`, `warnings`, and `quote` or `waits` if the flow returned them.

    Raises:
        InputError, Exception: see `run_here`.
    """
    prepare_prefect(local_cache(parameters.store))
    with ended_by_sigterm():
        _check(flow, parameters)
    return run_here(flow, parameters)


def _check(flow: str, parameters: Parameters) -> None:
    """Check the parameters, prompts and extensions of a run, and load its dataset.

    Mistakes are thus reported while the server starts. Shards are checked by the processes that judge them.
    """
    asked = settled(parameters)
    if asked.to_be_split:
        if temporary_server():
            raise InputError(
                "shards are runs of a deployment, and there is no Prefect server that has any: start `jury up`, or set "
                "PREFECT_API_URL to the server of your workers"
            )
        return
    from tasks.judging.lifecycle import opening_of  # the judge's client, which takes a second to import

    opening = opening_of(flow, asked, (), scheduled=False)
    for each in extensions_of(opening):
        each.check()
    try:
        load_ahead(flow, opening.parameters)
    except OSError as error:
        raise InputError(str(error)) from error


def run_here(flow: str, parameters: Parameters | Collect) -> dict[str, Any]:
    """Run a flow in this process, on the Prefect server that it has, and return the result of the completed run.

    Raises:
        InputError: the run was stopped, with the reason and its id.
        Exception: the flow raised it, a fault of the program.
    """
    with answered(), ended_by_sigterm():
        state, recorded = run_async(_run(flow, parameters))
    if not recorded:
        print_aside(f"jury: {UNRECORDED}")
    result: object = state.result(raise_on_failure=False, _sync=True)  # pyright: ignore
    if state.is_completed():
        return cast(dict[str, Any], result)
    if raised(state):
        raise result if isinstance(result, Exception) else RuntimeError(state.message)
    stopped = InputError(str(state.message))
    stopped.run_id = str(cast(dict[str, str], result)["run_id"]) if isinstance(result, dict) else ""
    raise stopped


async def _run(flow: str, parameters: Parameters | Collect) -> "tuple[State, bool]":
    server = temporary_server()
    if server:
        await asyncio.gather(server.answering(), asyncio.to_thread(import_module, f"flows.{flow}"))
    from prefect.settings import PREFECT_API_URL

    api = PREFECT_API_URL.value() or ""
    if api and not server:
        await first_answer(api)
    return await run_to_end(getattr(import_module(f"flows.{flow}"), flow)(parameters, return_state=True), api)


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run work as `asyncio.run` does, but end it at SIGTERM, and where the terminal closes, as at Ctrl-C; leave behind
    tasks that end too late.

    Prefect reports a stopped run to its server; if the server hangs, the report takes minutes.
    """
    runner = asyncio.Runner()
    loop = runner.get_loop()
    loop.set_exception_handler(_tell_but_sigterm)
    loop.add_signal_handler(signal.SIGTERM, _interrupt_loop)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # `nohup` ignores it
        loop.add_signal_handler(signal.SIGHUP, _hang_up)
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


def _hang_up() -> None:
    """End the work because the terminal was closed; a shell may send the signal once more."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    _interrupt_loop()


def _tell_but_sigterm(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report an exception that nobody catches, as asyncio does, but not the one at SIGTERM.

    At SIGTERM Prefect raises an exception at the current point of the event loop. In a callback, or in a task that
    nobody awaits, it ends nothing. The loop also receives the signal itself, and ends the run.
    """
    if not _is_sigterm(context.get("exception")):
        loop.default_exception_handler(context)


def _end(runner: asyncio.Runner) -> None:
    """End all tasks, and close the event loop; leave both behind if a task ends too late or the wait is interrupted."""
    if LEFT_BEHIND.is_set():
        return
    loop = runner.get_loop()
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    LEFT_BEHIND.set()  # unless all of them end in time
    if not left or not loop.run_until_complete(asyncio.wait(left, timeout=END_SECONDS))[1]:
        LEFT_BEHIND.clear()
        runner.close()


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
    if run.done() and (not ended.done() or (not run.exception() and _took_in(run.result(), ended))):
        return run.result(), True
    # The server is gone, and Prefect would try for minutes to send it the rest of its record. Or it waits for a cancel.
    LEFT_BEHIND.set()
    return ended.result(), False


def _took_in(state: "State", ended: "asyncio.Future[State]") -> bool:
    """Return whether the state that the server has is that of the ended evaluation."""
    return state.is_final() and (ended.exception() is not None or not raised(state))


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
