"""Client of a judge over aiohttp: a call waits for its turn, is sent again if needed, and ends in a reply."""

import asyncio
import os
import random
import time
from collections.abc import Generator, Mapping
from contextlib import aclosing, contextmanager
from http import HTTPStatus
from itertools import count
from typing import Any, Literal, Self
from urllib.parse import urlsplit

import aiohttp
import httpx2
from openai import (
    APIConnectionError,
    APIStatusError,
    APITimeoutError,
    AsyncOpenAI,
    DefaultAioHttpClient,
    Omit,
)
from openai.types.chat import ChatCompletion

from tasks.endpoint import requests
from tasks.endpoint.api_keys import Mask, Secret, find_headers, find_key, is_loopback, no_key_words, no_secret
from tasks.endpoint.catalog import known_at
from tasks.endpoint.gate import IMPROBABLE, Gate, Sign, Ticket
from tasks.endpoint.refusals import Refusal, read_refusal
from tasks.endpoint.replies import Reply, bare_word, busy_within, read_completion
from tasks.endpoint.requests import YES, Request, probe_request
from tasks.errors import JudgeStopped
from tasks.records.judge import EMBEDDED, Judge
from tasks.text import duration, number_of, well_formed

OPENAI = "api.openai.com"
CONNECT_SECONDS = 10.0
LONGEST_REPLY = 4_000_000
"""Most bytes of a reply, after decompression; the rest is not read, and the connection is closed."""
LONGEST_ERROR = 1_000_000
"""Most bytes of a response with any other status than success."""
KEPT = 20_000
"""Bytes kept of a longer body, from its beginning."""

_PROBLEM = "image_jury_problem"
"""Extension of a response with the reason why its body is incomplete; empty if it is whole."""
_OF_THE_WIRE = {b"content-encoding", b"content-length", b"transfer-encoding", b"content-type"}
"""Headers that the body in memory does without: a type may name a character set in which the bytes cannot be read."""


async def connected(
    judge: Judge, secret: Secret, more: Mapping[str, str] | None = None, seconds: float | None = None
) -> tuple[AsyncOpenAI, Mask]:
    """Return a client of the judge's endpoint, and the mask of its key and headers.

    It makes no retries, which would use up attempts while a judge is busy. Replies are masked; not files, which are
    larger than any reply and therefore streamed.

    Args:
        more: headers sent with every call, beside the judge's own.
        seconds: longest silence; None: that of a call.
    """
    key, headers = await find_key(judge, secret), await find_headers(judge, secret)
    mask = Mask((key, *headers.values()))
    host = urlsplit(judge.base_url).hostname or ""
    if judge.base_url == EMBEDDED:
        from tasks.demo.pixel_judge import respond  # half a second that other judges do not need

        base_url, http = "http://embedded/v1", Connections(mask, transport=httpx2.MockTransport(respond))
    else:
        limits = httpx2.Limits(max_connections=judge.concurrency)
        # No proxy elsewhere can reach a loopback host. A redirect would carry pictures and texts to an unlisted one.
        mounts = {f"all://{f'[{host}]' if ':' in host else host}": None} if is_loopback(host) else None
        base_url = judge.base_url
        try:
            http = Connections(mask, limits=limits, follow_redirects=False, mounts=mounts)
        except OSError:
            raise JudgeStopped("SSL_CERT_FILE names no PEM file of certificates: correct or unset it") from None
        except (httpx2.InvalidURL, ValueError):  # not quoted: a proxy's address may hold a password
            raise JudgeStopped("A proxy's address is none: correct HTTPS_PROXY, HTTP_PROXY or ALL_PROXY") from None
    seconds = seconds or judge.timeout_seconds
    client = AsyncOpenAI(
        api_key=key or "none",
        base_url=base_url,
        timeout=httpx2.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds)),
        max_retries=0,
        http_client=http,
        default_headers=_headers(host, key, {**headers, **(more or {})}),
    )
    return client, mask


def _headers(host: str, key: str, headers: Mapping[str, str]) -> dict[str, Any]:
    """Return the headers of every call; the client's headers for OpenAI from the environment go to no other host."""
    if host == OPENAI:
        return {**headers}
    custom = (line.partition(":")[0].strip() for line in os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n"))
    left_out = dict.fromkeys(("OpenAI-Organization", "OpenAI-Project", *filter(None, custom)), Omit())
    return {**left_out, "Authorization": f"Bearer {key or 'none'}", **headers}


class Connections(DefaultAioHttpClient):
    """An httpx2 client over aiohttp; its responses have their body in memory, whole or cut, without the key.

    A streamed file is not masked: the reader of its lines masks those.
    """

    def __init__(self, mask: Mask, **options: Any) -> None:
        super().__init__(**options)
        self._mask = mask

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request and read the response of any status up to the size limit, unless it is streamed.

        Raises:
            httpx2.TransportError: no response came, or it broke off; ConnectError or ConnectTimeout: no connection.
        """
        streamed, options["stream"] = options.get("stream"), True
        with _named_as_httpx2_does():
            response = await super().send(request, **options)
            if streamed:
                return response
            try:
                return await _bounded(response, self._mask)
            finally:
                await response.aclose()


@contextmanager
def _named_as_httpx2_does() -> Generator[None]:
    """Correct the adapter's errors: it reports other failures as ConnectTimeout, and passes some aiohttp errors on."""
    try:
        yield
    except httpx2.ConnectTimeout as error:
        if isinstance(error.__cause__, aiohttp.ServerTimeoutError):
            raise
        absent = isinstance(error.__cause__, aiohttp.ClientConnectorError)
        kind = httpx2.ConnectError if absent else httpx2.ReadError
        raise kind(str(error)) from error
    except aiohttp.ClientError as error:
        raise httpx2.RemoteProtocolError(str(error)) from error


async def _bounded(response: httpx2.Response, mask: Mask) -> httpx2.Response:
    """Read the body of a streamed response, whole or cut at the size limit, and mask it. The caller closes it."""
    longest = LONGEST_REPLY if response.is_success else LONGEST_ERROR
    content, found = bytearray(), ""
    try:
        # httpx2 decompresses on demand, in pieces of at most 1 MiB.
        async with aclosing(response.aiter_bytes()) as pieces:
            async for piece in pieces:
                content += piece
                if len(content) > longest:
                    found = f"it is longer than {longest:,} bytes"
                    break
    except httpx2.DecodingError as error:
        found = f"it cannot be decompressed: {error}"
    kept = mask.body(bytes(content))  # before it is cut: a part of a key does not look like the key
    if found:
        kept = kept[:KEPT] + f"\n[The rest was not read: {found}]".encode()
    headers = [(name, mask.body(value)) for name, value in response.headers.raw if name.lower() not in _OF_THE_WIRE]
    return httpx2.Response(
        response.status_code,
        headers=headers,
        content=kept,
        request=response.request,
        extensions={**response.extensions, _PROBLEM: found},
    )


RAW = {"X-Stainless-Raw-Response": "raw"}
"""Header that makes the client return the response beside its content, as its `with_raw_response` does."""
MOST_WORDS = 2000
"""Most characters kept of an error message; `text` keeps the whole body."""
MOST_FAILURES = 4
"""Attempts of a call without a reply while the endpoint is reachable, including up to three retries."""
MOST_SILENCES = 6
"""Attempts of a call without a reply, including attempts during outages."""
RETRY_SECONDS = 0.5
"""Seconds before the first retry, times a random factor of 0.5 to 1.5; doubled for each further retry."""
FIRST_CALLS = 20
"""First calls of a run that all end in the same error, before the run stops."""
MOST_DENIED = 20
"""Samples in a row refused with 403 or 404: the key or the model is refused, not the single call."""
_KEPT_AS: dict[str, Literal["refused", "rejected"]] = {"moderated": "refused", "rejected": "rejected"}
"""Kind of refusal -> status of the reply, if only this call is refused."""


class Vlm:
    """Client of one judge, made for one run and closed with it."""

    def __init__(self, judge: Judge, secret: Secret = no_secret) -> None:
        """Create a client of the judge.

        Args:
            secret: lookup for keys that are missing from the environment.
        """
        self.judge = judge
        self._secret = secret
        self._manner = requests.Manner()
        if known := known_at(judge.base_url):
            rung = requests.RUNGS.index(known.reply_format)
            self._manner = requests.Manner(rung, known.token_limit, cache_fields=known.cache_fields)
        self._probing: asyncio.Task[Reply] | None = None
        self._ready: Request | None = None
        """First question, asked again if the endpoint may be away."""
        self._there = False
        """True once the endpoint has answered anything, including the first question."""
        self._replied = False
        """True once it has replied to a question about a sample."""
        self._denied: set[str] = set()
        """Samples refused with 403 or 404 since the last reply."""
        self._first_errors: list[str] = []
        """Errors of the first calls, until one has a reply."""
        self._cut_off = 0
        """Calls that were cancelled after they were sent; each lets another one begin for a moment."""
        self._asides: list[tuple[Request, Reply]] = []
        """Questions about no sample, and their replies."""
        self._numbers = count()

    async def __aenter__(self) -> Self:
        self._client, self.mask = await connected(self.judge, self._secret)
        judge = self.judge
        self.gate = Gate(self._who(), judge.concurrency, judge.patience_seconds, judge.call_seconds, self._knock)
        """Queue of its calls, and the limits found there."""
        self.gate.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections, and cancel a probe that nobody waits for."""
        if self._probing:
            self._probing.cancel()
            await asyncio.gather(self._probing, return_exceptions=True)
        await self.gate.close()
        await self._client.close()

    @property
    def cut_off_words(self) -> str:
        """Return a warning about calls that were cut off when the run ended; empty if none was."""
        calls = min(self._cut_off, self.judge.concurrency)
        return f"up to {number_of(calls, 'call')} in flight at the end may be billed as well" if calls else ""

    async def ask(self, request: Request, sample: str = "", place: int = 0) -> Reply:
        """Send one question and wait for its reply.

        Args:
            sample: the sample in question; its failing calls do not count against other samples. Empty: a sample of its
                own.
            place: place of the sample in the run: calls about earlier ones start first.

        Raises:
            JudgeStopped: the key, the model or the quota is refused, or all first calls end in the same error; or no
                call was answered for `patience_seconds`, or the endpoint asks to wait longer than that.
        """
        ticket = self.gate.join(sample or f"call {next(self._numbers)}", place)
        reply = await self._asked(request, ticket)
        if reply.status not in ("rejected", "unavailable"):
            self._replied = True
        elif not self._replied and (ticket.silences or not ticket.refusals):
            self._check_first_calls(reply)
        return reply

    async def _asked(self, request: Request, ticket: Ticket) -> Reply:
        """Send a question as often as needed; return the reply of its last attempt."""
        try:
            while True:
                await self.gate.enter(ticket)
                manner = self._manner
                reply = await self._one_turn(request, manner, ticket)
                if reply:
                    break
        finally:
            self.gate.leave(ticket)
        return reply._replace(
            text=well_formed(reply.text),
            error=well_formed(self._masked(reply.error)),
            rung=requests.RUNGS[manner.rung],
            not_sent=tuple(sorted(manner.left_out)),
            seconds=round(time.monotonic() - ticket.started, 3),
            http_retries=min(ticket.failures, MOST_FAILURES - 1),
            timed_out=ticket.timed_out,
            waits=ticket.waits,
            waited_seconds=round(ticket.waited, 3),
        )

    async def _one_turn(self, request: Request, manner: requests.Manner, ticket: Ticket) -> Reply | None:
        """Send the question once; return None if the call's next turn sends it again."""
        try:
            reply, response = await self._send(request, manner)
        except APIStatusError as error:
            return await self._refused(_refusal(error), error.response, manner, ticket)
        except (APIConnectionError, TimeoutError) as error:
            words, unreachable = _no_reply(error, self.judge)
            ticket.timed_out += _timed_out(error)
            return await self._failed(ticket, Reply("unavailable", error=words, given_up=True), unreachable)
        except asyncio.CancelledError:
            self.gate.cancel(ticket)
            self._cut_off += 1
            raise
        if reply.status == "unavailable" and (refusal := busy_within(response.content, response.headers)):
            return await self._refused(refusal, response, manner, ticket)
        self.gate.answered(ticket, response.headers, reply.usage.tokens_in + reply.usage.tokens_out)
        self._there = True
        self._denied.clear()
        return reply

    async def _send(self, request: Request, manner: requests.Manner) -> tuple[Reply, httpx2.Response]:
        """Send a request and read the whole response, within `timeout_seconds`."""
        body = requests.body(self.judge, request, manner)
        headers = {**RAW, "Content-Length": str(len(body))}  # given, so that no endpoint reads the body in chunks
        async with asyncio.timeout(self.judge.timeout_seconds):
            raw: Any = await self._client.post(
                "/chat/completions", cast_to=ChatCompletion, content=body, options={"headers": headers}
            )
        response: httpx2.Response = raw.http_response
        return read_completion(response.content, response.extensions.get(_PROBLEM, "")), response

    async def _refused(
        self, refusal: Refusal, response: httpx2.Response, manner: requests.Manner, ticket: Ticket
    ) -> Reply | None:
        self._there, words = True, f"{response.status_code}: {refusal.words}"
        if refusal.kind == "busy":
            if not self.gate.refused(ticket, refusal.wait, self._masked(words)):
                return None
            words = f"{words} ({self._why_ended(ticket, refusal)})"
            return Reply("unavailable", text=response.text, error=words, given_up=True)
        if refusal.kind == "unavailable":
            return await self._failed(ticket, Reply("unavailable", text=response.text, error=words, given_up=True))
        self.gate.answered(ticket, response.headers, 0)
        if refusal.kind == "rejected" and self._gives_way(manner, refusal):
            return None
        self._check_refused(refusal, words, ticket.sample)
        return Reply(_KEPT_AS.get(refusal.kind, "rejected"), text=response.text, error=words)

    def _why_ended(self, ticket: Ticket, refusal: Refusal) -> str:
        """Return the reason why a refused call is not sent again."""
        if refusal.wait is not None and refusal.wait > self.judge.patience_seconds:
            return f"it asks to wait {duration(refusal.wait)}"
        reason = (
            "which load does not explain" if ticket.evidence.odds < IMPROBABLE else "for longer than judge.call_seconds"
        )
        return f"refused {ticket.refusals} times, {reason}"

    def _gives_way(self, manner: requests.Manner, refusal: Refusal) -> bool:
        """Leave out the refused format or parameter from now on; return whether anything changed."""
        # Calls in flight together are refused together; the first of them has changed the manner for all.
        if self._manner == manner:
            self._manner = requests.give_way(manner, refusal.words, refusal.param) or manner
        return self._manner != manner

    def _check_refused(self, refusal: Refusal, words: str, sample: str) -> None:
        """Raise JudgeStopped if the endpoint refuses all calls, not only this one."""
        if refusal.kind in ("denied", "absent"):
            self._denied.add(sample)
        several = len(self._denied) >= MOST_DENIED
        if several or refusal.kind == "quota" or words.startswith("401"):
            # `from None`: a traceback in a log would show the error's words, which may quote the key.
            refuses = self._masked(f"{self._who()} refuses all calls ({words})")
            raise JudgeStopped(refuses + self._advice(words)) from None

    def _advice(self, words: str) -> str:
        """Return how to mend a refusal that is about the key or the address; empty if that is not known."""
        if words.startswith("401"):
            return no_key_words(self.judge)
        if words.startswith("404") and not urlsplit(self.judge.base_url).path.strip("/"):
            return "; judge.base_url has no path, and most servers want /v1 at its end"
        return ""

    def _check_first_calls(self, reply: Reply) -> None:
        """Raise JudgeStopped if all first calls ended in the same error, other than a busy judge."""
        self._first_errors.append(reply.error.partition(":")[0])  # the status, or the words before details
        if len(self._first_errors) >= FIRST_CALLS and len(set(self._first_errors)) == 1:
            verb = "refuses all calls" if reply.status == "rejected" else "answers no call"
            raise JudgeStopped(f"{self._who()} {verb} ({reply.error})")

    async def _failed(self, ticket: Ticket, reply: Reply, unreachable: bool = False) -> Reply | None:
        """Return the reply of a call whose attempts are used up; None if it is sent again.

        Args:
            unreachable: there was no connection.
        """
        if unreachable and not self._there:
            raise JudgeStopped(f"{self._who()} cannot be reached: {self._masked(reply.error)}") from None
        counts = await self.gate.failed(ticket, self._masked(reply.error))
        ticket.failures += counts
        if ticket.failures == MOST_FAILURES or ticket.silences == MOST_SILENCES:
            return reply
        if counts:
            pause = RETRY_SECONDS * 2 ** (ticket.failures - 1)
            ticket.not_before = time.monotonic() + pause * random.uniform(0.5, 1.5)
        else:
            ticket.wait(0.0)
        return None

    async def probe(self, request: Request) -> Reply:
        """Ask one cheap question to find faults that would fail every call; repeated calls share its reply.

        Raises:
            JudgeStopped: as in `ask`; also if the endpoint refuses the question, cannot be reached, or gives none of
                the probabilities that were asked for.
        """
        if self._probing is None:
            self._ready = request
            self._probing = asyncio.create_task(self._probe(request))
        return await asyncio.shield(self._probing)

    async def _probe(self, request: Request) -> Reply:
        reply = await self._asked(request, self.gate.join(""))
        self._asides.append((request, reply))
        needed = request.needs_probabilities and f"; {request.needs_probabilities}"
        if reply.status == "rejected":
            why = f"{reply.error}{needed}{self._advice(reply.error)}"
            raise JudgeStopped(f"{self._who()} refuses the first question: {why}")
        words = (bare_word(token).casefold() for token, _ in reply.alternatives)
        if needed and reply.status != "unavailable" and YES not in words:
            raise JudgeStopped(f"{self._who()} gives no probabilities of the first word of its reply{needed}")
        return reply

    def take_asides(self) -> list[tuple[Request, Reply]]:
        """Return the small questions since the last call of this method, and their replies. They may be billed."""
        taken, self._asides = self._asides, []
        return taken

    async def _knock(self) -> Sign:
        """Ask the first question again, outside the queue; a refusal is an answer, unless "busy" or "unavailable"."""
        question, began = self._ready or probe_request(), time.monotonic()
        try:
            reply, _ = await self._send(question, self._manner)
        except APIStatusError as error:
            kind = _refusal(error).kind
            return "busy" if kind == "busy" else "silent" if kind == "unavailable" else "answered"
        except (APIConnectionError, TimeoutError) as error:
            if _timed_out(error):
                self._asides.append((question, Reply("unavailable", timed_out=1)))
            return "silent"
        self._asides.append((question, reply._replace(seconds=round(time.monotonic() - began, 3))))
        return "answered"

    def body(self, request: Request) -> requests.Body:
        """Return the body of a call with this question, in the format that the endpoint accepts."""
        return requests.body(self.judge, request, self._manner)

    @property
    def manner(self) -> tuple[str, tuple[str, ...]]:
        """Reply format in use and parameters left out, as recorded in a reply."""
        return requests.RUNGS[self._manner.rung], tuple(sorted(self._manner.left_out))

    def read(self, status: int, body: bytes) -> Reply:
        """Return the reply to a question of a batch, from the status and body that a call of its own would have.

        Args:
            body: masked by `mask`, without the key.
        """
        if status == HTTPStatus.OK:
            reply = read_completion(body)
        else:
            refusal = read_refusal(status, {}, body)
            words = f"{status}: {refusal.words}"
            reply = Reply(_KEPT_AS.get(refusal.kind, "unavailable"), body.decode("utf-8", "replace"), words)
        return reply._replace(text=well_formed(reply.text), error=well_formed(self._masked(reply.error)))

    def _masked(self, words: str) -> str:
        """Mask all keys, including short ones, in an error message, and shorten it."""
        return self.mask.words(words)[:MOST_WORDS]

    def _who(self) -> str:
        return f"The judge {self.judge.model} at {self.judge.base_url}"


def _refusal(error: APIStatusError) -> Refusal:
    return read_refusal(error.status_code, error.response.headers, error.response.content)


def _no_reply(error: APIConnectionError | TimeoutError, judge: Judge) -> tuple[str, bool]:
    """Return the reason why no reply came, and whether there was no connection."""
    cause = error.__cause__
    if _timed_out(error):
        return f"no whole reply within {judge.timeout_seconds:g} s", False
    if _was_reset(error):
        return "the connection was reset", False
    absent = isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout)
    kind = "no connection" if absent else "the connection was lost"
    return f"{kind}: {cause or error}", absent


def _was_reset(error: BaseException | None) -> bool:
    """Return whether the other side reset the connection; libraries wrap that error in others."""
    while error and "ConnectionResetError" not in repr(error):  # some libraries only quote it
        error = error.__cause__ or error.__context__
    return error is not None


def _timed_out(error: APIConnectionError | TimeoutError) -> bool:
    """Return whether the question probably arrived and the reply did not."""
    if isinstance(error, APITimeoutError):
        return not isinstance(error.__cause__, httpx2.ConnectTimeout)
    return isinstance(error, TimeoutError)
