"""Fixtures that tests of several modules share."""

import asyncio
import fcntl
import gc
import json
import logging
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zoneinfo
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

import hypothesis
import pytest
from factories import end, judgment, outcome, start, write_run
from forked_commands import forked_by, installed, opened_copy_of
from loopback_judge import LoopbackJudge
from opened_page import chromium
from own_data import MINI, SEEDS, write_json_document, write_markdown_document, write_own_benchmark
from served import environment

from flows import process
from flows.cli import main
from flows.server.server import PrefectServer, client_settings
from tasks.demo import samples
from tasks.files import alone, private_folder, write_whole
from tasks.history import database, landing
from tasks.history.landing import land
from tasks.protocols import loading as dataset_loading
from tasks.records.parameters import T2I
from tasks.rubrics.rubric import Rubric, load_rubric

# Every run tests the same examples on any machine, so that a failure repeats. Their time is not tested.
hypothesis.settings.register_profile("same", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("same")

# With its default thresholds, the garbage collector scans all imported test modules again and again, which takes a
# fifth of the processor's time.
gc.set_threshold(100_000, 50, 1000)

# Requests go to loopback only. Each client loads the trusted certificate authorities; a hundred of them take 35 ms.
# `authority.pem` holds one that has signed nothing. Set it before Prefect is imported, which reads it at once.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("authority.pem"))

# Prefect lists all time zones for each schedule that it reads; those of the system take 30 times as long.
if find_spec("tzdata"):
    os.environ["PYTHONTZPATH"] = ""
    zoneinfo.reset_tzpath()

# Tests write gigabytes of files, of which at most 0.6 exist at a time; in memory, this takes a twentieth less time.
MEMORY = Path("/dev/shm")
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4e9:
    os.environ["TMPDIR"] = os.environ["PYTEST_DEBUG_TEMPROOT"] = str(MEMORY)

# `nohup make test` ignores closed terminals, which some tests play.
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# As in commands, Prefect prints no log records; to print them takes a tenth of a run's time.
os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")

# Tables of tests have few rows, about which several threads only wake each other up: a fifteenth of a query's time.
for settings in (database._READER, database._WRITER):
    settings["threads"] = 1

PROGRAMS = ("test_supervision", "test_workers")
"""Test modules that are programs, too, and run for minutes while other tests run."""
COMMANDS = "FORKED_COMMANDS"
"""Environment variable: the folder of commands that are forked, for all worker processes."""
LONGEST_SECONDS = 900.0
HISTORIES = 4
"""Published histories that a test process keeps open."""
LONGEST = [
    f"test_{name}"
    for name in (
        *("documentation", "up", "without_server", "site", "outages", "collect", "faults", "alarms", "bills_agree"),
        *("secrets", "api", "compare", "attribution", "gate", "pipeline", "sending", "query", "odd_replies"),
        *("control_runs", "history_database", "pages_browsers", "rubric_flows", "forget_remote", "remote"),
        *("report_page", "hostile_inputs", "limited_runs", "passport_runs", "label_page", "hostile_endpoints"),
        *("correcting", "forget", "client", "candidate_gate", "history_landing", "connections", "checklists"),
        *("report_page_browser", "registering", "notebook", "cli", "scheduled", "extensions", "rare_formats"),
        *("temporary_server", "budget_runs", "demo_figures", "judge", "server"),
    )
]
"""Slow test modules. They start early, so that none is left running alone at the end. Modules that mostly wait, such as
`api`, `gate` and `client`, are among those that keep the processors busy."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Use two workers more than there are processors: some tests are always waiting for a program or a server."""
    return (os.cpu_count() or 1) + 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: list[Any]) -> None:
    """Fork the workers, too, from the process that has imported everything."""
    stack = ExitStack()
    config.add_cleanup(stack.close)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="jury-commands-")))
    os.environ[COMMANDS] = str(stack.enter_context(installed(folder)))
    for spec in specs:
        spec.python = f"{folder}/python"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--browser", choices=("chromium", "firefox"), default="chromium", help="browser for all pages")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start the slowest modules first; collect results of the programs in `PROGRAMS` last."""
    turns = {module: turn for turn, module in enumerate(LONGEST)}
    items.sort(key=lambda item: (item.path.stem in PROGRAMS, turns.get(item.path.stem, len(LONGEST))))


def pytest_collection_finish() -> None:
    """Leave all that was imported out of the garbage collector's searches, of which pytest adds several at the end."""
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None]:
    """Hide the name of the test, so that calls of `flows.api` in several tests share a process."""
    os.environ.pop("PYTEST_CURRENT_TEST", None)
    return (yield)


@pytest.fixture(scope="session")
def diagram() -> Rubric:
    return load_rubric("diagram")


@pytest.fixture(scope="session")
def plot() -> Rubric:
    return load_rubric("plot")


@pytest.fixture
def loopback() -> Iterator[LoopbackJudge]:
    """A running judge that answers each request with an allowed reply, unless a test queues others or sets `answer`."""
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
    """Keep commands from rendering the store's pages, and from sending an index, which takes longer than the rest.

    `test_site` and `test_forget` check that commands do.
    """
    for name in ("labels.renew_pages", "store.renew_pages", "store.share_pages"):
        monkeypatch.setattr(f"flows.commands.{name}", lambda *_: None)


@pytest.fixture(scope="session", autouse=True)
def empty_histories(shared: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(landing, "opened_master", opened_copy_of(shared / "empty"))
        yield


@pytest.fixture(scope="session", autouse=True)
def histories_kept_open(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., database.Connection]]:
    """Keep the last published histories open, since to open one takes longer than most answers.

    Yield the function that opens one anew each time, which `test_history_database` uses.
    """
    spilled, kept = tmp_path_factory.mktemp("spilled"), OrderedDict[tuple[int, ...], database.Connection]()
    open_anew = database.open_published

    def open_kept(history: Path, config: database.Config) -> database.Connection:
        if not history.exists() or history.is_symlink() or (history.parent / database.FOLDER).is_symlink():
            return open_anew(history, config)
        found = history.stat()
        file = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        if file not in kept:
            kept[file] = open_anew(history, {**config, "temp_directory": str(spilled)})
        kept.move_to_end(file)
        if len(kept) > HISTORIES:
            kept.popitem(last=False)  # closed as soon as nobody uses it
        return kept[file].cursor()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "open_published", open_kept)
        yield open_anew
    kept.clear()


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose master database has no rows; tests copy it."""
    store = tmp_path_factory.mktemp("empty")
    landing.prepare(store)
    return store


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all worker processes share."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session", autouse=True)
def drawn_once(shared: Path) -> Iterator[Callable[[Path, str], Path]]:
    """Give each run on drawn samples the files of one set; drawing takes longer than judging a few, and a seed fixes
    every byte. `test_demo_samples` checks the drawing. Tests can link the set with the returned function, too.
    """
    (kept := shared / "drawn").mkdir(exist_ok=True)

    def link(source: str, target: str) -> None:
        with suppress(FileExistsError):  # a second run of a store
            os.link(source, target)

    def link_drawn(root: Path, flow: str) -> Path:
        own = kept / (samples.GENERATED if flow in T2I else flow)
        with alone(kept):
            if not own.exists():
                draft = own.with_suffix(".draft")
                private_folder(draft)  # the mode of the folder that this replaces
                samples.drawn_samples(draft, flow)
                draft.rename(own)
        shutil.copytree(own, root, copy_function=link, dirs_exist_ok=True)
        return root / samples.GENERATED if flow in T2I else root

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dataset_loading, "drawn_samples", link_drawn)
        yield link_drawn


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory, shared: Path, commands: Path) -> Iterator[str]:
    """Address of a Prefect server for all tests of all worker processes and the processes that they start."""
    home = tmp_path_factory.mktemp("prefect")
    with pytest.MonkeyPatch.context() as environment, _shared_by_all(shared / "server", _served(home, commands)) as api:
        for name, value in {**client_settings(api), "PREFECT_HOME": str(home / "client")}.items():
            environment.setenv(name, value)
        from prefect.settings import PREFECT_API_URL, temporary_settings

        with temporary_settings({PREFECT_API_URL: api}):
            yield api
        from prefect.logging.handlers import APILogWorker

        # Send the remaining logs while the server is up; otherwise Prefect retries for a minute at exit.
        APILogWorker.drain_all(timeout=30)


@contextmanager
def _served(home: Path, commands: Path) -> Iterator[str]:
    with forked_by(commands):
        started = PrefectServer(home, temporary=True)
    asyncio.run(started.answering())
    yield started.api
    started.end()


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folder of the commands `jury`, `prefect`, `python` and `forked`, which are forked."""
    with ExitStack() as stack:
        place = os.environ.get(COMMANDS) or stack.enter_context(installed(tmp_path_factory.mktemp("commands")))
        multiprocessing.set_executable(f"{place}/python")  # it forks Python's own server of forks, too
        yield Path(place)


@contextmanager
def _shared_by_all(place: Path, context: AbstractContextManager[object]) -> Iterator[str]:
    """Yield as text the value of a context that the first process enters, and leaves when no other needs it."""
    place.mkdir(exist_ok=True)
    value = place / "value"
    with ExitStack() as stack, (place / "users").open("w") as users:
        with alone(place):
            if is_first := not value.exists():
                value.write_text(str(stack.enter_context(context)))
            fcntl.flock(users, fcntl.LOCK_SH)
        yield value.read_text()
        if is_first:
            with alone(place):
                value.unlink()
            fcntl.flock(users, fcntl.LOCK_EX)


@pytest.fixture(scope="session", autouse=True)
def program_output(request: pytest.FixtureRequest, shared: Path) -> Iterator[Callable[[str], str]]:
    """Return a program's standard output once it has ended; programs start at once and run along with the tests.

    The first worker process starts them; all workers read the results from files.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    collected = {item.path.stem for item in request.session.items}
    with ExitStack() as stack:
        for program in PROGRAMS:
            if worker == "gw0" and program in collected:
                stack.enter_context(_started(program, shared, request.getfixturevalue("commands")))
        yield lambda program: _output(shared / f"{program}.json")


@contextmanager
def _started(program: str, shared: Path, commands: Path) -> Iterator[None]:
    """Run the program and a thread that stores its result; wait for it at the end, as other workers may need it."""
    folder = shared / program
    folder.mkdir()
    command = [sys.executable, str(Path(__file__).with_name(f"{program}.py")), str(folder), str(commands)]

    def watch() -> None:
        ended = subprocess.run(command, text=True, env=environment(), capture_output=True)
        result = {"code": ended.returncode, "out": ended.stdout, "err": ended.stderr}
        write_whole(shared / f"{program}.json", json.dumps(result).encode())

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield
    finally:
        watching.join(LONGEST_SECONDS)


def _output(file: Path) -> str:
    deadline = time.monotonic() + LONGEST_SECONDS
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    result = json.loads(file.read_bytes())
    assert result["code"] == 0, result["err"]
    return result["out"]


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose history holds one run of one sample; copying it is quicker than creating one."""
    store = tmp_path_factory.mktemp("stored")
    write_run(store, start(), [judgment(), outcome()], end())
    land(store)
    return store


@pytest.fixture
def store(tmp_path: Path, stored: Path) -> Path:
    """A store of the test's own whose history holds one run; some modules replace this fixture."""
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
    """Run the command on a store of the test's own; return exit code, standard output and standard error.

    Time limits are long, so that a busy machine leaves no process behind. Runs render no pages, which takes as long as
    judging a few samples; tests of whole commands and of pages do.
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
def jury_on(
    tmp_path: Path, jury: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    """Run the command on one of several machines with a bucket, each with a local cache of its own."""

    def run(machine: str, *given: object) -> tuple[int, str, str]:
        monkeypatch.setenv("JURY_CACHE", str(tmp_path / machine))
        return jury(*given, "--store", f"file://{tmp_path}/bucket")

    return run


@pytest.fixture
def ask(jury: Any) -> Callable[[str], list[dict[str, Any]]]:
    """Query the test's store."""

    def query(question: str) -> list[dict[str, Any]]:
        code, out, err = jury("query", question, "--json")
        assert code == 0, err
        return json.loads(out)

    return query


@pytest.fixture(scope="session", params=["own", "published"])
def figure_benchmark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of PaperBananaBench: one drawn here, and the published one if it is next to the checkout."""
    if request.param == "own":
        return write_own_benchmark(tmp_path_factory.mktemp("own") / "drawn-bench")
    if not MINI.is_dir():
        pytest.skip("the sample of PaperBananaBench is not next to the checkout")
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
        pytest.skip("the published documents are not next to the checkout")
    return {name: next(SEEDS.glob(f"{form}_*.txt")) for name, form in (("markdown", "000"), ("json", "003"))}


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    """An S3 server on loopback; AWS settings in the environment point to it."""
    from s3_server import S3Server
    from s3fs import S3FileSystem

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = S3Server()
    S3FileSystem.clear_instance_cache()  # a cached one would use an earlier server
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
    """Address of a store in a new bucket that keeps every version of every object."""
    from s3_server import s3

    name = f"jury-{uuid4().hex[:12]}"
    s3().create_bucket(Bucket=name)
    s3().put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    server.requests.clear()
    return f"s3://{name}/team/jury"
