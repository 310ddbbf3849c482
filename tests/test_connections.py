"""Connections to a judge: how many there may be, and what is said of those that fail."""

import asyncio
import gc
import socket
from collections.abc import Awaitable, Callable

import pytest
from loopback_judge import LoopbackJudge
from loopback_replies import Reply as Scripted
from loopback_replies import Request as Seen
from loopback_replies import allowed_reply, drop, hang, torn, verdict

from tasks.endpoint.client import Vlm
from tasks.endpoint.completion import Reply
from tasks.endpoint.requests import Image, Request
from tasks.errors import JudgeStopped
from tasks.parameters import Judge

SCHEMA = {"type": "object", "properties": {"winner": {"type": "string", "enum": ["Model"]}}, "required": ["winner"]}
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def question(picture_bytes: int = 4) -> Request:
    return Request("Compare.", (Image(b"data:image/png;base64," + b"A" * picture_bytes),), "comparison", SCHEMA)


async def ask(address: str, calls: int = 1, picture_bytes: int = 4, **settings: object) -> list[Reply]:
    judge = Judge(model="gpt-test", base_url=address, **settings)  # pyright: ignore
    async with Vlm(judge) as vlm:
        return await asyncio.gather(*(vlm.ask(question(picture_bytes)) for _ in range(calls)))


async def ask_server(serve: Serve) -> Reply:
    """The reply to one question to a server that treats each connection like this."""
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        [reply] = await ask(f"http://127.0.0.1:{port}/v1")
    return reply


def test_more_calls_are_in_flight_than_the_library_opens_connections_by_itself(loopback: LoopbackJudge) -> None:
    all_here = asyncio.Event()

    async def held(seen: Seen) -> Scripted:
        if loopback.count > 300:  # from here on the gate lets in as many as it may
            if loopback.in_flight == 130:
                all_here.set()
            await all_here.wait()
        return allowed_reply()(seen)

    loopback.answer = held
    replies = asyncio.run(ask(loopback.base_url, calls=600, concurrency=130))
    assert {reply.status for reply in replies} == {"ok"} and loopback.peak == 130


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (drop(), "the connection was lost"),
        (torn(verdict("Model")), "the connection was lost"),
        (hang(), "no reply within 1 s"),
    ],
)
def test_a_connection_that_fails_after_the_request_is_not_called_absent(
    loopback: LoopbackJudge, answer: Scripted, words: str
) -> None:
    loopback.answer = lambda _: answer
    [reply] = asyncio.run(ask(loopback.base_url, timeout_seconds=1))
    assert reply.status == "unavailable" and reply.error.startswith(words) and loopback.count == 3


def test_where_nobody_listens_there_is_no_connection() -> None:
    with LoopbackJudge() as gone:
        address = gone.base_url
    with pytest.raises(JudgeStopped, match="cannot be reached: no connection"):
        asyncio.run(ask(address))


def test_a_server_that_speaks_no_http_is_unavailable() -> None:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.6\r\n")
        await writer.drain()
        writer.close()

    reply = asyncio.run(ask_server(serve))
    assert reply.status == "unavailable" and reply.error.startswith("the connection was lost")


# What the server never takes is still to be written when the loop ends, and its connections are told as unclosed.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_server_that_never_reads_is_not_waited_for_without_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        address = f"http://127.0.0.1:{deaf.getsockname()[1]}/v1"
        [reply] = asyncio.run(ask(address, picture_bytes=16_000_000, timeout_seconds=0.3))
    gc.collect()
    assert reply.status == "unavailable" and reply.error.startswith("no reply within")
