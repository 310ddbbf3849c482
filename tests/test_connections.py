"""Connections to a judge: how many, by which proxy and certificate, and which headers go to which judge."""

import asyncio
import gc
import json
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from loopback_judge import LoopbackJudge
from loopback_proxy import LoopbackProxy, own_certificate
from loopback_replies import Reply as Scripted
from loopback_replies import Request as Seen
from loopback_replies import allowed_reply

from tasks.endpoint.client import Vlm
from tasks.endpoint.replies import Reply
from tasks.endpoint.requests import PIECE_BYTES, Image, Manner, Request, body, probe_request
from tasks.errors import JudgeStopped
from tasks.records.judge import Judge

SCHEMA = {"type": "object", "properties": {"winner": {"type": "string", "enum": ["Model"]}}, "required": ["winner"]}
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def question(picture_bytes: int = 4) -> Request:
    return Request("Compare.", (Image("image/png", b"A" * picture_bytes),), "comparison", SCHEMA)


async def ask(address: str, calls: int = 1, about: Request | None = None, **settings: object) -> list[Reply]:
    async with Vlm(Judge(model="m", base_url=address, **settings)) as vlm:  # pyright: ignore
        return await asyncio.gather(*(vlm.ask(about or question()) for _ in range(calls)))


async def ask_server(serve: Serve, **settings: object) -> Reply:
    """Ask one question of a server that handles connections with `serve`; return the reply."""
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        [reply] = await ask(f"http://127.0.0.1:{port}/v1", **settings)
    return reply


def test_calls_in_flight_exceed_the_librarys_connection_limit(loopback: LoopbackJudge) -> None:
    all_here = asyncio.Event()

    async def held(seen: Seen) -> Scripted:
        if loopback.count > 300:  # by now the gate admits its maximum
            if loopback.in_flight == 130:
                all_here.set()
            await all_here.wait()
        return allowed_reply()(seen)

    loopback.answer = held
    replies = asyncio.run(ask(loopback.base_url, calls=450, concurrency=130))
    assert {reply.status for reply in replies} == {"ok"} and loopback.peak == 130


def test_server_that_does_not_speak_http_stops_the_run() -> None:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.6\r\n")
        await writer.drain()
        writer.close()

    with pytest.raises(JudgeStopped, match=r"has not answered for 1 s: the connection was (lost|reset)"):
        asyncio.run(ask_server(serve, patience_seconds=1))


# The loop ends with bytes unsent, and Python warns about the unclosed connections.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_server_that_never_reads_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        address = f"http://127.0.0.1:{deaf.getsockname()[1]}/v1"
        with pytest.raises(JudgeStopped, match=r"has not answered for 1 s: no whole reply within 0.3 s"):
            asyncio.run(ask(address, about=question(16_000_000), timeout_seconds=0.3, patience_seconds=1))
    gc.collect()


ENCODED = b"A" * (3 * PIECE_BYTES)
PICTURES = Image("image/png", ENCODED), Image("image/jpeg", ENCODED[:-8])
REQUEST = Request("Compare “these”.", ("a", PICTURES[0], "b", PICTURES[1]), "comparison", {"type": "object"})


def test_request_body_comes_in_pieces_and_can_be_sent_again() -> None:
    made = body(Judge(model="m", base_url="http://127.0.0.1:1/v1"), REQUEST, Manner())  # pyright: ignore

    async def sent() -> list[bytes]:
        return [bytes(piece) async for piece in made]

    first, again = asyncio.run(sent()), asyncio.run(sent())
    assert first == again and len(made) == len(b"".join(first)) and max(map(len, first)) <= PIECE_BYTES
    content = json.loads(b"".join(first))["messages"][1]["content"]
    pictures = [part["image_url"]["url"] for part in content if part["type"] == "image_url"]
    assert pictures == [f"data:{each.media_type};base64,{each.encoded.decode()}" for each in PICTURES]


def test_request_has_its_length_and_every_byte(loopback: LoopbackJudge) -> None:
    asyncio.run(ask(loopback.base_url, about=REQUEST))
    [seen] = loopback.requests
    assert "transfer-encoding" not in seen.headers and int(seen.headers["content-length"]) == len(seen.raw)
    assert b"data:image/png;base64," + ENCODED in seen.raw
    assert json.loads(seen.raw)["messages"][0]["content"] == "Compare “these”."


@pytest.mark.parametrize("size", [4, PIECE_BYTES + 4])
def test_embedded_judge_reads_a_body_in_pieces(size: int) -> None:
    async def ask() -> str:
        async with Vlm(Judge()) as vlm:  # pyright: ignore
            request = REQUEST._replace(content=(Image("image/png", b"A" * size),))
            return (await vlm.ask(request)).error

    # The last part of the request is the question's name: the judge has read all of it.
    assert "knows no 'comparison'" in asyncio.run(ask())


FOREIGN = "0.0.0.0"
"""This machine by a name outside loopback; a client connects to it, nothing binds to it."""
KEY = "sk-for-openai-only"


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def proxy(loopback: LoopbackJudge) -> Iterator[LoopbackProxy]:
    with LoopbackProxy(loopback.base_url) as running:
        yield running


def probe(base_url: str, **settings: object) -> Reply:
    [reply] = asyncio.run(ask(base_url, about=probe_request(), timeout_seconds=5, **settings))
    return reply


def url_at(judge: LoopbackJudge, host: str, scheme: str = "http") -> str:
    return f"{scheme}://{host}:{urlsplit(judge.base_url).port}/v1"


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_judge_is_asked_through_the_environments_proxy(
    variable: str, loopback: LoopbackJudge, proxy: LoopbackProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, proxy.url)
    assert probe(url_at(loopback, FOREIGN)).status == "ok"
    [seen] = proxy.seen
    assert seen.startswith(f"POST {url_at(loopback, FOREIGN)}/chat/completions HTTP/1.1") and loopback.count == 1


@pytest.mark.parametrize("excepted", [FOREIGN, "*", f"other.example, {FOREIGN}"])
def test_no_proxy_excepts_a_host(
    excepted: str, loopback: LoopbackJudge, proxy: LoopbackProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    monkeypatch.setenv("NO_PROXY", excepted)
    assert probe(url_at(loopback, FOREIGN)).status == "ok" and proxy.seen == [] and loopback.count == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost"])
def test_loopback_judge_is_never_asked_through_a_proxy(
    host: str, loopback: LoopbackJudge, proxy: LoopbackProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(variable, proxy.url)
    if host == "127.0.0.2":  # the test's judge listens at 127.0.0.1 only
        with pytest.raises(JudgeStopped, match="cannot be reached"):
            probe(url_at(loopback, host))
    else:
        assert probe(url_at(loopback, host)).status == "ok"
    assert proxy.seen == []


def test_own_certificate_is_trusted_when_configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request goes through a proxy, which sees only the host; the key is encrypted."""
    certificate, tls = own_certificate(tmp_path, FOREIGN)
    monkeypatch.setenv("JUDGE_KEY", KEY)
    monkeypatch.delenv("SSL_CERT_FILE")
    with LoopbackJudge(tls=tls) as judge, LoopbackProxy(judge.base_url) as between:
        monkeypatch.setenv("JURY_ENDPOINTS", f"{judge.place.replace('127.0.0.1', FOREIGN)}=JUDGE_KEY")
        monkeypatch.setenv("HTTPS_PROXY", between.url)
        with pytest.raises(JudgeStopped, match="CERTIFICATE_VERIFY_FAILED"):
            probe(url_at(judge, FOREIGN, "https"))
        assert judge.count == 0
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert probe(url_at(judge, FOREIGN, "https")).status == "ok"
    assert judge.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert all(head.startswith(f"CONNECT {FOREIGN}:") and KEY not in head for head in between.seen)


OPENAI_ONLY = {
    "OPENAI_API_KEY": KEY, "OPENAI_ADMIN_KEY": "sk-admin", "OPENAI_ORG_ID": "org-ours",
    "OPENAI_PROJECT_ID": "proj-ours", "OPENAI_WEBHOOK_SECRET": "whsec-ours",
    "OPENAI_CUSTOM_HEADERS": "X-Ours: custom-ours\nauthorization: Bearer custom-ours\nOpenAI-Beta: beta-ours",
}  # fmt: skip


@pytest.fixture
def openai_account(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in OPENAI_ONLY.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("openai_account")
@pytest.mark.parametrize("key", ["", "mine"])
def test_openai_settings_go_nowhere_else(key: str, loopback: LoopbackJudge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", key)
    monkeypatch.setenv("JURY_ENDPOINTS", f"{loopback.place}=MY_KEY" if key else "")
    assert probe(loopback.base_url).status == "ok"
    headers = loopback.requests[0].headers
    assert headers["authorization"] == f"Bearer {key or 'none'}"
    assert not {"openai-organization", "openai-project", "openai-beta", "x-ours"} & headers.keys()
    assert not [value for value in headers.values() if "ours" in value or "sk-" in value]


@pytest.mark.usefixtures("openai_account")
def test_openai_gets_its_own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, tls = own_certificate(tmp_path, "api.openai.com")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Ours: custom-ours")
    with LoopbackJudge(tls=tls) as judge, LoopbackProxy(judge.base_url) as between:
        monkeypatch.setenv("HTTPS_PROXY", between.url)
        assert probe("https://api.openai.com/v1").status == "ok"
    headers = judge.requests[0].headers
    assert headers["authorization"] == f"Bearer {KEY}"
    assert (headers["openai-organization"], headers["openai-project"]) == ("org-ours", "proj-ours")
    assert headers["x-ours"] == "custom-ours"


def test_headers_get_values_from_the_environment(loopback: LoopbackJudge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAM_NAME", "blue\n")
    monkeypatch.setenv("ORGANIZATION", "org-of-the-gateway")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-ours")
    monkeypatch.setenv("JURY_ENDPOINTS", f"{loopback.place}=TEAM_NAME,{loopback.place}=ORGANIZATION")
    named = {"X-Team": "TEAM_NAME", "openai-organization": "ORGANIZATION"}
    assert probe(loopback.base_url, headers=named).status == "ok"
    headers = loopback.requests[0].headers
    assert (headers["x-team"], headers["openai-organization"]) == ("blue", "org-of-the-gateway")
    assert headers["authorization"] == "Bearer none"
