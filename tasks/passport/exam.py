"""Exam of a judge: every item is asked through the client of the runs, and the card has every reply."""

import asyncio
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tasks.endpoint.api_keys import Secret
from tasks.endpoint.client import Vlm
from tasks.endpoint.replies import Reply
from tasks.errors import InputError
from tasks.ledger.passports import Card, PassportReply, StoppedExam, keep_exam, stopped_replies
from tasks.passport import lines
from tasks.passport.items import Item, card_lines, items_of, prepared, question_key, question_of, read_reply
from tasks.records.judge import EMBEDDED, Judge
from tasks.spending.bill import OtherCalls
from tasks.spending.budget import Budget

FRESH_HOURS = 20
"""Age up to which replies of a stopped exam are taken over: a card describes the judge as it is."""

LONGEST_RAW = 2_000
"""Most characters kept of a reply: a card is read by every run of its judge."""


def calls_of(seed: int) -> int:
    """Return the number of questions of a passport."""
    return len(items_of(seed))


def check_examinable(judge: Judge) -> None:
    """Raise InputError for the embedded judge, which is no model."""
    if judge.base_url == EMBEDDED:
        raise InputError(
            "the embedded judge measures pixels and has no exam: name a model with --judge.model and --judge.base-url"
        )


async def take_exam(
    store: Path,
    judge: Judge,
    seed: int,
    passport_id: str,
    secret: Secret,
    budget: Budget | None = None,
    heard: Callable[[], object] = lambda: None,
) -> Card:
    """Ask all questions, keep the card, and return it. An exam that stops keeps its replies for the next one.

    Args:
        seed: seed of the pictures: equal seeds ask exactly the same.
        secret: place of a key that is not in the environment.
        budget: budget that its calls must fit into; None: they have no limit.
        heard: called after each reply.

    Raises:
        InputError: a call does not fit into the budget.
        JudgeStopped: no call can succeed, or the judge was away for too long.
    """
    items, rows, began = items_of(seed), list[PassportReply](), time.monotonic()
    calls = OtherCalls(store, judge, "passport", asked_by=passport_id, budget=budget)
    since = (datetime.now(UTC) - timedelta(hours=FRESH_HOURS)).isoformat()
    kept = stopped_replies(store).items()
    earlier = {key: row for key, row in kept if row.status == "ok" and row.asked_at > since}

    async def ask(vlm: Vlm, item: Item) -> None:
        rows.append(await _reply(vlm, item, calls, earlier))
        keep_exam(store, passport_id, StoppedExam(replies=tuple(rows)))  # each time, because the exam may be killed
        heard()

    async with calls.client(secret) as vlm, asyncio.TaskGroup() as group:
        for item in items:
            group.create_task(ask(vlm, item))
    card = Card(
        passport_id=passport_id,
        judge=judge.model,
        endpoint=judge.base_url,
        judge_answered=", ".join(sorted({row.judge_answered for row in rows} - {""})),
        finished_at=datetime.now(UTC).isoformat(),
        edition=lines.EDITION,
        seed=seed,
        calls=sum(earlier.get(row.key) is not row for row in rows),
        seconds=round(time.monotonic() - began, 3),
        lines=card_lines(items, rows),
        replies=tuple(rows),
    )
    keep_exam(store, passport_id, card)
    return card


async def _reply(vlm: Vlm, item: Item, calls: OtherCalls, earlier: Mapping[str, PassportReply]) -> PassportReply:
    """Return the reply to one question, from a stopped exam if possible."""
    pictures = await asyncio.to_thread(prepared, item)
    question = question_of(item, pictures)
    key = question_key(question, pictures, vlm.judge)
    if key in earlier:
        return earlier[key]
    shown = tuple(picture.note.sent_sha256 for picture in pictures)
    return _row(item, key, shown, await calls.ask(vlm, question))


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
        raw=reply.text[:LONGEST_RAW],
        error=error,
        pictures=pictures,
        rung=reply.rung,
        judge_answered=reply.model,
        not_sent=reply.not_sent,
        asked_at=datetime.now(UTC).isoformat(),
    )
