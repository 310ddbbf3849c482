"""Exam of a judge: every item is asked through the client of the runs, and every reply kept when it arrives."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path

from tasks.endpoint.api_keys import Secret
from tasks.endpoint.client import Vlm
from tasks.endpoint.replies import Reply
from tasks.errors import InputError
from tasks.ledger.passports import Card, PassportLedger, PassportReply, PassportStart, unfinished_replies
from tasks.ledger.run_files import moment_of
from tasks.passport import lines
from tasks.passport.items import (
    Item,
    card_lines,
    items_of,
    prepared,
    question_key,
    question_of,
    read_reply,
    settings_of,
)
from tasks.records import new_id
from tasks.records.judge import EMBEDDED, Judge
from tasks.spending.bill import OtherCalls
from tasks.spending.budget import Budget

FRESH_HOURS = 20
"""Age up to which replies of an unfinished passport are taken over: a card describes the judge as it is."""


def calls_of(seed: int) -> int:
    """Return the number of questions of a passport."""
    return len(items_of(seed))


def check_examinable(judge: Judge) -> None:
    """Raise InputError for the embedded judge, which is no model."""
    if judge.base_url == EMBEDDED:
        raise InputError(
            "the embedded judge measures pixels and has no exam: name a model with --judge.model and --judge.base-url"
        )


class Exam:
    """One exam of a judge, which asks all questions and keeps the card.

    Args:
        seed: seed of the pictures: equal seeds ask exactly the same.
        secret: place of a key that is not in the environment.
        heard: called after each reply.
        passport_id: name of the passport; empty: a new one.
        budget: budget that its calls must fit into; None: they have no limit.
    """

    def __init__(
        self,
        store: Path,
        judge: Judge,
        seed: int,
        secret: Secret,
        heard: Callable[[], object] = lambda: None,
        passport_id: str = "",
        budget: Budget | None = None,
    ) -> None:
        now, self._began = datetime.now(UTC), time.monotonic()
        self._start = PassportStart(
            passport_id=passport_id or new_id("passport", now),
            judge=judge.model,
            endpoint=judge.base_url,
            started_at=now.isoformat(),
            version=version("image-jury"),
            edition=lines.EDITION,
            seed=seed,
            settings=settings_of(judge),
        )
        self._secret, self._heard = secret, heard
        self._items = items_of(seed)
        self._earlier = unfinished_replies(store)
        self._ledger = PassportLedger(store, self._start)
        self._calls = OtherCalls(store, judge, "passport", asked_by=self._start.passport_id, budget=budget)
        self._rows: list[PassportReply] = []

    async def card(self) -> Card:
        """Ask all questions, keep the card, and return it.

        Raises:
            InputError: a call does not fit into the budget; the next passport takes over the replies so far.
            JudgeStopped: no call can succeed, or the judge was away for too long; the next passport takes over the
                replies so far.
        """
        try:
            await self._ask_all()
        finally:
            self._ledger.close()
        start = self._start
        card = Card(
            passport_id=start.passport_id,
            judge=start.judge,
            endpoint=start.endpoint,
            judge_answered=", ".join(sorted({row.judge_answered for row in self._rows} - {""})),
            finished_at=datetime.now(UTC).isoformat(),
            edition=start.edition,
            seed=start.seed,
            calls=sum(not row.reused_from for row in self._rows),
            seconds=round(time.monotonic() - self._began, 3),
            lines=card_lines(self._items, self._rows),
        )
        self._ledger.end(card)
        return card

    async def _ask_all(self) -> None:
        async with self._calls.client(self._secret) as vlm, asyncio.TaskGroup() as group:
            for item in self._items:
                group.create_task(self._ask_one(vlm, item))

    async def _ask_one(self, vlm: Vlm, item: Item) -> None:
        pictures = await asyncio.to_thread(prepared, item)
        question = question_of(item, pictures)
        key = question_key(question, pictures, vlm.judge)
        passport_id, earlier = self._earlier.get(key, ("", None))
        if earlier and earlier.status == "ok" and _is_fresh(earlier):
            row = earlier.model_copy(update={"reused_from": earlier.reused_from or passport_id})
        else:
            shown = tuple(picture.note.sent_sha256 for picture in pictures)
            row = _row(item, key, shown, await self._calls.ask(vlm, question))
        self._ledger.append(row)
        self._rows.append(row)
        self._heard()


def _row(item: Item, key: str, pictures: tuple[str, ...], reply: Reply) -> PassportReply:
    answer, error = read_reply(reply.text, item) if reply.status == "ok" else (None, reply.error)
    return PassportReply(
        key=key,
        line=item.line,
        item=item.number,
        status="invalid" if reply.status == "ok" and error else reply.status,
        answer=answer,
        expected=item.answer,
        right=answer is not None and item.is_right(answer),
        raw=reply.text,
        error=error,
        pictures=pictures,
        rung=reply.rung,
        judge_answered=reply.model,
        not_sent=reply.not_sent,
        asked_at=datetime.now(UTC).isoformat(),
    )


def _is_fresh(row: PassportReply) -> bool:
    asked = moment_of(row.asked_at)
    return asked is not None and datetime.now(UTC) - asked < timedelta(hours=FRESH_HOURS)
