"""The guard of a Prefect server: which requests it answers, and how it waits for a busy database."""

import asyncio
import json
import sqlite3
import urllib.error
import urllib.request
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path

import pytest
from served import headers as own_headers

from flows.server.server_process import HOSTS, LOOPBACK, Receive, Scope, Send, further_hosts, guarded

Headers = list[tuple[bytes, bytes]]
HOST = (b"host", b"127.0.0.1:8000")
OWN = (b"origin", b"http://127.0.0.1:8000")
FOREIGN = (b"origin", b"http://localhost:3000")


def site(name: str, dest: str = "empty") -> Headers:
    return [(b"sec-fetch-site", name.encode()), (b"sec-fetch-dest", dest.encode())]


async def send_guarded(kind: str, headers: Headers, pages: bool, method: str = "GET") -> list[str]:
    """Send a request or a WebSocket; return the events of the app, or of the guard in its place."""
    events: list[str] = []

    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        events.append("app")

    async def send(message: Scope) -> None:
        events.append(f"{message['type']} {message.get('status', message.get('code', ''))}".strip())

    async def receive() -> Scope:
        return {"type": "websocket.connect"}

    hosts = {*LOOPBACK, "jury.example"} if pages else {"127.0.0.1:8000"}
    await guarded(app, hosts, pages)({"type": kind, "headers": headers, "method": method}, receive, send)
    return events


@pytest.mark.parametrize(
    "headers",
    [
        [(b"host", b"evil.example:8000")],
        [(b"host", b"127.0.0.1.evil.example")],
        [(b"host", b"jury.example@evil.example")],
        [(b"host", b"127.0.0.1:8000.evil.example")],
        [(b"host", b"[::1]:8000.evil.example"), (b"origin", b"http://[::1]:8000.evil.example")],
        [(b"host", b"localhost:@evil.example:8000")],
        [(b"host", b"127.0.0.1:8000:8000")],
        [(b"host", b"127.0.0.1:8000\n")],
        [(b"host", b"localhost:123456")],
        [(b"host", b"jury.example:")],
        [(b"host", b"127.0.0.1:0x1f90")],
        [(b"host", b"evil.example"), (b"origin", b"http://evil.example")],
        [],
        [HOST, HOST],
        [HOST, (b"host", b"evil.example")],
        [HOST, FOREIGN],
        [HOST, (b"origin", b"null")],
        [HOST, (b"origin", b"http://localhost:8000")],
        [HOST, (b"origin", b"http://127.0.0.1")],
        [HOST, (b"origin", b"http://127.0.0.1:8000.evil.example")],
        [HOST, (b"origin", b"")],
        [HOST, OWN, FOREIGN],
        [HOST, *site("cross-site")],
        [HOST, *site("same-site", "image")],
        [HOST, *site("cross-site", "iframe")],
        [HOST, OWN, *site("same-origin"), *site("cross-site")],
    ],
)
@pytest.mark.parametrize("pages", [True, False])
def test_other_hosts_and_origins_are_refused(headers: Headers, pages: bool) -> None:
    assert asyncio.run(send_guarded("http", headers, pages)) == ["http.response.start 403", "http.response.body"]
    assert asyncio.run(send_guarded("websocket", headers, pages)) == ["websocket.close 1008"]


@pytest.mark.parametrize(
    "headers",
    [
        [HOST],
        [HOST, OWN],
        [HOST, OWN, *site("same-origin")],
        [HOST, *site("none", "document")],
        [HOST, *site("cross-site", "document")],
        [(b"host", b"localhost:4200"), (b"origin", b"http://localhost:4200")],
        [(b"host", b"LocalHost"), (b"origin", b"http://localhost")],
        [(b"host", b"[::1]:4200"), (b"origin", b"http://[::1]:4200")],
        [(b"host", b"jury.example"), (b"origin", b"https://jury.example")],
    ],
)
def test_programs_and_own_pages_are_answered(headers: Headers) -> None:
    assert asyncio.run(send_guarded("http", headers, pages=True)) == ["app"]


def test_cross_site_post_is_refused() -> None:
    assert asyncio.run(send_guarded("http", [HOST, *site("cross-site", "document")], True, "POST"))[0].endswith("403")


def test_server_without_pages_answers_only_programs_at_its_exact_address() -> None:
    assert asyncio.run(send_guarded("http", [HOST], pages=False)) == ["app"]
    assert asyncio.run(send_guarded("websocket", [HOST], pages=False)) == ["app"]
    assert asyncio.run(send_guarded("lifespan", [], pages=False)) == ["app"]
    for headers in (
        [HOST, OWN],
        [HOST, *site("same-origin")],
        [(b"host", b"127.0.0.1")],
        [(b"host", b"localhost:8000")],
    ):
        assert asyncio.run(send_guarded("http", headers, pages=False))[0].endswith("403")


def test_further_hosts_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HOSTS, raising=False)
    assert further_hosts() == set()
    monkeypatch.setenv(HOSTS, "Jury.Example, 10.0.0.7:8443,")
    assert further_hosts() == {"jury.example", "10.0.0.7:8443"}


def test_requests_wait_while_the_database_is_locked(prefect_server: str) -> None:
    with urllib.request.urlopen(f"{prefect_server}/admin/settings", timeout=120) as reply:
        [database] = Path(json.load(reply)["home"]).glob("*.db")
    own = own_headers(prefect_server)

    def save(path: str, method: str) -> int:
        body = json.dumps({"name": "locked", "value": 1}).encode()
        request = urllib.request.Request(f"{prefect_server}{path}", body, own, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.status
        except urllib.error.HTTPError as error:
            return error.code

    assert save("/variables/", "POST") == 201
    with closing(sqlite3.connect(database, isolation_level=None)) as other, ThreadPoolExecutor(3) as callers:
        other.execute("BEGIN IMMEDIATE")
        changes = [callers.submit(save, "/variables/name/locked", "PATCH") for _ in range(3)]
        assert not wait(changes, timeout=2, return_when=FIRST_COMPLETED).done
        other.execute("COMMIT")
        assert [change.result() for change in changes] == [204] * 3
