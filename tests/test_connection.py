"""A Prefect server that is named and does not answer: every command that needs it says so, and none blames itself."""

import json
import os
import subprocess
from importlib.metadata import version
from pathlib import Path

import httpx
import pytest
from loopback_prefect import LoopbackPrefect, Said
from served import JURY, environment, free_port

from flows.commands.connection import _is_named_in_files, answered, use_running
from flows.runtime.server import NOTE, client_settings, home
from tasks.errors import InputError

NAMED = "http://127.0.0.1:4200/api"


@pytest.fixture
def nobody() -> str:
    """Address of a server that is not there."""
    return f"http://127.0.0.1:{free_port()}/api"


def run(nobody: str, *words: object) -> subprocess.CompletedProcess[str]:
    given = [JURY, *map(str, words)]
    settings = {**environment(), "PREFECT_API_URL": nobody}
    return subprocess.run(given, capture_output=True, text=True, env=settings, timeout=120)


@pytest.mark.parametrize("words", [["prepare"], ["up"], ["run", "diagram", "--limit", "1"]], ids=lambda words: words[0])
def test_a_server_that_is_not_there_is_one_sentence(words: list[str], nobody: str, tmp_path: Path) -> None:
    store = [] if words == ["prepare"] else ["--store", tmp_path / "store"]
    done = run(nobody, *words, *store)
    assert done.returncode == 2, done.stderr
    *waiting, fault = done.stderr.splitlines()
    assert fault.startswith(f"jury: the Prefect server of PREFECT_API_URL, {nobody}, does not answer: ")
    assert waiting == ([f"waiting for the Prefect server at {nobody} …"] if words[0] == "run" else [])
    assert "Traceback" not in done.stderr and "a fault of" not in done.stderr


def test_the_status_of_a_store_is_told_without_the_server_that_is_not_there(nobody: str, tmp_path: Path) -> None:
    done = run(nobody, "status", "--store", tmp_path / "store")
    assert done.returncode == 3 and "there is no store" in done.stdout
    assert f"the Prefect server of PREFECT_API_URL, {nobody}, does not answer: " in done.stdout


def test_a_server_of_jury_up_that_went_away_is_called_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def says(request: str) -> Said:
        said = version("prefect") if request.endswith("/admin/version") else {"home": str(home(tmp_path))}
        return Said(body=json.dumps(said).encode())

    for name in client_settings(""):
        monkeypatch.setenv(name, "")
    with LoopbackPrefect(says) as server:
        home(tmp_path).mkdir(parents=True)
        (home(tmp_path) / NOTE).write_text(json.dumps({"port": server.port, "pid": os.getpid()}), encoding="utf-8")
        assert use_running(tmp_path)
    with pytest.raises(InputError) as told, answered():
        httpx.get(server.api)
    said = f"the server of `jury up` at {server.api} does not answer; start it again: "
    assert str(told.value).startswith(said)


@pytest.mark.parametrize(
    ("file", "text", "named"),
    [
        (".env", f"PREFECT_API_URL={NAMED}", True),
        (".env", f"A=1\n export PREFECT_API_URL = {NAMED}", True),
        (".env", f"# PREFECT_API_URL={NAMED}", False),
        ("prefect.toml", f'[api]\nurl = "{NAMED}"', True),
        ("prefect.toml", '[server.database]\nconnection_url = "sqlite+aiosqlite:///x.db"', False),
        ("prefect.toml", "[api", False),
        ("pyproject.toml", f'[tool.prefect.api]\nurl = "{NAMED}"', True),
        ("pyproject.toml", "[tool.prefect.logging]\nlevel = 'DEBUG'", False),
        ("home/profiles.toml", f'active = "mine"\n[profiles.mine]\nPREFECT_API_URL = "{NAMED}"', True),
        ("home/profiles.toml", 'active = "ephemeral"\n[profiles.ephemeral]', False),
    ],
)
def test_only_files_that_name_a_server_keep_ours_from_starting(
    file: str, text: str, named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any other server of Prefect's answers every page; ours is guarded."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "home").mkdir()
    (tmp_path / file).write_text(text)
    assert _is_named_in_files(tmp_path / "home") is named
