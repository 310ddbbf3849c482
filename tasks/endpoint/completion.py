"""What came back from a call: a reply with its text, or the reason why there is none.

Owns what a body with status 200 means, whatever its bytes are. How it was asked for stands in `client`, how much of it
is read in `body`, its tokens in `usage`, what its text says in `kinds`.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, cast

from tasks.endpoint.refusals import Refusal, read_refusal
from tasks.endpoint.reply_text import number
from tasks.endpoint.usage import billed_tier, read_usage
from tasks.text import one_line, well_formed

FILTERED = {
    "content_filter", "content_filtered", "safety", "recitation", "blocklist", "prohibited_content", "spii",
    "image_safety", "image_recitation", "image_prohibited_content", "refusal", "sensitive", "guardrail_intervened",
}  # fmt: skip
"""Finish reasons of endpoints that keep a reply back, in small letters: OpenAI's, Gemini's, Anthropic's and others'."""
CUT = {"length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"}
"""Finish reasons of a reply that ran into a limit."""
BROKEN = {"error", "network_error", "abort", "insufficient_system_resource"}
"""Finish reasons of a reply that the endpoint lost halfway."""
BUSY = {
    *("rate_limit_exceeded", "rate_limit_error", "rate_limit_reached", "rate_limited", "too_many_requests"),
    *("resource_exhausted", "overloaded_error", "server_is_overloaded", "engine_overloaded"),
}
"""Names, in small letters, of errors within a reply that mean what the status 429 means."""
SHOWN = 200
"""Characters shown of a body that is no completion, and most characters of a name."""

_NO_TEXT = dict.fromkeys({*range(32)} - {*b"\t\n\r"}, "\ufffd")
"""Bytes that make a page no text. In a ledger each would take six."""
_DECODER = json.JSONDecoder(parse_int=number)


class Reply(NamedTuple):
    """What came back. `ok` says that a text arrived, not that it is a verdict."""

    status: Literal["ok", "refused", "truncated", "invalid", "rejected", "unavailable"]
    text: str = ""
    """As it came: whoever keeps it cuts the key out of it, once it has been read."""
    error: str = ""
    finish_reason: str = ""
    rung: str = ""
    model: str = ""
    fingerprint: str = ""
    """The endpoint's `system_fingerprint`: what the model runs on, as far as the endpoint tells it apart."""
    tokens_in: int = 0
    """This and the other counts: as `usage.Usage` tells them."""
    tokens_out: int = 0
    tokens_cached: int = 0
    tokens_written: int = 0
    tokens_reasoning: int = 0
    tokens_pictures: int = 0
    tier: str = ""
    """In which it was served, as far as the endpoint tells: `standard`, `flex`, …"""
    seconds: float = 0.0
    http_retries: int = 0
    timed_out: int = 0
    """Times that it was sent and no reply came in time: the endpoint may have made one, and have billed it."""
    waits: int = 0
    """Times that the call went back in line because the endpoint was busy or away."""
    waited_seconds: float = 0.0
    not_sent: tuple[str, ...] = ()
    """Parameters that the endpoint refuses and that were therefore left to its defaults."""


def read(body: bytes, redacted: Callable[[str], str], problem: str = "") -> Reply:
    """What a body says that came with status 200. Never raises: any bytes end in a status.

    A body that is no chat completion is `unavailable`: a page of something in between, or a server in trouble. It is
    read as it is: objects of the client's own types are made of anything, unchecked, and take ten times as long.

    Args:
        redacted: cuts the key out of a text; applied to what an error shows of the body before it is cut short.
        problem: why the body is not there as a whole; empty when it is.
    """
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    try:
        completion = {} if problem else _object(_DECODER.decode(text))
        choices = completion.get("choices")
        choice = _object(choices[0]) if isinstance(choices, list) and choices else {}  # pyright: ignore
        if isinstance(choice.get("message"), dict) or choice.get("error"):
            return _with_particulars(_said(choice, text), completion)
        failed = _error_words(completion.get("error") or choice.get("finish_reason"))
    except (ValueError, RecursionError):  # no JSON; or so deeply nested that nobody means it
        failed = ""
    shown = problem or failed or one_line(redacted(text), SHOWN) or "it is empty"
    return Reply("unavailable", text=text.translate(_NO_TEXT), error=f"the reply is no chat completion: {shown}")


def busy_within(body: bytes, headers: Mapping[str, str]) -> Refusal | None:
    """The refusal to hurry that came with status 200, as the error of the body or of its choice; None: there is none.

    Routers answer so where the endpoint behind them refuses after they have sent the status. Never raises.
    """
    try:
        completion = _object(_DECODER.decode(body.decode("utf-8", "replace").removeprefix("\ufeff")))
    except (ValueError, RecursionError):
        return None
    choices = completion.get("choices")
    choice = _object(choices[0]) if isinstance(choices, list) and choices else {}  # pyright: ignore
    for error in (_object(completion.get("error")), _object(choice.get("error"))):
        marks = {_name(error.get(name)).lower() for name in ("code", "status", "type")}
        status = next((int(mark) for mark in marks if mark in ("429", "498", "503", "529")), 429 if marks & BUSY else 0)
        if status:
            return read_refusal(status, headers, json.dumps({"error": error}).encode())
    return None


def _said(choice: dict[str, Any], body: str) -> Reply:
    message, finish = _object(choice.get("message")), _name(choice.get("finish_reason"))
    reason = finish.lower().partition(":")[0].strip()
    said, refusal = _text(message.get("content")), _text(message.get("refusal"))
    error = _object(choice.get("error"))
    if refusal or reason in FILTERED or _name(error.get("code")).lower() in FILTERED:
        words = refusal or f"the endpoint filtered the content ({_error_words(error) or finish})"
        return Reply("refused", text="\n".join(filter(None, (said, refusal))), error=words, finish_reason=finish)
    if choice.get("error") or reason in BROKEN:
        words = f"the endpoint failed within its reply: {_error_words(choice.get('error')) or finish}"
        return Reply("unavailable", text=said or body, error=words, finish_reason=finish)
    if reason in CUT:
        return Reply("truncated", text=said, error="the reply hit the token limit", finish_reason=finish)
    if not said.strip():
        return _without_answer(message, finish)
    return Reply("ok", text=said, finish_reason=finish)


def _without_answer(message: dict[str, Any], finish: str) -> Reply:
    """A reply without a text. Reasoning is never read in place of an answer: it may weigh what it does not mean."""
    reasoning = _text(message.get("reasoning_content") or message.get("reasoning"))
    kind = "only calls tools" if message.get("tool_calls") else "is empty"
    words = f"the reply {kind}" + (f" beside {len(reasoning):,} characters of reasoning" if reasoning else "")
    return Reply("invalid", text=reasoning, error=f"{words} (finish reason: {finish or 'none'})", finish_reason=finish)


def _with_particulars(reply: Reply, completion: dict[str, Any]) -> Reply:
    return reply._replace(
        model=_name(completion.get("model")),
        fingerprint=_name(completion.get("system_fingerprint")),
        tier=billed_tier(completion),
        **read_usage(completion.get("usage"))._asdict(),
    )


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    """A text, the texts of parts that only requests should have, or whatever else there is as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        parts = cast("list[Any]", value)
        return "".join(part if isinstance(part, str) else _text(_object(part).get("text")) for part in parts)
    return json.dumps(value, ensure_ascii=False) if value else ""


def _name(value: Any) -> str:
    """A short word of the endpoint's: a model, a finish reason, a code."""
    return well_formed(str(value)[:SHOWN]) if isinstance(value, str | int | float) else ""


def _error_words(error: Any) -> str:
    """An error object in words: its code, its message, and what a router says of the provider behind it."""
    parts = _object(error)
    told = (parts.get("code"), parts.get("message"), _object(parts.get("metadata")).get("raw"))
    return ": ".join(filter(None, map(_text, told))) or _text(error)
