"""A passport made: every item asked through the client that runs use, every reply kept the moment it arrives.

Owns the order of the questions and which replies of an unfinished passport are taken over. What they come to stands in
`card`, how they are kept in `ledger.passports`.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from tasks.endpoint.api_keys import Secret
from tasks.endpoint.client import Vlm
from tasks.endpoint.completion import Reply
from tasks.endpoint.requests import Request, probe_request
from tasks.errors import InputError, first_of
from tasks.ledger.passports import Card, PassportLedger, PassportReply, PassportStart, unfinished_replies
from tasks.ledger.reading import moment_of
from tasks.parameters import Judge
from tasks.passport import asking, lines
from tasks.passport.card import card_lines
from tasks.passport.items import Item, items_of
from tasks.passport.technical import REPEAT, SEEDED, TURNS, turns
from tasks.pictures.prepare import Picture
from tasks.records import LimitsFound
from tasks.spending.bill import billed
from tasks.spending.budget import Budget
from tasks.spending.money import money
from tasks.spending.other_calls import OtherCalls
from tasks.spending.reservations import VARIABLE

OWN_SEED = 7
"""Of the replies that must be alike, where the judge is given none."""

QUESTION = "passport"
"""What the budget knows a question of a passport by: they cost about the same."""
MOST_PICTURE_TOKENS = 2_000
"""Of a drawn picture."""
FRESH_HOURS = 20
"""Age up to which replies of an unfinished passport are taken over: a card tells of the judge as it is."""


def calls_of(seed: int) -> int:
    """Questions of a passport, with those that are asked again."""
    return len(items_of(seed)) + 2 * TURNS


def new_passport_id() -> str:
    """A name for a passport that no other has; they sort by time."""
    now = datetime.now(UTC)
    return f"{now:%Y%m%dT%H%M%S}{now.microsecond // 1000:03}-passport-{secrets.token_hex(3)}"


async def make_passport(
    store: Path,
    judge: Judge,
    seed: int,
    secret: Secret,
    heard: Callable[[], object] = lambda: None,
    passport_id: str = "",
    budget: Budget | None = None,
) -> Card:
    """Ask all, and keep the card.

    Args:
        seed: of the pictures: equal ones ask the very same.
        secret: where a key may be that is not in the environment.
        heard: called after each reply.
        passport_id: its name; empty: a new one.
        budget: what its calls must fit into; None: they may cost what they do.

    Raises:
        InputError: a call does not fit into the budget; the replies so far are taken over likewise.
        JudgeStopped: no call can succeed, or the judge was away for too long; what it replied is taken over by the next
            passport.
    """
    start = _start(judge, seed, passport_id or new_passport_id())
    return await _Making(store, judge, start, secret, heard, budget).card()


class _Asked(NamedTuple):
    item: Item
    turn: str = ""


class _Making:
    """One passport in the making."""

    def __init__(
        self,
        store: Path,
        judge: Judge,
        start: PassportStart,
        secret: Secret,
        heard: Callable[[], object],
        budget: Budget | None,
    ) -> None:
        self._judge, self._secret, self._began = judge, secret, time.monotonic()
        self._heard, self._budget, self._start = heard, budget, start
        self._items = items_of(start.seed)
        self._earlier = unfinished_replies(store)
        self._ledger = PassportLedger(store, start)
        self._calls = OtherCalls(store, judge, "passport", asked_by=start.passport_id)
        self._rows: list[PassportReply] = []

    async def card(self) -> Card:
        try:
            limits = await self._ask_all()
        finally:
            self._ledger.close()
            await self._calls.write_down()
        card = self._card(limits)
        self._ledger.end(card)
        return card

    async def _ask_all(self) -> LimitsFound | None:
        """All questions; returns what was found of the judge's limits."""
        again = next(item for item in self._items if (item.line, item.number) == asking.REPEATED)
        free = self._judge.model_copy(update={"seed": -1})
        seeded = self._judge.model_copy(update={"seed": self._judge.seed if self._judge.seed >= 0 else OWN_SEED})
        limits = await self._ask(self._judge, [_Asked(item) for item in self._items])
        await self._ask(free, [_Asked(again, turn) for turn in turns(REPEAT)])
        await self._ask(seeded, [_Asked(again, turn) for turn in turns(SEEDED)])
        return limits

    async def _ask(self, judge: Judge, asked: Sequence[_Asked]) -> LimitsFound | None:
        async with Vlm(judge, secret=self._secret) as vlm:
            try:
                await vlm.probe(probe_request())
                async with asyncio.TaskGroup() as group:
                    for each in asked:
                        group.create_task(self._ask_one(vlm, each))
            except ExceptionGroup as errors:
                raise first_of(errors) from None
            finally:
                await self._note_first_questions(vlm)
            return vlm.gate.found()

    async def _ask_one(self, vlm: Vlm, asked: _Asked) -> None:
        pictures = await asyncio.to_thread(asking.prepared, asked.item)
        question = asking.request(asked.item, pictures)
        key = asking.key(question, pictures, vlm.judge, asked.turn)
        passport_id, earlier = self._earlier.get(key, ("", None))
        if earlier and earlier.status == "ok" and _is_fresh(earlier):
            row = earlier.model_copy(update={"reused_from": earlier.reused_from or passport_id})
        else:
            told = _row(asked, key, pictures, await self._reply(vlm, question, key)).model_dump_json()
            row = PassportReply.model_validate_json(vlm.without_key(told))
        self._ledger.append(row)
        self._rows.append(row)
        self._heard()

    async def _note_first_questions(self, vlm: Vlm) -> None:
        for request, reply in vlm.take_asides():
            charge = await self._calls.note(request, reply)
            if self._budget:
                self._budget.spent += charge.price or 0.0

    async def _reply(self, vlm: Vlm, question: Request, key: str) -> Reply:
        budget = self._budget
        if budget and not await budget.covers(key, budget.expected(QUESTION, _most_tokens(question))):
            raise InputError(
                f"the passport stopped: {money(budget.spent)} are spent, and a further question, which may cost "
                f"{money(budget.needed)}, does not fit into what is left of the month's budget ({VARIABLE}). The "
                f"replies so far are kept, and a passport within {FRESH_HOURS} hours takes them over"
            )
        reply = await vlm.ask(question)
        charge = await self._calls.note(question, reply)
        if budget:
            budget.settle(key, QUESTION, billed(charge))
        return reply

    def _card(self, limits: LimitsFound | None) -> Card:
        start = self._start
        return Card(
            passport_id=start.passport_id,
            model=start.model,
            endpoint=start.endpoint,
            model_answered=_distinct(row.model_answered for row in self._rows),
            finished_at=datetime.now(UTC).isoformat(),
            edition=start.edition,
            seed=start.seed,
            calls=sum(not row.reused_from for row in self._rows),
            seconds=round(time.monotonic() - self._began, 3),
            lines=card_lines(self._items, self._rows, limits),
        )


def _start(judge: Judge, seed: int, passport_id: str) -> PassportStart:
    now = datetime.now(UTC)
    return PassportStart(
        passport_id=passport_id,
        model=judge.model,
        endpoint=judge.base_url,
        started_at=now.isoformat(),
        version=version("image-jury"),
        edition=lines.EDITION,
        seed=seed,
        settings=asking.settings(judge),
    )


def _most_tokens(question: Request) -> int:
    """No text takes more tokens than it has bytes; no picture of a passport is a large one."""
    texts = sum(len(part.encode()) for part in (question.system, *question.content) if isinstance(part, str))
    return texts + question.pictures * MOST_PICTURE_TOKENS


def _row(asked: _Asked, key: str, pictures: Sequence[Picture], reply: Reply) -> PassportReply:
    read = asking.read(reply.text, asked.item) if reply.status == "ok" else asking.Read(None, reply.error)
    return PassportReply(
        key=key,
        line=asked.item.line,
        item=asked.item.number,
        turn=asked.turn,
        status="invalid" if reply.status == "ok" and read.error else reply.status,
        answer=read.answer,
        expected=asked.item.answer,
        right=read.answer is not None and asked.item.is_right(read.answer),
        raw=reply.text,
        error=read.error,
        pictures=tuple(picture.note.sent_sha256 for picture in pictures),
        rung=reply.rung,
        model_answered=reply.model,
        tokens_in=reply.tokens_in,
        tokens_out=reply.tokens_out,
        tokens_cached=reply.tokens_cached,
        seconds=reply.seconds,
        waits=reply.waits,
        not_sent=reply.not_sent,
        asked_at=datetime.now(UTC).isoformat(),
    )


def _is_fresh(row: PassportReply) -> bool:
    asked = moment_of(row.asked_at)
    return asked is not None and datetime.now(UTC) - asked < timedelta(hours=FRESH_HOURS)


def _distinct(names: Iterable[str]) -> str:
    return ", ".join(sorted({name for name in names if name}))
