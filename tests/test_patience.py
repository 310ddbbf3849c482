"""What a page asked for is tried again while the database is busy, and nothing else is."""

import asyncio
import json
import sqlite3
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from served import headers

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


def test_a_page_waits_while_the_database_of_a_server_is_locked(prefect_server: str) -> None:
    with urllib.request.urlopen(f"{prefect_server}/admin/settings", timeout=120) as reply:
        [database] = Path(json.load(reply)["home"]).glob("*.db")
    own = headers(prefect_server)

    def saved(path: str, method: str, asking: dict[str, str]) -> int:
        body = json.dumps({"name": "locked", "value": 1}).encode()
        asked = urllib.request.Request(f"{prefect_server}{path}", body, {**own, **asking}, method=method)
        try:
            with urllib.request.urlopen(asked, timeout=60) as reply:
                return reply.status
        except urllib.error.HTTPError as error:
            return error.code

    assert saved("/variables/", "POST", {}) == 201
    change = "/variables/name/locked", "PATCH"
    with closing(sqlite3.connect(database, isolation_level=None)) as other, ThreadPoolExecutor(1) as pages:
        other.execute("BEGIN IMMEDIATE")
        page = pages.submit(saved, *change, {"sec-fetch-mode": "cors"})
        assert [saved(*change, {}) for _ in range(3)] == [BUSY] * 3, "a program asks again itself"
        assert not page.done()
        other.execute("COMMIT")
        assert page.result() == 204
