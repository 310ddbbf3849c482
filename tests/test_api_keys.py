"""API keys: a key goes only to hosts listed for it, and is found in the environment or in a Secret block."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flows.server.server import secret_block
from tasks.endpoint.api_keys import Place, find_headers, find_key, is_loopback, key_names, listed_keys
from tasks.errors import JudgeStopped
from tasks.records.judge import Judge

LOOPBACK = "http://127.0.0.1:8000/v1"
ENDPOINTS = "127.0.0.1:8000={}"
"""Setting of a worker that allows a key on loopback."""


def key_for(base_url: str, named: str) -> str:
    model = "pixel-baseline" if base_url == "embedded" else "m"
    judge = Judge(model=model, base_url=base_url, api_key_env=named)  # pyright: ignore
    return asyncio.run(find_key(judge, secret_block))


@pytest.fixture
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)


@pytest.mark.parametrize(
    ("base_url", "named", "endpoints", "key"),
    [
        ("embedded", "", "", ""),
        (LOOPBACK, "", "", ""),
        (LOOPBACK, "MY_KEY", "127.0.0.1:8000=MY_KEY", "mine"),
        (LOOPBACK, "", "127.0.0.1:8000=MY_KEY", "mine"),
        (LOOPBACK, "", "127.0.0.1:8000", ""),
        ("http://127.0.0.1:80/v1", "", "127.0.0.1=MY_KEY", "mine"),
        ("http://[::1]:8000/v1", "", "[::1]:8000=MY_KEY", "mine"),
        ("http://[::1]/v1", "", "::1=MY_KEY", "mine"),
        ("https://judge.example:8443/v1", "MY_KEY", "judge.example:8443=MY_KEY", "mine"),
        ("https://judge.example/v1", "", "judge.example:443=MY_KEY", "mine"),
        ("https://api.openai.com/v1", "", "", "openai"),
        ("https://api.openai.com/v1", "MY_KEY", "api.openai.com:443=MY_KEY", "mine"),
        ("https://api.openai.com/v1", "", "api.openai.com=MY_KEY", "mine"),
        ("https://api.openai.com/v1", "OPENAI_API_KEY", "api.openai.com=MY_KEY", "openai"),
        ("https://judge.example/v1", "MY_KEY", "other.example=X, judge.example=MY_KEY", "mine"),
        ("http://vllm.example/v1", "", "", ""),
    ],
)
def test_key_is_found(base_url: str, named: str, endpoints: str, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "mine\n")
    monkeypatch.setenv("OPENAI_API_KEY", "openai")
    monkeypatch.setenv("JURY_ENDPOINTS", endpoints)
    assert key_for(base_url, named) == key


@pytest.mark.parametrize(
    ("base_url", "named", "endpoints", "words"),
    [
        ("https://evil.example/v1", "OPENAI_API_KEY", "", "may not go to evil.example"),
        ("https://api.openai.com/v1", "AWS_SECRET_ACCESS_KEY", "", "may not go to api.openai.com: listed for it"),
        ("https://api.openai.com:8443/v1", "OPENAI_API_KEY", "", "may not go to api.openai.com:8443: no key is listed"),
        ("https://judge.example/v1", "", "judge.example=A,judge.example=B", "set judge.api_key_env to one of A, B"),
        ("https://judge.example/v1", "", "judge.example=A,judge.example:443=B", "to one of A, B"),
        (LOOPBACK, "MY_KEY", "",
         r"may not go to 127.0.0.1:8000: no key .* allows it with JURY_ENDPOINTS=127.0.0.1:8000=MY_KEY$"),
        (LOOPBACK, "MY_KEY", "127.0.0.1=MY_KEY", "with JURY_ENDPOINTS=127.0.0.1=MY_KEY,127.0.0.1:8000=MY_KEY$"),
        (LOOPBACK, "MY_KEY", "127.0.0.1:8000", "may not go to 127.0.0.1:8000: no key is listed for it"),
        (LOOPBACK, "MY_KEY", "localhost:8000=MY_KEY", "may not go to 127.0.0.1:8000: no key is listed for it"),
        ("https://judge.example:8443/v1", "A", "judge.example=A", "may not go to judge.example:8443: no key is listed"),
        ("https://judge.example/v1", "A", "judge.example:8443=A", "JURY_ENDPOINTS=.*,judge.example=A$"),
        ("http://[::1]:8000/v1", "A", "::1=A", r"JURY_ENDPOINTS=::1=A,\[::1\]:8000=A$"),
        ("http://judge.example/v1", "", "judge.example=A",
         "over http, .*: begin judge.base_url with https://, or .* tunnel"),
        ("http://api.openai.com/v1", "", "", "OPENAI_API_KEY may not go to api.openai.com over http"),
    ],
)  # fmt: skip
def test_key_is_refused(base_url: str, named: str, endpoints: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JURY_ENDPOINTS", endpoints)
    monkeypatch.setenv("OPENAI_API_KEY", "openai")
    with pytest.raises(JudgeStopped, match=words):
        key_for(base_url, named)


@pytest.mark.parametrize(
    ("base_url", "endpoints", "words"),
    [
        ("embedded", "", ""),
        ("https://api.openai.com/v1", "", ""),
        ("https://judge.example/v1", "judge.example", ""),
        ("https://judge.example:8443/v1", "judge.example:8443=MY_KEY", ""),
        (LOOPBACK, "127.0.0.1:8000", ""),
        (LOOPBACK, "", "JURY_ENDPOINTS=127.0.0.1:8000, or with its key 127.0.0.1:8000=KEY_NAME$"),
        ("http://10.0.0.7/v1", "judge.example", "JURY_ENDPOINTS=judge.example,10.0.0.7,"),
        ("https://evil.openai.azure.com/openai/v1", "", "evil.openai.azure.com is none of these"),
        ("https://api.openai.com:8443/v1", "", "api.openai.com:8443 is none of these"),
        ("https://judge.example/v1", "judge.example:8443", "judge.example is none of these"),
    ],
)
def test_roots_fence_unlisted_hosts(base_url: str, endpoints: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "mine")
    monkeypatch.setenv("OPENAI_API_KEY", "openai")
    monkeypatch.setenv("JURY_ENDPOINTS", endpoints)
    monkeypatch.setenv("JURY_ROOTS", "/data,s3://bucket/prefix")
    if not words:
        key_for(base_url, "")
        return
    with pytest.raises(JudgeStopped, match=rf"may not be asked: JURY_ROOTS is set.*{words}"):
        key_for(base_url, "")
    monkeypatch.setenv("JURY_ROOTS", " ,")
    assert key_for(base_url, "") == "", "without roots any judge is allowed"


def test_endpoint_list_is_read_with_hosts_in_any_case() -> None:
    assert listed_keys("Judge.Example=MY_KEY")[Place("judge.example")] == {"MY_KEY"}
    listed = listed_keys("vllm_1 = MY_KEY, [::1]=OTHER,10.0.0.7:1=X,[::1]:8000,a.example=A,a.example=B,")
    hosts = {Place("vllm_1"): {"MY_KEY"}, Place("::1"): {"OTHER"}, Place("a.example"): {"A", "B"}}
    assert listed.items() >= (hosts | {Place("10.0.0.7", 1): {"X"}, Place("::1", 8000): set()}).items()


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        ("https://judge.example/v1=MY_KEY", "no host with its port: write host:port=KEY_NAME, without scheme and path"),
        ("https://judge.example:8443", "no host with its port"),
        ("judge.example:0=MY_KEY", "no host with its port"),
        ("judge.example:65536=MY_KEY", "no host with its port"),
        ("judge.example:port=MY_KEY", "no host with its port"),
        ("judge.example/v1?a=b=MY_KEY", "no host with its port"),
        ("*.example=MY_KEY", "no host with its port"),
        ("judge.example=", "does not read host:port=KEY_NAME"),
        ("judge.example=sk-proj-AbCdEfGh0123456789", "the entry for judge.example does not read host:port=KEY_NAME"),
    ],
)
def test_entries_that_never_match_are_refused_with_the_right_form(listed: str, words: str) -> None:
    with pytest.raises(JudgeStopped, match=re.escape(words)):
        listed_keys(listed)


@pytest.mark.parametrize("listed", ["judge.example/v1=sk-a-key", "judge.example=sk-a==", "=sk-a-key"])
def test_key_in_place_of_its_name_is_not_printed(listed: str) -> None:
    with pytest.raises(JudgeStopped, match="JURY_ENDPOINTS") as raised:
        listed_keys(listed)
    assert "sk-" not in str(raised.value)


def test_key_names_include_all_listed_and_known_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JURY_ENDPOINTS", "judge.example=MY_KEY,judge.example:1=TEAM_NAME,vllm.example")
    assert key_names() > {"MY_KEY", "TEAM_NAME", "OPENAI_API_KEY", "AZURE_OPENAI_API_KEY"}


@pytest.mark.parametrize(
    ("host", "here"),
    [("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("localhost", True), ("10.0.0.1", False), ("", False)],
)
def test_loopback_hosts_are_recognized(host: str, here: bool) -> None:
    assert is_loopback(host) is here


def test_header_value_is_found_and_listed_like_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JURY_ENDPOINTS", "judge.example=MY_KEY,judge.example=TEAM_NAME")
    monkeypatch.setenv("TEAM_NAME", "blue\n")
    monkeypatch.setenv("MY_KEY", "mine")
    judge = Judge(model="m", base_url="https://judge.example/v1", headers={"Team": "TEAM_NAME"})
    assert asyncio.run(find_headers(judge)) == {"Team": "blue"}
    assert asyncio.run(find_key(judge)) == "mine", "a header's value is not used as the key"


@pytest.mark.parametrize(
    ("base_url", "name", "words"),
    [
        ("https://judge.example/v1", "OTHER", "The value OTHER of the header Team may not go to judge.example: listed"),
        ("https://evil.example/v1", "TEAM_NAME", "The value TEAM_NAME of the header Team may not go to evil.example"),
        ("http://judge.example/v1", "TEAM_NAME", "may not go to judge.example over http"),
        ("https://judge.example/v1", "TEAM_NAME", "is not set: there is no environment variable TEAM_NAME, and no"),
    ],
)
@pytest.mark.usefixtures("no_server")
def test_header_value_must_be_listed(base_url: str, name: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JURY_ENDPOINTS", "judge.example=TEAM_NAME")
    monkeypatch.setenv("OTHER", "secret")
    with pytest.raises(JudgeStopped, match=words):
        asyncio.run(find_headers(Judge(model="m", base_url=base_url, headers={"Team": name}), secret_block))


@pytest.mark.parametrize("key", ["sk-1\nsk-2", "schlüssel"])
def test_key_with_invalid_characters_is_refused_without_printing_it(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", key)
    monkeypatch.setenv("JURY_ENDPOINTS", ENDPOINTS.format("MY_KEY"))
    with pytest.raises(JudgeStopped, match="characters other than printable ASCII") as raised:
        key_for(LOOPBACK, "MY_KEY")
    assert key not in str(raised.value) and "sk-" not in str(raised.value)


@pytest.mark.usefixtures("no_server")
def test_missing_key_names_both_places_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JURY_ENDPOINTS", ENDPOINTS.format("NO_KEY"))
    words = r"no environment variable NO_KEY, and no Prefect server .* no-key: PREFECT_API"
    with pytest.raises(JudgeStopped, match=words):
        key_for(LOOPBACK, "NO_KEY")


def test_key_is_searched_only_in_the_environment_without_a_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = Judge(model="m", base_url=LOOPBACK, api_key_env="MY_KEY")  # pyright: ignore
    monkeypatch.delenv("MY_KEY", raising=False)
    monkeypatch.setenv("JURY_ENDPOINTS", ENDPOINTS.format("MY_KEY"))
    sought = "no environment variable MY_KEY, and nowhere else to look for my-key"
    with pytest.raises(JudgeStopped, match=f"{sought}; set it with `export MY_KEY=…` before `jury` is started$"):
        asyncio.run(find_key(judge))
    monkeypatch.setenv("MY_KEY", "mine")
    assert asyncio.run(find_key(judge)) == "mine"


def test_prefect_is_not_imported_without_a_need_to_ask_it() -> None:
    """Runs in a subprocess, because another test may have imported Prefect here."""
    look = (
        "import asyncio, os, sys\n"
        "from flows.server.server import secret_block\n"
        "from tasks.endpoint.api_keys import find_key\n"
        "from tasks.records.parameters import Judge\n"
        "judge = Judge(model='m', base_url='http://127.0.0.1:8000/v1', api_key_env='MY_KEY')\n"
        "print(asyncio.run(find_key(judge, secret_block)))\n"
        "os.environ.update(MY_KEY='', PREFECT_API_URL='')\n"
        "try: asyncio.run(find_key(judge, secret_block))\n"
        "except ValueError: print('stopped')\n"
        "print('prefect' in sys.modules)"
    )
    known = {"JURY_ENDPOINTS": ENDPOINTS.format("MY_KEY"), "PREFECT_API_URL": "http://127.0.0.1:9/api"}
    command, given = [sys.executable, "-c", look], {"MY_KEY": "mine", **known}
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["mine", "stopped", "False"]


def save_block(block: str, value: Any) -> None:
    from prefect.blocks.system import Secret

    Secret(value=value).save(block, overwrite=True)


@pytest.mark.parametrize("value", ["sk-in-a-block\n", "123456"])
def test_key_is_read_from_a_secret_block(value: str, prefect_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JURY_ENDPOINTS", ENDPOINTS.format("BLOCK_KEY"))
    save_block("block-key", value)
    assert key_for(LOOPBACK, "BLOCK_KEY") == value.strip()
    monkeypatch.setenv("BLOCK_KEY", "in the environment")
    assert key_for(LOOPBACK, "BLOCK_KEY") == "in the environment"


@pytest.mark.usefixtures("prefect_server", "no_server")
def test_flow_reads_a_key_from_its_own_server(monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect import flow

    @flow
    async def look() -> str:
        return await find_key(Judge(model="m", base_url=LOOPBACK, api_key_env="FLOW_KEY"), secret_block)  # pyright: ignore

    monkeypatch.setenv("JURY_ENDPOINTS", ENDPOINTS.format("FLOW_KEY"))
    save_block("flow-key", "sk-for-the-flow")
    assert asyncio.run(look()) == "sk-for-the-flow"


@pytest.mark.usefixtures("prefect_server")
def test_missing_block_and_block_without_a_key_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JURY_ENDPOINTS", "127.0.0.1:8000=LOST_KEY,127.0.0.1:8000=JSON_KEY")
    words = r"no environment variable LOST_KEY, and .* server has no Secret block lost-key"
    with pytest.raises(JudgeStopped, match=words):
        key_for(LOOPBACK, "LOST_KEY")
    save_block("json-key", {"a": "sk-1"})
    words = "the Secret block json-key holds JSON, where a key is a string; set it with `export JSON_KEY=…`"
    with pytest.raises(JudgeStopped, match=words):
        key_for(LOOPBACK, "JSON_KEY")


def test_unreachable_server_is_reported(tmp_path: Path, commands: Path) -> None:
    """Runs in a subprocess, because Prefect in this process is bound to the tests' server."""
    prefect = {"PREFECT_API_URL": "http://127.0.0.1:9/api", "PREFECT_HOME": str(tmp_path), "DO_NOT_TRACK": "1"}
    given = {**prefect, "JURY_ENDPOINTS": ENDPOINTS.format("MY_KEY")}
    options = ["--judge.model", "m", "--judge.base-url", LOOPBACK, "--judge.api-key-env", "MY_KEY"]
    done = subprocess.run([commands / "jury", "judge", "ping", *options], env=given, capture_output=True, text=True)
    assert done.returncode == 2 and "the Prefect server gives no Secret block my-key: " in done.stderr
    assert "Traceback" not in done.stderr
