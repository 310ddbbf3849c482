"""HTTP connections to a judge over aiohttp, at half the processor time of httpx2's own, with httpx2's errors.

Response bodies are read up to a size limit, without the key.
"""

import os
from collections.abc import Generator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import httpx2
from openai import AsyncOpenAI, DefaultAioHttpClient, DefaultAsyncHttpxClient, Omit

from tasks.endpoint.api_keys import is_loopback
from tasks.endpoint.masking import Mask
from tasks.parameters import EMBEDDED, Judge

OPENAI = "api.openai.com"
CONNECT_SECONDS = 10.0
FILE_SECONDS = 300.0
"""Longest silence in seconds while a file is sent or fetched."""
LONGEST_REPLY = 4_000_000
"""Most bytes of a reply, after decompression; the rest is not read, and the connection is closed."""
LONGEST_ERROR = 1_000_000
"""Most bytes of a response with any other status than success."""
KEPT = 20_000
"""Bytes kept of a longer body, from its beginning."""

_PROBLEM = "image_jury_problem"
_OF_THE_WIRE = {b"content-encoding", b"content-length", b"transfer-encoding"}


def connected(judge: Judge, key: str, headers: Mapping[str, str], mask: Mask) -> AsyncOpenAI:
    """Return a client of the judge's endpoint; `headers` go with every call, and `mask` masks replies."""
    host = urlsplit(judge.base_url).hostname or ""
    if judge.base_url == EMBEDDED:
        from tasks.demo.pixel_judge import respond  # half a second that other judges do not need

        base_url, http = "http://embedded/v1", Connections(mask, transport=httpx2.MockTransport(respond))
    else:
        limits = httpx2.Limits(max_connections=judge.concurrency)
        # A redirect would carry pictures and texts to an unlisted host.
        base_url, http = judge.base_url, Connections(mask, limits=limits, follow_redirects=False, mounts=_mounts(host))
    return _client(base_url, judge.timeout_seconds, http, key, _headers(host, key, headers))


def connected_for_files(judge: Judge, key: str, headers: Mapping[str, str], mask: Mask) -> AsyncOpenAI:
    """Return a client for the endpoint's files, which are larger than any reply and therefore streamed."""
    host = urlsplit(judge.base_url).hostname or ""
    http = FileConnections(mask, follow_redirects=False, mounts=_mounts(host))
    return _client(judge.base_url, FILE_SECONDS, http, key, _headers(host, key, headers))


def _client(
    base_url: str, seconds: float, http: httpx2.AsyncClient, key: str, headers: Mapping[str, Any]
) -> AsyncOpenAI:
    """Return a client without retries: they would use up attempts while a judge is busy, and pay twice for a batch."""
    timeout = httpx2.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds))
    return AsyncOpenAI(
        api_key=key or "none",
        base_url=base_url,
        timeout=timeout,
        max_retries=0,
        http_client=http,
        default_headers=headers,
    )


def _mounts(host: str) -> dict[str, httpx2.AsyncBaseTransport | None] | None:
    """Return mounts without a proxy for a loopback host, which no proxy elsewhere can reach; else None."""
    return {f"all://{f'[{host}]' if ':' in host else host}": None} if is_loopback(host) else None


def _headers(host: str, key: str, headers: Mapping[str, str]) -> dict[str, Any]:
    """Return the headers of every call; the client's headers for OpenAI from the environment go to no other host."""
    if host == OPENAI:
        return {**headers}
    custom = (line.partition(":")[0].strip() for line in os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n"))
    left_out = dict.fromkeys(("OpenAI-Organization", "OpenAI-Project", *filter(None, custom)), Omit())
    return {**left_out, "Authorization": f"Bearer {key or 'none'}", **headers}


class Connections(DefaultAioHttpClient):
    """An httpx2 client over aiohttp; its responses have their body in memory, whole or cut, without the key."""

    def __init__(self, mask: Mask, **options: Any) -> None:
        super().__init__(**options)
        self._mask = mask

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request and read the response of any status up to the size limit.

        Raises:
            httpx2.TransportError: no response came, or it broke off; ConnectError or ConnectTimeout: no connection.
        """
        options["stream"] = True
        with _named_as_httpx2_does():
            response = await super().send(request, **options)
            try:
                return await _bounded(response, self._mask)
            finally:
                await response.aclose()


class FileConnections(DefaultAsyncHttpxClient):
    """An httpx2 client with masked responses, except for streamed files: the reader of their lines masks those."""

    def __init__(self, mask: Mask, **options: Any) -> None:
        super().__init__(**options)
        self._mask = mask

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request, and read the response up to the size limit unless it is streamed."""
        streamed, options["stream"] = options.get("stream"), True
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
    if _fits(response.headers, longest):
        whole = await response.aread()
        content = mask.body(whole)
        as_it_came = content == whole and not response.has_redirect_location  # messages show no other header
        return response if as_it_came else _made(response, content, mask)
    return await _read(response, longest, mask)


def problem(response: httpx2.Response) -> str:
    """Return the reason why a response's body is incomplete; empty if it is whole."""
    return response.extensions.get(_PROBLEM, "")


def _fits(headers: httpx2.Headers, longest: int) -> bool:
    """Return whether the headers announce a short, uncompressed body; the connection delivers no more bytes."""
    length = headers.get("content-length", "")
    return "content-encoding" not in headers and length.isdecimal() and int(length) <= longest


async def _read(response: httpx2.Response, longest: int, mask: Mask) -> httpx2.Response:
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
    return _made(response, kept, mask, found)


def _made(response: httpx2.Response, content: bytes, mask: Mask, found: str = "") -> httpx2.Response:
    """Return a copy of a response with this content, and with masked headers."""
    headers = [(name, mask.body(value)) for name, value in response.headers.raw if name.lower() not in _OF_THE_WIRE]
    return httpx2.Response(
        response.status_code,
        headers=headers,
        content=content,
        request=response.request,
        extensions={**response.extensions, _PROBLEM: found},
    )
