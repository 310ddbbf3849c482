"""What an endpoint's headers say of the room that is left under its limits, in calls.

The names of these headers, and how moments and spans are written, `waits` knows; what is made of the room,
`adaptive_limit` decides.
"""

import math
import time
from collections.abc import Mapping
from typing import NamedTuple

from tasks.endpoint.waits import OF_REQUESTS, OF_TOKENS, LimitHeaders, seconds


class Room(NamedTuple):
    """What may be asked under the tightest of the limits told."""

    left: float
    """Calls that may start at once."""
    per_second: float
    """Calls a second that keep within the limit; infinite where nothing is used up."""


def room(headers: Mapping[str, str], tokens_per_call: float) -> Room | None:
    """The room under the tightest limit; None where the headers tell of none.

    Args:
        headers: of an answer, their names in any case.
        tokens_per_call: what a limit of tokens is divided by; 0: not known, and such limits are left out.
    """
    of_requests = [_room(headers, names, 1.0) for names in OF_REQUESTS]
    of_tokens = [_room(headers, names, tokens_per_call) for names in OF_TOKENS]
    return min((each for each in of_requests + of_tokens if each), default=None)


def _room(headers: Mapping[str, str], names: LimitHeaders, per_call: float) -> Room | None:
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
