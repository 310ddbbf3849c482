"""Fixtures that tests of several modules share."""

import gc
import json
import logging
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import hypothesis
import pytest
from factories import end, judgment, outcome, start, write_run
from loopback_judge import LoopbackJudge
from opened_page import chromium
from own_data import MINI, SEEDS, write_json_document, write_markdown_document, write_own_benchmark
from served import environment, free_port

from flows import process
from flows.cli import main
from flows.server.server import client_settings, own_server
from tasks.demo import samples
from tasks.files import alone, keep_private, private_folder, write_whole
from tasks.history import landing
from tasks.history.database import Master, opened_master
from tasks.history.landing import land
from tasks.protocols import loading as dataset_loading
from tasks.records.parameters import T2I
from tasks.rubrics.rubric import Rubric, load_rubric

# The same examples in each run, on any machine: a test that fails here fails there. Time is no subject of theirs.
hypothesis.settings.register_profile("same", derandomize=True, deadline=None, database=None, max_examples=200)
hypothesis.settings.load_profile("same")

# Left as it is, the garbage collector walks through all that the modules of tests have imported, again and again: that
# takes a fifth of the processor's time.
gc.set_threshold(30_000, 20, 100)

# All that is asked here is on loopback. Each client reads the authorities that it trusts, and a hundred of them take
# 35 ms: here there is one, which has signed nothing. Prefect looks for it as soon as it is imported.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("authority.pem"))

BESIDE = ("test_schedules", "test_workers")
"""Modules of tests that are programs, too, which see for them what takes minutes."""
LONGEST_SECONDS = 900.0
LONGEST = [
    f"test_{name}"
    for name in (
        *("documentation", "up", "supervision", "site", "collect", "alarms", "secrets", "compare", "sending"),
        *("bills_agree", "api", "remote", "pages_browsers", "attribution", "api_keys", "agreement"),
        *("candidate_gate", "without_server", "hostile_inputs", "pipeline", "label_page", "outages", "budget_runs"),
        *("faults", "rubric_flows", "history_database", "passport_runs", "hostile_stores", "control_runs"),
        "report_page_browser",
    )
]
"""Modules of tests that take so long that one which came late would be waited for at the end, the longest first."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One process more than there are processors: there are always tests that wait for a program or a server."""
    return (os.cpu_count() or 1) + 1


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--browser", choices=("chromium", "firefox"), default="chromium", help="browser for all pages")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest modules begin first, and those that wait for a program are the last."""
    turns = {module: turn for turn, module in enumerate(LONGEST)}
    items.sort(key=lambda item: (item.path.stem in BESIDE, turns.get(item.path.stem, len(LONGEST))))


@pytest.fixture(scope="session")
def diagram() -> Rubric:
    return load_rubric("diagram")


@pytest.fixture(scope="session")
def plot() -> Rubric:
    return load_rubric("plot")


@pytest.fixture
def loopback() -> Iterator[LoopbackJudge]:
    """A started judge that gives every request an allowed reply, until the test queues others or sets `answer`."""
    with LoopbackJudge() as judge:
        yield judge


@pytest.fixture(scope="module")
def playwright() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="module")
def browser(playwright: Any) -> Iterator[Any]:
    started = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
    yield started
    started.close()


@pytest.fixture
def without_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that bring something in leave the store's pages as they were: to make them takes longer than the rest.

    That they make them anew is tested with `site` and `forget`.
    """
    for name in ("labels", "store"):
        monkeypatch.setattr(f"flows.commands.{name}.renew_pages", lambda *_: None)


@pytest.fixture(scope="session", autouse=True)
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A new history begins as a copy of an empty one: to make its tables, views and comments takes longer than to load.

    That they are made where there are none is tested with `test_history_layout`.
    """
    empty = tmp_path_factory.mktemp("empty") / "master.duckdb"

    def open_copy(place: Path) -> AbstractContextManager[Master]:
        if not empty.exists():
            with opened_master(empty) as master:
                landing.lay_out(master.db)
        if not place.exists():
            shutil.copyfile(empty, place)
            keep_private(place)
        return opened_master(place)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(landing, "opened_master", open_copy)
        yield


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose master has no row, to be copied."""
    store = tmp_path_factory.mktemp("empty")
    landing.prepare(store)
    return store


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for all processes that share the tests."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session", autouse=True)
def drawn_once(shared: Path) -> Iterator[Callable[[Path, str], Path]]:
    """Each run on drawn samples has a copy of them: to draw them takes longer than to judge a few, and the same seed
    gives the same bytes. That they are drawn, and so, is tested with `test_demo_samples`. Tests copy them likewise.
    """
    (kept := shared / "drawn").mkdir(exist_ok=True)

    def copied(root: Path, flow: str) -> Path:
        own = kept / (samples.GENERATED if flow in T2I else flow)
        with alone(kept):
            if not own.exists():
                draft = own.with_suffix(".draft")
                private_folder(draft)  # as the folder is of which this is a copy
                samples.drawn_samples(draft, flow)
                draft.rename(own)
        shutil.copytree(own, root, dirs_exist_ok=True)
        return root / samples.GENERATED if flow in T2I else root

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dataset_loading, "drawn_samples", copied)
        yield copied


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a Prefect server of the tests' own, for flows in this process and in others."""
    store = tmp_path_factory.mktemp("prefect")
    with pytest.MonkeyPatch.context() as environment, own_server(store, free_port()) as server:
        for name, value in {**client_settings(server.api), "PREFECT_HOME": str(store / "client")}.items():
            environment.setenv(name, value)
        from prefect.settings import PREFECT_API_URL, temporary_settings

        with temporary_settings({PREFECT_API_URL: server.api}):
            yield server.api
        from prefect.logging.handlers import APILogWorker

        # What is left of the logs has to go before the server does: it would be tried for a minute at the very end.
        APILogWorker.drain_all(timeout=30)


@pytest.fixture(scope="session", autouse=True)
def beside(request: pytest.FixtureRequest, shared: Path) -> Iterator[Callable[[str], str]]:
    """What a program has seen, once it has: those that mostly wait do so from the beginning, beside the other tests.

    Of several processes that share the tests the first starts the programs; all find what they have seen in files.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    collected = {item.path.stem for item in request.session.items}
    with ExitStack() as stack:
        for program in BESIDE:
            if worker == "gw0" and program in collected:
                stack.enter_context(_started(program, shared))
        yield lambda program: _seen(shared / f"{program}.json")


@contextmanager
def _started(program: str, shared: Path) -> Iterator[None]:
    """The program, and a thread that writes down what it has seen; its end is waited for, as others may want it."""
    folder = shared / program
    folder.mkdir()
    command = [sys.executable, str(Path(__file__).with_name(f"{program}.py")), str(folder)]

    def watch() -> None:
        ended = subprocess.run(command, text=True, env=environment(), capture_output=True)
        told = {"code": ended.returncode, "out": ended.stdout, "err": ended.stderr}
        write_whole(shared / f"{program}.json", json.dumps(told).encode())

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield
    finally:
        watching.join(LONGEST_SECONDS)


def _seen(file: Path) -> str:
    deadline = time.monotonic() + LONGEST_SECONDS
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    told = json.loads(file.read_bytes())
    assert told["code"] == 0, told["err"]
    return told["out"]


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose history holds one run of one sample, to be copied: that is quicker than to make a history."""
    store = tmp_path_factory.mktemp("stored")
    write_run(store, start(), [judgment(), outcome()], end())
    land(store)
    return store


@pytest.fixture
def store(tmp_path: Path, stored: Path) -> Path:
    """A store of the test's own whose history holds one run; some modules have others."""
    return shutil.copytree(stored, tmp_path / "store")


@pytest.fixture
def deployment(prefect_server: str, tmp_path: Path) -> Iterator[Any]:
    """A deployment of `counting` whose runs happen in this process."""
    from deployed_here import Deployment  # and Prefect
    from prefect import get_client

    with get_client(sync_client=True) as client:
        yield Deployment(client, tmp_path / "store")


@pytest.fixture
def jury(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    """Run the command on a store of the test's own; returns exit code, standard output and standard error.

    It is waited for, however busy the machine is: this process goes on, so that nothing may be left behind in it. No
    run makes pages, which takes as long as to judge a few samples: whole commands, and the tests of pages, make them.
    """
    from tasks import report  # Prefect, which reads the environment as soon as it is imported

    for name in ("renewed", "renew_behind"):
        monkeypatch.setattr(report, name, lambda *_: [])
    monkeypatch.setattr(process, "END_SECONDS", 120.0)
    monkeypatch.setattr(process, "SILENT", 24)
    monkeypatch.setattr(process, "START_SECONDS", 120.0)

    def run(*arguments: object) -> tuple[int, str, str]:
        given = [*map(str, arguments)]
        own = [] if "--store" in given else ["--store", str(tmp_path / "store")]
        code = main([*given, *own])
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def on(
    tmp_path: Path, jury: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    """Run the command on one of several machines with a bucket, each with a local cache of its own."""

    def run(machine: str, *given: object) -> tuple[int, str, str]:
        monkeypatch.setenv("JURY_CACHE", str(tmp_path / machine))
        return jury(*given, "--store", f"file://{tmp_path}/bucket")

    return run


@pytest.fixture
def ask(jury: Callable[..., tuple[int, str, str]]) -> Callable[[str], list[dict[str, Any]]]:
    def query(question: str) -> list[dict[str, Any]]:
        code, out, err = jury("query", question, "--json")
        assert code == 0, err
        return json.loads(out)

    return query


@pytest.fixture(scope="session", params=["own", "published"])
def figure_benchmark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of PaperBananaBench: drawn here, and the published one where it is beside the checkout."""
    if request.param == "own":
        return write_own_benchmark(tmp_path_factory.mktemp("own") / "drawn-bench")
    if not MINI.is_dir():
        pytest.skip("the sample of PaperBananaBench is not beside the checkout")
    return MINI


@pytest.fixture(scope="session", params=["own", "published"])
def documents(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Prompt documents in Markdown and in JSON: written here, and the published ones."""
    if request.param == "own":
        folder = tmp_path_factory.mktemp("documents")
        return {
            "markdown": write_markdown_document(folder / "prompts.md.txt"),
            "json": write_json_document(folder / "rubrics.json.txt"),
        }
    if not SEEDS.is_dir():
        pytest.skip("the published documents are not beside the checkout")
    return {name: next(SEEDS.glob(f"{form}_*.txt")) for name, form in (("markdown", "000"), ("json", "003"))}


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    """S3 on loopback, where AWS is looked for."""
    from s3_server import S3Server
    from s3fs import S3FileSystem

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = S3Server()
    S3FileSystem.clear_instance_cache()  # one made for another server would still ask that one
    with pytest.MonkeyPatch.context() as environment:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            environment.delenv(name)
        environment.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{running.port}")
        environment.setenv("AWS_ACCESS_KEY_ID", "testing")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        environment.setenv("AWS_DEFAULT_REGION", "us-east-1")
        yield running
    running.stop()


@pytest.fixture
def url(server: Any) -> str:
    """A store in a bucket of its own that keeps every version of every object."""
    from s3_server import s3

    name = f"jury-{uuid4().hex[:12]}"
    s3().create_bucket(Bucket=name)
    s3().put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    server.requests.clear()
    return f"s3://{name}/team/jury"
