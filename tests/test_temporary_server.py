"""The temporary Prefect server, which ends with its program, and the prepared database of new servers."""

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
from served import environment, wait_for

from flows.server import server_process
from flows.server.server import PrefectServer
from flows.server.server_process import DATABASE, give_database, prepared_file
from tasks.errors import InputError


@pytest.fixture(scope="session")
def prepared() -> Path:
    """Return the database that the installed Prefect created."""
    return prepared_file()


@pytest.fixture
def migrations(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replace the migrations in an environment without prepared database; return a file that records them."""
    record = tmp_path / "migrations"
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    monkeypatch.setattr(server_process, "MIGRATE", migration_code(prepared, record))
    record.touch()
    return record


def migration_code(real: Path, record: Path) -> str:
    """Return code that copies a database to `PREFECT_HOME` and records it; slow enough that two processes meet."""
    return (
        f"import os, shutil, time; shutil.copy({str(real)!r}, os.path.join(os.environ['PREFECT_HOME'], {DATABASE!r})); "
        f"time.sleep(0.5); open({str(record)!r}, 'a').write('made\\n')"
    )


def test_prepared_database_is_private_and_has_only_the_schema(prepared: Path) -> None:
    assert (prepared.stat().st_mode & 0o777, prepared.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    with closing(sqlite3.connect(prepared)) as opened:
        tables = {name for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        filled = {name for name in tables if opened.execute(f'SELECT 1 FROM "{name}"').fetchone()}
    assert "flow_run" in tables and filled == {"alembic_version"}


def test_draft_of_a_killed_process_is_replaced(migrations: Path) -> None:
    left = prepared_file().with_suffix(".draft")
    prepared_file().unlink()
    left.mkdir()
    (left / DATABASE).write_text("half a database")
    assert [file.name for file in prepared_file().parent.iterdir()] == [prepared_file().name]
    assert migrations.read_text() == "made\n" * 2


def test_database_is_prepared_only_once(prepared: Path, migrations: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; sys.prefix = sys.argv[1]; "
        "from flows.server import server_process as it; it.MIGRATE = sys.argv[2]; "
        "home = Path(sys.argv[3]); home.mkdir(); it.give_database(home)"
    )
    given = [str(tmp_path / "environment"), migration_code(prepared, migrations)]
    homes = [tmp_path / "one", tmp_path / "other"]
    both = [subprocess.Popen([sys.executable, "-c", code, *given, str(home)]) for home in homes]
    assert [each.wait(60) for each in both] == [0, 0]
    [made, other] = [(home / DATABASE).read_bytes() for home in homes]
    assert made == other and b"alembic_version" in made and migrations.read_text() == "made\n"


@pytest.mark.parametrize("folder", ["no folder", "open to others"])
def test_database_goes_to_the_users_cache_if_the_environment_is_unsuitable(
    folder: str, migrations: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if folder == "no folder":
        (tmp_path / "environment").write_text("")
    else:
        prepared_file().parent.chmod(0o777)
    assert prepared_file().is_relative_to(tmp_path / "cache") and prepared_file().parent.stat().st_mode & 0o777 == 0o700


def test_new_home_gets_the_prepared_database(prepared: Path, tmp_path: Path) -> None:
    give_database(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [DATABASE]
    assert (tmp_path / DATABASE).read_bytes() == prepared.read_bytes()
    assert (tmp_path / DATABASE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("existing", [DATABASE, f"{DATABASE}-wal"])
def test_home_with_a_database_is_not_changed(existing: str, tmp_path: Path) -> None:
    (tmp_path / existing).write_text("a person's")
    give_database(tmp_path)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [(existing, "a person's")]


def test_server_starts_without_a_prepared_database_if_it_fails(
    migrations: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
def temporary(tmp_path: Path) -> Iterator[PrefectServer]:
    server = PrefectServer(tmp_path, temporary=True)
    yield server
    server.end()


def is_running(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_early_request_is_answered_once_the_server_is_ready(temporary: PrefectServer) -> None:
    asyncio.run(temporary.answering())
    listening = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    port = f"{temporary.port:04X}"
    assert [line[1] for line in listening if line[1].endswith(f":{port}") and line[3] == "0A"] == [f"0100007F:{port}"]
    with urllib.request.urlopen(f"{temporary.api}/admin/settings", timeout=120) as reply:
        settings = json.load(reply)
    assert settings["home"] == str(temporary.log.parent) and settings["server"]["analytics_enabled"] is False
    assert settings["server"]["api"]["csrf_protection_enabled"] is True
    assert settings["server"]["api"]["cors_allowed_origins"] == temporary.api.removesuffix("/api")
    page = urllib.request.Request(f"{temporary.api}/health", headers={"Origin": "http://localhost:3000"})
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(page, timeout=120)
    first = temporary.child.now.pid
    assert re.search(r"^Umask:\s0077$", Path(f"/proc/{first}/status").read_text(), re.MULTILINE)
    assert os.getpgid(first) == first != os.getpgrp(), "Ctrl-C must not reach the server"
    assert (temporary.log.parent / DATABASE).stat().st_mode & 0o777 == 0o600
    temporary.end()
    assert not is_running(first)


def test_server_ends_with_a_killed_program(tmp_path: Path) -> None:
    program = [sys.executable, "-c", BEGIN, str(tmp_path)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=environment()) as begun:
        assert begun.stdout
        server = int(begun.stdout.readline())
        begun.kill()
    wait_for(lambda: not is_running(server))


def test_failed_start_names_the_log_after_one_announcement(
    temporary: PrefectServer, capsys: pytest.CaptureFixture[str]
) -> None:
    os.killpg(temporary.child.now.pid, signal.SIGKILL)
    for announced in ("starting a temporary Prefect server (about 10 s; 40 s the first time) …\n", ""):
        with pytest.raises(InputError) as caught:
            asyncio.run(temporary.answering())
        assert str(caught.value) == f"the temporary Prefect server did not start; its last words are in {temporary.log}"
        assert capsys.readouterr().err == announced
