"""Ledgers in a bucket: transferred whole, once and in order, despite failures on the way."""

import hashlib
import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from factories import end, judgment, outcome, picture, start
from png_files import png
from s3_server import S3Server, s3

from tasks.labels.labeling import import_labels
from tasks.ledger import remote
from tasks.ledger.bucket import RemoteUnavailable
from tasks.ledger.labels import Exchanged, LabelSet, exchange_labels
from tasks.ledger.remote import Remote, is_remote, local_cache
from tasks.ledger.run_files import END, JUDGMENTS, OUTCOMES, RUN, Ledger, folder, read_judgments
from tasks.pictures.thumbnails import Thumbnails

Opener = Callable[[Path], Ledger]


@pytest.fixture
def open_ledger() -> Iterator[Opener]:
    with ExitStack() as ledgers:
        yield lambda store: ledgers.enter_context(closing(Ledger(store, start("r1"))))


@pytest.fixture
def disk(tmp_path: Path) -> str:
    """Address of a store in a folder, for which the rules are the same as for a bucket."""
    return f"file://{tmp_path}/disk"


def versions(url: str) -> dict[str, list[str]]:
    """Return the ETags of every version written, by object name below the store."""
    name, _, prefix = url.removeprefix("s3://").partition("/")
    found: dict[str, list[str]] = {}
    for page in s3().get_paginator("list_object_versions").paginate(Bucket=name, Prefix=prefix):
        for version in page.get("Versions", []):
            found.setdefault(version["Key"].removeprefix(f"{prefix}/"), []).append(version["ETag"])
    return found


def read_object(url: str, name: str) -> bytes:
    where, _, prefix = url.removeprefix("s3://").partition("/")
    return s3().get_object(Bucket=where, Key=f"{prefix}/{name}")["Body"].read()


def sent_lines(url: str, run_id: str, file: str) -> bytes:
    """Return the file assembled from its parts in the bucket."""
    stem = Path(file).stem
    names = sorted(name for name in versions(url) if name.startswith(f"ledger/{run_id}/{stem}-"))
    return b"".join(read_object(url, name) for name in names)


def judge_sample(ledger: Ledger, sample_id: str, run_id: str) -> None:
    """Add the rows of one sample: a judgment, its pictures and the outcome."""
    ledger.append(judgment(sample_id=sample_id, run_id=run_id))
    (pictures := ledger.folder.parents[1] / "pictures").mkdir(exist_ok=True)
    for name in (f"{sample_id}h", f"{sample_id}m"):
        (pictures / f"{picture(name).source_sha256}.jpg").write_bytes(f"thumbnail of {name}".encode())
    ledger.append(outcome(sample_id, run_id=run_id))


def write_whole_run(store: Path, run_id: str, samples: int = 2, ended: bool = True) -> None:
    ledger = Ledger(store, start(run_id, samples=samples))
    for number in range(samples):
        judge_sample(ledger, f"s{number}", run_id)
    if ended:
        ledger.end(end(run_id))
    ledger.close()


def ledgers(store: Path) -> dict[str, bytes]:
    """Return the files of all runs that the history is made from."""
    found = (file for name in (RUN, JUDGMENTS, OUTCOMES, END) for file in store.glob(f"ledger/*/{name}"))
    return {str(file.relative_to(store)): file.read_bytes() for file in found}


def rows_of(store: Path, run_id: str) -> tuple[bytes, bytes]:
    run = folder(store, run_id)
    return (run / JUDGMENTS).read_bytes(), (run / OUTCOMES).read_bytes()


def test_growing_run_is_sent_once_and_arrives_equal(url: str, open_ledger: Opener, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    ledger, sender = open_ledger(here), Remote(url, here)
    sender.send("r1")  # nothing to send before the first row
    assert versions(url) == {}
    for number in range(3):
        judge_sample(ledger, f"s{number}", "r1")
        sender.send("r1")
        Remote(url, there).fetch()
        assert rows_of(there, "r1") == rows_of(here, "r1") and not (folder(there, "r1") / END).exists()
    ledger.end(end("r1"))
    sender.send("r1")
    assert Remote(url, there).fetch() == ["r1"]
    written = versions(url)
    assert sum(name.startswith("ledger/r1/") for name in written) == 2 + 2 * 3
    assert all(len(etags) == 1 for etags in written.values()) and ledgers(there) == ledgers(here)


def test_pending_thumbnail_is_made_and_sent_with_its_row(url: str, open_ledger: Opener, tmp_path: Path) -> None:
    data = png(1, 1, 8, 0, b"\0\1")
    sha256 = hashlib.sha256(data).hexdigest()
    with Thumbnails(tmp_path) as thumbnails:
        thumbnails.put_by(sha256, data)
    note = picture("s0m").model_copy(update={"source_sha256": sha256})
    open_ledger(tmp_path).append(outcome("s0", run_id="r1", pictures={"model": note}))
    Remote(url, tmp_path).send("r1")
    assert read_object(url, f"pictures/{sha256}.jpg").startswith(b"\xff\xd8")


def test_pictures_arrive_with_their_rows_and_are_sent_once(url: str, server: S3Server, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for run_id in ("r1", "r2"):
        write_whole_run(here, run_id)
        Remote(url, here).send(run_id)
    Remote(url, there).fetch()
    names = {path.name: path.read_bytes() for path in (here / "pictures").iterdir()}
    assert len(names) == 4
    assert {path.name: path.read_bytes() for path in (there / "pictures").iterdir()} == names
    assert sum("PUT" in request and "/pictures/" in request for request in server.requests) == 4
    # The other machine judges the same pictures, which the bucket already has.
    write_whole_run(there, "r3")
    Remote(url, there).send("r3")
    assert sum("PUT" in request and "/pictures/" in request for request in server.requests) == 4


def test_torn_last_line_is_sent_once_complete(url: str, tmp_path: Path) -> None:
    write_whole_run(tmp_path, "r1", ended=False)
    rows = folder(tmp_path, "r1") / JUDGMENTS
    before, line = rows.read_bytes(), judgment(sample_id="s9", run_id="r1").model_dump_json().encode() + b"\n"
    rows.write_bytes(before + line[:100])
    Remote(url, tmp_path).send("r1")
    assert sent_lines(url, "r1", JUDGMENTS) == before
    rows.write_bytes(before + line)
    Remote(url, tmp_path).send("r1")
    assert sent_lines(url, "r1", JUDGMENTS) == before + line


@pytest.mark.parametrize("lost", ["judgments-0", "outcomes-0", RUN, END])
def test_unanswered_object_is_sent_again(
    lost: str, url: str, open_ledger: Opener, server: S3Server, tmp_path: Path
) -> None:
    ledger = open_ledger(tmp_path)
    judge_sample(ledger, "s1", "r1")
    if lost == END:
        ledger.end(end("r1"))
    losing = server.failing(loses=lambda request: request.startswith("PUT") and f"ledger/r1/{lost}" in request)
    with losing, pytest.raises(RemoteUnavailable):
        Remote(url, tmp_path).send("r1")
    if lost != END:
        judge_sample(ledger, "s2", "r1")
        ledger.end(end("r1"))
    Remote(url, tmp_path).send("r1")
    assert (sent_lines(url, "r1", JUDGMENTS), sent_lines(url, "r1", OUTCOMES)) == rows_of(tmp_path, "r1")


def test_late_shorter_part_over_a_longer_one_leaves_no_gap(disk: str, open_ledger: Opener, tmp_path: Path) -> None:
    ledger, sender = open_ledger(tmp_path / "here"), Remote(disk, tmp_path / "here")
    judge_sample(ledger, "s1", "r1")
    late = rows_of(tmp_path / "here", "r1")[0]
    for sample_id in ("s2", "s3"):
        judge_sample(ledger, sample_id, "r1")
        sender.send("r1")
    sender.bucket.put({f"ledger/r1/judgments-{0:012}.jsonl": late})
    ledger.end(end("r1"))
    sender.send("r1")
    Remote(disk, tmp_path / "there").fetch()
    assert rows_of(tmp_path / "there", "r1") == rows_of(tmp_path / "here", "r1")
    assert (folder(tmp_path / "there", "r1") / END).exists()


def test_server_outage_loses_no_rows(url: str, open_ledger: Opener, server: S3Server, tmp_path: Path) -> None:
    ledger, sender = open_ledger(tmp_path / "here"), Remote(url, tmp_path / "here")
    judge_sample(ledger, "s1", "r1")
    sender.send("r1")
    server.stop()
    try:
        judge_sample(ledger, "s2", "r1")
        with pytest.raises(RemoteUnavailable, match=re.escape(url)):
            sender.send("r1")
        with pytest.raises(RemoteUnavailable, match=re.escape(url)):
            Remote(url, tmp_path / "there").fetch()
        ledger.end(end("r1"))
    finally:
        server.start()
    assert (sender.send_all(), sender.send_all()) == (["r1"], [])
    Remote(url, tmp_path / "there").fetch()
    assert ledgers(tmp_path / "there") == ledgers(tmp_path / "here")


def test_missing_bucket_is_reported_as_unavailable(server: S3Server, tmp_path: Path) -> None:
    write_whole_run(tmp_path, "r1")
    with pytest.raises(RemoteUnavailable, match=r"s3://no-such-bucket/x cannot be used now: .*bucket does not exist"):
        Remote("s3://no-such-bucket/x", tmp_path).send_all()


def test_third_machine_gathers_runs_of_two_others(url: str, server: S3Server, tmp_path: Path) -> None:
    machines = {"one": ("r1", "r3"), "two": ("r2", "r4")}
    for name, run_ids in machines.items():
        for run_id in run_ids:
            write_whole_run(tmp_path / name, run_id, samples=1)
        assert Remote(url, tmp_path / name).send_all() == list(run_ids)
    server.requests.clear()
    assert Remote(url, tmp_path / "one").send_all() == [] and len(server.requests) == 1
    third, everything = Remote(url, tmp_path / "three"), tmp_path / "everything"
    assert (third.fetch(), third.fetch()) == (["r1", "r2", "r3", "r4"], [])
    assert third.send_all() == []  # runs fetched from others are not sent
    for run_id in ("r1", "r2", "r3", "r4"):
        write_whole_run(everything, run_id, samples=1)
    assert ledgers(third.folder) == ledgers(everything)
    assert Remote(url, tmp_path / "one").fetch() == ["r2", "r4"]
    assert ledgers(tmp_path / "one") == ledgers(everything)


def test_fetch_does_not_change_own_runs(disk: str, open_ledger: Opener, tmp_path: Path) -> None:
    ledger, here = open_ledger(tmp_path), Remote(disk, tmp_path)
    judge_sample(ledger, "s1", "r1")
    here.send("r1")
    judge_sample(ledger, "s2", "r1")
    before = rows_of(tmp_path, "r1")
    assert here.fetch() == [] and rows_of(tmp_path, "r1") == before


def test_fetch_stops_at_a_missing_part_and_resumes_later(url: str, open_ledger: Opener, tmp_path: Path) -> None:
    here, there = tmp_path / "here", Remote(url, tmp_path / "there")
    ledger = open_ledger(here)
    for number in range(3):
        judge_sample(ledger, f"s{number}", "r1")
        Remote(url, here).send("r1")
    ledger.end(end("r1"))
    Remote(url, here).send("r1")
    name = sorted(name for name in versions(url) if "judgments" in name)[1]
    held_back = read_object(url, name)
    where, _, prefix = url.removeprefix("s3://").partition("/")
    s3().delete_object(Bucket=where, Key=f"{prefix}/{name}")
    assert there.fetch() == ["r1"] and [row.sample_id for row in read_judgments(folder(there.folder, "r1"))] == ["s0"]
    assert not (folder(there.folder, "r1") / END).exists() and there.fetch() == []
    Remote(url, tmp_path).bucket.put({name: held_back})
    assert there.fetch() == ["r1"] and ledgers(there.folder) == ledgers(here)


def test_interrupted_fetch_is_completed_by_the_next(disk: str, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    write_whole_run(here, "r1", samples=3)
    for path in (here / "pictures").iterdir():
        path.unlink()  # a missing thumbnail delays no row
    Remote(disk, here).send("r1")
    Remote(disk, there).fetch()
    run = folder(there, "r1")
    os.truncate(run / JUDGMENTS, 500)
    (run / END).unlink()
    assert Remote(disk, there).fetch() == ["r1"] and (run / END).exists()
    assert rows_of(there, "r1") == rows_of(here, "r1")


def test_fetch_since_gets_only_newer_runs(disk: str, tmp_path: Path) -> None:
    now = datetime(2026, 11, 20, 12, tzinfo=UTC)
    old, new = (f"{now - timedelta(hours=hours):%Y%m%dT%H%M%S}000-diagram-aaaaaa" for hours in (30, 3))
    for run_id in (old, new):
        write_whole_run(tmp_path / "here", run_id)
    there = Remote(disk, tmp_path / "there")
    assert there.fetch(since=now) == []
    Remote(disk, tmp_path / "here").send_all()
    assert there.fetch(since=now - timedelta(hours=20)) == [new] and there.fetch() == [old]
    rows_written = (folder(there.folder, new) / JUDGMENTS).stat().st_mtime
    assert datetime.fromtimestamp(rows_written, UTC) == datetime.fromisoformat(end(new).finished_at)


def test_large_ledgers_are_sent_in_parts_and_batches(
    disk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "PART_BYTES", 1_500)
    monkeypatch.setattr(remote, "BATCH_BYTES", 5_000)
    monkeypatch.setattr(remote, "BATCH_OBJECTS", 3)
    monkeypatch.setattr("tasks.ledger.bucket.BATCH_OBJECTS", 3)
    write_whole_run(tmp_path / "here", "r1", samples=5)
    Remote(disk, tmp_path / "here").send("r1")
    assert len([*tmp_path.glob("disk/ledger/r1/judgments-*")]) > 3
    Remote(disk, tmp_path / "there").fetch()
    assert ledgers(tmp_path / "there") == ledgers(tmp_path / "here")


def test_run_and_sync_send_concurrently(url: str, open_ledger: Opener, server: S3Server, tmp_path: Path) -> None:
    ledger, left, turn = open_ledger(tmp_path), iter(range(1, 8)), threading.Lock()
    judge_sample(ledger, "s0", "r1")

    def append_during_put(request: str) -> bool:
        with turn:
            if request.startswith("PUT") and (number := next(left, 0)):
                judge_sample(ledger, f"s{number}", "r1")
        return False

    def send(_: int) -> None:
        sender = Remote(url, tmp_path)
        while len(list(read_judgments(ledger.folder))) < 8:
            sender.send("r1")

    with server.failing(loses=append_during_put), ThreadPoolExecutor(3) as threads:
        list(threads.map(send, range(3)))
    ledger.end(end("r1"))
    Remote(url, tmp_path).send("r1")
    assert (sent_lines(url, "r1", JUDGMENTS), sent_lines(url, "r1", OUTCOMES)) == rows_of(tmp_path, "r1")
    assert all(len(etags) == 1 for name, etags in versions(url).items() if name.startswith("ledger/"))


def test_copied_ledger_is_sent_in_the_same_parts(url: str, open_ledger: Opener, tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "one")
    for number in range(2):
        judge_sample(ledger, f"s{number}", "r1")
        Remote(url, tmp_path / "one").send("r1")
    ledger.end(end("r1"))
    copy = folder(tmp_path / "two", "r1")
    copy.mkdir(parents=True)
    for name in (RUN, JUDGMENTS, OUTCOMES, END):
        (copy / name).write_bytes((ledger.folder / name).read_bytes())
    assert Remote(url, tmp_path / "two").send_all() == ["r1"]
    assert (sent_lines(url, "r1", JUDGMENTS), sent_lines(url, "r1", OUTCOMES)) == rows_of(tmp_path / "one", "r1")


@pytest.mark.parametrize("place", ["file://{0}/shared", "memory://{1}/shared"])
def test_other_fsspec_stores_work(place: str, tmp_path: Path) -> None:
    url = place.format(tmp_path, tmp_path.name)
    write_whole_run(tmp_path / "here", "r1")
    assert Remote(url, tmp_path / "there").fetch() == []
    assert Remote(url, tmp_path / "there").fetch(datetime(2026, 1, 1, tzinfo=UTC)) == []
    Remote(url, tmp_path / "here").send("r1")
    assert Remote(url, tmp_path / "there").fetch() == ["r1"]
    assert ledgers(tmp_path / "there") == ledgers(tmp_path / "here")
    assert not list(tmp_path.rglob("*.draft"))


@pytest.mark.parametrize(
    ("store", "expected"),
    [
        ("s3://bucket/prefix", True), ("memory://x", True), ("file:///srv/jury", True), ("s3:/bucket", True),
        ("jury-store", False), ("/srv/jury", False), ("./a/b", False), ("C:/jury", False), ("C:\\jury", False),
    ],
)  # fmt: skip
def test_url_scheme_makes_a_store_remote(store: str, expected: bool) -> None:
    assert is_remote(store) is expected


def test_local_cache_is_named_after_its_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JURY_CACHE", str(tmp_path))
    found = local_cache("s3://bucket/team/jury/")
    assert re.fullmatch(r"bucket-team-jury-[0-9a-f]{8}", found.name) and found.parent == tmp_path
    assert local_cache("s3://bucket/team/jury") == found != local_cache("s3://bucket/team-jury")
    assert local_cache("jury-store") == Path("jury-store")
    assert local_cache("~/jury") == Path.home() / "jury"
    monkeypatch.delenv("JURY_CACHE")
    assert local_cache("s3://bucket/x").parent == Path.home() / ".cache" / "image-jury"


# Labels are copied between a store and its bucket once; conflicts and damage are reported


LABEL = {"id": "s1", "dimension": "overall", "verdict": "Model"}


def write_labels(store: Path, name: str, **changes: str) -> LabelSet:
    store.mkdir(parents=True, exist_ok=True)
    file = store / f"{name}.jsonl"
    file.write_text(json.dumps({**LABEL, **changes}) + "\n", encoding="utf-8")
    return import_labels(store, file, "diagram")


def test_conflicting_labels_of_one_name_are_reported_and_kept(tmp_path: Path) -> None:
    one, other = (Remote(f"file://{tmp_path}/bucket", tmp_path / machine) for machine in "ab")
    write_labels(tmp_path / "a", "ann")
    write_labels(tmp_path / "b", "ann", verdict="Human")
    exchange_labels(one)
    assert exchange_labels(other) == Exchanged([], [], ["ann"])


@pytest.mark.parametrize("damage", [b"{", b"[]", b"{}", b"\xff"])
def test_labels_with_a_damaged_description_are_not_copied(tmp_path: Path, damage: bytes) -> None:
    remote = Remote(f"file://{tmp_path}/bucket", tmp_path / "a")
    write_labels(tmp_path / "a", "ann")
    remote.bucket.put({"labels/bob/label.json": damage})
    (tmp_path / "a" / "labels" / "cat").mkdir()
    (tmp_path / "a" / "labels" / "cat" / "label.json").write_bytes(damage)
    assert exchange_labels(remote) == Exchanged(["ann"], [], [])
