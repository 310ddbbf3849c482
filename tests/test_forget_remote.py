"""`jury forget` on remote stores: from the bucket and from every machine's local cache, and nothing brings it back."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from factories import end, start, write_run
from test_forget import CANDIDATE, FIRST, IMAGES, SECOND, SECRET, hashes, places, rows, without_pages, write_store
from test_remote import server, url  # noqa: F401

from flows.commands.forgetting import forget_marked, share_store
from flows.runtime.sending import fetch_replies
from tasks.history.asking import query
from tasks.ledger.forgotten import keep_mark, new_mark
from tasks.ledger.reading import folder, read_judgments, read_outcomes
from tasks.ledger.remote import Remote, local_cache
from tasks.ledger.reuse import earlier_replies

pytestmark = pytest.mark.usefixtures("drawn_here", "laid_out", without_pages.__name__)
Machine = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_store(tmp_path_factory.mktemp("remote") / "store")


@pytest.fixture
def bucket(tmp_path: Path) -> str:
    (tmp_path / "bucket").mkdir()
    return f"file://{tmp_path / 'bucket'}"


@pytest.fixture
def on(bucket: str, tmp_path: Path, jury: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Run a command on one of several machines, each with a local cache of its own."""

    def run(machine: str, *given: str) -> tuple[int, str, str]:
        monkeypatch.setenv("JURY_CACHE", str(tmp_path / machine))
        return jury(*given, "--store", bucket)

    return run


def cache(tmp_path: Path, machine: str, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JURY_CACHE", str(tmp_path / machine))
    return local_cache(bucket)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (("--sample", SECRET), (SECRET, *hashes(f"{SECRET}h", f"{SECRET}m"))),
        (("--candidate", CANDIDATE), (CANDIDATE, *hashes("s10h", "s10m"))),
        (("--run", SECOND), (SECOND, CANDIDATE, *hashes("s10h", "s10m"))),
    ],
)
def test_nothing_is_left_in_bucket_and_caches(
    written: Path,
    tmp_path: Path,
    bucket: str,
    on: Machine,
    monkeypatch: pytest.MonkeyPatch,
    given: tuple[str, ...],
    names: tuple[str, ...],
) -> None:
    first = cache(tmp_path, "one", bucket, monkeypatch)
    shutil.copytree(written, first)
    assert on("one", "sync")[0] == 0 == on("two", "sync")[0]
    second, there = cache(tmp_path, "two", bucket, monkeypatch), tmp_path / "bucket"
    assert places(there, *names) and places(second, *names)
    code, out, err = on("one", "forget", *given, "--yes")
    assert (code, err) == (0, "") and "Other machines remove it with their next `jury sync`" in out
    assert places(there, *names) == [] == places(first, *names)
    assert on("two", "sync")[0] == 0
    assert places(second, *names) == [] == places(there, *names)
    assert on("three", "sync")[0] == 0
    third = cache(tmp_path, "three", bucket, monkeypatch)
    assert places(third, *names) == []
    sql = "SELECT run_id, candidate, n, forgotten FROM coverage"
    found = [sorted(query(each, sql).rows) for each in (first, second, third)]
    assert found[0] == found[1] == found[2] and {row[0] for row in found[0]} >= {FIRST, IMAGES}


def test_what_another_machine_sends_later_goes_again(
    written: Path, tmp_path: Path, bucket: str, on: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(written, cache(tmp_path, "one", bucket, monkeypatch))
    assert on("one", "sync")[0] == 0 == on("one", "forget", "--sample", SECRET, "--yes")[0]
    # A run that had begun before, on a machine that does not know yet.
    late = cache(tmp_path, "two", bucket, monkeypatch)
    run = start("20261119T130000-diagram-0000ff", samples=10, started_at="2026-11-19T13:00:00+00:00")
    write_run(late, run, rows(), end())
    Remote(bucket, late).send(run.run_id)
    assert places(tmp_path / "bucket", SECRET)
    assert on("one", "sync")[0] == 0
    first = cache(tmp_path, "one", bucket, monkeypatch)
    assert places(tmp_path / "bucket", SECRET) == [] == places(first, SECRET)
    assert len([*read_outcomes(folder(first, run.run_id))]) == 9
    assert on("two", "sync")[0] == 0
    assert places(late, SECRET) == [] == places(tmp_path / "bucket", SECRET)


def test_a_machine_that_has_not_synced_lends_no_reply_of_it(
    written: Path, tmp_path: Path, bucket: str, on: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(written, cache(tmp_path, "one", bucket, monkeypatch))
    stale = Path(shutil.copytree(written, cache(tmp_path, "two", bucket, monkeypatch)))
    keys = {row.sample_id: row.key for row in read_judgments(folder(stale, FIRST))}
    now = start("20991231T000000-diagram-000new", started_at="2026-11-21T12:00:00+00:00")

    def lent() -> set[str]:
        hours, _ = asyncio.run(fetch_replies(Remote(bucket, stale), 1e6))
        replies = earlier_replies(stale, now, hours)
        return {sample for sample, key in keys.items() if replies.find(key)}

    assert on("one", "sync")[0] == 0 and lent() == {*keys}
    assert on("one", "forget", "--sample", SECRET, "--yes")[0] == 0
    assert lent() == {*keys} - {SECRET} and places(stale, SECRET)


def test_a_bucket_of_objects_loses_it_too(written: Path, tmp_path: Path, url: str) -> None:  # noqa: F811
    remote = Remote(url, Path(shutil.copytree(written, tmp_path / "one")))
    shutil.rmtree(remote.folder / "budget")  # which a remote store has in its bucket
    share_store(remote)
    assert any(SECRET.encode() in data for data in remote.bucket.get([*remote.bucket.sizes("")]).values())
    keep_mark(remote.folder, new_mark("sample", SECRET, ""))
    assert forget_marked(remote.folder, remote).anything
    left = remote.bucket.get([*remote.bucket.sizes("")])
    assert len(left) > 20 and not [name for name, data in left.items() if SECRET.encode() in name.encode() + data]
    assert not {f"pictures/{sha256}.jpg" for sha256 in hashes(f"{SECRET}h", f"{SECRET}m")} & {*left}
    fresh = Remote(url, tmp_path / "two")
    share_store(fresh)
    assert len([*read_outcomes(folder(fresh.folder, FIRST))]) == 9 and places(fresh.folder, SECRET) == []
