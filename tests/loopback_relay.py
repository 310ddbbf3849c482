"""A relay before a Prefect server that hangs, disappears or loses answers on request; the server keeps running."""

import socket
import socketserver
import threading
from contextlib import suppress
from math import inf
from urllib.parse import urlsplit


class LoopbackRelay(socketserver.ThreadingTCPServer):
    """Relays requests and answers on 127.0.0.1, inside a `with`."""

    daemon_threads = True

    def __init__(self, api: str, lost: bytes = b"", port: int = 0, times: float = inf) -> None:
        """Set up a relay. `lost`: part of a request whose answer is lost, with the connection; `times`: how often."""
        super().__init__(("127.0.0.1", port), _Connection)
        self.server_port = urlsplit(api).port
        self.api = f"http://127.0.0.1:{self.server_address[1]}/api"
        self.lost, self.times = lost, times
        self.losses = 0
        self.asked: list[bytes] = []
        self.open: list[socket.socket] = []
        self.speaks = threading.Event()
        self.speaks.set()

    def hang(self) -> None:
        """Keep accepting requests from now on, without answering."""
        self.speaks.clear()

    def go_away(self) -> None:
        """Disappear as after `kill -9`: connections are cut, new ones refused."""
        self.shutdown()
        self.server_close()
        self._cut()

    def _cut(self) -> None:
        for each in self.open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> "LoopbackRelay":
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.go_away()
        self.speaks.set()


class _Connection(socketserver.BaseRequestHandler):
    server: LoopbackRelay

    def handle(self) -> None:
        client: socket.socket = self.request
        with socket.create_connection(("127.0.0.1", self.server.server_port)) as there:
            self.server.open += [client, there]
            asking = threading.Thread(target=self._ask, args=(client, there), daemon=True)
            asking.start()
            self._pass_on(there, client)
            asking.join()

    def _ask(self, client: socket.socket, there: socket.socket) -> None:
        asked = b""
        with suppress(OSError):
            while data := client.recv(2**16):
                self.server.asked.append(data[:100])
                asked = asked[-(2**12) :] + data
                lost = self.server.losses < self.server.times and self.server.lost and self.server.lost in asked
                if lost:
                    self.server.losses += 1
                    client.shutdown(socket.SHUT_RDWR)  # before passing it on: a quick answer would not be lost
                there.sendall(data)
                if lost:
                    return
        with suppress(OSError):
            there.shutdown(socket.SHUT_RDWR)

    def _pass_on(self, there: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := there.recv(2**16):
                self.server.speaks.wait()
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)
