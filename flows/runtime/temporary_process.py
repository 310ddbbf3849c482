"""The process of a temporary Prefect server: `temporary_server` starts it, with the socket that it is to listen on.

It ends when its standard input does, in its own time or at the latest after `GRACE_SECONDS`. It answers programs of
this machine alone and no page of a browser: it has no UI.
"""

import gc
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from flows.runtime.prepared_database import give

GRACE_SECONDS = 5.0
"""For what it has been told to be written down, once it is to end."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def main(descriptor: int) -> None:
    """Serve on the socket of this number until standard input ends."""
    threading.Thread(target=_end_with_input, daemon=True).start()
    gc.disable()  # searching all that is imported, again and again, would be a quarter of the start
    give(Path(os.environ["PREFECT_HOME"]))
    listening = socket.socket(fileno=descriptor)
    host = "{}:{}".format(*listening.getsockname())

    import uvicorn
    from prefect.server.api.server import create_app

    app = for_programs(create_app(ephemeral=True, final=True), host)
    server = uvicorn.Server(
        uvicorn.Config(app, log_level="error", lifespan="on", timeout_graceful_shutdown=round(GRACE_SECONDS) - 2)
    )
    gc.freeze()
    gc.enable()
    server.run(sockets=[listening])


def for_programs(app: App, host: str) -> App:
    """The app for those who ask it by this address and are no page of a browser, which names its origin."""
    own = host.encode()

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope.get("headers", ()))
        if scope["type"] == "lifespan" or (headers.get(b"host") == own and b"origin" not in headers):
            await app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        else:
            await send({"type": "http.response.start", "status": 403, "headers": []})
            await send({"type": "http.response.body", "body": b"this server is for the program that started it"})

    return guarded


def _end_with_input() -> None:
    while os.read(0, 1):
        pass
    os.killpg(os.getpgrp(), signal.SIGTERM)  # the group is this server's own
    time.sleep(GRACE_SECONDS)
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]))
