"""Endpoints of strangers: no key goes to an address that resembles a listed one, or is printed from a reply."""

import asyncio
import traceback
from contextlib import suppress

import httpx2
import pytest

from flows.server.server import for_servers
from tasks.endpoint.api_keys import find_key
from tasks.endpoint.client import Vlm
from tasks.endpoint.requests import probe_request
from tasks.errors import JudgeStopped
from tasks.records.judge import Judge

KEY = "sk-Vw8-do-not-keep-me"
LISTED = "judge.example=MY_KEY,127.0.0.1:8000=MY_KEY,[::1]:8000=MY_KEY"
HOSTS = {"judge.example", "127.0.0.1", "::1"}


@pytest.fixture(autouse=True)
def listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.setenv("JURY_ENDPOINTS", LISTED)


def key_for(base_url: str) -> str:
    return asyncio.run(find_key(Judge(model="m", base_url=base_url, api_key_env="MY_KEY")))  # pyright: ignore


OTHERS = [
    "https://judge.example@evil.example/v1", "https://judge.example:443@evil.example/v1",
    "https://judge.example\\@evil.example/v1", "https://evil.example\\@judge.example/v1",
    "https://evil.example#@judge.example/v1", "https://evil.example?@judge.example/v1",
    "https://evil.example/@judge.example/v1", "https://judge.example%2eevil.example/v1",
    "https://judge.example%00.evil.example/v1", "https://judge.example\t.evil.example/v1",
    "https://judge.example\n.evil.example/v1", "https://judge.example .evil.example/v1",
    "https://judge.example,evil.example/v1", "https://judge.example;evil.example/v1",
    "https://judge.example./v1", "https://judge.example:8443/v1", "https://judge.example:80/v1",
    "https://judge.example:443:8443/v1", "https://judge\uff0eexample.evil.example/v1", "https://jud\u0261e.example/v1",
    "https:judge.example/v1", "https:///judge.example/v1", "//judge.example/v1", "ftp://judge.example/v1",
    "http://judge.example/v1", "http://judge.example:443/v1",
    "http://127.0.0.1:8000.evil.example/v1", "http://127.0.0.1.evil.example:8000/v1",
    "http://0x7f000001:8000/v1", "http://2130706433:8000/v1", "http://127.1:8000/v1", "http://0177.0.0.1:8000/v1",
    "http://0.0.0.0:8000/v1", "http://[::ffff:127.0.0.1]:8000/v1", "http://[0:0:0:0:0:0:0:2]:8000/v1",
    "http://localhost:8000/v1", "http://127.0.0.1:08001/v1",
]  # fmt: skip
SAME = ["https://judge.example/v1", "https://JUDGE.example:443/v1", "http://127.0.0.1:8000/v1", "http://[::1]:8000/v1"]


@pytest.mark.parametrize("base_url", OTHERS)
def test_key_goes_to_no_address_that_resembles_a_listed_one(base_url: str) -> None:
    with pytest.raises(ValueError, match=r"."):  # from the check of the address or of the key
        key_for(base_url)


@pytest.mark.parametrize("base_url", SAME)
def test_client_parses_allowed_addresses_as_the_list_does(base_url: str) -> None:
    assert key_for(base_url) == KEY and httpx2.URL(base_url).host in HOSTS


def test_servers_get_no_keys_of_judges_and_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("MY_KEY", "OPENAI_API_KEY", "OPENAI_CUSTOM_HEADERS", "AWS_SECRET_ACCESS_KEY")
    for name in names:
        monkeypatch.setenv(name, KEY)
    assert KEY not in for_servers().values()


JSON = b"content-type: application/json\r\n"
WIRE = {
    "a status line": b"KEY\r\n\r\n",
    "a version": b"HTTP/KEY 200 OK\r\n\r\n",
    "a status": b"HTTP/1.1 KEY OK\r\n\r\n",
    "a header without a colon": b"HTTP/1.1 200 OK\r\nKEY\r\n\r\n",
    "the name of a header": b"HTTP/1.1 200 OK\r\nKEY KEY: KEY\r\n\r\n",
    "a content length": b"HTTP/1.1 200 OK\r\ncontent-length: KEY\r\n\r\n{}",
    "the size of a chunk": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nKEY\r\nKEY\r\n0\r\n\r\n",
    "a redirect": b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:9/KEY\r\ncontent-length: 0\r\n\r\n",
    "an invalid redirect": b"HTTP/1.1 302 Found\r\nlocation: http://[KEY\r\ncontent-length: 0\r\n\r\n",
    "an authentication challenge": b"HTTP/1.1 401 No\r\nwww-authenticate: KEY\r\ncontent-length: 3\r\n\r\nKEY",
    "a cookie": b"HTTP/1.1 403 No\r\nset-cookie: KEY=KEY\r\ncontent-length: 3\r\n\r\nKEY",
    "an error without an object": b"HTTP/1.1 400 No\r\n" + JSON + b'content-length: 14\r\n\r\n{"error":"KEY"',
    "a character set": b"HTTP/1.1 400 No\r\ncontent-type: text/plain; charset=KEY\r\ncontent-length: 3\r\n\r\nKEY",
    "a false character set": b"HTTP/1.1 400 No\r\ncontent-type: a/b; charset=utf-16\r\ncontent-length: 3\r\n\r\nKEY",
}


async def message_about(reply: bytes) -> str:
    """Ask an endpoint that answers every request with these bytes; return the client's message."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            await reader.readexactly(length)
            writer.write(reply.replace(b"KEY", KEY.encode()).replace(b"length: 3", b"length: %d" % len(KEY)))
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1")
    address = "{}:{}".format(*server.sockets[0].getsockname())
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("JURY_ENDPOINTS", f"{address}=MY_KEY")
        limits = {"timeout_seconds": 5, "call_seconds": 1, "patience_seconds": 1, "concurrency": 1}
        judge = Judge(model="m", base_url=f"http://{address}/v1", api_key_env="MY_KEY", **limits)  # pyright: ignore
        try:
            async with server, Vlm(judge) as vlm:
                return str(await vlm.ask(probe_request()._replace(name="about_a_sample")))
        except (JudgeStopped, RuntimeError) as error:
            return "".join(traceback.format_exception(error))


@pytest.mark.parametrize("reply", WIRE.values(), ids=WIRE)
def test_key_in_a_reply_is_not_printed(reply: bytes) -> None:
    words = asyncio.run(message_about(reply))
    assert words and KEY not in words
