"""The judge behind its endpoint: the only module that knows the OpenAI client.

Owns the client, its key and the calls in flight. It turns whatever happens into a Reply or, where no other call could
fare better, into a JudgeStopped. What a call sends stands in `arguments`; what a reply says is for `kinds` to read.
"""

import asyncio
import os
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Self
from urllib.parse import urlsplit

import httpx2
from openai import APIConnectionError, APIStatusError, APITimeoutError, AsyncOpenAI, DefaultAsyncHttpxClient, Omit
from openai.types.chat import ChatCompletion

from tasks.embedded_judge.app import app as pixel_judge
from tasks.endpoint import arguments
from tasks.endpoint.api_keys import Secret, find_headers, find_key, is_loopback, no_secret
from tasks.endpoint.completion import Reply, read
from tasks.endpoint.requests import Request
from tasks.errors import JudgeStopped
from tasks.parameters import EMBEDDED, Judge
from tasks.text import well_formed

OPENAI = "api.openai.com"
REJECTED = {400, 413, 422}
BUSY = {408, 409, 429}
RAW = {"X-Stainless-Raw-Response": "raw"}
"""Asks the client for the response beside its content, as its `with_raw_response` does."""
QUOTA_CODES = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}
MOST_WORDS = 2000
"""Most characters kept of an error message; the body stays whole in `text`."""


class Vlm:
    """One judge, one client, as many calls in flight as there are slots. Made for one run and closed with it."""

    def __init__(self, judge: Judge, slots: asyncio.Semaphore | None = None, secret: Secret = no_secret) -> None:
        """A client of the judge.

        Args:
            slots: those that its calls share with others'; its own when there are none.
            secret: where a key may be that is not in the environment.
        """
        self.judge = judge
        self._secret = secret
        self._slots = slots or asyncio.Semaphore(judge.concurrency)
        self._manner = arguments.Manner()
        self._not_before = 0.0
        self._probing: asyncio.Task[Reply] | None = None

    async def __aenter__(self) -> Self:
        self._key = await find_key(self.judge, self._secret)
        self._headers = await find_headers(self.judge, self._secret)
        self._client = _client(self.judge, self._key, self._headers)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections, and give up a probe that nobody waits for."""
        if self._probing:
            self._probing.cancel()
            await asyncio.gather(self._probing, return_exceptions=True)
        await self._client.close()

    async def ask(self, request: Request) -> Reply:
        """Send one question and wait for its reply.

        The client itself retries 429, 5xx and lost connections twice and honours Retry-After.

        Raises:
            JudgeStopped: the key, the model, the quota or the address is refused.
        """
        async with self._slots:
            started = time.monotonic()
            while True:
                tried = self._manner
                try:
                    reply = await self._send(request, tried)
                    break
                except APIStatusError as error:
                    if not self._worth_resending(error, tried):
                        reply = self._failure(error)
                        break
                except APIConnectionError as error:
                    reply = Reply("unavailable", error=_connection_words(error, self.judge))
                    break
            return reply._replace(
                text=well_formed(self._redacted(reply.text)),
                error=well_formed(self._redacted(reply.error))[:MOST_WORDS],
                rung=arguments.RUNGS[tried.rung],
                not_sent=tuple(sorted(tried.left_out)),
                seconds=round(time.monotonic() - started, 3),
            )

    async def _send(self, request: Request, manner: arguments.Manner) -> Reply:
        body = arguments.body(self.judge, request, manner)
        raw: Any = await self._client.post(
            "/chat/completions", cast_to=ChatCompletion, content=body, options={"headers": RAW}
        )
        try:
            reply = read(await raw.json())
        except (ValueError, TypeError, AttributeError, LookupError):
            # An error page or an error object with status 200: the client takes what it gets and does not check it.
            text = self._redacted(await raw.text())
            reply = Reply("unavailable", text=text, error=f"the reply is no chat completion: {text[:200]}")
        return reply._replace(http_retries=raw.retries_taken)

    async def probe(self, request: Request) -> Reply:
        """Find out with one cheap question what would fail every call; asked once, however often this is called.

        Raises:
            JudgeStopped: what `ask` raises, and also a refusal of the question itself or an address where nobody is.
        """
        if self._probing is None:
            self._probing = asyncio.create_task(self._probe(request))
        return await asyncio.shield(self._probing)

    async def _probe(self, request: Request) -> Reply:
        reply = await self.ask(request)
        if reply.status == "rejected":
            raise JudgeStopped(f"{self._who()} refuses the first question: {reply.error}")
        if reply.status == "unavailable" and reply.error.startswith("no connection"):
            raise JudgeStopped(f"{self._who()} cannot be reached: {reply.error}")
        return reply

    @property
    def pause(self) -> float:
        """Seconds until the server's Retry-After has passed; 0 when it has."""
        return max(0.0, self._not_before - time.monotonic())

    def _worth_resending(self, error: APIStatusError, tried: arguments.Manner) -> bool:
        if error.status_code not in REJECTED:
            return False
        # Calls in flight together are refused together; the first of them has changed the manner for all.
        if self._manner == tried:
            self._manner = arguments.give_way(tried, _words(error), error.param or "") or tried
        return self._manner != tried

    def _failure(self, error: APIStatusError) -> Reply:
        words = _words(error)
        if error.status_code in REJECTED:
            return Reply("rejected", text=error.response.text, error=f"{error.status_code}: {words}")
        if error.code in QUOTA_CODES or not (error.status_code in BUSY or error.status_code >= 500):
            stopped = self._redacted(f"{self._who()} refuses all calls ({error.status_code}): {words}")
            # Not from the error: a traceback in a log would show its words, and they may quote the key.
            raise JudgeStopped(stopped[:MOST_WORDS]) from None
        self._not_before = max(self._not_before, time.monotonic() + _retry_after(error.response.headers))
        return Reply("unavailable", text=error.response.text, error=f"{error.status_code}: {words}")

    def _redacted(self, words: str) -> str:
        """Without the key and the like; to be applied before a text is cut, which might leave a part of it."""
        for value in filter(None, (self._key, *self._headers.values())):
            words = words.replace(value, "[key]")
        return words

    def _who(self) -> str:
        return f"The judge {self.judge.model} at {self.judge.base_url}"


def _client(judge: Judge, key: str, headers: Mapping[str, str]) -> AsyncOpenAI:
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=judge.concurrency)
    host = urlsplit(judge.base_url).hostname or ""
    if judge.base_url == EMBEDDED:
        base_url = "http://embedded/v1"
        http = DefaultAsyncHttpxClient(transport=httpx2.ASGITransport(app=pixel_judge))
    else:
        base_url = judge.base_url
        # No proxy elsewhere can reach this machine by its loopback address.
        mounts = {f"all://{f'[{host}]' if ':' in host else host}": None} if is_loopback(host) else None
        # A redirect would carry pictures and texts to a host that nobody listed.
        http = DefaultAsyncHttpxClient(limits=limits, follow_redirects=False, mounts=mounts)
    return AsyncOpenAI(
        api_key=key or "none",
        base_url=base_url,
        timeout=httpx2.Timeout(judge.timeout_seconds, connect=min(10.0, judge.timeout_seconds)),
        http_client=http,
        default_headers=_headers(host, key, headers),
    )


def _headers(host: str, key: str, headers: Mapping[str, str]) -> dict[str, Any]:
    """What is sent with every call; of what the client finds for OpenAI in the environment, nothing to other hosts."""
    if host == OPENAI:
        return {**headers}
    custom = (line.partition(":")[0].strip() for line in os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n"))
    left_out = dict.fromkeys(("OpenAI-Organization", "OpenAI-Project", *filter(None, custom)), Omit())
    return {**left_out, "Authorization": f"Bearer {key or 'none'}", **headers}


def _words(error: APIStatusError) -> str:
    body: Any = error.body
    message = (body.get("message") or body.get("detail")) if isinstance(body, dict) else None  # pyright: ignore
    return str(message or body or error.message)  # pyright: ignore[reportUnknownArgumentType]


def _connection_words(error: APIConnectionError, judge: Judge) -> str:
    cause = error.__cause__
    if isinstance(error, APITimeoutError) and not isinstance(cause, httpx2.ConnectTimeout):
        return f"no reply within {judge.timeout_seconds:g} s"
    absent = isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout)
    kind = "no connection" if absent else "the connection was lost"
    return f"{kind}: {cause or error}"


def _retry_after(headers: Mapping[str, str]) -> float:
    """Seconds that the server asks to wait, from Retry-After in seconds or as a date; 0 when it says nothing."""
    value = headers.get("retry-after", "")
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0.0
