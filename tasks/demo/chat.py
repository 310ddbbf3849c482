"""Chat Completions as the embedded judge reads and writes them. Its only client is this program."""

import base64
import json
import math
import re
import time
from typing import Any, NamedTuple

from tasks.errors import InputError
from tasks.records.judge import EMBEDDED_MODEL

ANSWERED_MODEL = f"{EMBEDDED_MODEL}-4"
"""The model named in every answer. The number goes up whenever a measure or a limit changes."""
PROBE = "probe"
"""Name of a readiness check."""
ONE_WORD = "one word"
"""Name of a question without a reply schema, which asks for a word and its probabilities."""
SURE = 0.98
"""Probability of a reply of one word."""

_TEXT = re.compile(r"(?P<label>[^\n]+):\n\[begin (?P<mark>\w+)\]\n(?P<text>.*)\n\[end (?P=mark)\]", re.DOTALL)
ROLES = ("human", "model")


class BadRequest(InputError):
    """Error: the request cannot be answered as it is."""


class Question(NamedTuple):
    """Parts of a request that the judge reads."""

    name: str
    """Name of the reply schema."""
    properties: dict[str, Any]
    """Properties of the reply, in order."""
    texts: list[str]
    pictures: list[tuple[str, bytes]]
    """(text right before it, file) of each picture."""

    def text(self, label: str) -> str:
        """Return the delimited text under this label. Raises BadRequest when there is none.

        A text is one part of the message from its label to its end mark, so that nothing within it passes for another.
        """
        found = {match["label"]: match["text"] for part in self.texts if (match := _TEXT.fullmatch(part))}
        if label not in found:
            raise BadRequest(f"The pixel judge needs a text under the label {label!r}")
        return found[label]

    def roles(self) -> dict[str, bytes]:
        """Return the Human and the Model picture, by the line right before each. Raises BadRequest for any others."""
        # Text before the last line may contain anything, names of roles included.
        labels = [label.strip().rpartition("\n")[2].lower() for label, _ in self.pictures]
        named = [(role, number) for role in ROLES for number, label in enumerate(labels) if role in label]
        if [role for role, _ in named] != [*ROLES] or len(labels) != len(ROLES):
            raise BadRequest("The pixel judge compares a Human and a Model picture, each behind a line that names it")
        return {role: self.pictures[number][1] for role, number in named}


def read_request(body: bytes) -> Question:
    """Read a request with a reply schema, or for one word with its probabilities."""
    request: Any = json.loads(body)
    one_word: Any = {"name": ONE_WORD, "schema": {}}
    form = one_word if "logprobs" in request else request["response_format"]["json_schema"]
    texts: list[str] = []
    pictures: list[tuple[str, bytes]] = []
    for message in request["messages"]:
        for part in message["content"] if isinstance(message["content"], list) else ():
            if "image_url" in part:
                data = base64.b64decode(part["image_url"]["url"].partition(",")[2])
                pictures.append((texts[-1] if texts else "", data))
            else:
                texts.append(part["text"])
    return Question(form["name"], form["schema"].get("properties", {}), texts, pictures)


def completion(reply: dict[str, Any] | str) -> dict[str, Any]:
    """Return a `chat.completion` with this JSON object, or with this word, of which it is `SURE`.

    No tokens are counted, since none were used.
    """
    content = reply if isinstance(reply, str) else json.dumps(reply, ensure_ascii=False)
    message = {"role": "assistant", "content": content, "refusal": None}
    other = {"yes": "no", "no": "yes"}.get(content, "unsure")
    top = [{"token": word, "logprob": math.log(share)} for word, share in ((content, SURE), (other, 1 - SURE))]
    logprobs = {"content": [{**top[0], "top_logprobs": top}]} if isinstance(reply, str) else None
    return {
        "id": f"chatcmpl-{time.time_ns()}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": ANSWERED_MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": logprobs}],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }
