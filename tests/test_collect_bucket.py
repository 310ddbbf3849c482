"""Runs that wait for their batches in a bucket, taken in on whichever machine looks; and machines that die at it."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from batch_twin import BatchTwin, figures
from factories import start
from killed import SENDING, dies
from loopback_judge import judged_by
from test_collect import every_judgment, paid_once, told
from test_collect import live as live_
from test_collect import twin as twin_
from test_remote import s3
from test_remote import server as server_
from test_remote import url as url_

from tasks.batches import holding
from tasks.batches.log import begin, lease
from tasks.errors import InputError
from tasks.ledger.reading import run_folders
from tasks.ledger.remote import local_cache, remote_of
from tasks.ledger.writing import Ledger

SAMPLES, CALLS = 4, 16
live, twin, server, url = live_, twin_, server_, url_

pytestmark = pytest.mark.usefixtures("prefect_server", "drawn_here", "laid_out")
Machine = Callable[[str], Path]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return figures(tmp_path_factory.mktemp("figures"), SAMPLES)


@pytest.fixture
def machine(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Goes over to a machine; returns its local cache."""

    def goes(name: str) -> Path:
        monkeypatch.setenv("JURY_CACHE", str(tmp_path / name))
        return local_cache(url)

    return goes


def objects(url: str, folder: str = "") -> list[str]:
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    found = s3().list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/{folder}").get("Contents", [])
    return [each["Key"].removeprefix(f"{prefix}/") for each in found]


def test_another_machine_takes_in_what_one_handed_in(
    twin: BatchTwin, dataset: list[str], url: str, machine: Machine, jury: Any
) -> None:
    one, there, twin.polls = machine("one"), list[str](), 2
    twin.seen = lambda what: there.extend(objects(url)) if what == "make batch" else None
    code, out, err = jury("run", "diagram", *dataset, *judged_by(twin, **{"judge.tier": "batch"}), "--store", url)
    assert code == 3 and "waits for its replies" in out, err
    [run] = run_folders(one)
    files = [f"batches/{run.name}/{name}" for name in ("cases.jsonl", f"{run.name}-1-000.jsonl", "lease.json")]
    rows = [f"ledger/{run.name}/{name}" for name in ("run.json", "batches-000001.jsonl", "batches-000003.jsonl")]
    assert {*files, *rows} <= {*there}  # prepared, uploaded, creating: before the batch was made

    other = machine("other")
    code, out, err = jury("collect", "--store", url)
    assert code == 3 and "waits: batches: 1 finalizing" in out, err
    assert jury("sync", "--store", url)[0] == 0
    code, out, err = jury("collect", "--store", url)
    assert code == 0 and f"run {run.name}" in out, err
    paid_once(twin, other)
    assert told(other).total() == SAMPLES and not twin.files and not objects(url, "batches/")
    assert len([*(other / "pictures").glob("*.jpg")]) > 0

    machine("one")
    code, out, err = jury("collect", "--store", url)
    assert code == 0, (out, err)
    assert told(one) == told(other) and not [*(one / "batches").glob("*")] and not objects(url, "batches/")
    assert jury("collect", "--store", url)[:2] == (0, "nothing waits\n")
    assert len(twin.paid) == CALLS and twin.count == 1


def expire(url: str) -> None:
    """The time of the lease on the one run that waits passes."""
    [name] = [name for name in objects(url, "batches/") if name.endswith("lease.json")]
    remote = remote_of(url)
    assert remote
    held = json.loads(remote.bucket.get([name])[name])
    assert held["until"] > time.time()
    remote.bucket.put({name: json.dumps({**held, "until": 0}).encode()})


def test_machines_that_die_at_any_step_lose_nothing_and_pay_for_nothing_twice(
    twin: BatchTwin, dataset: list[str], live: object, url: str, machine: Machine, jury: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """One run, of which a machine dies at each step: the next has nothing but what is in the bucket."""
    command: list[object] = ["run", "diagram", *dataset, *judged_by(twin, **{"judge.tier": "batch"})]
    for asked, times in SENDING.items():
        cache = machine(asked.replace(" ", "-"))
        dies(twin, *command, "--store", url, requests=9, asked=asked, times=times)
        assert not every_judgment(cache) and len(run_folders(cache)) == 1
        expire(url)
        command = ["collect"]
    assert len(twin.batches) == 2

    half = machine("half")
    for rows in (5, 7):  # it goes on itself, and dies again
        dies(twin, "collect", "--store", url, requests=9, rows=rows)
    assert 5 <= len(every_judgment(half)) < CALLS
    last = machine("last")
    code, out, _ = jury("collect", "--store", url)
    assert code == 3 and "another process is at work on it" in out
    expire(url)
    dies(twin, "collect", "--store", url, requests=9, asked="delete file", times=2)
    now, other = time.time(), machine("other")
    with monkeypatch.context() as later:
        later.setattr(holding.time, "time", lambda: now + 2 * holding.LEASE_SECONDS)
        code, out, err = jury("collect", "--store", url)
    assert code == 0, (out, err)
    assert not twin.files and not objects(url, "batches/")

    for there in (half, last, other):  # what each had of it gives way to what is in the bucket
        machine(there.parent.name)
        remote = remote_of(url)
        assert remote
        remote.fetch()
        assert told(there) == live
    paid_once(twin, other)
    assert len(twin.batches) == 2 and [run.name for run in run_folders(half)] == [
        run.name for run in run_folders(other)
    ]


def test_a_process_whose_lease_another_took_sends_nothing_more(
    url: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "RENEW_SECONDS", 0.02)
    cache, remote = machine("one"), remote_of(url)
    assert remote
    ledger = Ledger(cache, start())
    begin(cache, start().run_id)
    with lease(cache, start().run_id, remote) as log:
        assert log and log.hold
        (log.work / "cases.jsonl").write_bytes(b"")
        ledger.begin()
        log.add("prepared", asked="a")
        name = f"batches/{log.run_id}/lease.json"
        stolen = {"holder": "another", "until": time.time() + 60}
        remote.bucket.put({name: json.dumps(stolen).encode()})
        assert not log.hold.take()
        with pytest.raises(InputError, match="was taken over by another process"):
            for _ in range(1000):  # as soon as it renews the lease, which it cannot
                log.hold.send()
                time.sleep(0.02)
    ledger.close()
    assert json.loads(remote.bucket.get([name])[name]) == stolen


def test_a_machine_that_was_suspended_sends_nothing_more_where_another_has_taken_over(
    url: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, remote = machine("one"), remote_of(url)
    assert remote
    run_id = start().run_id
    begin(cache, run_id)
    with lease(cache, run_id, remote) as log:
        assert log and log.hold
        now = time.time()
        monkeypatch.setattr(holding.time, "time", lambda: now + 2 * holding.LEASE_SECONDS)
        log.hold.send()  # nobody came meanwhile: it has the lease again
        monkeypatch.setattr(holding.time, "time", lambda: now + 4 * holding.LEASE_SECONDS)
        with lease(machine("two"), run_id, remote_of(url)) as other:
            assert other
            with pytest.raises(InputError, match="was taken over by another process"):
                log.hold.send()
