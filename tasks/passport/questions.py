"""Questions of an exam as they are sent, and the answers in the replies."""

import json
from collections.abc import Sequence
from typing import Any

from tasks.endpoint.replies import objects, reply_words, shown, unwrapped
from tasks.endpoint.requests import Image, Request, object_schema
from tasks.ledger.evaluations import digest
from tasks.passport.items import Answer, Item
from tasks.pictures.preparation import Picture, Policy, prepare
from tasks.records.judge import Judge

SEEN, ANSWER = "seen", "answer"
SYSTEM = (
    "You look at pictures and answer a plain question about them. Say first what you see, then answer. Answer by what "
    "the pictures show and by nothing else."
)
POLICY = Policy(max_bytes=20_000_000, max_side=8000, normalize=False)
"""Policy of a run with its defaults."""
_LABELS = {1: ("Picture",), 2: ("First picture", "Second picture")}


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
    schema = object_schema({SEEN: {"type": "string"}, ANSWER: form})
    return Request(SYSTEM, tuple(content), f"passport_{item.line}", schema)


def question_key(asked: Request, pictures: Sequence[Picture], judge: Judge) -> str:
    """Return the SHA-256 of all that identifies this question; time-outs, concurrency and prices do not count."""
    return digest(
        {
            "texts": [asked.system, *(part for part in asked.content if isinstance(part, str))],
            "schema": asked.schema,
            "pictures": [picture.note.sent_sha256 for picture in pictures],
            "judge": settings_of(judge),
        }
    )


def settings_of(judge: Judge) -> dict[str, str]:
    """Return the settings of a judge that decide its replies, in words."""
    named = judge.model_dump(include={"model", "base_url", "temperature", "max_output_tokens", "detail"})
    return {name: str(value) for name, value in named.items()} | judge.asked_besides


def read_reply(text: str, item: Item) -> tuple[Answer | None, str]:
    """Return the answer in a reply, and the problem: one of the two is there."""
    body, taken_off = unwrapped(text)
    found = [value for name, value in objects(body).pairs if name == ANSWER]
    answers = [_answer(value, item) for value in found]
    if not found:
        return None, f"no answer found in {reply_words(text, taken_off)}"
    if len(set(answers)) > 1:
        return None, "several answers in one reply"
    return answers[0], "" if answers[0] is not None else f"the answer {shown(found[0])} is not of the form asked for"


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
