"""The temporary server, gone with its program, and the database that servers begin with."""

import asyncio
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from served import command, environment, users_of, wait_for

from flows.server import server_process
from flows.server.server import TemporaryServer
from flows.server.server_process import DATABASE, ELSEWHERE, give_database, prepared_file
from tasks.errors import InputError


@pytest.fixture(scope="session")
def real() -> Path:
    """The one that this version of Prefect made."""
    return prepared_file()


@pytest.fixture
def migrations(real: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment without a prepared database, and migrations that take no time: this file has a line for each."""
    noted = tmp_path / "migrations"
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    monkeypatch.setattr(server_process, "MIGRATE", copying(real, noted))
    noted.touch()
    return noted


def copying(real: Path, noted: Path) -> str:
    """Makes a database in `PREFECT_HOME` as Prefect would, and notes it; slow enough for two to meet."""
    return (
        f"import os, shutil, time; shutil.copy({str(real)!r}, os.path.join(os.environ['PREFECT_HOME'], {DATABASE!r})); "
        f"time.sleep(0.5); open({str(noted)!r}, 'a').write('made\\n')"
    )


def test_what_prefect_migrates_is_private_and_holds_a_schema_and_no_row(real: Path) -> None:
    assert (real.stat().st_mode & 0o777, real.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    with closing(sqlite3.connect(real)) as opened:
        tables = {name for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        filled = {name for name in tables if opened.execute(f'SELECT 1 FROM "{name}"').fetchone()}
    assert "flow_run" in tables and filled == {"alembic_version"}


def test_what_a_killed_process_left_behind_is_cleared_away(migrations: Path) -> None:
    left = prepared_file().with_suffix(".draft")
    prepared_file().unlink()
    left.mkdir()
    (left / DATABASE).write_text("half a database")
    assert [file.name for file in prepared_file().parent.iterdir()] == [prepared_file().name]
    assert migrations.read_text() == "made\n" * 2


def test_two_processes_at_once_make_it_once(real: Path, migrations: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; sys.prefix = sys.argv[1]; "
        "from flows.server import server_process as it; it.MIGRATE = sys.argv[2]; "
        "home = Path(sys.argv[3]); home.mkdir(); it.give_database(home)"
    )
    given = [str(tmp_path / "environment"), copying(real, migrations)]
    homes = [tmp_path / "one", tmp_path / "other"]
    both = [subprocess.Popen([sys.executable, "-c", code, *given, str(home)]) for home in homes]
    assert [each.wait(60) for each in both] == [0, 0]
    [made, other] = [(home / DATABASE).read_bytes() for home in homes]
    assert made == other and b"alembic_version" in made and migrations.read_text() == "made\n"


@pytest.mark.parametrize("folder", ["no folder", "open to others"])
def test_where_the_environment_cannot_hold_it_the_users_cache_does(
    folder: str, migrations: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if folder == "no folder":
        (tmp_path / "environment").write_text("")
    else:
        prepared_file().parent.chmod(0o777)
    assert prepared_file().is_relative_to(tmp_path / "cache") and prepared_file().parent.stat().st_mode & 0o777 == 0o700


def test_a_new_home_is_given_the_prepared_database(real: Path, tmp_path: Path) -> None:
    give_database(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [DATABASE]
    assert (tmp_path / DATABASE).read_bytes() == real.read_bytes()
    assert (tmp_path / DATABASE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("there", [DATABASE, f"{DATABASE}-wal"])
def test_a_home_with_a_database_or_what_is_left_of_one_keeps_it(there: str, tmp_path: Path) -> None:
    (tmp_path / there).write_text("a person's")
    give_database(tmp_path)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [(there, "a person's")]


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_home_with_another_database_is_given_none(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "postgresql+asyncpg://127.0.0.1/prefect")
    give_database(tmp_path)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("why", ["the migrations fail", "no locks"])
def test_a_server_begins_without_it_where_it_cannot_be_made(
    why: str, migrations: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why == "no locks":
        monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setattr(server_process, "MIGRATE", "raise SystemExit(1)")
    (tmp_path / "home").mkdir()
    give_database(tmp_path / "home")
    assert [*(tmp_path / "home").iterdir()] == []


BEGIN = """
import sys, time
from pathlib import Path
from flows.server.server import begin_temporary, temporary_server
begin_temporary(Path(sys.argv[1]))
print(temporary_server().child.now.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[TemporaryServer]:
    server = TemporaryServer(tmp_path)
    yield server
    server.end()


def pid_of(server: TemporaryServer) -> int:
    return server.child.now.pid


def is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_who_asks_at_once_is_answered_when_it_is_ready(begun: TemporaryServer) -> None:
    asyncio.run(begun.answering())
    listening = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    port = f"{begun.port:04X}"
    assert [line[1] for line in listening if line[1].endswith(f":{port}") and line[3] == "0A"] == [f"0100007F:{port}"]
    with urllib.request.urlopen(f"{begun.api}/admin/settings", timeout=120) as reply:
        settings = json.load(reply)
    assert settings["home"] == str(begun.log.parent) and settings["server"]["analytics_enabled"] is False
    assert settings["server"]["api"]["csrf_protection_enabled"] is True
    assert settings["server"]["api"]["cors_allowed_origins"] == begun.api.removesuffix("/api")
    page = urllib.request.Request(f"{begun.api}/health", headers={"Origin": "http://localhost:3000"})
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(page, timeout=120)
    first = pid_of(begun)
    assert re.search(r"^Umask:\s0077$", Path(f"/proc/{first}/status").read_text(), re.MULTILINE)
    assert os.getpgid(first) == first != os.getpgrp(), "Ctrl-C does not reach it"
    assert (begun.log.parent / DATABASE).stat().st_mode & 0o777 == 0o600
    begun.end()
    assert not is_there(first)


@pytest.mark.parametrize("there", [True, False])
def test_what_is_waited_for_is_told_once_and_that_only_the_first_start_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], there: bool
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    if there:
        (tmp_path / DATABASE).touch()
    server = TemporaryServer(tmp_path)
    server.end()
    server.tell()
    told = capsys.readouterr().err
    assert told.startswith("starting a temporary Prefect server (about ") and ("this once" in told) is not there
    server.tell()
    assert capsys.readouterr().err == ""


def test_it_ends_with_a_program_that_is_killed(tmp_path: Path) -> None:
    program = [sys.executable, "-c", BEGIN, str(tmp_path)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=environment()) as begun:
        assert begun.stdout
        server = int(begun.stdout.readline())
        begun.kill()
    wait_for(lambda: not is_there(server))


def test_a_server_that_ends_before_it_answers_is_told_with_where_its_words_are(begun: TemporaryServer) -> None:
    os.killpg(pid_of(begun), signal.SIGKILL)
    with pytest.raises(InputError) as told:
        asyncio.run(begun.answering())
    assert str(told.value) == f"the temporary Prefect server did not start; its last words are in {begun.log}"


# Commands that need one


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (("--dataset", "/no/slip"), "jury: dataset /no/slip does not exist"),
        (
            ("--dataset", "samples", "--shards", "2"),
            "jury: shards are runs of a deployment, and there is no Prefect server that has any: ",
        ),
    ],
)
def test_a_mistake_is_told_before_the_server_begins(tmp_path: Path, mistake: tuple[str, ...], words: str) -> None:
    store = tmp_path / "store"
    done = command("run", "diagram", *mistake, "--store", store)
    assert done.returncode == 2 and done.stderr.startswith(words)
    assert users_of(store / "prefect") == []
