"""One evaluation in shards on two workers, one of which is killed.

The server uses PostgreSQL, ledgers are in a bucket, each worker has its own disk, a third place starts the evaluation
and a fourth builds the history. As a program, print the observations as JSON. It mostly waits for Prefect to notice the
silence of the killed worker, so `conftest` runs it while other tests run.
"""

import asyncio
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from forked_commands import forked_by
from loopback_judge import LoopbackJudge
from loopback_replies import Reply, Request, allowed_reply, with_latency
from served import Up, environment, free_port, users_of, wait_for, write_list
from written_datasets import png, record, write_benchmark

from flows.server.server import client_settings, own_server
from tasks.ledger.remote import FETCHED
from tasks.ledger.run_files import JUDGMENTS

ROOT = Path(__file__).parents[1]
SAMPLES, SHARDS, CHUNK = 32, 2, 8
IN_FLIGHT = 16
"""Default number of a run's calls in flight."""
BEFORE_THE_KILL = 32
"""Replies in a worker's ledger, of 64 in its shard, after which the judge holds all others until the worker is killed:
however late that is, its shard has not ended. It is killed once these replies are in the bucket: how many it sends at a
time depends on the machine's load."""
STORE = "s3://jury/evaluations"
SHOWN = """
    SELECT (SELECT list([n, scored]) FROM leaderboard WHERE dimension = 'overall') AS scores,
           (SELECT list([samples, shards]) FROM evaluations) AS evaluations,
           (SELECT list(status ORDER BY status) FROM runs) AS runs"""


def dataset(root: Path) -> Path:
    """Write a PaperBananaBench folder of small figures, and the Model's figures in `model`."""
    write_benchmark(root, [record(n, path_to_gt_image=f"images/{n % 10}.png") for n in range(SAMPLES)])
    (root / "model").mkdir()
    for number in range(SAMPLES):
        (root / "model" / f"test_{number}.png").write_bytes(png(number + 20))
    return root


def write_unscheduled(place: Path) -> str:
    """Write a list of one deployment, that of `diagram`, without its schedule: it might be due right now."""
    diagram, *_ = yaml.safe_load((ROOT / "deployments" / "prefect.yaml").read_text())["deployments"]
    return write_list(place / "prefect.yaml", diagram | {"schedules": []})


def subject(request: Request) -> tuple[str, ...]:
    """Return the subject of a request: the question, and the sample's texts and pictures."""
    return request.schema_name, *request.texts[1:], str(hash(tuple(request.images)))


@contextmanager
def worker(name: str, place: Path, prefect: Path, settings: dict[str, str]) -> Iterator[Path]:
    """Start a Prefect worker with its own home and local cache, for one run at a time; yield its home."""
    disk = place / name
    disk.mkdir()
    home = disk / "prefect"
    own = {"PREFECT_HOME": str(home), "JURY_CACHE": str(disk / "cache"), "JURY_STORE": STORE}
    command = [str(prefect), "worker", "start", "--pool", "jury", "--limit", "1", "-n", name]
    with (place / f"{name}.log").open("w") as log:
        running = subprocess.Popen(command, env={**settings, **own}, stdout=log, stderr=log)
        try:
            yield home
        finally:
            running.terminate()
            running.wait(60)


def own_runs(cache: Path) -> list[Path]:
    """Return the ledgers of a worker's own runs, on its disk."""
    return [run for run in cache.glob("*/ledger/*") if not (run / FETCHED).exists()]


def replies(cache: Path) -> int:
    """Count the replies to a worker's own calls."""
    return sum(len(file.read_bytes().splitlines()) for run in own_runs(cache) for file in run.glob(JUDGMENTS))


def all_sent(cache: Path, objects: Any) -> bool:
    """Return whether all of these replies are in the bucket."""
    there: Counter[str] = Counter()
    for one in objects.filter(Prefix="evaluations/ledger/"):
        _, _, run_id, name = one.key.split("/", 3)
        there[run_id] += one.size * name.startswith(Path(JUDGMENTS).stem)
    return all((run / JUDGMENTS).stat().st_size <= there[run.name] for run in own_runs(cache))


def start(command: list[str], **settings: str) -> str:
    done = subprocess.run(command, env=settings, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def watch(place: Path, commands: Path) -> dict[str, Any]:
    """Start everything, kill one worker midway, and return observations of the evaluation."""
    import boto3  # slow to import, as moto is
    from moto.server import ThreadedMotoServer

    for name in ("here", "there"):
        (place / name).mkdir()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    soon, killed, cache = with_latency(allowed_reply(), 0.4, 0.3, 1), threading.Event(), place / "one" / "cache"

    async def answer(request: Request) -> Reply:
        if request.schema_name != "probe" and not own_runs(cache):
            # If the other worker, which takes one run at a time, ended its shard first, it might take this one, too.
            await asyncio.to_thread(wait_for, lambda: own_runs(cache))
        if replies(cache) >= BEFORE_THE_KILL:
            await asyncio.to_thread(killed.wait)
        return soon(request)

    with ExitStack() as stack:
        judge = stack.enter_context(LoopbackJudge(answer))
        bucket = ThreadedMotoServer("127.0.0.1", free_port(), verbose=False)
        bucket.start()
        stack.callback(bucket.stop)
        host, port = bucket.get_host_and_port()
        amazon = {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_DEFAULT_REGION": "us-east-1"}
        amazon |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
        os.environ.update(amazon)
        boto3.client("s3").create_bucket(Bucket="jury")
        objects = boto3.resource("s3").Bucket("jury").objects
        with pytest.MonkeyPatch.context() as patch, forked_by(commands):
            patch.setenv("PREFECT_API_DATABASE_CONNECTION_URL", stack.enter_context(postgres()))
            patch.setenv("PREFECT_API_BLOCKS_REGISTER_ON_START", "false")  # takes a fifth of its start
            server = stack.enter_context(own_server(place / "server", free_port()))
        settings = {**environment(), **amazon, **client_settings(server.api), "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30"}
        here = {**settings, "PREFECT_HOME": str(place / "here" / "prefect"), "JURY_CACHE": str(place / "here")}
        jury, prefect = str(commands / "jury"), commands / "prefect"
        Up(None, place, server.port).api("/work_pools/", {"name": "jury", "type": "process"})
        start([str(prefect), "--no-prompt", "deploy", "--all", "--prefect-file", write_unscheduled(place)], **here)
        start([jury, "deploy"], **here)
        doomed = stack.enter_context(worker("one", place, prefect, settings))
        stack.enter_context(worker("two", place, prefect, settings))
        root = dataset(place / "data")
        run = [jury, "run", "diagram", "--dataset", str(root), "--images", str(root / "model"), "--store", STORE]
        run += ["--shards", str(SHARDS), "--chunk-size", str(CHUNK), "--judge.model", "m"]
        with (place / "run.log").open("w+") as log:
            parent = subprocess.Popen([*run, "--judge.base-url", judge.base_url], env=here, stdout=log, stderr=log)
            wait_for(lambda: replies(cache) >= BEFORE_THE_KILL)
            wait_for(lambda: all_sent(cache, objects))
            forked = [(process / "comm").read_text().strip() for process in users_of(doomed)]
            for pid in filter(str.isdigit, forked):
                os.kill(int(pid), signal.SIGKILL)
            killed.set()
            code = parent.wait(400)
            log.seek(0)
            output = log.read()
        there = {**settings, "PREFECT_HOME": str(place / "there" / "prefect"), "JURY_CACHE": str(place / "there")}
        start([jury, "store", "sync", "--store", STORE], **there)
        [shown] = json.loads(start([jury, "query", SHOWN, "--json", "--store", STORE], **there))
        calls = Counter(map(subject, judge.requests))
        return {
            "code": code,
            "output": output,
            "calls": len([one for one in calls if one[0] != "probe"]),
            "again": sum(count - 1 for (name, *_), count in calls.items() if name != "probe"),
            "shown": shown,
        }


def programs() -> Path | None:
    """Return the folder with `initdb` and `postgres`, which Debian keeps off the search path."""
    found = shutil.which("initdb")
    own = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    folders = [Path(found).resolve().parent] if found else own
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


@contextmanager
def postgres() -> Iterator[str]:
    """Yield the address of an empty database for SQLAlchemy's asyncpg, on loopback, while the context lasts."""
    folder, port = programs(), free_port()
    assert folder, "PostgreSQL is not installed"
    with tempfile.TemporaryDirectory(prefix="jury-postgres-") as place:
        # PostgreSQL refuses to run as root, and other users cannot read pytest's folders.
        user = "postgres" if os.geteuid() == 0 else None
        if user:
            shutil.chown(place, user)
        data = Path(place) / "data"
        make = [folder / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync"]
        subprocess.run(make, user=user, cwd=place, check=True, capture_output=True)
        options = ["-D", data, "-p", str(port), "-h", "127.0.0.1", "-k", place, "-c", "fsync=off"]
        server = subprocess.Popen([folder / "postgres", *options], user=user, cwd=place, stderr=subprocess.DEVNULL)
        try:
            ready = [folder / "pg_isready", "-h", "127.0.0.1", "-p", str(port), "-q"]
            wait_for(lambda: subprocess.run(ready).returncode == 0)
            yield f"postgresql+asyncpg://postgres@127.0.0.1:{port}/postgres"
        finally:
            server.terminate()
            server.wait(30)


CALLS = 4 * SAMPLES

# The wait is for Prefect to notice a death; it is noticeable only if these tests run alone.
pytestmark = pytest.mark.timeout(1000)


@pytest.fixture(scope="module")
def seen(program_output: Callable[[str], str]) -> dict[str, Any]:
    if not programs():
        pytest.skip("PostgreSQL is not installed")
    return json.loads(program_output("test_workers"))


def test_evaluation_completes_on_the_other_worker(seen: dict[str, Any]) -> None:
    assert seen["code"] == 0 and seen["output"].count("its process vanished, it is run again") == 1, seen["output"]
    assert f"{SAMPLES}/{SAMPLES}" in seen["output"]


def test_another_machine_shows_one_complete_evaluation(seen: dict[str, Any]) -> None:
    runs = ["finished"] * SHARDS + ["unfinished"]
    assert seen["shown"] == {"scores": [[SAMPLES, SAMPLES]], "evaluations": [[SAMPLES, SHARDS]], "runs": runs}


def test_only_unsent_replies_of_the_dead_worker_are_repeated(seen: dict[str, Any]) -> None:
    assert seen["calls"] == CALLS and seen["again"] <= 2 * IN_FLIGHT


if __name__ == "__main__":
    print(json.dumps(watch(*map(Path, sys.argv[1:])), indent=1))
