"""S3 on loopback, by moto."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

Which = Callable[[str], bool]


def _none(_: str) -> bool:
    return False


class S3Server:
    """A server that records requests, can stop and start, and can lose replies or refuse requests."""

    def __init__(self) -> None:
        from moto.server import DomainDispatcherApplication, create_backend_app  # slow to import

        self._app = DomainDispatcherApplication(create_backend_app)
        self.requests: list[str] = []
        self._loses = self._refuses = _none
        self.port = 0
        self.start()

    @contextmanager
    def failing(self, loses: Which | None = None, refuses: Which | None = None) -> Iterator[None]:
        """Fail for a time. `loses`: whether a done request's reply is lost; `refuses`: whether a request is refused."""
        self._loses, self._refuses = loses or _none, refuses or _none
        try:
            yield
        finally:
            self._loses = self._refuses = _none

    def start(self) -> None:
        from werkzeug.serving import make_server

        self._server = make_server("127.0.0.1", self.port, self._answer, threaded=True)
        self.port = self._server.port
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(self, environ: dict[str, Any], respond: Callable[..., Any]) -> Any:
        request = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"
        self.requests.append(request)
        reply, body = ["503 Service Unavailable", [("Content-Length", "0")]], list[bytes]()
        if not self._refuses(request):
            done: list[Any] = []
            answer = list(self._app(environ, lambda *head: done.extend(head)))
            if not self._loses(request):
                reply, body = done, answer
        respond(*reply[:2])
        return body


def s3() -> Any:
    return _client(os.environ["AWS_ENDPOINT_URL"])


@cache
def _client(url: str) -> Any:
    import boto3

    return boto3.client("s3", endpoint_url=url)
