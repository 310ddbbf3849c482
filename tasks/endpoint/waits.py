"""Waits and rate limits in the headers, fields and messages of an endpoint: time to wait, and number of calls left."""

import math
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

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
