"""What of the worker's environment decides how a judge is reached, and what of it reaches which judge."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from loopback_judge import LoopbackJudge
from loopback_proxy import LoopbackProxy, own_certificate

from tasks.endpoint.client import Vlm
from tasks.endpoint.completion import Reply
from tasks.endpoint.requests import probe_request
from tasks.errors import JudgeStopped
from tasks.parameters import Judge

FOREIGN = "0.0.0.0"
"""This machine under a name that is none of loopback; asked for, never bound."""
KEY = "sk-for-openai-only"


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def proxy(loopback: LoopbackJudge) -> Iterator[LoopbackProxy]:
    with LoopbackProxy(loopback.base_url) as between:
        yield between


def ask(base_url: str, **settings: object) -> Reply:
    async def scene() -> Reply:
        async with Vlm(Judge(model="m", base_url=base_url, timeout_seconds=5, **settings)) as vlm:  # pyright: ignore
            return await vlm.ask(probe_request())

    return asyncio.run(scene())


def at(judge: LoopbackJudge, host: str, scheme: str = "http") -> str:
    return f"{scheme}://{host}:{urlsplit(judge.base_url).port}/v1"


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_a_judge_is_asked_through_the_proxy_of_the_environment(
    variable: str, loopback: LoopbackJudge, proxy: LoopbackProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, proxy.url)
    assert ask(at(loopback, FOREIGN)).status == "ok"
    [seen] = proxy.seen
    assert seen.startswith(f"POST {at(loopback, FOREIGN)}/chat/completions HTTP/1.1") and loopback.count == 1


@pytest.mark.parametrize("excepted", [FOREIGN, "*", f"other.example, {FOREIGN}"])
def test_a_host_may_be_excepted_from_the_proxy(
    excepted: str, loopback: LoopbackJudge, proxy: LoopbackProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    monkeypatch.setenv("NO_PROXY", excepted)
    assert ask(at(loopback, FOREIGN)).status == "ok"
    assert proxy.seen == [] and loopback.count == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost"])
def test_a_judge_on_this_machine_is_never_asked_through_a_proxy(
    host: str, loopback: LoopbackJudge, proxy: LoopbackProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(variable, proxy.url)
    if host == "127.0.0.2":  # the test's judge listens at 127.0.0.1 alone
        with pytest.raises(JudgeStopped, match="cannot be reached"):
            ask(at(loopback, host))
    else:
        assert ask(at(loopback, host)).status == "ok"
    assert proxy.seen == []


def test_a_certificate_of_ones_own_is_trusted_where_the_environment_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through a proxy, which sees no more than which host is asked for: the key is encrypted beyond it."""
    certificate, tls = own_certificate(tmp_path, FOREIGN)
    monkeypatch.setenv("JUDGE_KEY", KEY)
    monkeypatch.setenv("JURY_ENDPOINTS", f"{FOREIGN}=JUDGE_KEY")
    monkeypatch.delenv("SSL_CERT_FILE")
    with LoopbackJudge(tls=tls) as judge, LoopbackProxy(judge.base_url) as between:
        monkeypatch.setenv("HTTPS_PROXY", between.url)
        with pytest.raises(JudgeStopped, match="CERTIFICATE_VERIFY_FAILED"):
            ask(at(judge, FOREIGN, "https"))
        assert judge.count == 0
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert ask(at(judge, FOREIGN, "https")).status == "ok"
    assert judge.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert all(head.startswith(f"CONNECT {FOREIGN}:") and KEY not in head for head in between.seen)


OPENAI_ONLY = {
    "OPENAI_API_KEY": KEY,
    "OPENAI_ADMIN_KEY": "sk-admin",
    "OPENAI_ORG_ID": "org-ours",
    "OPENAI_PROJECT_ID": "proj-ours",
    "OPENAI_WEBHOOK_SECRET": "whsec-ours",
    "OPENAI_CUSTOM_HEADERS": "X-Ours: custom-ours\nauthorization: Bearer custom-ours\nOpenAI-Beta: beta-ours",
}


@pytest.fixture
def openai_account(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in OPENAI_ONLY.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("openai_account")
@pytest.mark.parametrize("key", ["", "mine"])
def test_what_the_environment_holds_for_openai_goes_to_no_other_host(
    key: str, loopback: LoopbackJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", key)
    monkeypatch.setenv("JURY_ENDPOINTS", "127.0.0.1=MY_KEY" if key else "")
    assert ask(loopback.base_url).status == "ok"
    headers = loopback.requests[0].headers
    assert headers["authorization"] == f"Bearer {key or 'none'}"
    assert not {"openai-organization", "openai-project", "openai-beta", "x-ours"} & headers.keys()
    assert not [value for value in headers.values() if "ours" in value or "sk-" in value]


@pytest.mark.usefixtures("openai_account")
def test_openai_itself_gets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate, tls = own_certificate(tmp_path, "api.openai.com")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Ours: custom-ours")
    with LoopbackJudge(tls=tls) as judge, LoopbackProxy(judge.base_url) as between:
        monkeypatch.setenv("HTTPS_PROXY", between.url)
        assert ask("https://api.openai.com/v1").status == "ok"
    headers = judge.requests[0].headers
    assert headers["authorization"] == f"Bearer {KEY}"
    assert (headers["openai-organization"], headers["openai-project"]) == ("org-ours", "proj-ours")
    assert headers["x-ours"] == "custom-ours"


def test_headers_that_are_asked_for_are_sent_with_values_from_the_environment(
    loopback: LoopbackJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEAM_NAME", "blue\n")
    monkeypatch.setenv("ORGANIZATION", "org-of-the-gateway")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-ours")
    monkeypatch.setenv("JURY_ENDPOINTS", "127.0.0.1=TEAM_NAME,127.0.0.1=ORGANIZATION")
    named = {"X-Team": "TEAM_NAME", "openai-organization": "ORGANIZATION"}
    assert ask(loopback.base_url, headers=named).status == "ok"
    headers = loopback.requests[0].headers
    assert (headers["x-team"], headers["openai-organization"]) == ("blue", "org-of-the-gateway")
    assert headers["authorization"] == "Bearer none"
