"""Reply to a call, from any bytes of a body: its text, or the reason why there is none."""

import json
import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, cast

from tasks.endpoint.refusals import Refusal, read_refusal
from tasks.endpoint.reply_text import number
from tasks.endpoint.usage import Usage, as_object, billed_tier, read_usage
from tasks.text import one_line, well_formed

FILTERED = {
    "content_filter", "content_filtered", "safety", "recitation", "blocklist", "prohibited_content", "spii",
    "image_safety", "image_recitation", "image_prohibited_content", "refusal", "sensitive", "guardrail_intervened",
}  # fmt: skip
"""Finish reasons of withheld replies, in lower case: OpenAI's, Gemini's, Anthropic's and others'."""
CUT = {"length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"}
"""Finish reasons of replies cut at a limit."""
BROKEN = {"error", "network_error", "abort", "insufficient_system_resource"}
"""Finish reasons of replies that the endpoint lost halfway."""
BUSY = {
    *("rate_limit_exceeded", "rate_limit_error", "rate_limit_reached", "rate_limited", "too_many_requests"),
    *("resource_exhausted", "overloaded_error", "server_is_overloaded", "engine_overloaded"),
}
"""Lower-case names of errors within a reply that are equivalent to status 429."""
SHOWN = 200
"""Most characters shown of a body that is not a completion, and most characters of a name."""

_THOUGHT = re.compile("reason|think|thought", re.IGNORECASE)
_NO_TEXT = dict.fromkeys({*range(32)} - {*b"\t\n\r"}, "\ufffd")
"""Replacements for control characters, each of which takes six bytes in a ledger."""
_DECODER = json.JSONDecoder(parse_int=number)


class Reply(NamedTuple):
    """Reply to a call. Status `ok` means that a text arrived; it may still contain no verdict."""

    status: Literal["ok", "refused", "truncated", "invalid", "rejected", "unavailable"]
    text: str = ""
    """Text as received, without the key."""
    error: str = ""
    finish_reason: str = ""
    rung: str = ""
    model: str = ""
    fingerprint: str = ""
    """The endpoint's `system_fingerprint`: the configuration that the model runs on, as far as it is reported."""
    tokens_in: int = 0
    """Token counts, here and below, as defined in `usage.Usage`."""
    tokens_out: int = 0
    tokens_cached: int = 0
    tokens_written: int = 0
    tokens_reasoning: int = 0
    tokens_pictures: int = 0
    tier: str = ""
    """Service tier of the reply, if the endpoint reports it: `standard`, `flex`, …"""
    seconds: float = 0.0
    http_retries: int = 0
    timed_out: int = 0
    """Attempts without a reply in time; the endpoint may have generated a reply, and have billed it."""
    waits: int = 0
    """Times that the call returned to the queue because the endpoint was busy or away."""
    waited_seconds: float = 0.0
    not_sent: tuple[str, ...] = ()
    """Parameters that the endpoint refuses, and that were therefore left to its defaults."""

    @property
    def usage(self) -> Usage:
        """Token counts of the reply alone."""
        return Usage(**{name: getattr(self, name) for name in Usage._fields})


def read(body: bytes, problem: str = "") -> Reply:
    """Return the reply in a body received with status 200; any bytes give a reply with a status.

    A body that is not a chat completion is `unavailable`: it may be a proxy's page, or the server may be in trouble.
    The client's own types are not used: they check nothing, and take ten times as long.

    Args:
        problem: reason why the body is incomplete; empty if it is whole.
    """
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    try:
        completion = {} if problem else as_object(_DECODER.decode(text))
        choice = _choice(completion)
        if isinstance(choice.get("message"), dict) or choice.get("error"):
            return _with_particulars(_said(choice, text), completion)
        failed = _error_words(completion.get("error") or choice.get("finish_reason"))
    except (ValueError, RecursionError):  # not JSON, or nested too deeply to be meant
        failed = ""
    shown = problem or failed or one_line(text, SHOWN) or "it is empty"
    return Reply("unavailable", text=text.translate(_NO_TEXT), error=f"the reply is no chat completion: {shown}")


def busy_within(body: bytes, headers: Mapping[str, str]) -> Refusal | None:
    """Return a rate limit received with status 200, as the error of the body or of its choice; None if there is none.

    Routers send it if the endpoint behind them refuses after they have sent the status.
    """
    try:
        completion = as_object(_DECODER.decode(body.decode("utf-8", "replace").removeprefix("\ufeff")))
    except (ValueError, RecursionError):
        return None
    for error in (as_object(completion.get("error")), as_object(_choice(completion).get("error"))):
        marks = {_name(error.get(name)).lower() for name in ("code", "status", "type")}
        status = next((int(mark) for mark in marks if mark in ("429", "498", "503", "529")), 429 if marks & BUSY else 0)
        if status:
            return read_refusal(status, headers, json.dumps({"error": error}).encode())
    return None


def _choice(completion: dict[str, Any]) -> dict[str, Any]:
    choices = completion.get("choices")
    return as_object(choices[0]) if isinstance(choices, list) and choices else {}  # pyright: ignore


def _said(choice: dict[str, Any], body: str) -> Reply:
    message, finish = as_object(choice.get("message")), _name(choice.get("finish_reason"))
    reason = finish.lower().partition(":")[0].strip()
    said, refusal = _text(message.get("content")), _text(message.get("refusal"))
    error = as_object(choice.get("error"))
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
    """Return the reply for a message without text. Reasoning is never an answer: it may discuss rejected verdicts."""
    reasoning = _text(message.get("reasoning_content") or message.get("reasoning")) or _reasoning(message)
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


def _text(value: Any) -> str:
    """Return a text, the joined texts of parts (meant for requests only), or any other value as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        parts = (part for part in cast("list[Any]", value) if not _is_reasoning(part))
        return "".join(part if isinstance(part, str) else _text(as_object(part).get("text")) for part in parts)
    return json.dumps(value, ensure_ascii=False) if value else ""


def _reasoning(message: dict[str, Any]) -> str:
    """Return the reasoning parts of a content as JSON, since their form differs by endpoint."""
    content = message.get("content")
    parts = cast("list[Any]", content) if isinstance(content, list) else []
    return "".join(json.dumps(part, ensure_ascii=False) for part in parts if _is_reasoning(part))


def _is_reasoning(part: Any) -> bool:
    """Return whether a part of a content is reasoning: of type `reasoning`, `thinking`, `redacted_thinking` …"""
    parts = as_object(part)
    return bool(_THOUGHT.search(_name(parts.get("type")))) or parts.get("thought") is True  # Gemini's mark


def _name(value: Any) -> str:
    """Return a short value of the endpoint (a model, a finish reason, a code) as a string."""
    return well_formed(str(value)[:SHOWN]) if isinstance(value, str | int | float) else ""


def _error_words(error: Any) -> str:
    """Return an error object's code, its message, and a router's quote of the provider's error, as one text."""
    parts = as_object(error)
    told = (parts.get("code"), parts.get("message"), as_object(parts.get("metadata")).get("raw"))
    return ": ".join(filter(None, map(_text, told))) or _text(error)
