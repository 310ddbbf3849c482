"""Bodies of HTTP responses, read up to a bound: whatever a server sends, little of it gets into memory.

Owns the bound and what stands in the place of a body beyond it. What a body says is for `completion` to read.
"""

from contextlib import aclosing

import httpx2

LONGEST_REPLY = 4_000_000
"""Most bytes of a reply, after decompression. More is not read: the connection is closed."""
LONGEST_ERROR = 1_000_000
"""The same of what comes with any other status than success."""
KEPT = 20_000
"""Bytes kept of the beginning of a longer body."""

_PROBLEM = "image_jury_problem"
_OF_THE_WIRE = {b"content-encoding", b"content-length", b"transfer-encoding"}


async def bounded(response: httpx2.Response) -> httpx2.Response:
    """A streamed response with its body read, whole or cut at the bound. Who gave it closes it.

    Raises:
        httpx2.TransportError: it broke off.
    """
    longest = LONGEST_REPLY if response.is_success else LONGEST_ERROR
    if _fits(response.headers, longest):
        await response.aread()
        return response
    return await _read(response, longest)


def problem(response: httpx2.Response) -> str:
    """Why a bounded response has not its whole body, in words; empty where it has."""
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
