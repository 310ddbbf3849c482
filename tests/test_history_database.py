"""Files of the history: readers keep what they opened, whatever a writer does and wherever it is killed."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest
from factories import RUN, judgment, start, write_run
from full_disk import files_of
from killed_landing import PLACES, REBUILT, SECONDS, dies, land_and_show, started
from written_history import ask, whole_run

from tasks.errors import InputError
from tasks.history import database
from tasks.history.database import FOLDER, HISTORY
from tasks.history.landing import land, missing, rebuild
from tasks.history.queries import held_open, query

EARLIER, LATER = "20261119T120000-diagram-0000aa", "20261121T120000-diagram-0000aa"
NOBODY = 65534


@pytest.fixture(autouse=True)
def _opened_anew(histories_kept_open: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "open_published", histories_kept_open)


def rows(store: Path) -> dict[str, list[str]]:
    with held_open(store):
        tables = [name for (name,) in ask(store, "SELECT table_name FROM duckdb_tables()")]
        return {name: sorted(map(repr, ask(store, f'FROM "{name}"'))) for name in tables}


def files(store: Path) -> list[str]:
    return sorted(path.relative_to(store).as_posix() for path in store.rglob("*") if "ledger" not in path.parts)


WHOLE = [FOLDER, f"{FOLDER}/lock", f"{FOLDER}/master.duckdb", HISTORY]
"""Files of a complete history, without drafts."""


def night(store: Path, run_id: str, day: int) -> None:
    whole_run(store, run_id, started_at=f"2026-11-{day}T12:00:00+00:00", scheduled=True)


def test_file_has_the_storage_version_of_older_clients(store: Path) -> None:
    for make in (land, rebuild):
        make(store)
        tags = ask(store, "SELECT tags['storage_version'] FROM duckdb_databases() WHERE database_name = 'history'")
        assert tags[0][0].startswith("v1.3.0")


def test_distinct_aggregates_of_views_are_not_rewritten(store: Path) -> None:
    """DuckDB still has an optimizer of this name; with it, the same queries take a third longer."""
    assert query(store, "SELECT current_setting('disabled_optimizers')").rows == [("distinct_aggregate_rewrite",)]


# Kills


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("before")
    night(store, EARLIER, 19)
    land(store)
    night(store, RUN, 20)
    night(store, LATER, 21)
    return store


@pytest.fixture(scope="module")
def old(before: Path) -> dict[str, list[str]]:
    return rows(before)


@pytest.fixture(scope="module")
def new(before: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    store = tmp_path_factory.mktemp("new")
    shutil.copytree(before / "ledger", store / "ledger")
    rebuild(store)
    return rows(store)


@pytest.mark.parametrize("place", [*PLACES, *REBUILT])
def test_killed_landing_leaves_a_whole_history_and_the_next_completes_it(
    before: Path, old: dict[str, list[str]], new: dict[str, list[str]], tmp_path: Path, place: str
) -> None:
    store = tmp_path / "store"
    shutil.copytree(before, store)
    dies(store, place)
    assert rows(store) == (new if place == "after the renaming" else old)
    land(store)
    assert (rows(store), missing(store), files(store)) == (new, [], WHOLE)
    assert [len(new[table]) for table in ("runs", "nights", "outcomes")] == [3, 3, 3]


# Full disk


@pytest.mark.parametrize(("replies", "room"), [(2_400, 0), (800, 300_000)], ids=["commit", "checkpoint"])
def test_full_disk_keeps_the_old_history_until_the_next_landing(tmp_path: Path, replies: int, room: int) -> None:
    whole_run(tmp_path, EARLIER)
    with files_of(room and 5000), pytest.raises(InputError, match="is unchanged, because it cannot be written: "):
        land(tmp_path)
    land(tmp_path)
    before = rows(tmp_path)
    words = [f"{number:x}" * 300 for number in range(replies)]
    write_run(tmp_path, start(), [judgment(f"s{number}", raw=raw) for number, raw in enumerate(words)], None)
    whole_run(tmp_path, LATER)
    size = (tmp_path / HISTORY).stat().st_size
    with files_of(size - 1 + room), pytest.raises(InputError) as raised:
        land(tmp_path)
    assert str(raised.value).startswith(f"{tmp_path / HISTORY} is unchanged, because it cannot be written: ")
    assert "large" in str(raised.value) and "\n" not in str(raised.value)
    assert rows(tmp_path) == before
    assert land(tmp_path).left_out == ()
    assert ask(tmp_path, "SELECT run_id FROM runs ORDER BY 1") == [(EARLIER,), (RUN,), (LATER,)]
    assert files(tmp_path) == WHOLE


# Readers


HOLD = """
import duckdb, sys
db = duckdb.connect(sys.argv[1], read_only=True)
print("held", flush=True)
sys.stdin.read()
print(db.execute("SELECT count(*) FROM judgments").fetchone()[0])
"""


@contextmanager
def hold_open(store: Path) -> Iterator[subprocess.Popen[str]]:
    """Let another program hold the history open; at the end, it prints the number of judgments."""
    command = [sys.executable, "-c", HOLD, str(store / HISTORY)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == "held\n"
        yield holder


def test_readers_keep_what_they_opened_and_block_no_landing(store: Path) -> None:
    with hold_open(store) as first:
        replies = whole_run(store, LATER) / "judgments.jsonl"
        assert land(store).loaded == (LATER,)
        with hold_open(store) as second:
            for number in range(3):
                with replies.open("a") as file:
                    file.write(replies.read_text().splitlines()[0] + "\n")
                assert land(store).loaded == (LATER,), number
            assert [holder.communicate()[0] for holder in (first, second)] == ["1\n", "5\n"]
    assert ask(store, "SELECT count(*) FROM judgments") == [(8,)]
    assert files(store) == WHOLE


def test_process_that_holds_the_history_open_queries_the_newest(store: Path) -> None:
    """DuckDB shares one database between all connections of a process to the same path."""
    with duckdb.connect(store / HISTORY, read_only=True) as db:
        whole_run(store, LATER)
        land(store)
        assert db.execute("SELECT run_id FROM runs").fetchall() == [(RUN,)]
        assert ask(store, "SELECT run_id FROM runs ORDER BY 1") == [(RUN,), (LATER,)]


def test_two_processes_land_their_runs_at_once(tmp_path: Path) -> None:
    runs = (EARLIER, RUN)
    for run_id in runs:
        whole_run(tmp_path, run_id)
    for process in [started(land_and_show, tmp_path, run_id) for run_id in runs]:
        process.join(SECONDS)
        assert process.exitcode == 0
    assert [run_id for (run_id,) in ask(tmp_path, "SELECT run_id FROM runs ORDER BY run_id")] == list(runs)
    assert missing(tmp_path) == []
    index = (tmp_path / "pages" / "index.html").read_text()
    assert all(f'<a href="{run_id}.html">' in index for run_id in runs)
    pages = ["pages", "pages/index.html", *(f"pages/{run_id}.html" for run_id in runs)]
    assert [file for file in files(tmp_path) if not file.startswith("pages/.")] == sorted([*WHOLE, *pages])


def test_read_only_store_can_be_queried(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError("Read-only file system")

    monkeypatch.setattr(os, "link", refused)
    assert ask(store, "SELECT run_id FROM runs") == [(RUN,)]
    assert files(store) == WHOLE


# Other writers


CHANGE = """
import duckdb, os, sys
if sys.argv[2:]:
    os.setuid(int(sys.argv[2]))
db = duckdb.connect(sys.argv[1])
db.execute("INSERT INTO outcomes FROM outcomes; UPDATE runs SET flow = 'plot'; DELETE FROM judgments")
os._exit(0)
"""


def test_other_programs_cannot_write_to_the_history(store: Path) -> None:
    user = NOBODY if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory() as place:
        shutil.copy2(store / HISTORY, place)
        if user:
            os.chown(place, user, user)
            os.chown(Path(place) / HISTORY, user, user)
        command = [sys.executable, "-c", CHANGE, f"{place}/{HISTORY}", *([str(user)] if user else [])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1 and "Permission denied" in done.stderr
        assert [left.name for left in Path(place).iterdir()] == [HISTORY]
    assert (store / HISTORY).stat().st_mode & 0o777 == 0o400


@pytest.mark.skipif(os.geteuid() != 0, reason="any other user cannot write to the history")
def test_changes_by_root_are_set_aside_and_reported(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    before, log = rows(store), store / f"{HISTORY}.wal"

    def change() -> None:
        subprocess.run([sys.executable, "-c", CHANGE, str(store / HISTORY)], check=True)
        assert log.stat().st_size

    change()
    assert rows(store) == before
    [message] = caplog.messages
    [aside] = store.glob(f"{HISTORY}.*.aside")
    assert not log.exists() and str(log) in message and str(aside) in message and "read_only=True" in message
    change()
    night(store, LATER, 21)
    assert land(store).loaded == (LATER,)
    assert not log.exists() and len(caplog.messages) == 2
    assert ask(store, "SELECT run_id, flow FROM runs ORDER BY 1") == [(RUN, "diagram"), (LATER, "diagram")]
    with duckdb.connect(store / HISTORY) as db:  # closing applies the write-ahead log
        db.execute("DELETE FROM runs")
    assert land(store).loaded == ()
    assert len(ask(store, "FROM runs")) == 2


def test_history_of_a_group_store_is_readable_by_the_group(tmp_path: Path) -> None:
    tmp_path.chmod(0o2770)
    whole_run(tmp_path)
    land(tmp_path)
    assert (tmp_path / HISTORY).stat().st_mode & 0o777 == 0o440
    assert (tmp_path / FOLDER / "master.duckdb").stat().st_mode & 0o777 == 0o660
