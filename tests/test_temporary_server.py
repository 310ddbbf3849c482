"""The temporary server: ready while others work, for the program that started it alone, and gone with it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from served import JURY, environment, wait_for

from flows.runtime.prepared_database import DATABASE
from flows.runtime.temporary_server import TemporaryServer
from tasks.errors import InputError

BEGIN = """
import sys, time
from pathlib import Path
from flows.runtime.temporary_server import TemporaryServer
print(TemporaryServer(Path(sys.argv[1]))._process.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[TemporaryServer]:
    server = TemporaryServer(tmp_path)
    yield server
    server.end()


def pid_of(server: TemporaryServer) -> int:
    return server._process.pid


def is_there(group: int) -> bool:
    """Whether any process of a group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_who_asks_at_once_is_answered_when_it_is_ready(begun: TemporaryServer) -> None:
    asyncio.run(begun.answering())
    with urllib.request.urlopen(f"{begun.api}/admin/settings", timeout=120) as reply:
        settings = json.load(reply)
    assert settings["home"] == str(begun.log.parent)
    assert settings["server"]["analytics_enabled"] is False
    assert settings["server"]["api"]["csrf_protection_enabled"] is True
    assert settings["server"]["api"]["cors_allowed_origins"] == begun.api.removesuffix("/api")
    page = urllib.request.Request(f"{begun.api}/health", headers={"Origin": "http://localhost:3000"})
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(page, timeout=120)
    begun.end()
    assert not is_there(pid_of(begun)) and (begun.log.parent / DATABASE).stat().st_size


def test_what_is_waited_for_is_told_once(begun: TemporaryServer, capsys: pytest.CaptureFixture[str]) -> None:
    """The second flow of a demo finds the server started."""
    begun.tell()
    assert capsys.readouterr().err.startswith("starting a temporary Prefect server (about ")
    begun.tell()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("there", [True, False])
def test_that_only_the_first_start_takes_long_is_told_at_the_first_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], there: bool
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    if there:
        (tmp_path / DATABASE).touch()
    server = TemporaryServer(tmp_path)
    server.end()
    server.tell()
    assert ("this once" in capsys.readouterr().err) is not there


def test_it_listens_on_this_machine_alone(begun: TemporaryServer) -> None:
    assert begun.api.startswith("http://127.0.0.1:")
    port = int(begun.api.split(":")[2].removesuffix("/api"))
    listening = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    assert [line[1] for line in listening if line[1].endswith(f":{port:04X}") and line[3] == "0A"] == [
        f"0100007F:{port:04X}"
    ]


def test_it_has_a_process_group_of_its_own_which_ends_with_it(begun: TemporaryServer) -> None:
    assert os.getpgid(pid_of(begun)) == pid_of(begun) != os.getpgrp()
    begun.end()
    assert not is_there(pid_of(begun))


def test_a_server_that_does_not_listen_to_reason_is_ended_by_force(begun: TemporaryServer) -> None:
    os.killpg(pid_of(begun), signal.SIGSTOP)
    begun.end()
    assert not is_there(pid_of(begun))


def test_a_server_that_was_killed_begins_again_at_its_address(begun: TemporaryServer) -> None:
    first, api = pid_of(begun), begun.api
    begun.begin_again()
    assert pid_of(begun) == first, "it is still there"
    os.killpg(first, signal.SIGKILL)
    begun._process.wait()
    begun.begin_again()
    assert begun.api == api and pid_of(begun) != first
    asyncio.run(begun.answering())


def test_it_ends_with_a_program_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", BEGIN, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as program:
        assert program.stdout
        server = int(program.stdout.readline())
        program.kill()
    wait_for(lambda: not is_there(server))


def test_a_server_that_ends_before_it_answers_is_told_with_where_its_words_are(begun: TemporaryServer) -> None:
    os.killpg(pid_of(begun), signal.SIGKILL)
    with pytest.raises(InputError) as told:
        asyncio.run(begun.answering())
    assert str(told.value) == f"the temporary Prefect server did not start; its last words are in {begun.log}"


# Commands that need one


def ended(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([JURY, *map(str, words)], capture_output=True, text=True, env=environment(), timeout=200)


def users_of(home: Path) -> list[str]:
    """Processes with this home of Prefect."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if f"PREFECT_HOME={home}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append(process.name)
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--dataset", "dataset {}/slip does not exist\n"),
        ("--prompt-set", "prompt set '{}/slip' is neither a known set"),
    ],
)
def test_a_mistake_in_what_is_judged_or_asked_is_told_before_the_server_is_there(
    tmp_path: Path, option: str, words: str
) -> None:
    store = tmp_path / "store"
    done = ended("run", "diagram", option, tmp_path / "slip", "--store", store)
    assert done.returncode == 2
    assert done.stderr.startswith(f"jury: {words.format(tmp_path)}")
    assert users_of(store / "prefect") == []


def test_shards_are_refused_where_there_is_no_server_with_a_deployment(tmp_path: Path) -> None:
    done = ended("run", "diagram", "--shards", "2", "--store", tmp_path / "store")
    assert done.returncode == 2 and "shards are runs of a deployment, and there is no Prefect server" in done.stderr
