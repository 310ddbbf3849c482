"""The Prefect server of `jury up`: recognition, sign-in, and messages if it does not answer."""

import json
import os
import platform
import re
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from served import environment, free_port, users_of

from flows.server import server
from flows.server.server import LOG, NOTE, answered, client_settings, home, prepare_prefect, running, use_running
from flows.server.supervision import UP, lifeline
from tasks.errors import InputError


def test_sign_in_text_is_private_and_removed_when_not_needed(tmp_path: Path) -> None:
    text = server.settle_sign_in(tmp_path, wanted=True)
    assert len(text) > 30 and server.kept_sign_in(tmp_path) == text == server.settle_sign_in(tmp_path, wanted=True)
    assert stat.S_IMODE((tmp_path / server.SIGN_IN_FILE).stat().st_mode) == 0o600
    assert server.settle_sign_in(tmp_path, wanted=False) == server.kept_sign_in(tmp_path) == ""


def test_sign_in_is_refused_for_a_foreign_server(jury: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    code, _, err = jury("up", "--auth")
    assert code == 2 and "that of PREFECT_API_URL takes PREFECT_API_AUTH_STRING" in err


@pytest.fixture
def dead_api() -> str:
    return f"http://127.0.0.1:{free_port()}/api"


def test_absent_server_is_reported_in_one_sentence(dead_api: str, tmp_path: Path, commands: Path) -> None:
    own = {**environment(), "PREFECT_API_URL": dead_api, "JURY_STORE": str(tmp_path / "store")}
    fault = f"the Prefect server of PREFECT_API_URL, {dead_api}, does not answer: "
    for words in ("status", "deploy", "up", "run diagram --dataset samples"):
        asked = [commands / "jury", *words.split()]
        done = subprocess.run(asked, env=own, capture_output=True, text=True, timeout=120)
        if words == "status":
            assert done.returncode == 3 and "there is no store" in done.stdout and fault in done.stdout
        else:
            assert done.returncode == 2 and re.fullmatch(f"jury: {re.escape(fault)}.*\n", done.stderr), done.stderr


def test_mistakes_are_reported_before_a_server_is_up(tmp_path: Path, commands: Path) -> None:
    own = {**environment(), "JURY_STORE": str(store := tmp_path / "store")}
    needs = "jury: shards are runs of a deployment, and there is no Prefect server that has any: "
    for mistake, words in (("/no/slip", "jury: dataset /no/slip does not exist"), ("samples --shards 2", needs)):
        asked = [commands / "jury", *f"run diagram --dataset {mistake}".split()]
        done = subprocess.run(asked, env=own, capture_output=True, text=True, timeout=120)
        [fault] = done.stderr.splitlines()
        assert done.returncode == 2 and fault.startswith(words)
        assert (home(store) / LOG).exists() and users_of(home(store)) == []


def test_vanished_jury_up_server_is_reported_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in client_settings(""):
        monkeypatch.setenv(name, "")
    home(tmp_path).mkdir(parents=True)
    with lifeline(home(tmp_path)):
        write_note(tmp_path, json.dumps({"port": free_port(), "pid": os.getpid(), "lock": os.environ[UP]}).encode())
        server = use_running(tmp_path)
    assert server
    with pytest.raises(InputError) as caught, answered():
        httpx.get(server.api)
    start = f"the server of `jury up` at {server.api} does not answer; start it again: "
    assert str(caught.value).startswith(start)


def write_note(store: Path, note: bytes) -> None:
    home(store).mkdir(parents=True, exist_ok=True)
    (home(store) / NOTE).write_bytes(note)


def test_server_is_ours_while_its_jury_up_runs_on_this_machine(
    tmp_path: Path, jury: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, copied, homes = tmp_path / "store", tmp_path / "copy", list[Path]()
    for name in ("PREFECT_API_URL", "PREFECT_HOME", "JURY_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("flows.server.server.find_prefect", lambda _: False)
    monkeypatch.setattr("flows.server.server.begin_temporary", homes.append)
    home(store).mkdir(parents=True)
    with lifeline(home(store)):
        note = {"port": 4321, "pid": 7, "lock": os.environ[UP]}
        write_note(store, json.dumps(note).encode())
        found = running(store)
        assert found and (found.api, found.pid) == ("http://127.0.0.1:4321/api", 7)
        with pytest.raises(InputError, match="has just started for "), server.own_server(store, free_port()):
            pass
        assert running(shutil.copytree(store, copied)) is None
        write_note(store, json.dumps({**note, "machine": "elsewhere"}).encode())
        assert running(store) is None
        code, _, said = jury("up", "--store", str(store))
        assert code == 2 and f"Image Jury is up on elsewhere for {home(store)}: end it there" in said
        assert "Prefect    up on elsewhere\n" in jury("status", "--store", str(store))[1]
        prepare_prefect(store)
    os.environ.pop("PREFECT_HOME")
    prepare_prefect(store)
    assert running(store) is None and homes == [home(store) / platform.node(), home(store)]


NOTES = [b"", b"[", b"7", b"\xff", b"{}", b'{"port": 1, "pid": "x"}', b'{"port": 1, "pid": 2, "lock": "/none"}']


@pytest.mark.parametrize("written", NOTES)
def test_invalid_or_stale_note_gives_no_server(written: bytes, tmp_path: Path) -> None:
    write_note(tmp_path, written)
    assert running(tmp_path) is None
