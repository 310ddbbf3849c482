"""The server's side of Chat Completions: what is read of a request, and what a reply looks like.

Owns the wire format as the embedded judge needs it. Of a pairwise sample's texts only the label in front of a picture
is looked at; of the texts that come with a generated image, those that are asked for. What is answered stands in `app`;
the client's side of the same format is in `tasks.endpoint`.
"""

import base64
import binascii
import json
import re
import time
import uuid
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, cast

from pydantic import BaseModel, Field, ValidationError

from tasks.errors import InputError
from tasks.parameters import EMBEDDED_MODEL

ANSWERED_MODEL = f"{EMBEDDED_MODEL}-2"
"""The model named in every answer. The number goes up whenever a measure or a limit changes."""
PROBE = "probe"
"""Name of a readiness check."""

_DATA_URL = re.compile(r"data:image/[\w.+-]+;base64,")
_TEXT = re.compile(r"(?P<label>[^\n]+):\n\[begin (?P<mark>\w+)\]\n(?P<text>.*)\n\[end (?P=mark)\]", re.DOTALL)
_ROLE = re.compile(r"\b(human|model)\b", re.IGNORECASE)


class BadRequest(InputError):
    """The request cannot be answered as it is; says why."""


class ImageUrl(BaseModel):
    """Where a picture is: here always a data URL."""

    url: str


class Part(BaseModel):
    """A text or a picture of a message."""

    text: str = ""
    image_url: ImageUrl | None = None


class ChatMessage(BaseModel):
    """A message of the conversation."""

    role: str
    content: str | list[Part]


class ReplySchema(BaseModel):
    """The reply asked for. Its name is the question; its properties are what is to be said, in order."""

    name: str
    body: dict[str, Any] = Field(alias="schema")

    def properties(self, *path: str) -> dict[str, Any]:
        """The properties of the reply, or of the object that these properties lead to; empty where there are none."""
        found: Any = self.body
        for key in ("properties", *(step for name in path for step in (name, "properties"))):
            found = cast(dict[str, Any], found).get(key) if isinstance(found, dict) else None
        return cast(dict[str, Any], found) if isinstance(found, dict) else {}

    def verdicts(self) -> list[str]:
        """The verdicts allowed. Raises BadRequest when the schema lists none."""
        try:
            return list(self.body["properties"]["winner"]["enum"])
        except (KeyError, TypeError) as error:
            raise BadRequest(
                f"The reply schema {self.name!r} has no property winner with an enum of verdicts"
            ) from error


class ResponseFormat(BaseModel):
    """The form of the reply."""

    json_schema: ReplySchema


class ChatRequest(BaseModel):
    """What is read of a request. Sampling parameters mean nothing to a measurement."""

    messages: list[ChatMessage]
    response_format: ResponseFormat

    def pictures(self) -> dict[str, bytes]:
        """Role (`human`, `model`) -> file, by the line of text right before each picture.

        Raises:
            BadRequest: a label names neither or both, a role comes twice, or a picture is no data URL.
        """
        found = [(_role(label), data) for label, data in self._pictures()]
        if len(dict(found)) < len(found):
            raise BadRequest(f"Each role has one picture; found {', '.join(role for role, _ in found)}")
        return dict(found)

    def picture(self) -> bytes:
        """The file of the only picture. Raises BadRequest when there is none or more than one."""
        found = [data for _, data in self._pictures()]
        if len(found) != 1:
            raise BadRequest(f"A generated image is judged alone, in one picture; found {len(found)} pictures")
        return found[0]

    def files(self) -> list[bytes]:
        """The files of all pictures, in their order. Raises BadRequest when one is no data URL."""
        return [data for _, data in self._pictures()]

    def first_words(self) -> str:
        """The text that stands before all others beside the pictures; empty: there is none."""
        parts = [part for message in self.messages if isinstance(message.content, list) for part in message.content]
        return next((part.text for part in parts if part.text), "")

    def text(self, label: str) -> str:
        """The delimited text under this label. Raises BadRequest when there is none.

        A text is one part of the message from its label to its end mark, so that nothing within it passes for another.
        """
        parts = [part for message in self.messages if isinstance(message.content, list) for part in message.content]
        found = [match for part in parts if (match := _TEXT.fullmatch(part.text))]
        for match in found:
            if match["label"] == label:
                return match["text"]
        labels = ", ".join(match["label"] for match in found) or "none"
        raise BadRequest(f"The pixel judge needs a text under the label {label!r}; found {labels}")

    def _pictures(self) -> Iterator[tuple[str, bytes]]:
        """The text in front of each picture, and its file."""
        label = ""
        for message in self.messages:
            for part in message.content if isinstance(message.content, list) else ():
                if part.image_url:
                    yield label, _file(part.image_url.url)
                label = part.text


def read_request(body: bytes) -> ChatRequest:
    """Read a request. Raises BadRequest with all that is wrong in its form."""
    try:
        return ChatRequest.model_validate_json(body)
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'body'}: {e['msg']}" for e in error.errors())
        raise BadRequest(f"The request cannot be read: {faults}") from error


def completion(model: str, reply: dict[str, Any]) -> dict[str, Any]:
    """A `chat.completion` whose content is this JSON object. No tokens are counted, since none were used."""
    message = {"role": "assistant", "content": json.dumps(reply, ensure_ascii=False), "refusal": None}
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }


def failure(status: HTTPStatus, message: str) -> dict[str, Any]:
    """An error body in the form of OpenAI's API."""
    kind = "server_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "code": status.phrase.lower().replace(" ", "_"), "param": None}}


def _role(text: str) -> str:
    # The label is the last line: what comes before it in the same text may say anything.
    label = text.strip().rpartition("\n")[2]
    roles = {role.lower() for role in _ROLE.findall(label)}
    if len(roles) != 1:
        raise BadRequest(f"The line before a picture must say whether it is Human or Model; found {label[:80]!r}")
    return roles.pop()


def _file(url: str) -> bytes:
    prefix = _DATA_URL.match(url)
    if not prefix:
        raise BadRequest(f"Pictures must come as data URLs in Base64, nothing is fetched; found {url[:40]!r}")
    try:
        return base64.b64decode(url[prefix.end() :].encode("ascii", "replace"), validate=True)
    except binascii.Error as error:
        raise BadRequest(f"A picture's data URL is not valid Base64: {error}") from error
