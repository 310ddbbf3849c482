"""Bodies of HTTP responses, read up to a bound: whatever a server sends, little of it gets into memory.

Owns the bound and what stands in the place of a body beyond it. What a body says is for `completion` to read.
"""

from contextlib import aclosing
from typing import Any

import httpx2
from openai import DefaultAsyncHttpxClient

LONGEST_REPLY = 4_000_000
"""Most bytes of a reply, after decompression. More is not read: the connection is closed."""
LONGEST_ERROR = 1_000_000
"""The same of what comes with any other status than success."""
KEPT = 20_000
"""Bytes kept of the beginning of a longer body."""

_PROBLEM = "image_jury_problem"
_OF_THE_WIRE = {b"content-encoding", b"content-length", b"transfer-encoding"}


class BoundedClient(DefaultAsyncHttpxClient):
    """The SDK's HTTP client; each of its responses has its body in memory, whole or cut."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request, and read the response of any status up to the bound.

        Raises:
            httpx2.TransportError: no response came, or it broke off.
        """
        options["stream"] = True
        response = await super().send(request, **options)
        longest = LONGEST_REPLY if response.is_success else LONGEST_ERROR
        try:
            if _fits(response.headers, longest):
                await response.aread()
                return response
            return await _read(response, longest)
        finally:
            await response.aclose()


def problem(response: httpx2.Response) -> str:
    """Why a response of this client has not its whole body, in words; empty where it has."""
    return response.extensions.get(_PROBLEM, "")


def _fits(headers: httpx2.Headers, longest: int) -> bool:
    """Whether the headers promise a short body as it is: the connection gives no more bytes than they say."""
    length = headers.get("content-length", "")
    return "content-encoding" not in headers and length.isdecimal() and int(length) <= longest


async def _read(response: httpx2.Response, longest: int) -> httpx2.Response:
    content, found = bytearray(), ""
    try:
        # httpx2 decompresses in pieces of at most 1 MiB, each when it is asked for.
        async with aclosing(response.aiter_bytes()) as pieces:
            async for piece in pieces:
                content += piece
                if len(content) > longest:
                    found = f"it is longer than {longest:,} bytes{_declared(response.headers)}"
                    break
    except httpx2.DecodingError as error:
        found = f"it cannot be decompressed: {error}"
    if found:
        content = content[:KEPT] + f"\n[The rest was not read: {found}]".encode()
    return httpx2.Response(
        response.status_code,
        headers=[(name, value) for name, value in response.headers.raw if name.lower() not in _OF_THE_WIRE],
        content=bytes(content),
        request=response.request,
        extensions={**response.extensions, _PROBLEM: found},
    )


def _declared(headers: httpx2.Headers) -> str:
    length = headers.get("content-length", "")
    return f", {int(length):,} as sent" if length.isdecimal() and len(length) < 20 else ""
