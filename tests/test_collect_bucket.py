"""Runs that wait for their batches in a bucket, taken in on whichever machine looks; and machines that die at it."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from batch_twin import BatchTwin, figures
from factories import start
from killed import in_a_process, kill
from loopback_judge import judged_by
from test_collect import every_judgment, paid_once, told
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
twin, server, url = twin_, server_, url_

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


def test_a_machine_that_dies_half_way_goes_on_itself_or_another_does_once_its_lease_is_over(
    twin: BatchTwin, dataset: list[str], url: str, machine: Machine, jury: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = machine("one")
    asked = ["run", "diagram", *dataset, *judged_by(twin, **{"judge.tier": "batch"}), "--store", url]
    assert jury(*asked)[0] == 3
    for rows in (5, 4):  # it goes on, and dies again
        dying = in_a_process(twin, "collect", "--store", url, requests=100, rows=rows)
        dying.join(60)
        assert dying.exitcode == -9
    assert 5 <= len(every_judgment(one)) < CALLS

    other = machine("other")
    code, out, _ = jury("collect", "--store", url)
    assert code == 3 and "another process is at work on it" in out
    now = time.time()
    with monkeypatch.context() as later:
        later.setattr(holding.time, "time", lambda: now + 2 * holding.LEASE_SECONDS)
        code, out, err = jury("collect", "--store", url)
    assert code == 0, (out, err)
    paid_once(twin, other)

    machine("one")
    code, out, err = jury("collect", "--store", url)
    assert code == 0, (out, err)
    assert told(one) == told(other) and told(one).total() == SAMPLES and not objects(url, "batches/")
    assert Counter(row.sample_id for row in every_judgment(one)) == dict.fromkeys(
        (row.sample_id for row in every_judgment(one)), CALLS // SAMPLES
    )


def test_a_batch_that_a_dead_machine_made_and_did_not_tell_of_is_found_by_another(
    twin: BatchTwin, dataset: list[str], url: str, machine: Machine, jury: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, dead, one = None, threading.Event(), machine("one")

    def kill_it(what: str) -> None:
        if what == "make batch":
            kill(process)
            dead.wait(60)

    twin.seen = kill_it
    asked = ["run", "diagram", *dataset, *judged_by(twin, **{"judge.tier": "batch"}), "--store", url]
    process = in_a_process(twin, *asked, requests=100)
    process.join(60)
    dead.set()
    assert process.exitcode == -9 and len(twin.batches) == 1
    twin.seen = lambda _: None

    other, now = machine("other"), time.time()
    monkeypatch.setattr(holding.time, "time", lambda: now + 2 * holding.LEASE_SECONDS)
    while not told(other):
        assert jury("collect", "--store", url)[0] in (0, 3)
    paid_once(twin, other)
    assert (
        len(twin.batches) == 1
        and not objects(url, "batches/")
        and run_folders(one)[0].name == run_folders(other)[0].name
    )


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
