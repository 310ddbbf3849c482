"""Exam of a judge: every item is asked through the client of the runs, and every reply kept when it arrives."""

import asyncio
import json
import secrets
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from tasks.demo.chat import ANSWERED_MODEL
from tasks.endpoint.api_keys import Secret
from tasks.endpoint.client import Vlm
from tasks.endpoint.replies import Reply, objects, reply_words, shown, unwrapped
from tasks.endpoint.requests import Image, Request, probe_request
from tasks.errors import InputError, first_of
from tasks.ledger.evaluations import digest
from tasks.ledger.passports import Card, PassportLedger, PassportReply, PassportStart, unfinished_replies
from tasks.ledger.run_files import moment_of
from tasks.passport import lines
from tasks.passport.items import REPEAT, SEEDED, TURNS, Answer, Item, card_lines, items_of, turns
from tasks.pictures.preparation import Picture, Policy, prepare
from tasks.records import LimitsFound
from tasks.records.judge import EMBEDDED, Judge
from tasks.spending.bill import OtherCalls, billed
from tasks.spending.budget import VARIABLE, Budget
from tasks.spending.prices import money

SEEN, ANSWER = "seen", "answer"
SYSTEM = (
    "You look at pictures and answer a plain question about them. Say first what you see, then answer. Answer by what "
    "the pictures show and by nothing else."
)
POLICY = Policy(max_bytes=20_000_000, max_side=8000, normalize=False)
"""Policy of a run with its defaults."""
_LABELS = {1: ("Picture",), 2: ("First picture", "Second picture")}
REPEATED = (lines.COUNTING, 0)
"""Line and number of the item that is asked again and again."""
OWN_SEED = 7
"""Seed of the replies that must be alike, if the judge has none."""

QUESTION = "passport"
"""Name in the budget of all questions of a passport: they cost about the same."""
MOST_PICTURE_TOKENS = 2_000
"""Most tokens of a drawn picture."""
FRESH_HOURS = 20
"""Age up to which replies of an unfinished passport are taken over: a card describes the judge as it is."""


def calls_of(seed: int) -> int:
    """Return the number of questions of a passport, with those that are asked again."""
    return len(items_of(seed)) + 2 * TURNS


def new_passport_id() -> str:
    """Return a unique name for a passport; names sort by time."""
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
    """Ask all questions, and keep the card.

    Args:
        seed: seed of the pictures: equal seeds ask exactly the same.
        secret: place of a key that is not in the environment.
        heard: called after each reply.
        passport_id: name of the passport; empty: a new one.
        budget: budget that its calls must fit into; None: they have no limit.

    Raises:
        InputError: a call does not fit into the budget; the next passport takes over the replies so far.
        JudgeStopped: no call can succeed, or the judge was away for too long; the next passport takes over the replies
            so far.
    """
    start = PassportStart(
        passport_id=passport_id or new_passport_id(),
        judge=judge.model,
        endpoint=judge.base_url,
        started_at=datetime.now(UTC).isoformat(),
        version=version("image-jury"),
        edition=lines.EDITION,
        seed=seed,
        settings=_settings(judge),
    )
    return await _Making(store, judge, start, secret, heard, budget).card()


class Read(NamedTuple):
    """Answer in a reply."""

    answer: Answer | None
    error: str = ""
    """Reason why there is no answer; empty if there is one."""


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
        """Ask all questions, and return the limits found of the judge."""
        again = next(item for item in self._items if (item.line, item.number) == REPEATED)
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
        pictures = await asyncio.to_thread(prepared, asked.item)
        question = question_of(asked.item, pictures)
        key = question_key(question, pictures, vlm.judge, asked.turn)
        passport_id, earlier = self._earlier.get(key, ("", None))
        if earlier and earlier.status == "ok" and _is_fresh(earlier):
            row = earlier.model_copy(update={"reused_from": earlier.reused_from or passport_id})
        else:
            row = _row(asked, key, pictures, await self._reply(vlm, question, key))
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
            judge=start.judge,
            endpoint=start.endpoint,
            judge_answered=", ".join(sorted({row.judge_answered for row in self._rows} - {""})),
            finished_at=datetime.now(UTC).isoformat(),
            edition=start.edition,
            seed=start.seed,
            calls=sum(not row.reused_from for row in self._rows),
            seconds=round(time.monotonic() - self._began, 3),
            lines=card_lines(self._items, self._rows, limits),
        )


def _most_tokens(question: Request) -> int:
    """Return an upper bound: no text takes more tokens than it has bytes; no picture of a passport is a large one."""
    texts = sum(len(part.encode()) for part in (question.system, *question.content) if isinstance(part, str))
    return texts + question.pictures * MOST_PICTURE_TOKENS


def _row(asked: _Asked, key: str, pictures: Sequence[Picture], reply: Reply) -> PassportReply:
    read = read_reply(reply.text, asked.item) if reply.status == "ok" else Read(None, reply.error)
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
        judge_answered=reply.model,
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


def prepared(item: Item) -> list[Picture]:
    """Draw the pictures of an item, and prepare them for sending; takes some hundredths of a second."""
    return [prepare(draw(), POLICY) for draw in item.draws]


def question_of(item: Item, pictures: Sequence[Picture]) -> Request:
    """Return the question as it is sent."""
    content: list[str | Image] = [f"Question:\n{item.question}"]
    for label, picture in zip(_LABELS[len(pictures)], pictures, strict=True):
        content += [f"{label}:", Image(picture.media_type, picture.encoded)]
    form, words = _form(item)
    content.append(
        "Reply with a single JSON object and nothing around it. It has two keys, in this order: "
        f'"{SEEN}", a string with what you see, then "{ANSWER}", {words}.'
    )
    schema = {
        "type": "object",
        "properties": {SEEN: {"type": "string"}, ANSWER: form},
        "required": [SEEN, ANSWER],
        "additionalProperties": False,
    }
    return Request(SYSTEM, tuple(content), f"passport_{item.line}", schema)


def question_key(asked: Request, pictures: Sequence[Picture], judge: Judge, turn: str) -> str:
    """Return the SHA-256 of all that identifies this question; time-outs, concurrency and prices do not count."""
    return digest(
        {
            "texts": [asked.system, *(part for part in asked.content if isinstance(part, str))],
            "schema": asked.schema,
            "pictures": [picture.note.sent_sha256 for picture in pictures],
            "judge": _settings(judge),
            "turn": turn,
        }
    )


def _settings(judge: Judge) -> dict[str, str]:
    """Return the settings of a judge that decide its replies, in words."""
    named = judge.model_dump(include={"model", "base_url", "temperature", "max_output_tokens", "detail"})
    version = {"version": ANSWERED_MODEL} if judge.base_url == EMBEDDED else {}
    return {name: str(value) for name, value in named.items()} | judge.asked_besides | version


def read_reply(text: str, item: Item) -> Read:
    """Read the answer in a reply: None if there is none or several, or if it is not allowed."""
    body, taken_off = unwrapped(text)
    found = [value for name, value in objects(body).pairs if name == ANSWER]
    answers = [_answer(value, item) for value in found]
    if not found:
        return Read(None, f"no answer found in {reply_words(text, taken_off)}")
    if len(set(answers)) > 1:
        return Read(None, "several answers in one reply")
    return Read(
        answers[0], "" if answers[0] is not None else f"the answer {shown(found[0])} is not of the form asked for"
    )


def _form(item: Item) -> tuple[dict[str, Any], str]:
    """Return the schema of an answer, and the same in words."""
    words = ", ".join(map(json.dumps, item.allowed))
    if isinstance(item.answer, tuple):
        each = {"type": "string", "enum": list(item.allowed)}
        return {"type": "array", "items": each}, f"an array of {len(item.answer)} strings, each one of {words}"
    if isinstance(item.answer, int):
        return {"type": "integer"}, "a whole number"
    if item.allowed:
        return {"type": "string", "enum": list(item.allowed)}, f"a string that is exactly one of {words}"
    return {"type": "string"}, "a string with what is written and nothing else"


def _answer(value: Any, item: Item) -> Answer | None:
    """Convert a value of a reply to an answer of the item's form; None: it has another form."""
    if isinstance(item.answer, tuple):
        parts = [_word(each, item) for each in value] if isinstance(value, list) else [None]  # pyright: ignore
        return None if None in parts else tuple(filter(None, parts))
    if isinstance(item.answer, int):
        digits = value.strip() if isinstance(value, str) else value
        whole = str(digits).isdecimal() and len(str(digits)) < 10 and not isinstance(digits, bool)
        return int(digits) if whole else None
    return _word(value, item)


def _word(value: Any, item: Item) -> str | None:
    """Return the allowed word, in any case of letters; for a text that is read, return the text."""
    if not isinstance(value, str):
        return None
    plain = value.strip(" \t\n.*_`'\"").casefold()
    return value.strip() if not item.allowed else next((word for word in item.allowed if word == plain), None)
