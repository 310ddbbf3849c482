"""The database that servers begin with: made once, trusted only as it should be, and put where there is none."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from flows.runtime import prepared_database
from flows.runtime.prepared_database import DATABASE, ELSEWHERE, give, is_sound, kept_in, newest_revisions, prepared


@pytest.fixture(scope="session")
def real() -> Path:
    """The one that this version of Prefect made."""
    return prepared()


@pytest.fixture
def database(real: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(real, tmp_path / "prepared.db"))


@pytest.fixture
def migrations(real: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment without a prepared database, and migrations that take no time: this file has a line for each."""
    noted = tmp_path / "migrations"
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    monkeypatch.setattr(prepared_database, "MIGRATE", copying(real, noted))
    noted.touch()
    return noted


def copying(real: Path, noted: Path) -> str:
    """Makes a database in `PREFECT_HOME` as Prefect would, and notes it; slow enough for two to meet."""
    return (
        f"import os, shutil, time; shutil.copy({str(real)!r}, os.path.join(os.environ['PREFECT_HOME'], {DATABASE!r})); "
        f"time.sleep(0.5); open({str(noted)!r}, 'a').write('made\\n')"
    )


def changed(database: Path, statement: str) -> None:
    with closing(sqlite3.connect(database)) as opened:
        opened.execute(statement)
        opened.commit()


def test_what_prefect_migrates_is_sound_and_private(real: Path) -> None:
    assert is_sound(real) and real.parent == kept_in()
    assert (real.stat().st_mode & 0o777, real.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_the_newest_revision_is_the_one_that_prefect_migrates_to(real: Path) -> None:
    with closing(sqlite3.connect(real)) as opened:
        assert {name for (name,) in opened.execute("SELECT version_num FROM alembic_version")} == newest_revisions()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "another revision": lambda file: changed(file, "UPDATE alembic_version SET version_num = 'ba5eba11'"),
    "no revision": lambda file: changed(file, "DELETE FROM alembic_version"),
    "a row of somebody's": lambda file: changed(
        file, "INSERT INTO configuration (id, key, value) VALUES ('1', 'ENCRYPTION_KEY', '{}')"
    ),
    "no table": lambda file: [file.unlink(), changed(file, "CREATE TABLE alembic_version (version_num TEXT)")],
    "cut": lambda file: os.truncate(file, file.stat().st_size // 2),
    "empty": lambda file: os.truncate(file, 0),
    "no database": lambda file: file.write_text("x" * 8192),
    "absent": lambda file: file.unlink(),
    "open to others": lambda file: file.chmod(0o660),
    "a link": lambda file: [file.rename(file.with_name("other")), file.symlink_to(file.with_name("other"))],
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_what_is_not_as_it_was_made_is_not_trusted(damage: Callable[[Path], object], database: Path) -> None:
    assert is_sound(database)
    damage(database)
    assert not is_sound(database)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_what_is_not_trusted_is_made_anew(damage: Callable[[Path], object], migrations: Path) -> None:
    made = prepared()
    assert prepared() == made and migrations.read_text() == "made\n"
    damage(made)
    assert is_sound(prepared()) and migrations.read_text() == "made\n" * 2


def test_what_a_killed_process_left_behind_is_cleared_away(migrations: Path) -> None:
    left = kept_in() / prepared().with_suffix(".draft").name
    prepared().unlink()
    left.mkdir()
    (left / DATABASE).write_text("half a database")
    assert [file.name for file in prepared().parent.iterdir()] == [prepared().name]


def test_two_processes_at_once_make_it_once(real: Path, migrations: Path, tmp_path: Path) -> None:
    code = (
        "import json, sys; from pathlib import Path; sys.prefix = sys.argv[1]; "
        "from flows.runtime import prepared_database as it; it.MIGRATE = sys.argv[2]; "
        "home = Path(sys.argv[3]); home.mkdir(); it.give(home); print(json.dumps(it.is_sound(home / it.DATABASE)))"
    )
    given = [str(tmp_path / "environment"), copying(real, migrations)]
    both = [
        subprocess.Popen([sys.executable, "-c", code, *given, str(tmp_path / name)], stdout=subprocess.PIPE, text=True)
        for name in ("one", "other")
    ]
    assert [json.loads(each.communicate(timeout=60)[0]) for each in both] == [True, True]
    assert migrations.read_text() == "made\n"


def test_an_environment_that_cannot_be_written_leaves_it_to_the_users_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "environment").write_text("no folder")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert kept_in().is_relative_to(tmp_path / "cache") and kept_in().stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_may_write_into_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    kept_in().chmod(0o777)
    assert kept_in().is_relative_to(tmp_path / "cache")


def test_a_new_home_is_given_the_prepared_database(real: Path, tmp_path: Path) -> None:
    give(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [DATABASE]
    assert (tmp_path / DATABASE).read_bytes() == real.read_bytes()
    assert (tmp_path / DATABASE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("there", [DATABASE, f"{DATABASE}-wal"])
def test_a_home_with_a_database_or_what_is_left_of_one_keeps_it(there: str, tmp_path: Path) -> None:
    (tmp_path / there).write_text("a person's")
    give(tmp_path)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [(there, "a person's")]


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_home_whose_database_is_elsewhere_is_given_none(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "postgresql+asyncpg://127.0.0.1/prefect")
    give(tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_a_server_begins_without_it_where_it_cannot_be_made(
    migrations: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared_database, "MIGRATE", "raise SystemExit(1)")
    (tmp_path / "home").mkdir()
    give(tmp_path / "home")
    assert [*(tmp_path / "home").iterdir()] == []


def test_a_server_begins_without_it_where_the_system_has_no_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    give(tmp_path)
    assert [*tmp_path.iterdir()] == []
