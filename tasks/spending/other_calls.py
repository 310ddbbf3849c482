"""Calls that judge no sample, priced and written down: the money that is in no ledger of a run.

Owns when rows are written: a few together, so that a passport that is killed leaves at most a few of them out, and what
a client asked by itself with the first chance. What a row holds is for `ledger.other_calls`. The embedded judge costs
nothing, and nothing of it is written down.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from tasks.endpoint.client import Vlm
from tasks.endpoint.completion import Reply
from tasks.endpoint.requests import Request
from tasks.errors import InputError
from tasks.ledger.other_calls import OTHER_CALLS, OtherCall, Purpose
from tasks.parameters import EMBEDDED, Judge
from tasks.spending.bill import Bill, Charge

TOGETHER = 8
"""Calls that are written down at once."""


class OtherCalls:
    """What is asked for one purpose.

    Args:
        flow: of the run that it is asked for, if any.
        asked_by: the passport that it is asked for, if any.
    """

    def __init__(self, store: Path, judge: Judge, purpose: Purpose, flow: str = "", asked_by: str = "") -> None:
        self._store, self._judge, self._bill = store, judge, Bill(judge)
        self._purpose: Purpose = purpose
        self._flow, self._asked_by = flow, asked_by
        self._due: list[OtherCall] = []

    async def note(self, request: Request, reply: Reply) -> Charge:
        """Take in a call that has ended; returns what it cost."""
        charge = await self._bill.charge(request, reply, self._purpose)
        if self._judge.base_url != EMBEDDED:
            self._due.append(self._row(reply, charge))
        if len(self._due) >= TOGETHER:
            await self.write_down()
        return charge

    async def write_down(self) -> None:
        """Keep what was taken in since the last time.

        Raises:
            OSError: the disk fails.
        """
        due, self._due = self._due, []
        if due:
            calls_id = _new_id(self._purpose)
            rows = [row.model_copy(update={"calls_id": calls_id}) for row in due]
            await asyncio.to_thread(OTHER_CALLS.keep, self._store, rows)

    def _row(self, reply: Reply, charge: Charge) -> OtherCall:
        return OtherCall(
            calls_id="",
            purpose=self._purpose,
            asked_by=self._asked_by,
            flow=self._flow,
            asked_at=datetime.now(UTC).isoformat(),
            status=reply.status,
            model_asked=self._judge.model,
            model_answered=reply.model,
            endpoint=self._judge.base_url,
            tier=reply.tier,
            tokens_in=reply.tokens_in,
            tokens_out=reply.tokens_out,
            tokens_cached=reply.tokens_cached,
            tokens_written=reply.tokens_written,
            tokens_pictures=reply.tokens_pictures,
            tokens_reasoning=reply.tokens_reasoning,
            price=charge.price,
            price_source=charge.price_source,
            estimated=charge.estimated,
            saved_by_tier=charge.saved_by_tier,
            saved_by_cache=charge.saved_by_cache,
            seconds=reply.seconds,
        )


async def note_first_questions(vlm: Vlm, store: Path, flow: str = "") -> None:
    """Write down what a client asked by itself since this was last called: whether the judge is there.

    A run does not fail for want of it: what a full disk does not take of it, the disk takes of the run's rows no more.
    """
    asides = vlm.take_asides()
    if not asides:
        return
    calls = OtherCalls(store, vlm.judge, "probe", flow)
    with suppress(InputError, OSError):
        for request, reply in asides:
            await calls.note(request, reply)
        await calls.write_down()


@asynccontextmanager
async def first_questions_noted(vlm: Vlm, store: Path, flow: str = "") -> AsyncGenerator[None]:
    """The same at the end of the context, however it ends."""
    try:
        yield
    finally:
        await note_first_questions(vlm, store, flow)


def _new_id(purpose: Purpose) -> str:
    now = datetime.now(UTC)
    return f"{now:%Y%m%dT%H%M%S}{now.microsecond // 1000:03}-{purpose}-{secrets.token_hex(3)}"
