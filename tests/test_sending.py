"""The sending of a run whose place fails or hangs: it costs a warning, and neither the run nor the end of the process.

What arrives, and how, is tested with `remote`.
"""

import asyncio
import fcntl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from factories import end, outcome, start, write_run
from test_remote import S3Server, server, url  # noqa: F401

from flows.cli import main
from flows.runtime import sending
from flows.runtime.sending import Sending, fetch_replies, in_daemon_thread
from tasks.ledger.bucket_parts import SENT
from tasks.ledger.forgotten import FOLDER as FORGOTTEN
from tasks.ledger.forgotten import keep_mark, marks, new_mark
from tasks.ledger.reading import END, RUN, folder
from tasks.ledger.remote import Remote, local_cache
from tasks.ledger.remote_pictures import PICTURES

RUN_ID = "20261120T120000000-diagram-000001"


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    """A place beside this machine's local cache, which holds a finished run."""
    write_run(tmp_path / "local_cache", start(RUN_ID), [outcome("s1")], end(RUN_ID))
    return Remote(f"file://{tmp_path / 'place'}", tmp_path / "local_cache")


@contextmanager
def spoilt(remote: Remote) -> Iterator[None]:
    """The run's notes cannot be read or written: an error that is not the place's."""
    notes = folder(remote.folder, RUN_ID) / SENT
    notes.mkdir()
    yield
    notes.rmdir()


@contextmanager
def stuck(remote: Remote) -> Iterator[None]:
    """Somebody else sends the run and does not come to an end."""
    with (folder(remote.folder, RUN_ID) / RUN).open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def arrived(remote: Remote) -> bool:
    return f"ledger/{RUN_ID}/{END}" in remote.bucket.sizes("ledger")


async def until(condition: Callable[[], bool]) -> None:
    while True:
        if condition():
            return
        await asyncio.sleep(0.02)


def test_what_is_left_is_sent_at_the_end(remote: Remote) -> None:
    async def run() -> tuple[str, ...]:
        async with Sending(remote, RUN_ID) as ledger:
            return await ledger.finish()

    assert asyncio.run(run()) == () and arrived(remote)


def test_a_run_that_cannot_be_sent_is_told_whatever_the_error(remote: Remote) -> None:
    async def run() -> tuple[str, ...]:
        with spoilt(remote):
            async with Sending(remote, RUN_ID) as ledger:
                return await ledger.finish()

    [warning] = asyncio.run(run())
    assert "could not be sent whole ([Errno 21] Is a directory" in warning and "`jury sync` sends the rest" in warning


def test_the_sending_goes_on_after_any_error(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "EVERY_SECONDS", 0.05)
    tried: list[str] = []
    monkeypatch.setattr(sending._log, "warning", lambda words, *_: tried.append(words))

    async def run() -> None:
        async with Sending(remote, RUN_ID):
            with spoilt(remote):
                await until(lambda: len(tried) >= 2)
            await until(lambda: arrived(remote))

    asyncio.run(asyncio.wait_for(run(), 30))


@pytest.mark.parametrize("awake", [False, True], ids=["at the end", "since before the end"])
def test_a_run_whose_sending_hangs_ends_after_its_patience(
    remote: Remote, awake: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn is part of the wait: what was sent before may hang, too."""
    monkeypatch.setattr(sending, "PATIENCE_SECONDS", 0.3)

    async def run() -> tuple[str, ...]:
        async with Sending(remote, RUN_ID) as ledger:
            if awake:
                ledger.wake()
                await until(ledger._turn.locked)
            return await ledger.finish()

    began = time.monotonic()
    with stuck(remote):
        [warning] = asyncio.run(asyncio.wait_for(run(), 30))
        assert time.monotonic() - began < 5
    assert "could not be sent whole (it took longer than 0.3 s)" in warning


HANG = f"""
import asyncio, sys
from pathlib import Path
from flows.runtime import sending
from tasks.ledger.remote import Remote

sending.PATIENCE_SECONDS = 0.3

async def run():
    async with sending.Sending(Remote(sys.argv[1], Path(sys.argv[2])), "{RUN_ID}") as ledger:
        print(*await ledger.finish())

asyncio.run(run())
"""


def test_a_process_ends_though_its_sending_hangs(remote: Remote) -> None:
    with stuck(remote):
        command = [sys.executable, "-c", HANG, remote.bucket.url, str(remote.folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "could not be sent whole" in done.stdout, done.stderr


def test_replies_that_cannot_be_fetched_are_told_whatever_the_error(remote: Remote, tmp_path: Path) -> None:
    assert asyncio.run(Sending(remote, RUN_ID).finish()) == ()
    (tmp_path / "elsewhere").write_text("a file where the local cache should be")
    hours, [warning] = asyncio.run(fetch_replies(Remote(remote.bucket.url, tmp_path / "elsewhere"), 1e6))
    assert hours == 1e6 and "could not be fetched" in warning and "File exists" in warning and "elsewhere" in warning


def test_where_it_is_not_known_what_was_forgotten_no_reply_is_reused(
    tmp_path: Path,
    server: S3Server,  # noqa: F811
    url: str,  # noqa: F811
) -> None:
    one, two = Remote(url, tmp_path / "one"), Remote(url, tmp_path / "two")
    keep_mark(two.folder, new_mark("sample", "s1", ""))
    two.send_folder(FORGOTTEN)
    assert asyncio.run(fetch_replies(one, 20.0)) == (20.0, ())
    assert [mark.means("s1") for mark in marks(one.folder)] == [True]
    server.refuses = lambda _: True
    try:
        hours, [warning] = asyncio.run(fetch_replies(one, 20.0))
    finally:
        server.refuses = lambda _: False
    assert hours == 0 and "told to forget is not known now, so that no earlier reply is reused: " in warning
    assert asyncio.run(fetch_replies(None, 20.0)) == (20.0, ()), "a folder is asked nothing"


def test_a_thread_tells_what_it_returns_and_what_it_raises() -> None:
    def fail() -> None:
        raise KeyError("gone")

    assert asyncio.run(in_daemon_thread(lambda: 7)) == 7
    with pytest.raises(KeyError, match="gone"):
        asyncio.run(in_daemon_thread(fail))


@pytest.mark.usefixtures("prefect_server", "drawn_here")
def test_a_finished_run_that_cannot_be_sent_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JURY_MIRROR", str(tmp_path / "local_cache"))
    store = f"file://{tmp_path / 'place'}"
    (local_cache(store) / PICTURES).mkdir(parents=True)
    assert main(["run", "counting", "--limit", "1", "--store", store]) == 0
    assert "could not be sent whole ([Errno 21] Is a directory" in capsys.readouterr().err
