"""Items put to a judge: the question as it is sent, and the answer in its reply.

Questions are laid out as those of the flows are (`judging.questions`): a system message, texts and labelled pictures,
the form of the reply in words and as a schema. Pictures go the way of all pictures, through `pictures.prepare`.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from tasks.embedded_judge.chat import ANSWERED_MODEL
from tasks.endpoint.reply_text import pairs, reply_words, shown, unwrapped
from tasks.endpoint.requests import Image, Request
from tasks.ledger.protocol_keys import digest
from tasks.parameters import EMBEDDED, Judge
from tasks.passport import lines
from tasks.passport.items import Answer, Item
from tasks.pictures.prepare import Picture, Policy, prepare

SEEN, ANSWER = "seen", "answer"
SYSTEM = (
    "You look at pictures and answer a plain question about them. Say first what you see, then answer. Answer by what "
    "the pictures show and by nothing else."
)
POLICY = Policy(max_bytes=20_000_000, max_side=8000, normalize=False)
"""That of a run with its defaults."""
_LABELS = {1: ("Picture",), 2: ("First picture", "Second picture")}


class Read(NamedTuple):
    """What a reply says."""

    answer: Answer | None
    error: str = ""
    """Why there is no answer; empty where there is one."""


def prepared(item: Item) -> list[Picture]:
    """The pictures of an item, drawn and ready to be sent; takes some hundredths of a second."""
    return [prepare(draw(), POLICY) for draw in item.draws]


def request(item: Item, pictures: Sequence[Picture]) -> Request:
    """The question as it is sent."""
    content: list[str | Image] = [f"Question:\n{item.question}"]
    for label, picture in zip(_LABELS[len(pictures)], pictures, strict=True):
        content += [f"{label}:", Image(picture.data_url)]
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


def key(asked: Request, pictures: Sequence[Picture], judge: Judge, turn: str) -> str:
    """SHA-256 of all that makes this question the same; time-outs, concurrency and prices are not among it."""
    return digest(
        {
            "texts": [asked.system, *(part for part in asked.content if isinstance(part, str))],
            "schema": asked.schema,
            "pictures": [picture.note.sent_sha256 for picture in pictures],
            "judge": settings(judge),
            "turn": turn,
        }
    )


def settings(judge: Judge) -> dict[str, str]:
    """What of a judge decides its replies, in words."""
    named = judge.model_dump(include={"model", "base_url", "temperature", "max_output_tokens", "detail"})
    version = {"version": ANSWERED_MODEL} if judge.base_url == EMBEDDED else {}
    return {name: str(value) for name, value in named.items()} | judge.asked_besides | version


def read(text: str, item: Item) -> Read:
    """The answer in a reply: none where there is none or several, or where it is none of those allowed."""
    body, taken_off = unwrapped(text)
    found = [value for name, value in pairs(body)[0] if name == ANSWER]
    answers = [_answer(value, item) for value in found]
    if not found:
        return Read(None, f"no answer found in {reply_words(text, taken_off)}")
    if len(set(answers)) > 1:
        return Read(None, "several answers in one reply")
    return Read(
        answers[0], "" if answers[0] is not None else f"the answer {shown(found[0])} is not of the form asked for"
    )


def _form(item: Item) -> tuple[dict[str, Any], str]:
    """The schema of an answer, and the same in words."""
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
    """A value out of a reply as an answer of the item's form; None: it has another."""
    if isinstance(item.answer, tuple):
        parts = [_word(each, item) for each in value] if isinstance(value, list) else [None]  # pyright: ignore
        return None if None in parts else tuple(filter(None, parts))
    if isinstance(item.answer, int):
        digits = value.strip() if isinstance(value, str) else value
        whole = str(digits).isdecimal() and len(str(digits)) < 10 and not isinstance(digits, bool)
        return int(digits) if whole else None
    return _word(value, item)


def _word(value: Any, item: Item) -> str | None:
    """A word as it is allowed, whatever its case; of a text that is read, the text."""
    if not isinstance(value, str):
        return None
    plain = value.strip(" \t\n.*_`'\"").casefold()
    return value.strip() if not item.allowed else next((word for word in item.allowed if word == plain), None)


REPEATED = (lines.COUNTING, 0)
"""Line and number of the item that is asked again and again."""
