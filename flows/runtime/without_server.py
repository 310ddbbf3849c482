"""A flow run by a command whose Prefect server may die, hang or answer late: it costs Prefect's record, never the run.

What an evaluation came to is known as soon as its flow function has it (`noting_end`). What Prefect does after that
only completes the server's record, and is waited for as long as the server answers. Owns that waiting; how a process
ends that something of Prefect's would keep for minutes is for `process`.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Coroutine
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from flows.runtime.process import leave_behind

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

START_SECONDS = 30.0
"""Longest wait for the first answer of a server that accepts connections."""
LATE_SECONDS = 10.0
"""For a server to be there at all: it may have been started together with the run."""
LOOK_SECONDS = 5.0
"""Between two questions whether a server is there, and longest wait for the answer."""
SILENT = 2
"""Questions without an answer after which a server is not waited for."""

_ENDED: ContextVar["asyncio.Future[State] | None"] = ContextVar("what the run came to", default=None)


class Ended(NamedTuple):
    """What a run came to."""

    state: "State"
    recorded: bool
    """Whether the server has it, too."""


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
    """Wait for whatever a server answers first, and say so where it is not there yet.

    Raises:
        httpx.HTTPError: nobody is there, or nobody answers.
    """
    import httpx

    last = time.monotonic() + LATE_SECONDS
    told = False
    while True:
        try:
            return await _ask(api, START_SECONDS)
        except httpx.TimeoutException as error:
            raise httpx.ReadTimeout(f"no answer within {START_SECONDS:g} seconds") from error
        except httpx.ConnectError:
            if time.monotonic() > last:
                raise
        if not told:
            print(f"waiting for the Prefect server at {api} …", file=sys.stderr)
            told = True
        await asyncio.sleep(LATE_SECONDS / 20)


async def run_to_end(flow: Coroutine[Any, Any, "State"], api: str) -> Ended:
    """Run a flow to the end of its evaluation, and as far beyond as its server answers.

    Args:
        api: address of the server; empty: one that Prefect has in this process, which it ends with itself.

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
        return Ended(run.result(), recorded=True)
    return Ended(ended.result(), recorded=False)


def raised(state: "State") -> bool:
    """Whether a state is that of a flow that raised; ours return the sentence that stopped them."""
    return state.is_crashed() or "encountered an exception" in str(state.message)


async def _recorded(run: "asyncio.Task[State]", api: str) -> None:
    """Wait for what Prefect does at the end of a run, or for its server to be silent."""
    silent = 0
    while not run.done() and silent < SILENT:
        await asyncio.wait({run}, timeout=LOOK_SECONDS)
        silent = 0 if run.done() or not api or await _answers(api) else silent + 1


async def _answers(api: str) -> bool:
    import httpx

    try:
        await _ask(api, LOOK_SECONDS)
    except httpx.HTTPError:
        return False
    return True


async def _ask(api: str, seconds: float) -> None:
    import httpx

    async with httpx.AsyncClient(verify=False, timeout=seconds) as client:
        await client.get(f"{api}/health")
