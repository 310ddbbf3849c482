"""Calls without a sample, priced and stored a few at a time: pilots, exams and first questions."""

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


class OtherCalls:
    """Calls for one purpose, of a run's flow or a passport, if any."""

    def __init__(self, store: Path, judge: Judge, purpose: Purpose, flow: str = "", asked_by: str = "") -> None:
        self._store, self._judge, self._bill = store, judge, Bill(judge)
        self._purpose: Purpose = purpose
        self._flow, self._asked_by = flow, asked_by
        self._due: list[OtherCall] = []

    async def note(self, request: Request, reply: Reply) -> Charge:
        """Add a call that has ended; return its cost. Calls of the embedded judge are not stored."""
        charge = await self._bill.charge(request, reply, self._purpose)
        if self._judge.base_url != EMBEDDED:
            self._due.append(self._row(reply, charge))
        if len(self._due) >= TOGETHER:
            await self.write_down()
        return charge

    async def write_down(self) -> None:
        """Store the calls added since the last time."""
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
            judge_asked=self._judge.model,
            judge_answered=reply.model,
            endpoint=self._judge.base_url,
            service_tier=reply.tier,
            **reply.usage._asdict(),
            **charge._asdict(),
            seconds=reply.seconds,
        )


async def note_first_questions(vlm: Vlm, store: Path, flow: str = "") -> None:
    """Store the first questions that a client asked since the last call of this; a full disk stops no run."""
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
    """Store the first questions at the end of the context, however it ends."""
    try:
        yield
    finally:
        await note_first_questions(vlm, store, flow)


def _new_id(purpose: Purpose) -> str:
    now = datetime.now(UTC)
    return f"{now:%Y%m%dT%H%M%S}{now.microsecond // 1000:03}-{purpose}-{secrets.token_hex(3)}"
