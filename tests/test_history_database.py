"""The history's file: of which version it is, and who may hold it when."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
from factories import RUN
from written_history import ask, whole_run

from tasks.errors import HistoryLocked
from tasks.history.asking import query
from tasks.history.database import HISTORY
from tasks.history.loading import pending, store_run, sync

EARLIER = "20261119T120000-diagram-0000aa"


def test_the_file_is_of_the_storage_version_that_older_clients_open(tmp_path: Path) -> None:
    whole_run(tmp_path)
    for rebuild in (False, True):
        sync(tmp_path, rebuild)
        tags = ask(tmp_path, "SELECT tags['storage_version'] FROM duckdb_databases() WHERE database_name = 'history'")
        assert tags[0][0].startswith("v1.0.0")


def test_a_file_whose_maker_was_killed_before_the_tables_is_filled(tmp_path: Path) -> None:
    whole_run(tmp_path)
    duckdb.connect(tmp_path / HISTORY).close()
    assert pending(tmp_path) == [RUN]
    assert sync(tmp_path).loaded == (RUN,)
    assert ask(tmp_path, "SELECT run_id FROM runs") == [(RUN,)]


HOLD = """
import duckdb, sys
db = duckdb.connect(sys.argv[1], read_only=sys.argv[2] == "read")
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(store: Path, mode: str) -> Iterator[subprocess.Popen[str]]:
    """The history held open by another process, until its input is closed."""
    command = [sys.executable, "-c", HOLD, str(store / HISTORY), mode]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == "held\n"
        yield holder
        holder.communicate()


@pytest.mark.parametrize("mode", ["read", "write"])
def test_a_history_in_use_is_not_written_and_its_holder_is_named(tmp_path: Path, mode: str) -> None:
    whole_run(tmp_path, EARLIER)
    sync(tmp_path)
    whole_run(tmp_path)
    with held(tmp_path, mode) as holder:
        for load in (
            lambda: store_run(tmp_path, RUN, wait_seconds=0.2),
            lambda: sync(tmp_path, wait_seconds=0.2),
            lambda: sync(tmp_path, rebuild=True, wait_seconds=0.2),
        ):
            with pytest.raises(HistoryLocked, match=rf"{HISTORY} is in use: .*python.* \(PID {holder.pid}\)"):
                load()
    assert pending(tmp_path) == [RUN]
    assert sync(tmp_path).loaded == (RUN,)


def test_views_are_planned_as_they_are_written(tmp_path: Path) -> None:
    """DuckDB still knows the optimizer by this name: without it, the same questions take a third longer."""
    whole_run(tmp_path)
    sync(tmp_path)
    assert query(tmp_path, "SELECT current_setting('disabled_optimizers')").rows == [("distinct_aggregate_rewrite",)]


def test_readers_share_the_history_and_a_writer_keeps_them_out(tmp_path: Path) -> None:
    whole_run(tmp_path)
    sync(tmp_path)
    with held(tmp_path, "read"):
        assert query(tmp_path, "SELECT run_id FROM runs", wait_seconds=0).rows == [(RUN,)]
    with held(tmp_path, "write") as holder, pytest.raises(HistoryLocked, match=f"PID {holder.pid}"):
        query(tmp_path, "runs", wait_seconds=0.1)


def test_whoever_finds_the_history_in_use_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole_run(tmp_path, EARLIER)
    sync(tmp_path)
    whole_run(tmp_path)
    waits: list[float] = []
    with held(tmp_path, "write") as holder:

        def release(seconds: float) -> None:
            waits.append(seconds)
            holder.communicate()

        monkeypatch.setattr("tasks.history.database.time.sleep", release)
        store_run(tmp_path, RUN, wait_seconds=30)
    assert len(waits) == 1
    assert pending(tmp_path) == []


@pytest.mark.parametrize("read_only", [True, False])
def test_a_connection_of_this_process_counts_as_a_holder(tmp_path: Path, read_only: bool) -> None:
    whole_run(tmp_path)
    sync(tmp_path)
    with duckdb.connect(tmp_path / HISTORY, read_only=read_only):
        for use in (lambda: store_run(tmp_path, RUN, 0.1), lambda: query(tmp_path, "runs", 0.1)):
            with pytest.raises(HistoryLocked, match=rf"this process \(PID {os.getpid()}\)"):
                use()


def test_two_processes_that_store_at_once_both_land(tmp_path: Path) -> None:
    runs = (EARLIER, RUN)
    for run_id in runs:
        whole_run(tmp_path, run_id)
    code = """
import pathlib, sys
from tasks.history.loading import store_run
store_run(pathlib.Path(sys.argv[1]), sys.argv[2], wait_seconds=60)
"""
    with (
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), EARLIER]) as one,
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), RUN]) as other,
    ):
        assert (one.wait(), other.wait()) == (0, 0)
    assert [run_id for (run_id,) in ask(tmp_path, "SELECT run_id FROM runs ORDER BY run_id")] == list(runs)
    assert pending(tmp_path) == []
