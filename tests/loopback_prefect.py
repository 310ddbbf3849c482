"""A Prefect server on 127.0.0.1 that knows one concurrency limit, and the bad habits of real servers.

Owns the wire. `answer` decides from method and path what is said; `good` says what a server in order does.
"""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self
from uuid import UUID, uuid4

LIMIT: dict[str, Any] = {"id": str(UUID(int=1)), "name": "jury", "limit": 8, "active": True, "active_slots": 0}


class Said(NamedTuple):
    """One answer."""

    status: int = 200
    body: bytes | None = b"null"
    """None: the connection is closed without an answer."""
    hangs: bool = False
    """Nothing is said until the server is stopped."""
    raw: bytes = b""
    """Said instead of anything in HTTP, and the connection is closed."""


Answer = Callable[[str], Said]
"""Of a request such as `POST /v2/concurrency_limits/increment-with-lease`."""


def good(request: str) -> Said:
    """What a server says whose limit is free."""
    if request.endswith("/increment-with-lease"):
        return Said(body=json.dumps({"lease_id": str(uuid4()), "limits": [LIMIT]}).encode())
    return Said(body=json.dumps(LIMIT).encode())


class LoopbackPrefect:
    """Answers in threads of its own, for the length of a `with`."""

    def __init__(self, answer: Answer = good) -> None:
        self.answer = answer
        self.requests: list[str] = []
        self._over = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self.api = f"http://127.0.0.1:{self.port}/api"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _said(self, request: str) -> Said:
        if "/csrf-token" in request:
            return Said(404)
        self.requests.append(request)
        return self.answer(request)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                said = owner._said(f"{self.command} {self.path.removeprefix('/api')}")
                if said.hangs:
                    owner._over.wait(60)
                if said.body is None or said.hangs or said.raw:
                    self.wfile.write(said.raw)
                    self.close_connection = True
                    return
                self.send_response(said.status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(said.body)))
                self.end_headers()
                self.wfile.write(said.body)

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler
