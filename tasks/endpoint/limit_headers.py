"""What an endpoint's headers say of the room that is left under its limits, in calls.

Owns the names of these headers. How moments and spans are written, `waits` knows; what is made of the room,
`adaptive_limit` decides.
"""

import math
import time
from collections.abc import Mapping
from typing import NamedTuple

from tasks.endpoint.waits import seconds


class Room(NamedTuple):
    """What may be asked under the tightest of the limits told."""

    left: float
    """Calls that may start at once."""
    per_second: float
    """Calls a second that keep within the limit; infinite where nothing is used up."""


class _Names(NamedTuple):
    """Headers that tell of one limit."""

    limit: str
    remaining: str
    reset: str
    """When the limit is whole again: a span (OpenAI) or a moment (Anthropic)."""
    of_tokens: bool


def _openai(of: str) -> _Names:
    return _Names(f"x-ratelimit-limit-{of}", f"x-ratelimit-remaining-{of}", f"x-ratelimit-reset-{of}", of == "tokens")


def _anthropic(of: str) -> _Names:
    start = f"anthropic-ratelimit-{of}"
    return _Names(f"{start}-limit", f"{start}-remaining", f"{start}-reset", of != "requests")


LIMITS = (_openai("requests"), _openai("tokens"), _anthropic("requests"), _anthropic("tokens"))


def room(headers: Mapping[str, str], tokens_per_call: float) -> Room | None:
    """The room under the tightest limit; None where the headers tell of none.

    Args:
        headers: of an answer, their names in any case.
        tokens_per_call: what a limit of tokens is divided by; 0: not known, and such limits are left out.
    """
    found = [_room(headers, names, tokens_per_call if names.of_tokens else 1.0) for names in LIMITS]
    return min((each for each in found if each), default=None)


def _room(headers: Mapping[str, str], names: _Names, per_call: float) -> Room | None:
    limit, left = _number(headers.get(names.limit)), _number(headers.get(names.remaining))
    # An answer came: a limit below one call is none, or counts otherwise.
    if limit is None or left is None or not 0 < per_call <= limit:
        return None
    whole_in = seconds(headers.get(names.reset) or "", time.time()) or 0.0
    # A bucket has got back by then what is used now; a window that begins anew only then has what is left until then.
    spare = max(limit - left, left)
    return Room(left / per_call, spare / whole_in / per_call if whole_in > 0 else math.inf)


def _number(text: str | None) -> float | None:
    return float(text) if text and text.isascii() and text.isdigit() and len(text) < 16 else None
