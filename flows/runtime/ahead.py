"""Work of a run while its temporary server starts: import itself, make its judge's client, ask if that is there."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from flows.runtime.secrets import secret_block
from flows.runtime.server import TemporaryServer
from tasks.endpoint.client import Vlm
from tasks.endpoint.requests import probe_request
from tasks.kinds import kind_of
from tasks.ledger.remote import is_remote
from tasks.parameters import Judge, Parameters
from tasks.spending.other_calls import first_questions_noted

_CLIENT: ContextVar[Vlm | None] = ContextVar("client made ahead", default=None)


@asynccontextmanager
async def while_it_begins(server: TemporaryServer, flow: str, asked: Parameters) -> AsyncGenerator[None]:
    """Wait for the server of a run, and get ready for it; the judge's client is at hand as long as the context lasts.

    Raises:
        JudgeStopped: no call to the judge can succeed, as far as that is known when the server answers.
        InputError: the server did not start.
    """
    async with Vlm(asked.judge, secret=secret_block) as vlm, first_questions_noted(vlm, Path(asked.store), flow):
        server.tell()
        importing = asyncio.to_thread(import_module, f"flows.{flow}")
        await asyncio.gather(importing, _answering(server, partial(first_question, vlm, flow, asked)))
        handed = _CLIENT.set(vlm)
        try:
            yield
        finally:
            _CLIENT.reset(handed)


def client_of(judge: Judge) -> Vlm | None:
    """The client of this judge that was made ahead, if one was."""
    vlm = _CLIENT.get()
    return vlm if vlm and vlm.judge == judge else None


async def first_question(vlm: Vlm, flow: str, asked: Parameters) -> None:
    """Ask whether the judge is there, unless all replies may be: then the run finds out, and asks it only if not.

    Raises:
        JudgeStopped: no call to it can succeed. The client keeps that, and tells it again to whoever asks it anything.
    """
    earlier = is_remote(asked.store) or (Path(asked.store) / "ledger").exists()
    if asked.quote or (asked.reuse_hours and earlier):
        return
    await vlm.probe(probe_request(len(kind_of(flow).display.sides), asked.shares_beginnings))


async def _answering(server: TemporaryServer, question: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Wait for the server, or for a judge that refuses; one that is slow to answer is waited for in the run."""
    waiting, asking = asyncio.create_task(server.answering()), asyncio.create_task(question())
    await asyncio.wait({waiting, asking}, return_when=asyncio.FIRST_COMPLETED)
    if asking.done():
        asking.result()
    await waiting
    asking.cancel()  # the question itself goes on
