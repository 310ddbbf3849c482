"""What a page of the server asked for is tried again while SQLite is busy: a person only sees that it took a moment.

Prefect begins a transaction as if it would only read. Where another has written by the time that it writes, SQLite
fails it at once, whatever its time-out, and Prefect answers 503. Its programs ask again then; its pages show an error.
Nothing of a failed transaction stays, so that it can be asked for anew.
"""

import asyncio
from collections.abc import MutableMapping
from typing import Any

from flows.runtime.guard import App, Receive, Scope, Send

PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Seconds before each new try."""
BUSY = 503

Message = MutableMapping[str, Any]


def patient(app: App) -> App:
    """The app that asks itself again where a page of a browser would be told that the database is busy."""

    async def asked(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _is_of_a_page(scope):
            return await app(scope, receive, send)
        body = await _whole(receive)
        for pause in PAUSES:
            if await _answered(app, scope, _again(body, receive), send):
                return None
            await asyncio.sleep(pause)
        return await app(scope, _again(body, receive), send)

    return asked


def _is_of_a_page(scope: Scope) -> bool:
    """Whether a browser asks: what it sends is small, and it says what it is for."""
    return any(name == b"sec-fetch-mode" for name, _ in scope["headers"])


async def _whole(receive: Receive) -> Message:
    """A request's body in one message."""
    parts, more = list[bytes](), True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return message
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return {"type": "http.request", "body": b"".join(parts), "more_body": False}


def _again(body: Message, receive: Receive) -> Receive:
    """A body that is received once more; what comes after it is the connection's."""
    messages = [body]

    async def received() -> Message:
        return messages.pop() if messages else await receive()

    return received


async def _answered(app: App, scope: Scope, receive: Receive, send: Send) -> bool:
    """Ask, and pass the answer on unless it is that the database is busy."""
    busy = False

    async def passed_on(message: Message) -> None:
        nonlocal busy
        busy = busy or (message["type"] == "http.response.start" and message["status"] == BUSY)
        if not busy:
            await send(message)

    try:
        await app({**scope}, receive, passed_on)
    except Exception:  # Starlette raises what it has answered once more, for the server's log
        if not busy:
            raise
    return not busy
