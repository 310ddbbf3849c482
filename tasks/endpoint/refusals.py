"""Meaning of an HTTP refusal, from any bytes: wait, and for how long, ask differently, or stop."""

import json
import math
import re
import time
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import islice
from typing import Any, Literal, NamedTuple, cast

from tasks.text import well_formed

LONGEST_WAIT = 86_400.0
"""Longest wait in seconds, a day; a longer one is cut to it."""
LONGEST_VALUE = 64
"""Most characters of a duration or a time."""

WAITS = {"retry-after-ms": "ms", "retry-after": "s", "retrydelay": "s"}
"""Names of a wait, the most exact first, and the unit of a bare number.

OpenAI and Azure send `retry-after-ms`; `retryDelay` is a field of google.rpc.RetryInfo in bodies of Gemini.
"""


class LimitHeaders(NamedTuple):
    """Names of the headers of one limit."""

    limit: str
    remaining: str
    reset: str
    """Restoration of the full limit, as a duration or a time. It is a wait if nothing remains."""


def _openai(of: str) -> LimitHeaders:
    """Return header names of OpenAI and Groq; their durations have the form 6m0s."""
    return LimitHeaders(f"x-ratelimit-limit-{of}", f"x-ratelimit-remaining-{of}", f"x-ratelimit-reset-{of}")


def _anthropic(of: str) -> LimitHeaders:
    """Return header names of Anthropic; its times have the form of RFC 3339."""
    start = f"anthropic-ratelimit-{of}"
    return LimitHeaders(f"{start}-limit", f"{start}-remaining", f"{start}-reset")


OF_REQUESTS = (_openai("requests"), _anthropic("requests"))
OF_TOKENS = (_openai("tokens"), _anthropic("tokens"))
LIMITS = (
    *OF_REQUESTS,
    *OF_TOKENS,
    _anthropic("input-tokens"),
    _anthropic("output-tokens"),
    LimitHeaders("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"),  # OpenRouter: ms since 1970
)

_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|[dhms])")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_ASKED = re.compile(
    r"(?:try again|retry) (?:in|after) (\d[\d.dhms]{0,31})(?: (ms|milliseconds?|seconds?|minutes?|hours?|days?)\b)?"
)
"""OpenAI and Groq: try again in 6m0s; Azure: retry after 20 seconds, try again in 2 seconds; Gemini: retry in 5.2s."""
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


class Room(NamedTuple):
    """Calls that the tightest reported limit allows."""

    left: float
    """Calls that may start at once."""
    per_second: float
    """Calls a second that keep within the limit; infinite if no restoration lies ahead."""


def asked_wait(fields: Mapping[str, str]) -> float | None:
    """Return the seconds that headers, or fields of a body, ask to wait; None if they name none.

    Times are counted from the field `date`, if there is one: the clock of this machine may differ.
    """
    now = _moment(fields.get("date", "")) or time.time()
    for name, unit in WAITS.items():
        if (wait := seconds(fields.get(name, ""), now, unit)) is not None:
            return wait
    resets = [seconds(fields.get(reset, ""), now) for _, left, reset in LIMITS if fields.get(left, "").strip() == "0"]
    return max((wait for wait in resets if wait is not None), default=None)


def wait_in_words(words: str) -> float | None:
    """Return the seconds that a sentence asks to wait: `Please try again in 6m0s`, `Please retry after 20 seconds`."""
    found = _ASKED.search(words.lower())
    if not found:
        return None
    unit = found[2] or "s"
    return seconds(found[1].strip("."), 0.0, "ms" if unit.startswith(("ms", "milli")) else unit[0])


def seconds(text: str, now: float, unit: str = "s") -> float | None:
    """Return the seconds from `now` (since 1970) that a text means, at most a day; None if it means none.

    Forms: a number of the unit, `6m0s`, `250ms`, an HTTP date, an RFC 3339 time, seconds or milliseconds since 1970.
    """
    text = text.strip()[:LONGEST_VALUE]
    spans = _SPAN.findall(text.lower())
    if "".join(number + sign for number, sign in spans) == text.lower() != "":
        wait = sum(float(number) * _UNITS[sign] for number, sign in spans)
    elif _NUMBER.fullmatch(text):
        wait = _span_or_moment(float(text), unit, now)
    elif moment := _moment(text):
        wait = moment - now
    else:
        return None
    return min(wait, LONGEST_WAIT) if wait >= 0 else None


def _span_or_moment(number: float, unit: str, now: float) -> float:
    """Return seconds from `now`. Numbers from 1e9 on (decades) are times since 1970, from 1e11 on in milliseconds."""
    if number < 1e9:
        return number * _UNITS[unit]
    return (number / 1000 if number >= 1e11 else number) - now


def _moment(text: str) -> float | None:
    """Return the seconds since 1970 of an HTTP date or an RFC 3339 time; a time without a zone is in UTC."""
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(text.strip()[:LONGEST_VALUE])
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
    return None


def room(headers: Mapping[str, str], tokens_per_call: float) -> Room | None:
    """Return the calls that the tightest limit allows; None if the headers report no limit.

    Args:
        tokens_per_call: divisor of token limits; 0 if unknown, and such limits are left out.
    """
    of_requests = [_room(headers, names, 1.0) for names in OF_REQUESTS]
    of_tokens = [_room(headers, names, tokens_per_call) for names in OF_TOKENS]
    return min((each for each in of_requests + of_tokens if each), default=None)


def _room(headers: Mapping[str, str], names: LimitHeaders, per_call: float) -> Room | None:
    limit, left = _number(headers.get(names.limit)), _number(headers.get(names.remaining))
    # An answer came: a limit below one call is no limit, or counts in another unit.
    if limit is None or left is None or not 0 < per_call <= limit:
        return None
    whole_in = seconds(headers.get(names.reset) or "", time.time()) or 0.0
    # By then a bucket has regained the tokens used now; a fixed window has only its rest until then.
    spare = max(limit - left, left)
    return Room(left / per_call, spare / whole_in / per_call if whole_in > 0 else math.inf)


def _number(text: str | None) -> float | None:
    return float(text) if text and text.isascii() and text.isdigit() and len(text) < 16 else None


Kind = Literal["busy", "quota", "moderated", "rejected", "denied", "absent", "redirected", "unavailable"]


class Refusal(NamedTuple):
    """Refusal that an endpoint sent instead of a reply."""

    kind: Kind
    """`busy`: ask again later. `quota`: no wait helps. `moderated`, `rejected`: this call alone is refused. `denied`,
    `absent`, `redirected`: the key, the model or the address is refused. `unavailable`: a fault of the endpoint."""
    words: str
    """Message for people, in the endpoint's words. It may contain a key: mask it before shortening it."""
    wait: float | None
    """Seconds that it asks to wait; None if it names none, or if no wait helps."""
    param: str
    """Parameter that it refuses; "" if it names none."""


MOST_WORDS = 20_000
"""Most characters of the message; far more than are kept."""
MOST_VALUES = 300
"""Most values read of a body; an error has a few dozen."""

BUSY_STATUSES = (429, 498, 503, 529)
"""Statuses that ask to come again later. 498: Groq's flex tier is full; 529: Anthropic is overloaded."""
_BY_STATUS: dict[int, Kind] = {
    **dict.fromkeys(BUSY_STATUSES, "busy"),
    402: "quota",
    **dict.fromkeys((400, 411, 413, 414, 415, 422, 431, 451), "rejected"),
    **dict.fromkeys((401, 403, 407), "denied"),
    **dict.fromkeys((404, 405, 410), "absent"),
}
_FOR_CONTENT = {400, 403, 422}
"""Statuses of a refusal that may come from moderation."""

_MARKS = {"code", "status", "type", "error_code", "error_type", "reason", "quotaid", "limit_source"}
"""Fields with an endpoint's own names for a reason."""
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
_SPENT_STATUS = {402, 403, 429}
"""Statuses of a spent quota; at others a message may quote the question, which is no word of the endpoint."""
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_OWN_WORDS = 100
"""Letters of a message in which an endpoint tells its reason."""
_PER_DAY = "perday"
"""Part of the names of Gemini's daily quotas; a day is too long to wait."""
_CONTENT_MARKS = {
    *("content_filter", "responsibleaipolicyviolation", "content_policy_violation", "moderation_blocked"),
    *("prohibited_content", "data_inspection_failed"),
}
_WITHHELD_MARK = "json_validate_failed"
"""Code of Groq's 400 in place of a reply that came out in another form than was asked for; the next may be good."""
_CONTENT_FIELDS = {"reasons", "flagged_input"}
"""Fields that OpenRouter adds to a refusal by moderation."""
_CONTENT_WORDS = re.compile(
    r"flagged (?:as|for)|content management policy|content policy|safety system|content moderation"
    r"|moderation guardrail|blocked by (?:a )?guardrail|prompt injection|prohibited_content|content_policy"
    r"|may contain inappropriate content|contentpolicyviolationerror"
)
_TOO_LARGE = "request too large"
"""Words of OpenAI's 429 to a call that exceeds the limit of a minute by itself: no wait makes it smaller."""

_MESSAGES = ("message", "error", "detail", "msg", "errors", "title", "raw", "")
"""Fields with a message, the most specific first; `raw` is that of an endpoint behind OpenRouter, "" a text alone."""
_ECHOES = {"input", "ctx"}
"""Fields in which FastAPI returns the request, including words of strangers."""
_TITLE = re.compile(r"<title[^<>]{0,200}>([^<]{0,300})", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")


def read_refusal(status: int, headers: Mapping[str, str], body: bytes) -> Refusal:
    """Return the meaning of the answer to a refused call, for any bytes."""
    text = body.decode("utf-8-sig", "replace")
    answer = _decoded(text)
    values = list(_values(answer))
    fields = {name.lower(): value for name, value in headers.items()}
    redirected = f"it redirects to {fields['location']}" if 300 <= status < 400 and "location" in fields else ""
    words = (redirected or _words(values) or _plain(text)).strip()[:MOST_WORDS]
    kind = _kind(status, values, words.lower())
    told = {**dict(reversed(values)), "date": fields.get("date", "")}
    waits = (asked_wait(fields), asked_wait(told), wait_in_words(words))
    return Refusal(
        kind,
        words=well_formed(words),
        wait=next((wait for wait in waits if wait is not None), None) if kind in ("busy", "unavailable") else None,
        param=well_formed(_param(values)),
    )


def _kind(status: int, values: list[tuple[str, str]], words: str) -> Kind:
    marks = {value.lower() for name, value in values if name in _MARKS}
    own_words = words if status in _SPENT_STATUS else _QUOTED.sub("", words)[:_OWN_WORDS]
    if status >= 400 and (
        marks & _QUOTA_MARKS or any(_PER_DAY in mark for mark in marks) or _QUOTA_WORDS.search(own_words)
    ):
        return "quota"
    if status in _FOR_CONTENT and (
        marks & _CONTENT_MARKS or _CONTENT_FIELDS & {name for name, _ in values} or _CONTENT_WORDS.search(words)
    ):
        return "moderated"
    if _WITHHELD_MARK in marks:
        return "unavailable"
    if status == 429 and _TOO_LARGE in words:
        return "rejected"
    return "redirected" if 300 <= status < 400 else _BY_STATUS.get(status, "unavailable")


def _param(values: list[tuple[str, str]]) -> str:
    """Return the named parameter, or the field in FastAPI's location, such as `seed` in `body.seed`."""
    named = [value for name, value in values if name == "param"]
    place = [value for name, value in values if name == "loc" and not value.isdigit()]
    return next(iter([*named, *place[1:2]]), "")


def _decoded(text: str) -> Any:
    """Return the value of a JSON text; None if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _values(answer: Any) -> Iterator[tuple[str, str]]:
    """Yield lower-case names and values of a body, outer ones first, including JSON that proxies nest in a text."""
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
        elif inner := _inner(value):
            due.append((name, inner))
        elif isinstance(value, str | int | float) and not isinstance(value, bool):
            yield name, str(value)


def _inner(value: Any) -> Any:
    """Return the JSON object or list in a string; None if there is none."""
    return _decoded(value) if isinstance(value, str) and value.lstrip()[:1] in ("{", "[") else None


def _words(values: list[tuple[str, str]]) -> str:
    """Return the messages of a body, the most specific first, after the location that FastAPI names."""
    told = [each for each in values if each[0] in _MESSAGES and not each[1].isdigit()]
    words = "; ".join(dict.fromkeys(value for _, value in sorted(told, key=lambda each: _MESSAGES.index(each[0]))))
    place = ".".join([value for name, value in values if name == "loc"][:2])
    return f"{place}: {words}" if place and words else words


def _plain(text: str) -> str:
    """Return the message of a body that is not JSON: the title of a page, or the text without tags."""
    start = text[:MOST_WORDS]
    title = _TITLE.search(start)
    return " ".join((title[1] if title else _TAG.sub(" ", start)).split())
