"""How requests travel to a judge: over aiohttp, at half of what httpx2's own connections cost the processor.

Owns the OpenAI client, its connections, what is sent with every call, and what becomes of errors on the way: under
httpx2's names, by which `client` knows what to say. How much of a response is read stands in `body`.
"""

import asyncio
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import httpx2
from openai import AsyncOpenAI, DefaultAioHttpClient, DefaultAsyncHttpxClient, Omit

from tasks.endpoint.api_keys import is_loopback
from tasks.endpoint.body import bounded
from tasks.parameters import EMBEDDED, Judge

OPENAI = "api.openai.com"
CONNECT_SECONDS = 10.0
"""Longest wait for a connection."""
FILE_SECONDS = 300.0
"""Longest silence while a file is sent or fetched."""


def connected(judge: Judge, key: str, headers: Mapping[str, str]) -> AsyncOpenAI:
    """A client of the judge's endpoint; `headers` go with every call."""
    host = urlsplit(judge.base_url).hostname or ""
    if judge.base_url == EMBEDDED:
        from tasks.embedded_judge.app import app as pixel_judge  # half a second that other judges do not need

        base_url, http = "http://embedded/v1", Connections(transport=httpx2.ASGITransport(app=pixel_judge))
    else:
        limits = httpx2.Limits(max_connections=judge.concurrency)
        # A redirect would carry pictures and texts to a host that nobody listed.
        base_url, http = judge.base_url, Connections(limits=limits, follow_redirects=False, mounts=_mounts(host))
    return AsyncOpenAI(
        api_key=key or "none",
        base_url=base_url,
        timeout=httpx2.Timeout(judge.timeout_seconds, connect=min(CONNECT_SECONDS, judge.timeout_seconds)),
        max_retries=0,  # they would spend attempts where the judge only asks to wait
        http_client=http,
        default_headers=_headers(host, key, headers),
    )


def connected_for_files(judge: Judge, key: str, headers: Mapping[str, str]) -> AsyncOpenAI:
    """A client of the same endpoint for its files, which are larger than any reply: they are streamed, never whole."""
    host = urlsplit(judge.base_url).hostname or ""
    return AsyncOpenAI(
        api_key=key or "none",
        base_url=judge.base_url,
        timeout=httpx2.Timeout(FILE_SECONDS, connect=CONNECT_SECONDS),
        max_retries=0,  # what is sent twice may be paid twice: who asks again looks first
        http_client=DefaultAsyncHttpxClient(follow_redirects=False, mounts=_mounts(host)),
        default_headers=_headers(host, key, headers),
    )


def _mounts(host: str) -> dict[str, httpx2.AsyncBaseTransport | None] | None:
    """No proxy elsewhere can reach this machine by its loopback address."""
    return {f"all://{f'[{host}]' if ':' in host else host}": None} if is_loopback(host) else None


def _headers(host: str, key: str, headers: Mapping[str, str]) -> dict[str, Any]:
    """What is sent with every call; of what the client finds for OpenAI in the environment, nothing to other hosts."""
    if host == OPENAI:
        return {**headers}
    custom = (line.partition(":")[0].strip() for line in os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n"))
    left_out = dict.fromkeys(("OpenAI-Organization", "OpenAI-Project", *filter(None, custom)), Omit())
    return {**left_out, "Authorization": f"Bearer {key or 'none'}", **headers}


class Connections(DefaultAioHttpClient):
    """An httpx2 client over aiohttp; each of its responses has its body in memory, whole or cut."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request, and read the response of any status up to the bound.

        Raises:
            httpx2.TransportError: no response came, or it broke off; ConnectError or ConnectTimeout where there was no
                connection at all.
        """
        options["stream"] = True
        with _named_as_httpx2_does():
            # A server that stops reading a request would be waited for without end: aiohttp has no limit for that.
            waits = request.extensions["timeout"]
            async with asyncio.timeout(waits["connect"] + waits["write"] + waits["read"]):
                response = await super().send(request, **options)
            try:
                return await bounded(response)
            finally:
                await response.aclose()


@contextmanager
def _named_as_httpx2_does() -> Generator[None]:
    """Correct what the adapter between the two calls a time-out of connecting, and name what it leaves unnamed."""
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
    except TimeoutError as error:
        raise httpx2.WriteTimeout("the request was not taken in time") from error
