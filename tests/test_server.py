"""Which Prefect server is ours, who signs in to it, and what every command says of one that does not answer."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from served import environment, free_port

from flows.server import server
from flows.server.server import NOTE, answered, client_settings, home, running, use_running
from flows.server.supervision import UP, lifeline
from tasks.errors import InputError


def test_what_signs_in_is_kept_for_this_user_alone_until_nothing_is_needed(tmp_path: Path) -> None:
    text = server.settle_sign_in(tmp_path, wanted=True)
    assert len(text) > 30 and server.kept_sign_in(tmp_path) == text == server.settle_sign_in(tmp_path, wanted=True)
    assert stat.S_IMODE((tmp_path / server.SIGN_IN_FILE).stat().st_mode) == 0o600
    assert server.settle_sign_in(tmp_path, wanted=False) == server.kept_sign_in(tmp_path) == ""


def test_it_is_not_made_for_the_server_of_somebody_else(jury: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    code, _, err = jury("up", "--auth")
    assert code == 2 and "that of PREFECT_API_URL takes PREFECT_API_AUTH_STRING" in err


@pytest.fixture
def nobody() -> str:
    return f"http://127.0.0.1:{free_port()}/api"


ASKED = """
from flows.cli import main
print([main(words) for words in (["status"], ["deploy"], ["up"], ["run", "diagram", "--dataset", "samples"])])
"""


def test_a_server_that_is_not_there_is_one_sentence(nobody: str, tmp_path: Path) -> None:
    env = {**environment(), "PREFECT_API_URL": nobody, "JURY_STORE": str(tmp_path / "store")}
    done = subprocess.run([sys.executable, "-c", ASKED], env=env, capture_output=True, text=True, timeout=120)
    fault = f"the Prefect server of PREFECT_API_URL, {nobody}, does not answer: "
    *status, codes = done.stdout.splitlines()
    assert codes == "[3, 2, 2, 2]", done.stderr
    assert "there is no store" in "\n".join(status) and fault in "\n".join(status)
    told = done.stderr.splitlines()
    assert len(told) == 3 and all(line.startswith(f"jury: {fault}") for line in told), done.stderr


def test_a_server_of_jury_up_that_went_away_is_called_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in client_settings(""):
        monkeypatch.setenv(name, "")
    port = free_port()
    home(tmp_path).mkdir(parents=True)
    with lifeline(home(tmp_path)):
        note = {"port": port, "pid": os.getpid(), "lock": os.environ[UP]}
        (home(tmp_path) / NOTE).write_text(json.dumps(note), encoding="utf-8")
        server = use_running(tmp_path)
    assert server
    with pytest.raises(InputError) as told, answered():
        httpx.get(server.api)
    said = f"the server of `jury up` at {server.api} does not answer; start it again: "
    assert str(told.value).startswith(said)


def noted(store: Path, note: bytes) -> None:
    home(store).mkdir(parents=True, exist_ok=True)
    (home(store) / NOTE).write_bytes(note)


def test_a_server_is_ours_as_long_as_the_jury_up_that_noted_it_lives(tmp_path: Path) -> None:
    home(tmp_path).mkdir(parents=True)
    with lifeline(home(tmp_path)):
        noted(tmp_path, json.dumps({"port": 4321, "pid": 7, "lock": os.environ[UP]}).encode())
        found = running(tmp_path)
        assert found and (found.api, found.pid) == ("http://127.0.0.1:4321/api", 7)
    assert running(tmp_path) is None


NOTES = [b"", b"[", b"7", b"\xff", b"{}", b'{"port": 1, "pid": "x"}', b'{"port": 1, "pid": 2, "lock": "/none"}']


@pytest.mark.parametrize("written", NOTES)
def test_a_note_that_cannot_be_read_or_of_nobody_names_no_server(written: bytes, tmp_path: Path) -> None:
    noted(tmp_path, written)
    assert running(tmp_path) is None
