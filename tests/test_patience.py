"""What a page asked for is tried again while the database is busy, and nothing else is."""

import asyncio
from typing import Any

import pytest

from flows.runtime import patience
from flows.runtime.patience import BUSY, PAUSES, patient

PAGE = [(b"sec-fetch-mode", b"cors")]
PARTS = [b'{"cron": ', b'"0 3 * * *"}']


class Busy:
    """A server whose database is busy for the first requests."""

    def __init__(self, times: int) -> None:
        self.times, self.bodies = times, list[bytes]()

    async def __call__(self, _scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        self.bodies.append(body)
        status = BUSY if len(self.bodies) <= self.times else 204
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b"busy" if status == BUSY else b""})


def told(server: Busy, headers: list[tuple[bytes, bytes]]) -> list[Any]:
    """What is sent in answer to one request, whose body comes in two parts."""
    sent: list[Any] = []
    parts = [{"type": "http.request", "body": part, "more_body": part is PARTS[0]} for part in PARTS]

    async def receive() -> Any:
        return parts.pop(0)

    async def send(message: Any) -> None:
        sent.append(message.get("status", message.get("body")))

    asyncio.run(patient(server)({"type": "http", "headers": headers}, receive, send))  # pyright: ignore
    return sent


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "PAUSES", (0.0,) * len(PAUSES))


def test_a_page_is_answered_once_the_database_is_free() -> None:
    server = Busy(3)
    assert told(server, PAGE) == [204, b""]
    assert server.bodies == [b"".join(PARTS)] * 4


def test_a_page_is_told_in_the_end_that_the_database_stays_busy() -> None:
    server = Busy(99)
    assert told(server, PAGE) == [BUSY, b"busy"]
    assert len(server.bodies) == len(PAUSES) + 1


def test_a_program_asks_again_itself() -> None:
    server = Busy(1)
    assert told(server, [(b"user-agent", b"prefect")]) == [BUSY, b"busy"]
    assert len(server.bodies) == 1
