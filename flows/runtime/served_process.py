"""Process of a Prefect server: `python -m flows.runtime.served_process [SOCKET [temporary]]`.

It is `prefect server start` behind a guard, and requests of its pages wait while the database is busy.
"""

import asyncio
import gc
import os
import socket
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from flows.runtime.guard import LOOPBACK, App, Receive, Scope, Send, guarded
from flows.runtime.lifeline import end_with_parent
from flows.runtime.prepared_database import give

HOSTS = "JURY_HOSTS"
"""Environment variable: further host names of the server, such as a proxy's, separated by commas."""
TEMPORARY = "temporary"
"""Argument of a server for one command: it starts no schedules, and answers no pages."""
END_SECONDS = 3
"""Seconds for open requests when the server ends."""
PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""Seconds before each retry while the database is busy."""
BUSY = 503

Message = MutableMapping[str, Any]


def main(inherited: str = "", kind: str = "") -> None:
    """Serve until a signal ends the process.

    Args:
        inherited: number of a listening socket; empty: it listens at the address in Prefect's settings.
        kind: `temporary`, or empty.
    """
    os.umask(0o077)  # the database holds the parameters of runs, and Prefect makes it for everybody to read
    end_with_parent()
    if inherited:
        give(Path(os.environ["PREFECT_HOME"]))
    gc.disable()  # bar `bench-cold`: repeated searches of all imported objects are an eighth of the start
    import uvicorn
    from prefect.server.api.server import create_app
    from prefect.settings import get_current_settings

    settings, temporary = get_current_settings().server, kind == TEMPORARY
    app = create_app(ephemeral=temporary, final=True)
    gc.enable()
    config = uvicorn.Config(
        guarded(retrying(app), {*LOOPBACK, *further_hosts()}, pages=not temporary),
        host=settings.api.host,
        port=settings.api.port,
        timeout_keep_alive=settings.api.keepalive_timeout,
        timeout_graceful_shutdown=END_SECONDS,
        ws_ping_interval=settings.api.websocket_ping_interval,
        ws_ping_timeout=settings.api.websocket_ping_timeout,
        log_level=settings.logging_level.lower(),
    )
    uvicorn.Server(config).run([socket.socket(fileno=int(inherited))] if inherited else None)


def further_hosts() -> set[str]:
    """Return the names from the environment, in lower case."""
    return {name.strip().lower() for name in os.environ.get(HOSTS, "").split(",") if name.strip()}


def retrying(app: App) -> App:
    """Return an app that repeats requests of a browser's page while SQLite is busy.

    Prefect begins a transaction as if it would only read. If another one writes before it does, SQLite fails it at
    once, with any time-out, and Prefect answers 503. Programs then ask again; pages show an error. A failed
    transaction leaves nothing behind. Bar *Supervision*, 100 actions in the UI beside six runs: without this the
    server refused 20, with it 2.
    """

    async def asked(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or all(name != b"sec-fetch-mode" for name, _ in scope["headers"]):
            return await app(scope, receive, send)
        body = await _whole(receive)
        for pause in PAUSES:
            if await _answered(app, scope, _again(body, receive), send):
                return None
            await asyncio.sleep(pause)
        return await app(scope, _again(body, receive), send)

    return asked


async def _whole(receive: Receive) -> Message:
    """Read a request's body into one message; a page sends little."""
    parts, more = list[bytes](), True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return message
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return {"type": "http.request", "body": b"".join(parts), "more_body": False}


def _again(body: Message, receive: Receive) -> Receive:
    """Return a receiver that gives the body once more, and then the messages of the connection."""
    messages = [body]

    async def received() -> Message:
        return messages.pop() if messages else await receive()

    return received


async def _answered(app: App, scope: Scope, receive: Receive, send: Send) -> bool:
    """Ask the app, and pass its answer on unless the database is busy; return whether it was passed on."""
    busy = False

    async def passed_on(message: Message) -> None:
        nonlocal busy
        busy = busy or (message["type"] == "http.response.start" and message["status"] == BUSY)
        if not busy:
            await send(message)

    try:
        await app({**scope}, receive, passed_on)
    except Exception:  # Starlette raises an answered error once more, for the server's log
        if not busy:
            raise
    return not busy


if __name__ == "__main__":
    main(*sys.argv[1:])
