"""`jury store forget` with remote stores: data leaves the bucket and every local cache, and nothing restores it."""

import asyncio
import json
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from factories import end, judgment, outcome, start, write_run
from s3_server import s3
from test_forget import FIRST, IMAGES, SECOND, SECRET, hashes, places, rows, spent, write_store

from flows.commands import store
from flows.commands.pages import exchange_all
from tasks.extensions.bucket import fetch_replies
from tasks.history.forgetting import carry_out, keep_plan, make_plan
from tasks.history.landing import land
from tasks.history.queries import query
from tasks.ledger.bucket import RemoteUnavailable
from tasks.ledger.labels import label_folders, read_label_set
from tasks.ledger.remote import Remote, local_cache
from tasks.ledger.removals import UNFINISHED, mark_of
from tasks.ledger.reuse import earlier_replies
from tasks.ledger.run_files import RUN, folder, read_judgments, read_outcomes, run_folders

pytestmark = pytest.mark.usefixtures("without_pages")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_store(tmp_path_factory.mktemp("remote") / "store")


class Machines:
    """Several machines with one bucket, each with its own local cache."""

    def __init__(self, place: Path, jury: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
        self._place, self._jury, self._monkeypatch = place, jury, monkeypatch
        self.there = place / "bucket"
        self.there.mkdir()
        self.bucket = f"file://{self.there}"

    def __call__(self, machine: str, *given: str) -> tuple[str, str]:
        """Run a command on a machine; return its standard output and standard error."""
        self._monkeypatch.setenv("JURY_CACHE", str(self._place / machine))
        code, out, err = self._jury(*given, "--store", self.bucket)
        assert code == 0, err
        return out, err

    def cache(self, machine: str, written: Path | None = None) -> Path:
        """Return a machine's local cache, first filled with a copy of `written` if given."""
        self._monkeypatch.setenv("JURY_CACHE", str(self._place / machine))
        place = local_cache(self.bucket)
        return Path(shutil.copytree(written, place)) if written else place


@pytest.fixture
def jury_on(tmp_path: Path, jury: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch) -> Machines:
    return Machines(tmp_path, jury, monkeypatch)


def test_forgotten_data_leave_bucket_and_caches_and_old_copies_are_replaced(
    written: Path, tmp_path: Path, jury_on: Machines
) -> None:
    given, names = ("--sample", SECRET), (SECRET, *hashes(f"{SECRET}h", f"{SECRET}m"))
    first, second = jury_on.cache("one", written), jury_on.cache("two")
    jury_on("one", "store", "sync")
    jury_on("two", "store", "sync")
    assert places(jury_on.there, *names) and places(second, *names)
    backup = shutil.copytree(jury_on.there, tmp_path / "backup")
    Remote(jury_on.bucket, first).bucket.put({"pages/CNAME": b"ours.example"})
    out, err = jury_on("one", "store", "forget", *given, "--yes")
    assert (jury_on.there / "pages" / "CNAME").exists(), "another program's"
    assert not err and "Other machines remove it with their next run or `jury store sync`" in out
    assert places(jury_on.there, *names) == [] == places(first, *names)
    jury_on("two", "store", "sync")
    assert places(second, *names) == [] == places(jury_on.there, *names)
    jury_on("one", "store", "forget", "--run", SECOND, "--yes")
    shutil.rmtree(jury_on.there / "ledger")
    shutil.copytree(backup / "ledger", jury_on.there / "ledger")
    jury_on("one", "store", "sync")
    assert places(jury_on.there / "ledger", SECRET) == []
    assert [file.name for file in (jury_on.there / "ledger" / SECOND).iterdir()] == ["removed.json"]
    # The labels went with their run, so their name is free on each machine.
    jury_on("two", "store", "sync")
    file = tmp_path / "reader.jsonl"
    file.write_text('{"id": "s1", "dimension": "overall", "verdict": "Model"}\n')
    jury_on("two", "labels", "import", str(file), "--flow", "diagram")
    for machine in ("one", "two", "three"):
        jury_on(machine, "store", "sync")
        assert [read_label_set(place).source for place in label_folders(jury_on.cache(machine))] == ["reader.jsonl"]
        assert places(jury_on.cache(machine), *names) == []
    sql = "SELECT run_id, candidate, n, revision FROM coverage"
    found = [sorted(query(jury_on.cache(each), sql).rows) for each in ("one", "two", "three")]
    assert found[0] == found[1] == found[2] and {row[0] for row in found[0]} == {FIRST, IMAGES}


def test_machines_that_forget_while_one_asks_a_person_both_succeed(
    written: Path, jury_on: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = ("one", "store", "forget", "--sample", "s1", "--yes")
    monkeypatch.setattr(store, "_is_meant", lambda: bool(jury_on(*other) and jury_on.cache("two")))
    caches = jury_on.cache("one", written), jury_on.cache("two")
    jury_on("one", "store", "sync")
    jury_on("two", "store", "forget", "--sample", SECRET)
    jury_on("one", "store", "sync")
    for place in (*caches, jury_on.there):
        assert places(place / "ledger", SECRET, '"s1"') == []


def test_machine_with_a_full_cache_restores_nothing(written: Path, jury_on: Machines) -> None:
    """Machine two made and sent the runs; one forgets a run; two's next run fetches, and then two sends all it has."""
    first, second = jury_on.cache("one"), jury_on.cache("two", written)
    lost = write_run(second, start(), rows("s11"), end())
    torn = write_run(second, start("20261121T000000-diagram-00000f"), rows("s11"), end())
    land(second)
    shutil.rmtree(lost)

    def only_in_history() -> list[list[tuple[Any, ...]]]:
        tables = ("coverage", "judgments", "leaderboard", "reliability", "samples")
        of = f"WHERE run_id IN ('{lost.name}', '{torn.name}')"
        return [sorted(query(second, f"FROM {table} {of}").rows, key=str) for table in tables]

    before, cost = only_in_history(), spent(second)
    for machine, command in (
        ("two", ["store", "sync"]),
        ("one", ["store", "sync"]),
        ("one", ["store", "forget", "--run", FIRST, "--yes"]),
    ):
        jury_on(machine, *command)
    assert spent(first) == cost
    remote, whole = Remote(jury_on.bucket, second), (torn / RUN).read_bytes()
    (torn / RUN).write_text("torn")
    asyncio.run(fetch_replies(remote, 1e6))
    (torn / RUN).write_bytes(whole)
    now = start("20261122T000000-diagram-0000ff", started_at="2026-11-22T00:00:00+00:00")
    write_run(second, now, [judgment("s1"), outcome("s1")], end())
    exchange_all(remote)
    Remote(jury_on.bucket, first).fetch()
    for place in (jury_on.there, second, first):
        assert [file.name for file in (place / "ledger" / FIRST).iterdir()] == ["removed.json"]
    assert spent(second) == spent(first) == cost + 0.25 and not (second / UNFINISHED).exists()
    assert now.run_id in {run.name for run in run_folders(first)}
    assert all(before) and only_in_history() == before
    remote.bucket.put({f"ledger/{SECOND}/{mark_of(9)}": b""})
    remote.bucket.remove([f"ledger/{SECOND}/run.json"])  # another machine is about to replace the run
    asyncio.run(fetch_replies(remote, 1e6))
    assert {run_id for (run_id,) in query(second, "SELECT run_id FROM runs").rows} == {
        *(IMAGES, now.run_id, lost.name, torn.name)
    }


def test_machine_that_has_not_synced_reuses_no_forgotten_reply(written: Path, jury_on: Machines) -> None:
    jury_on.cache("one", written)
    stale = jury_on.cache("two", written)
    keys = {row.sample_id: row.key for row in read_judgments(folder(stale, FIRST))}
    now = start("20991231T000000-diagram-000new", started_at="2026-11-21T12:00:00+00:00")

    def reusable() -> set[str]:
        hours, _ = asyncio.run(fetch_replies(Remote(jury_on.bucket, stale), 1e6))
        with closing(earlier_replies(stale, now, hours)) as replies:
            return {sample for sample, key in keys.items() if replies.find(key)}

    jury_on("one", "store", "sync")
    assert reusable() == {*keys}
    jury_on("one", "store", "forget", "--sample", SECRET, "--yes")
    shutil.rmtree(stale / ".history")
    (stale / ".history").symlink_to(jury_on.there)  # the history cannot be made, which costs no reply
    assert reusable() == {*keys} - {SECRET} and (stale / UNFINISHED).exists() and places(stale / "ledger", SECRET) == []


def test_forgotten_sample_leaves_an_s3_bucket(written: Path, tmp_path: Path, url: str) -> None:
    remote = Remote(url, Path(shutil.copytree(written, tmp_path / "one")))
    exchange_all(remote)
    assert any(SECRET.encode() in data for data in remote.bucket.get([*remote.bucket.sizes("")]).values())
    keep_plan(remote.folder, make_plan(remote.folder, "sample", SECRET, ""))
    bucket = url.split("/")[2]
    denied = {"Effect": "Deny", "Principal": "*", "Action": "s3:DeleteObject", "Resource": f"arn:aws:s3:::{bucket}/*"}
    policy = {"Version": "2012-10-17", "Statement": [denied]}
    s3().put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))
    with pytest.raises(RemoteUnavailable, match=r"objects to remove are still there, such as ledger/.*s3:DeleteObject"):
        carry_out(remote.folder, remote)
    s3().delete_bucket_policy(Bucket=bucket)
    carry_out(remote.folder, remote)
    left = remote.bucket.get([*remote.bucket.sizes("")])
    assert len(left) > 20 and not [name for name, data in left.items() if SECRET.encode() in name.encode() + data]
    assert not {f"pictures/{sha256}.jpg" for sha256 in hashes(f"{SECRET}h", f"{SECRET}m")} & {*left}
    fresh = Remote(url, tmp_path / "two")
    exchange_all(fresh)
    assert len([*read_outcomes(folder(fresh.folder, FIRST))]) == 5 and places(fresh.folder, SECRET) == []
