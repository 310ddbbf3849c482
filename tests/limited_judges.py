"""Judges on loopback with limits on calls: in flight, per second, or both.

This module owns the limits and how they are announced (Retry-After, limit headers, or not at all); `loopback_judge`
serves the judge.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable
from dataclasses import dataclass, field

from loopback_replies import Reply, Request, allowed_reply, error

TELLINGS = ("nothing", "retry-after", "headers")
"""Ways in which a judge announces its limits."""
FIRST_RUN = "run-0"
"""Name of the first of several runs in its calls."""


@dataclass
class Limited:
    """Answer of a judge that refuses calls above its limits with 429."""

    seconds: float = 0.2
    """Duration of each accepted call."""
    at_once: int = 0
    """Accepted calls in flight; 0: unlimited."""
    a_second: float = 0.0
    """Accepted calls a second, by a token bucket; 0: unlimited."""
    burst: int = 20
    """Tokens in the full bucket."""
    tells: str = "nothing"
    bad: str = ""
    """Part of a text: calls of the first run that contain it are always refused."""
    bad_asked: int = 0
    taken: Counter[str] = field(default_factory=Counter[str])
    """Accepted calls by run, if runs name themselves in the field `run` of their calls."""
    asked: Counter[str] = field(default_factory=Counter[str])
    """Requests by run, accepted or refused."""
    refused: int = 0
    in_flight: int = 0
    _tokens: float | None = None
    _filled: float = 0.0

    def __call__(self, request: Request) -> Awaitable[Reply]:
        return self._answer(request)

    async def _answer(self, request: Request) -> Reply:
        run = _run(request)
        self.asked[run] += 1
        if self.bad and run == FIRST_RUN and any(self.bad in words for words in request.texts):
            self.bad_asked += 1
            return error(429, "Too many requests.", "rate_limit_exceeded", "requests")
        if not self._takes():
            self.refused += 1
            headers = {"retry-after": "1"} if self.tells == "retry-after" else self._headers()
            return error(429, "Too many requests.", "rate_limit_exceeded", "requests", headers=headers)
        self.taken[run] += 1
        self.in_flight += 1
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.in_flight -= 1
        reply = allowed_reply()(request)
        return Reply(reply.body, reply.status, {**reply.headers, **self._headers()})

    def _takes(self) -> bool:
        if self.at_once and self.in_flight >= self.at_once:
            return False
        if not self.a_second:
            return True
        if self._bucket() < 1:
            return False
        self._tokens = self._bucket() - 1
        return True

    def _bucket(self) -> float:
        now = time.monotonic()
        tokens = self.burst if self._tokens is None else self._tokens + (now - self._filled) * self.a_second
        self._tokens, self._filled = min(self.burst, tokens), now
        return self._tokens

    def _headers(self) -> dict[str, str]:
        if self.tells != "headers" or not self.a_second:
            return {}
        left = int(self._bucket())
        return {
            "x-ratelimit-limit-requests": str(self.burst),
            "x-ratelimit-remaining-requests": str(left),
            "x-ratelimit-reset-requests": f"{1000 * (self.burst - self._bucket()) / self.a_second:.0f}ms",
        }


def _run(request: Request) -> str:
    """Return the run of a request: its field is near the end, and parsing a body of pictures would take longer."""
    return request.raw.rpartition(b'"run":')[2].partition(b'"')[2].partition(b'"')[0].decode()
