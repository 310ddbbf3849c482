"""The judge behind its endpoint: the only module that calls the OpenAI client.

Owns the client, its key, the calls in flight, and the ladder of reply formats. It turns whatever happens into a Reply
or, where no other call could fare better, into a JudgeStopped. What a reply says is for `kinds` to read.
"""

import asyncio
import json
import re
import secrets
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Self

import httpx2
from openai import APIConnectionError, APIStatusError, APITimeoutError, AsyncOpenAI
from openai.types.chat import ChatCompletion

from tasks.embedded_judge.app import app as pixel_judge
from tasks.endpoint.api_keys import Secret, find_key, no_secret
from tasks.endpoint.body import BoundedClient, problem
from tasks.endpoint.completion import Reply, read
from tasks.endpoint.requests import Image, Request
from tasks.errors import JudgeStopped
from tasks.parameters import EMBEDDED, Judge
from tasks.text import well_formed

RUNGS = ("json_schema", "json_object", "plain")
"""Reply formats, the strictest first. A refusal moves one down for the rest of the run."""

REJECTED = {400, 413, 422}
BUSY = {408, 409, 429}
PLACE = secrets.token_hex(16)
"""Stands for a picture while the rest of a request is made into JSON; no text can hold it by chance or intent."""
RAW = {"X-Stainless-Raw-Response": "raw"}
"""Asks the client for the response beside its content, as its `with_raw_response` does."""
QUOTA_CODES = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}
FORMAT_WORDS = ("response_format", "json_schema", "json_object", "json mode", "structured output")
SHORTEST_SECRET = 16
"""Characters of a key from which on it is cut out of what is kept, and not only out of the words of an error."""
MOST_WORDS = 2000
"""Most characters kept of an error message; the body stays whole in `text`."""
REFUSAL = re.compile(r"support|unknown|unrecogni[sz]ed|unexpected|not permitted|not allowed|does not accept|deprecated")
LENGTH_WORDS = ("context length", "context_length", "too long", "too large", "maximum context")


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
        self._rung = 0
        self._length_name = "max_completion_tokens"
        self._dropped: set[str] = set()
        self._not_before = 0.0
        self._probing: asyncio.Task[Reply] | None = None

    async def __aenter__(self) -> Self:
        self._key = await find_key(self.judge, self._secret)
        self._client = _client(self.judge, self._key)
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
                tried = self._settings()
                try:
                    reply = await self._send(request)
                    break
                except APIStatusError as error:
                    if not self._worth_resending(error, tried):
                        reply = self._failure(error)
                        break
                except APIConnectionError as error:
                    reply = Reply("unavailable", error=_connection_words(error, self.judge))
                    break
            return reply._replace(
                text=well_formed(reply.text),
                error=well_formed(self._redacted(reply.error))[:MOST_WORDS],
                rung=RUNGS[tried[0]],
                not_sent=tuple(sorted(tried[2])),
                seconds=round(time.monotonic() - started, 3),
            )

    async def _send(self, request: Request) -> Reply:
        raw: Any = await self._client.post(
            "/chat/completions", cast_to=ChatCompletion, content=self._body(request), options={"headers": RAW}
        )
        response: httpx2.Response = raw.http_response
        reply = read(response.content, self._redacted, problem(response))
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
        return reply._replace(text=self.without_key(reply.text))

    @property
    def pause(self) -> float:
        """Seconds until the server's Retry-After has passed; 0 when it has."""
        return max(0.0, self._not_before - time.monotonic())

    def _settings(self) -> tuple[int, str, frozenset[str]]:
        return self._rung, self._length_name, frozenset(self._dropped)

    def _arguments(self, request: Request) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "model": self.judge.model,
            "messages": [
                {"role": "system", "content": request.system},
                {"role": "user", "content": [self._part(part) for part in request.content]},
            ],
            self._length_name: self.judge.max_output_tokens,
        }
        if "temperature" not in self._dropped:
            arguments["temperature"] = self.judge.temperature
        if RUNGS[self._rung] == "json_schema":
            schema = {"name": request.name, "strict": True, "schema": request.schema}
            arguments["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif RUNGS[self._rung] == "json_object":
            arguments["response_format"] = {"type": "json_object"}
        return arguments

    def _body(self, request: Request) -> bytes:
        """The request as JSON, with the pictures put in as they are.

        They are nearly all of it, and a data URL holds nothing that JSON escapes: searching it for that in each of its
        four calls would cost more than all else that is done for a call.
        """
        pieces = json.dumps(self._arguments(request), ensure_ascii=False).encode().split(PLACE.encode())
        urls = [part.data_url for part in request.content if isinstance(part, Image)]
        return b"".join(piece for pair in zip(pieces, [*urls, b""], strict=True) for piece in pair)

    def _part(self, part: str | Image) -> dict[str, Any]:
        if isinstance(part, str):
            return {"type": "text", "text": part}
        detail = {} if "detail" in self._dropped else {"detail": self.judge.detail}
        return {"type": "image_url", "image_url": {"url": PLACE, **detail}}

    def _worth_resending(self, error: APIStatusError, tried: tuple[int, str, frozenset[str]]) -> bool:
        if error.status_code not in REJECTED:
            return False
        # Calls in flight together are refused together; the first of them has changed the settings for all.
        return self._settings() != tried or self._give_way(error)

    def _give_way(self, error: APIStatusError) -> bool:
        """Change what the endpoint refuses about every call; False where it refuses something else."""
        words = _words(error).lower()
        if any(length in words for length in LENGTH_WORDS):
            return False
        if self._rung < len(RUNGS) - 1 and any(name in words for name in FORMAT_WORDS):
            self._rung += 1
        elif self._length_name == "max_completion_tokens" and _refuses(error, self._length_name):
            self._length_name = "max_tokens"
        elif refused := [name for name in {"temperature", "detail"} - self._dropped if _refuses(error, name)]:
            self._dropped.add(refused[0])
        else:
            return False
        return True

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

    def without_key(self, text: str) -> str:
        """A text to keep, plain or JSON, without the key. One as short as a word is no secret, and may be one."""
        if len(self._key) < SHORTEST_SECRET:
            return text
        form = self._key
        for _ in range(3):  # as it is, in JSON, and in JSON within JSON
            text, form = text.replace(form, "[key]"), json.dumps(form)[1:-1]
        return text

    def _redacted(self, words: str) -> str:
        """Words of an error without the key; to be applied before they are cut, which might leave a part of it."""
        return words.replace(self._key, "[key]") if self._key else words

    def _who(self) -> str:
        return f"The judge {self.judge.model} at {self.judge.base_url}"


def _client(judge: Judge, key: str) -> AsyncOpenAI:
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=judge.concurrency)
    if judge.base_url == EMBEDDED:
        base_url = "http://embedded/v1"
        http = BoundedClient(transport=httpx2.ASGITransport(app=pixel_judge))
    else:
        base_url = judge.base_url
        # A redirect would carry pictures and texts to a host that nobody listed.
        http = BoundedClient(limits=limits, follow_redirects=False)
    timeout = httpx2.Timeout(judge.timeout_seconds, connect=min(10.0, judge.timeout_seconds))
    return AsyncOpenAI(api_key=key or "none", base_url=base_url, timeout=timeout, http_client=http)


def _words(error: APIStatusError) -> str:
    body: Any = error.body
    message = (body.get("message") or body.get("detail")) if isinstance(body, dict) else None  # pyright: ignore
    return str(message or body or error.message)  # pyright: ignore[reportUnknownArgumentType]


def _refuses(error: APIStatusError, parameter: str) -> bool:
    """Whether the endpoint refuses this parameter, and not only mentions a word like it."""
    words = _words(error).lower()
    return error.param == parameter or bool(re.search(rf"\b{parameter}\b", words) and REFUSAL.search(words))


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
