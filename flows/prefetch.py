"""Work of a run while its temporary server starts: import the flow, make its judge's client, ask a first question."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from flows.server.server import TemporaryServer, secret_block
from tasks.endpoint.client import Vlm
from tasks.judging import questions
from tasks.ledger.remote import is_remote, local_cache
from tasks.records.judge import Judge
from tasks.records.parameters import Parameters
from tasks.spending.bill import first_questions_noted
from tasks.spending.budget import month_budget

_CLIENT: ContextVar[Vlm | None] = ContextVar("client made ahead", default=None)


@asynccontextmanager
async def while_it_begins(server: TemporaryServer, flow: str, asked: Parameters) -> AsyncGenerator[None]:
    """Wait for the server of a run, and prepare the run meanwhile; the judge's client is open inside the context.

    Raises:
        JudgeStopped: no call to the judge can succeed, and this is clear before the server answers.
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
    """Return the client that was made ahead for this judge, if there is one."""
    vlm = _CLIENT.get()
    return vlm if vlm and vlm.judge == judge else None


@asynccontextmanager
async def judge_client(flow: str, asked: Parameters) -> AsyncGenerator[Vlm]:
    """Yield the client of a run's judge: the one that was made ahead, which its maker closes, or a new one."""
    made = client_of(asked.judge)
    async with (
        nullcontext(made) if made else Vlm(asked.judge, secret_block) as vlm,
        first_questions_noted(vlm, local_cache(asked.store), flow),
    ):
        yield vlm


async def first_question(vlm: Vlm, flow: str, asked: Parameters) -> None:
    """Ask the judge a first question, unless all replies may be in the ledger: then the run asks it if any is missing.

    Raises:
        JudgeStopped: no call to it can succeed. The client stores this error, and raises it again at later questions.
    """
    earlier = is_remote(asked.store) or (Path(asked.store) / "ledger").exists()
    limited = getattr(asked, "budget", 0.0) or month_budget()  # a run with a budget asks it when a call fits into that
    if asked.quote or limited or (asked.reuse_hours and earlier):
        return
    await vlm.probe(questions.first_question(flow, asked))


async def _answering(server: TemporaryServer, question: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Wait for the server, or for a judge that refuses; the run itself waits for a judge that is slow to answer."""
    waiting, asking = asyncio.create_task(server.answering()), asyncio.create_task(question())
    await asyncio.wait({waiting, asking}, return_when=asyncio.FIRST_COMPLETED)
    if asking.done():
        asking.result()
    await waiting
    asking.cancel()  # the question itself goes on
