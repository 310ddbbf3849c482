"""The server's side of Chat Completions: what is read of a request, and what a reply looks like.

Owns the wire format as the embedded judge needs it. Texts of a sample are looked at only for the label in front of a
picture. What is answered stands in `pixel_judge`; the client's side of the same format is `vlm`.
"""

import base64
import json
import re
import time
import uuid
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, Field, ValidationError

_DATA_URL = re.compile(r"data:image/[\w.+-]+;base64,")
_ROLE = re.compile(r"\b(human|model)\b", re.IGNORECASE)


class BadRequest(ValueError):
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
    """The reply asked for. Its name is the question; its property `winner` lists the verdicts allowed."""

    name: str
    body: dict[str, Any] = Field(alias="schema")

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
        found = list(self._pictures())
        if len(dict(found)) < len(found):
            raise BadRequest(f"Each role has one picture; found {', '.join(role for role, _ in found)}")
        return dict(found)

    def _pictures(self) -> Iterator[tuple[str, bytes]]:
        label = ""
        for message in self.messages:
            for part in message.content if isinstance(message.content, list) else ():
                if part.image_url:
                    yield _role(label), _file(part.image_url.url)
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
        return base64.b64decode(url[prefix.end() :], validate=True)
    except ValueError as error:
        raise BadRequest(f"A picture's data URL is not valid Base64: {error}") from error
