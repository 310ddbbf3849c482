"""A judge on 127.0.0.1: a real HTTP server with just enough of Chat Completions, and the bad habits of real ones.

In a test: `with LoopbackJudge(answer) as judge`. Beside a benchmark: `with judge_process("--latency", "0.2") as judge`.
"""

import argparse
import asyncio
import inspect
import json
import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from http.client import responses
from typing import Any
from urllib.request import urlopen

from loopback_replies import Answer, Reply, Request, allowed_reply, drop, error, with_latency

MODEL = "loopback-judge-2026-01-01"
MOST_READ = 2**22
"""Bytes buffered per connection before reading pauses: more than a usual request, so that each is read at once."""


async def read_request(reader: asyncio.StreamReader) -> Request:
    """Return the next request of a connection; raise IncompleteReadError if the client has gone."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *fields = head.rstrip().split("\r\n")
    pairs = (entry.partition(":") for entry in fields)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    raw = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(line.rpartition(" ")[0], headers, raw, time.monotonic())


async def client_left(reader: asyncio.StreamReader, seconds: float) -> bool:
    """Return whether the client disconnects within this time; one that pipelines is disconnected, too."""
    try:
        async with asyncio.timeout(seconds):
            await reader.read(1)
        return True
    except TimeoutError:
        return False


async def send(writer: asyncio.StreamWriter, reply: Reply) -> bool:
    """Write the reply; return False if the connection ends here."""
    if reply.reset:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if reply.body is None:
        return False
    kind, body = content_of(reply)
    length = {"transfer-encoding": "chunked"} if reply.chunked else {"content-length": len(body) * reply.times}
    fields = "".join(f"{key}: {value}\r\n" for key, value in {"content-type": kind, **reply.headers, **length}.items())
    head = f"HTTP/1.1 {reply.status} {responses.get(reply.status, '')}\r\n{fields}\r\n"
    piece = b"%x\r\n%b\r\n" % (len(body), body) if reply.chunked else body
    writer.write(head.encode() + (body[: len(body) // 2] if reply.torn else piece))
    for _ in range(reply.times - 1):
        await asyncio.sleep(reply.pause)
        writer.write(piece)
        await writer.drain()
    writer.write(b"0\r\n\r\n" if reply.chunked else b"")
    await writer.drain()
    return not (reply.torn or reply.reset)


def content_of(reply: Reply) -> tuple[str, bytes]:
    """Return media type and bytes of a body."""
    if isinstance(reply.body, str):
        return "text/html", reply.body.encode()
    return "application/json", reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()


class LoopbackJudge:
    """Server of `POST /v1/chat/completions` and `GET /stats`, in its own thread, inside a `with`.

    Entered again, it has the same address.
    """

    root = "/v1"
    """Path of the API, the end of `base_url`."""

    def __init__(
        self,
        answer: Answer | None = None,
        *,
        model: str = MODEL,
        keep_requests: bool = True,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.answer = answer or allowed_reply()
        self.model = model
        self.base_url = ""
        self._port = 0
        self.keep_requests = keep_requests
        self.tls = tls
        # Only the server's thread writes these, each in one step, so other threads may read them at any time.
        self.requests: list[Request] = []
        self.by_name: Counter[str] = Counter()
        self.count = self.in_flight = self.peak = 0
        self._queue: deque[Reply] = deque()

    @property
    def place(self) -> str:
        """Host and port, in the form of JURY_ENDPOINTS."""
        return f"127.0.0.1:{self._port}"

    def queue(self, *replies: Reply) -> None:
        """Set the replies to the next requests, whatever they are; afterwards `answer` applies again."""
        self._queue.extend(replies)

    def stats(self) -> dict[str, Any]:
        counts = {"count": self.count, "peak": self.peak, "in_flight": self.in_flight}
        return {**counts, "by_name": dict(self.by_name), "cpu_seconds": time.process_time()}

    def __enter__(self) -> "LoopbackJudge":
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self.serve(self._port, ready.set)), daemon=True)
        self._thread.start()
        if not ready.wait(60):
            raise RuntimeError("the loopback judge did not start within a minute")
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._thread.join()

    def stop(self) -> None:
        """Stop the server, from any thread. After its loop has ended by itself, do nothing."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stopped.set)

    async def serve(self, port: int, started: Callable[[], object]) -> None:
        """Serve until `stop`. Open connections end with the loop: `asyncio.run` cancels the rest."""
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._serve, "127.0.0.1", port, limit=MOST_READ, backlog=1024, ssl=self.tls)
        self._port = server.sockets[0].getsockname()[1]
        self.base_url = f"{'https' if self.tls else 'http'}://127.0.0.1:{self._port}{self.root}"
        started()
        await self._stopped.wait()
        server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Cancelled when the judge stops, and must then end quietly: asyncio 3.11 fails on a connection left cancelled.
        quietly = suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError)
        with quietly, closing(writer):
            while await send(writer, await self._reply(await read_request(reader), reader)):
                pass

    async def _reply(self, request: Request, reader: asyncio.StreamReader) -> Reply:
        if request.line == "GET /stats":
            return Reply(self.stats())
        if request.line != f"POST {self.root}/chat/completions":
            return error(404, f"Nothing answers {request.line!r} here.")
        self._enter(request)
        try:
            reply = await self._decide(request)
            return drop() if reply.seconds and await client_left(reader, reply.seconds) else self._sign(reply)
        finally:
            # Before the reply is sent: the client's next request may arrive before this task runs again.
            self.in_flight -= 1

    def _enter(self, request: Request) -> None:
        self.count += 1
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        if self.keep_requests:
            self.requests.append(request)

    async def _decide(self, request: Request) -> Reply:
        try:
            self.by_name[request.schema_name] += 1
            reply = self._queue.popleft() if self._queue else self.answer(request)
            return await reply if inspect.isawaitable(reply) else reply
        except Exception as problem:
            return error(500, f"The loopback judge has no answer: {problem!r}")

    def _sign(self, reply: Reply) -> Reply:
        """Add id, date and model to a completion; values of the reply itself win."""
        if reply.status != 200 or not isinstance(reply.body, dict):
            return reply
        signature = {"id": f"chatcmpl-{self.count}", "object": "chat.completion", "created": int(time.time())}
        return replace(reply, body={**signature, "model": self.model, **reply.body})


@dataclass(frozen=True)
class JudgeProcess:
    """A judge in its own process, so that its work is not measured with the client's."""

    base_url: str
    popen: subprocess.Popen[bytes]

    def stats(self) -> dict[str, Any]:
        with urlopen(self.base_url.removesuffix("/v1") + "/stats", timeout=10) as response:
            return json.load(response)


@contextmanager
def judge_process(*options: str) -> Iterator[JudgeProcess]:
    """Start this file with these options; it ends when its standard input closes."""
    command = [sys.executable, __file__, *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as popen:
        yield JudgeProcess(json.loads(popen.stdout.readline())["base_url"], popen)


class HeldJudge(LoopbackJudge):
    """A judge that signals when it gets more than some number of questions, and holds those replies until allowed."""

    def __init__(self, at_once: int) -> None:
        super().__init__(self._answer)
        self._at_once = at_once
        self.asked, self.may_answer = threading.Event(), threading.Event()

    async def _answer(self, request: Request) -> Reply:
        if self.count > self._at_once:
            self.asked.set()
            await asyncio.to_thread(self.may_answer.wait, 300)
        return allowed_reply("Model")(request)


def judged_by(loopback: LoopbackJudge, **options: object) -> list[str]:
    """Return the options of `jury run` for this judge, and others."""
    given = {"judge.model": "m", "judge.base-url": loopback.base_url, "retry-delay-seconds": 0, **options}
    return [part for name, value in given.items() for part in (f"--{name}", str(value))]


def main() -> None:
    parser = argparse.ArgumentParser(description="Answers Chat Completions on 127.0.0.1 until standard input closes.")
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    parser.add_argument("--latency", type=float, default=0.0, help="median wait before a reply, seconds")
    parser.add_argument("--sigma", type=float, default=0.0, help="spread of the wait, in logarithms")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=600.0, help="ends by itself after so long")
    options = parser.parse_args()
    answer = with_latency(allowed_reply(), options.latency, options.sigma, options.seed)
    judge = LoopbackJudge(answer, keep_requests=False)

    def await_end_of_input() -> None:
        # Not sys.stdin: its lock, held by a daemon thread, would abort the interpreter at exit.
        while os.read(0, 4096):
            pass
        judge.stop()

    def started() -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, judge.stop)
        loop.call_later(options.seconds, judge.stop)
        threading.Thread(target=await_end_of_input, daemon=True).start()
        print(json.dumps({"base_url": judge.base_url, "pid": os.getpid()}), flush=True)

    asyncio.run(judge.serve(options.port, started))


if __name__ == "__main__":
    main()
