"""Sending a run to a bucket that fails or hangs: a warning, without delaying the run or the end of the process.

`test_remote` covers the transfer itself.
"""

import asyncio
import fcntl
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from factories import RUN, end, outcome, start, write_run
from loopback_judge import LoopbackJudge
from prefect import tags
from s3_server import S3Server
from written_images import prompt_row, write_geneval

from tasks.errors import InputError
from tasks.extensions import bucket
from tasks.extensions.bucket import Sending, fetch_replies
from tasks.ledger.remote import Remote, is_remote, local_cache
from tasks.ledger.run_files import BATCHES, END, OUTCOMES, folder

pytestmark = pytest.mark.usefixtures("without_pages")
RUN_ID = "20261120T120000000-diagram-000001"


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    """Return a bucket and its local cache, which holds a finished run."""
    write_run(tmp_path / "local_cache", start(RUN_ID), [outcome("s1")], end(RUN_ID))
    return Remote(f"file://{tmp_path / 'place'}", tmp_path / "local_cache")


@contextmanager
def unreadable_file(remote: Remote) -> Iterator[None]:
    """Make a file of the run unreadable: an error that is not the bucket's."""
    batches = folder(remote.folder, RUN_ID) / BATCHES
    batches.mkdir()
    yield
    batches.rmdir()


@contextmanager
def locked_run(remote: Remote) -> Iterator[None]:
    """Hold the lock of the run, as another sender that never finishes."""
    with (folder(remote.folder, RUN_ID) / OUTCOMES).open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


async def until(condition: Callable[[], bool]) -> None:
    while True:
        if condition():
            return
        await asyncio.sleep(0.02)


def test_run_that_cannot_be_sent_gives_a_warning(remote: Remote) -> None:
    async def run() -> tuple[str, ...]:
        with unreadable_file(remote):
            async with Sending(remote, RUN_ID) as ledger:
                return await ledger.finish()

    [warning] = asyncio.run(run())
    assert "could not be sent whole (" in warning and "`jury store sync` sends the rest" in warning


def test_sending_continues_after_errors(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket, "EVERY_SECONDS", 0.05)
    tried: list[str] = []
    monkeypatch.setattr(bucket._log, "warning", lambda words, *_: tried.append(words))

    async def run() -> None:
        async with Sending(remote, RUN_ID):
            with unreadable_file(remote):
                await until(lambda: len(tried) >= 2)
            await until(lambda: f"ledger/{RUN_ID}/{END}" in remote.bucket.sizes("ledger"))

    asyncio.run(asyncio.wait_for(run(), 30))


@pytest.mark.parametrize("awake", [False, True], ids=["at the end", "since before the end"])
def test_run_ends_in_time_although_sending_hangs(remote: Remote, awake: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time limit includes waiting for an earlier transfer, which may hang, too."""
    monkeypatch.setattr(bucket, "PATIENCE_SECONDS", 0.3)

    async def run() -> tuple[str, ...]:
        async with Sending(remote, RUN_ID) as ledger:
            if awake:
                ledger.wake()
                await until(ledger._turn.locked)
            return await ledger.finish()

    began = time.monotonic()
    with locked_run(remote):
        [warning] = asyncio.run(asyncio.wait_for(run(), 30))
        assert time.monotonic() - began < 5
    assert "could not be sent whole (it took longer than 0.3 s)" in warning


HANG = f"""
import asyncio, sys
from pathlib import Path
from tasks.extensions import bucket
from tasks.ledger.bucket import in_daemon_thread
from tasks.ledger.remote import Remote
bucket.PATIENCE_SECONDS = 0.3

async def run():
    async with bucket.Sending(Remote(sys.argv[1], Path(sys.argv[2])), "{RUN_ID}") as ledger:
        print(*await ledger.finish())

asyncio.run(run())
"""


def test_process_exits_although_sending_hangs(remote: Remote, commands: Path) -> None:
    with locked_run(remote):
        command = [commands / "forked", "-c", HANG, remote.bucket.url, str(remote.folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "could not be sent whole" in done.stdout, done.stderr


def test_failed_fetch_of_replies_gives_a_warning(remote: Remote, tmp_path: Path) -> None:
    assert asyncio.run(Sending(remote, RUN_ID).finish()) == ()
    (tmp_path / "elsewhere").write_text("a file where the local cache should be")
    hours, [warning] = asyncio.run(fetch_replies(Remote(remote.bucket.url, tmp_path / "elsewhere"), 1e6))
    assert hours == 0 and "could not be fetched" in warning and "File exists" in warning and "elsewhere" in warning


# Whole runs, and their use on other machines

MACHINES = pytest.mark.usefixtures("prefect_server")


@pytest.fixture
def run_on(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jury: Any) -> Any:
    """Return a function that runs a command on a machine with its own local cache, and returns both outputs."""

    def run(machine: str, *given: str) -> tuple[str, str]:
        monkeypatch.setenv("JURY_CACHE", str(tmp_path / machine))
        code, out, err = jury(*given, "--store", url)
        assert code == 0
        return out, err

    return run


def clocks(place: Path, prompts: int, images: int, loopback: LoopbackJudge) -> list[str]:
    """Return a command that judges drawn images."""
    root = write_geneval(place / "images", [prompt_row(f"clock {n}", "counting") for n in range(prompts)], images)
    return ["run", "counting", "--dataset", str(root), "--judge.base-url", loopback.base_url, "--judge.model"]


@MACHINES
def test_another_machine_gets_history_and_replies(tmp_path: Path, run_on: Any, loopback: LoopbackJudge) -> None:
    run = [*clocks(tmp_path, 3, 2, loopback), "m", "--chunk-size", "4"]
    run_on("one", *run)
    calls = loopback.count
    run_on("two", "store", "sync")
    out, _ = run_on("two", "query", "SELECT scored, n FROM t2i_leaderboard WHERE tag = 'counting'", "--json")
    assert json.loads(out) == [{"scored": 6, "n": 6}]
    run_on("two", *run)
    assert loopback.count == calls


@MACHINES
def test_absent_bucket_gives_a_warning(tmp_path: Path, run_on: Any, server: S3Server, loopback: LoopbackJudge) -> None:
    with server.failing(refuses=lambda _: True):
        assert "`jury store sync` sends the rest" in run_on("one", *clocks(tmp_path, 1, 2, loopback), "m")[1]
    assert "1 run sent" in run_on("one", "store", "sync")[0]


@MACHINES
def test_nights_of_two_machines_are_one_series(tmp_path: Path, jury_on: Any, loopback: LoopbackJudge) -> None:
    given = clocks(tmp_path, 30, 1, loopback)

    def night(machine: str) -> None:
        with tags("scheduled"):
            assert jury_on(machine, *given, "m", "--anchors", "4", "--reuse-hours", "0")[0] == 0

    def ask(machine: str, sql: str) -> list[dict[str, Any]]:
        return json.loads(jury_on(machine, "query", sql, "--json")[1])

    night("one")
    night("two")
    sql = """SELECT count(*) AS n, count(DISTINCT anchors_key) AS sets, (SELECT max(night) FROM nights) AS nights,
        (SELECT list(run_id ORDER BY started_at) FROM runs) AS runs FROM anchor_nights"""
    [found] = ask("two", sql)
    old, new = found.pop("runs")
    assert found == {"n": 2, "sets": 1, "nights": 2}
    assert jury_on("two", "judge", "bridge", old, new)[0] == 3  # 30 equal scores are too few for a decision
    assert jury_on("one", "store", "sync")[0] == 0
    kept = "SELECT DISTINCT old_run, new_run, old_judge, new_judge, n FROM bridges"
    assert ask("one", kept) == [{"old_run": old, "new_run": new, "old_judge": "m", "new_judge": "m", "n": 30}]


# Store URLs: only a bare URL opens a remote store, and errors explain why


@pytest.mark.parametrize(
    "store",
    [
        "s3://AKIA:s3cr3t@bucket/x", "s3://AKIA:s3/cr3t@bucket/x", "s3://bucket/x?key=s3cr3t", "s3://bucket#s3cr3t",
        "s3:/AKIA:s3cr3t@bucket",
    ],
)  # fmt: skip
def test_credentials_in_a_url_are_refused_without_quoting_them(store: str, tmp_path: Path) -> None:
    for use in (local_cache, lambda store: Remote(store, tmp_path)):
        with pytest.raises(ValueError, match="credentials belong into the worker's environment") as refused:
            use(store)
        assert "cr3t" not in str(refused.value)


URLS = ["s3:/bucket/x", "s3://", "s3:///x", "simplecache::s3://bucket/x", "S3://b/x", "nonsense://x"]


@pytest.mark.parametrize("store", URLS)
def test_malformed_store_url_is_refused(store: str, tmp_path: Path) -> None:
    assert is_remote(store)
    with pytest.raises(ValueError, match=r"no URL of a remote store, such as s3|opened: Protocol not known: nonsense"):
        Remote(store, tmp_path)


def test_missing_s3_extra_is_reported_only_for_remote_stores(tmp_path: Path) -> None:
    """In a process that cannot import the package, as if the extra were not installed."""
    code = """if True:
        import sys
        from pathlib import Path
        sys.modules["s3fs"] = None
        from tasks.ledger.remote import Remote, is_remote, local_cache
        print(is_remote("s3://b/x"), local_cache("store"), local_cache("s3://b/x").name[:4], "fsspec" in sys.modules)
        try:
            Remote("s3://b/x", Path("."))
        except ValueError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[1])
    first, second = done.stdout.splitlines()
    assert first == "True store b-x- False"
    assert second.startswith("The store s3://b/x needs a package")
    assert second.endswith("pip install -e '.[s3]', in the folder of Image Jury")


@pytest.mark.parametrize("name", ["a?b", "?", "a\\b", "a?b=1#c"])
def test_store_folder_that_duckdb_cannot_open_is_refused_first(
    name: str, tmp_path: Path, jury: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).mkdir()
    code, _, err = jury("run", "position", "--dataset", "samples", "--limit", 1, "--store", tmp_path / name)
    assert code == 2 and "with which DuckDB cannot open the history" in err and not [*(tmp_path / name).iterdir()]
    monkeypatch.setenv("JURY_CACHE", str(tmp_path / name))
    monkeypatch.chdir(tmp_path / name)
    for store in ("s3://bucket/x", "store"):
        with pytest.raises(InputError, match="choose another folder"):
            local_cache(store)


@pytest.mark.parametrize("name", ["a%3Fb", "a*[b]", "a'b"])
def test_other_odd_folder_names_work_as_stores(name: str, tmp_path: Path, jury: Any) -> None:
    write_run(tmp_path / name, start(RUN), [outcome()], end())
    assert jury("store", "sync", "--store", tmp_path / name)[0] == 0
    assert jury("query", "SELECT count(*) AS n FROM runs", "--store", tmp_path / name)[1] == "n\n-\n1\nrows: 1\n"


ODD = {
    "900 characters": f"ledger/{'r' * 900}/run.json",
    "300 bytes": f"labels/{'語' * 100}/label.json",
    "an empty part": "ledger//run.json",
    "this folder": "alarms/./told-x.json",
    "the folder above": "labels-removed/../ledger/x.json",
    "the cache itself": "ledger/../run.json",
    "no character": "calls/a\0/calls.jsonl",
}


def test_objects_without_a_valid_file_name_are_skipped_and_reported(
    tmp_path: Path, jury: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JURY_CACHE", str(tmp_path / "cache"))
    url = f"memory://{uuid4().hex}/shared"
    write_run(tmp_path / "other", start(RUN), [outcome()], end())
    other = Remote(url, tmp_path / "other")
    other.send_all()
    foreign = ("ledger/a/b/run.json", "ledger/.r/run.json")  # possible here, but of no run
    other.bucket.put({name: b"{}" for name in (*ODD.values(), *foreign)} | {"ledger/folder/": b""})
    code, out, err = jury("store", "sync", "--store", url)
    assert code == 0 and "0 runs sent, 1 fetched" in out
    [words] = [line for line in err.splitlines() if "left out" in line]
    assert f"{url}: 7 objects that no file here can be were left out, such as alarms/./told-x.json" in words
    assert [run.name for run in (local_cache(url) / "ledger").iterdir()] == [RUN]
    assert not (local_cache(url) / "run.json").exists()
