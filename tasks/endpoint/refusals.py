"""Meaning of an HTTP refusal, from any bytes, in time linear in them: wait, ask differently, or stop.

`tests/test_refusals.py` names the source of each form.
"""

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Literal, NamedTuple, cast

from tasks.endpoint.waits import asked_wait, wait_in_words
from tasks.text import well_formed

Kind = Literal["busy", "quota", "moderated", "rejected", "denied", "absent", "redirected", "unavailable"]


class Refusal(NamedTuple):
    """What an endpoint said instead of a reply."""

    kind: Kind
    """`busy`: ask again later. `quota`: no wait cures it. `moderated`, `rejected`: this very call is refused.
    `denied`, `absent`, `redirected`: the key, the model or the address is. `unavailable`: a fault of the endpoint."""
    words: str
    """For people, as the endpoint put them: a key may be among them, and is to be cut out before they are shortened."""
    wait: float | None
    """Seconds it asks to wait; None where it does not say, or where no wait helps."""
    code: str
    """Its own name for the reason, such as `insufficient_quota`; "" where it has none."""
    param: str
    """The parameter that it refuses, where it names one."""


MOST_WORDS = 20_000
"""Most characters of the words: far more than is kept of them."""
MOST_VALUES = 300
"""Values of a body that are looked at; an error has a few dozen."""
MOST_LEVELS = 6
"""Levels of a body at which its words are looked for."""

_BY_STATUS: dict[int, Kind] = {
    **dict.fromkeys((429, 498, 503, 529), "busy"),  # 498: Groq's flex tier is full; 529: Anthropic is overloaded
    402: "quota",
    **dict.fromkeys((400, 413, 422), "rejected"),
    **dict.fromkeys((401, 403, 407), "denied"),
    **dict.fromkeys((404, 405, 410), "absent"),
}
_FOR_CONTENT = {400, 403, 422}
"""Statuses of a refusal that may be one of moderation."""

_MARKS = {"code", "status", "type", "error_code", "error_type", "reason", "quotaid", "limit_source"}
"""Fields that hold an endpoint's own names for a reason."""
_QUOTA_MARKS = {
    *("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "credit_balance_exhausted"),
    *("organization_spend_limit_exceeded", "project_spend_limit_exceeded", "organization_usage_limit_exceeded"),
    *("enforced_spend_limit_reached", "billing_error", "budget_exceeded", "openrouter_free_tier_daily"),
    *("openrouter_guardrail_budget", "openrouter_workspace_budget", "openrouter_key_limit"),
}
_QUOTA_WORDS = re.compile(
    r"credit balance is too low|insufficient (?:credits|balance)|requires more credits|credit limit exceeded"
    r"|reached your specified api usage limits|free-models-per-day|, limit: 0\b"
)
_PER_DAY = "perday"
"""Part of the names of Gemini's daily quotas; a wait of a day is none."""
_CONTENT_MARKS = {
    *("content_filter", "responsibleaipolicyviolation", "content_policy_violation", "moderation_blocked"),
    *("prohibited_content", "data_inspection_failed"),
}
_CONTENT_FIELDS = {"reasons", "flagged_input"}
"""What OpenRouter adds to a refusal by moderation."""
_CONTENT_WORDS = re.compile(
    r"flagged (?:as|for)|content management policy|content policy|safety system|content moderation"
    r"|moderation guardrail|blocked by (?:a )?guardrail|prompt injection|prohibited_content|content_policy"
    r"|may contain inappropriate content|contentpolicyviolationerror"
)
_TOO_LARGE = "request too large"
"""In OpenAI's 429 to a call that is above the limit of a minute by itself: no wait makes it smaller."""

_MESSAGES = ("message", "error", "detail", "msg", "errors", "title")
"""Fields that hold words, the most telling first."""
_ECHOES = {"input", "ctx"}
"""Fields in which FastAPI returns what it was sent, the words of strangers among it."""
_TITLE = re.compile(r"<title[^<>]{0,200}>([^<]{0,300})", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")


def read_refusal(status: int, headers: Mapping[str, str], body: bytes) -> Refusal:
    """What the answer to a refused call means, whatever its bytes."""
    text = body.decode("utf-8-sig", "replace")
    answer = _decoded(text)
    values = list(_values(answer))
    fields = {name.lower(): value for name, value in headers.items()}
    words = (_redirected(status, fields) or _words(answer) or _plain(text)).strip()[:MOST_WORDS]
    kind = _kind(status, values, words.lower())
    told = {**dict(reversed(values)), "date": fields.get("date", "")}
    waits = (asked_wait(fields), asked_wait(told), wait_in_words(words))
    return Refusal(
        kind,
        words=well_formed(words),
        wait=next((wait for wait in waits if wait is not None), None) if kind in ("busy", "unavailable") else None,
        code=well_formed(_code(values)),
        param=well_formed(_param(values)),
    )


def _kind(status: int, values: list[tuple[str, str]], words: str) -> Kind:
    marks = {value.lower() for name, value in values if name in _MARKS}
    if status >= 400 and (
        marks & _QUOTA_MARKS or any(_PER_DAY in mark for mark in marks) or _QUOTA_WORDS.search(words)
    ):
        return "quota"
    if status in _FOR_CONTENT and (
        marks & _CONTENT_MARKS or _CONTENT_FIELDS & {name for name, _ in values} or _CONTENT_WORDS.search(words)
    ):
        return "moderated"
    if status == 429 and _TOO_LARGE in words:
        return "rejected"
    return "redirected" if 300 <= status < 400 else _BY_STATUS.get(status, "unavailable")


def _code(values: list[tuple[str, str]]) -> str:
    """The endpoint's own name for the reason: numbers only repeat the status."""
    named = [(name, value) for name, value in values if not value.isdigit() and value.lower() != "error"]
    return next((value for mark in ("code", "status", "type") for name, value in named if name == mark), "")


def _param(values: list[tuple[str, str]]) -> str:
    """The parameter named; where FastAPI tells a place in the request instead, such as `body.seed`, its name there."""
    named = [value for name, value in values if name == "param"]
    place = [value for name, value in values if name == "loc" and not value.isdigit()]
    return next(iter([*named, *place[1:2]]), "")


def _decoded(text: str) -> Any:
    """What a text holds as JSON; None where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _values(answer: Any) -> Iterator[tuple[str, str]]:
    """Yield names (lower case) and values of a body, outer ones first, also of JSON that proxies nest in a text."""
    due: deque[tuple[str, Any]] = deque([("", answer)])
    for _ in range(MOST_VALUES):
        if not due:
            return
        name, value = due.popleft()
        if isinstance(value, dict):
            fields = islice(cast("dict[str, Any]", value).items(), MOST_VALUES)
            due.extend((field.lower(), each) for field, each in fields if field not in _ECHOES)
        elif isinstance(value, list):
            due.extend((name, each) for each in islice(cast("list[Any]", value), MOST_VALUES))
        elif isinstance(value, str | int | float):
            yield name, str(value)
            due.append((name, _inner(value)))


def _inner(value: Any) -> Any:
    """The JSON object or list that a string holds; None where it holds none."""
    return _decoded(value) if isinstance(value, str) and value.lstrip()[:1] in ("{", "[") else None


def _words(value: Any, levels: int = MOST_LEVELS) -> str:
    """The words of an error in any of its forms: an object, a list of them, a sentence, JSON within a sentence."""
    if not levels:
        return ""
    if isinstance(value, str):
        return _words(_inner(value), levels - 1) or value
    if isinstance(value, list):
        return "; ".join(filter(None, (_words(each, levels - 1) for each in cast("list[Any]", value)[:5])))
    return _of_object(cast("dict[str, Any]", value), levels - 1) if isinstance(value, dict) else ""


def _of_object(error: Mapping[str, Any], levels: int) -> str:
    """The words of an error object, after the place that FastAPI names and before what an endpoint behind it said."""
    words = next(filter(None, (_words(error.get(name), levels) for name in _MESSAGES)), "")
    place, metadata = error.get("loc"), error.get("metadata")
    if isinstance(place, list):
        steps = (str(step) for step in cast("list[Any]", place)[:8] if isinstance(step, str | int))
        words = f"{'.'.join(steps)}: {words}"
    raw = _words(cast("dict[str, Any]", metadata).get("raw"), levels) if isinstance(metadata, dict) else ""
    return f"{words}: {raw}" if raw else words


def _plain(text: str) -> str:
    """The words of a body that is no JSON: the title of a page, or the text without tags."""
    start = text[:MOST_WORDS]
    title = _TITLE.search(start)
    return " ".join((title[1] if title else _TAG.sub(" ", start)).split())


def _redirected(status: int, fields: Mapping[str, str]) -> str:
    return f"it redirects to {fields['location']}" if 300 <= status < 400 and "location" in fields else ""
