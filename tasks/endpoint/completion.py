"""What came back from a call: a reply with its text, or the reason why there is none.

Owns the reading of a chat completion. How it was asked for stands in `client`, what its text says in `kinds`.
"""

from typing import Any, Literal, NamedTuple

from tasks.text import well_formed


class Reply(NamedTuple):
    """What came back. `ok` says that a text arrived, not that it is a verdict."""

    status: Literal["ok", "refused", "truncated", "rejected", "unavailable"]
    text: str = ""
    error: str = ""
    finish_reason: str = ""
    rung: str = ""
    model: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    seconds: float = 0.0
    http_retries: int = 0
    not_sent: tuple[str, ...] = ()
    """Parameters that the endpoint refuses and that were therefore left to its defaults."""


def read(completion: Any) -> Reply:
    """What a chat completion says, given as decoded JSON.

    It is read as it is: objects of the client's own types are made of anything, unchecked, and take ten times as long.
    Raises ValueError, TypeError, AttributeError or LookupError where it is no chat completion.
    """
    choice: Any = completion["choices"][0]
    message: Any = choice["message"]
    usage: Any = completion.get("usage") or {}
    details: Any = usage.get("prompt_tokens_details") or {}
    finish_reason = well_formed(str(choice.get("finish_reason") or ""))
    content: Any = message.get("content") or ""
    if isinstance(content, list):  # Some servers send the parts that only requests should have.
        content = "".join(part.get("text", "") for part in content)  # pyright: ignore
    reply = Reply(
        "ok",
        text=str(content),
        finish_reason=finish_reason,
        model=well_formed(str(completion.get("model") or "")),
        tokens_in=int(usage.get("prompt_tokens") or 0),
        tokens_out=int(usage.get("completion_tokens") or 0),
        tokens_cached=int(details.get("cached_tokens") or 0),
    )
    refusal = message.get("refusal") or ""
    if refusal or finish_reason == "content_filter":
        said = "\n".join(filter(None, (reply.text, refusal)))
        return reply._replace(status="refused", text=said, error=refusal or "the endpoint filtered the content")
    if finish_reason == "length":
        return reply._replace(status="truncated", error="the reply hit the token limit")
    return reply
