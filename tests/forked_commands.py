"""Commands `jury` and `prefect` for scripts, run by processes that are forked from one that has done the imports.

Imports take most of the processor time of a short command, of a Prefect server, of the processes that a run starts for
its pages and thumbnails, and of a worker of pytest-xdist before its first test. The `python` on the commands' path
therefore forks these, too; `forked -c` forks any code. A command has the id of its forked process as its name (`comm`),
and kills it where it is killed itself. It gets what was imported as it imports Prefect, which reads its settings then.
For all but the workers, every host name resolves to this machine, and ports are mapped as the variable `PORTS` asks.
Usage as a program: SOCKET; `installed` writes the commands.
"""

import atexit
import fcntl
import gc
import json
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from itertools import chain
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType
from typing import Any

from served import environment

import flows
import tasks
from flows.server.server import find_prefect
from flows.server.supervision import claim_run
from tasks.files import alone, keep_private
from tasks.history import landing
from tasks.history.database import Master, opened_master

LATE = ("anyio._backends._asyncio", "genai_prices", "httpcore2", "pydantic.v1", "scipy.optimize", "truststore")
LATE += ("prefect.cli", "prefect.flow_engine", "prefect.utilities.visualization", "prefect.server.api.server")
LATE += ("prefect.runner._workspace_supervisor", "prefect.workers.process", "uvicorn")
LATE += ("hypothesis", "polars", "pytest", "xdist.remote")
"""Modules of others that commands, or workers of pytest-xdist, import sooner or later."""
WORKER = "import sys;exec(eval(sys.stdin.readline()))"
"""Line of code that starts a worker process of pytest-xdist."""
FORKED = (WORKER, "tasks.pages.background", "tasks.pictures.thumbnails", "flows.api", "flows.server.runner")
FORKED += ("flows.server.server_process", "prefect.engine", "prefect.runner._workspace_supervisor")
"""That line, and modules that commands start as programs and that run in the commands' environment."""
PRELOADED = "multiprocessing.forkserver"
"""Module of a process that imports what it is told, and forks others; it is started by a line of code."""
PORTS = "LOOPBACK_PORTS"
"""Environment variable: a JSON object with the port on this machine for some ports."""
CLIENT = """#!{python} -SEs
import json, os, signal, socket, sys
forked = {{*sys.argv}} & {{*{forked}}} or {preloaded!r} in str(sys.argv)
if os.path.basename(sys.argv[0]) == "python" and not forked:
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
with socket.socket(socket.AF_UNIX) as made:
    made.connect({socket!r})
    files = [number for number in map(int, os.listdir("/proc/self/fd")) if os.path.exists(f"/proc/self/fd/{{number}}")]
    files.remove(made.fileno())
    command = [os.path.basename(sys.argv[0]), sys.argv[1:], os.getcwd(), dict(os.environ), files]
    message = json.dumps(command).encode()
    socket.send_fds(made, [len(message).to_bytes(4, "big")], files)
    made.sendall(message)
    pid = int.from_bytes(made.recv(4), "big")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(pid, number))
    with open("/proc/self/comm", "w") as name:
        name.write(str(pid))
    code = made.recv(1)
os._exit(code[0] if code else 1)
"""


@contextmanager
def installed(folder: Path) -> Iterator[Path]:
    """Start the process; yield the folder of the commands."""
    place = folder / "socket"
    for name in ("jury", "prefect", "python", "forked"):
        file = folder / name
        written = CLIENT.format(python=sys.executable, socket=str(place), forked=FORKED, preloaded=PRELOADED)
        file.write_text(written, encoding="utf-8")
        file.chmod(0o755)
    with (folder / "log").open("w") as log:
        program, settings = [sys.executable, __file__, str(place)], {**environment(), "PREFECT_HOME": f"{folder}/home"}
        process = subprocess.Popen(program, env=settings, stdout=subprocess.PIPE, stderr=log, text=True)
        assert process.stdout
        try:
            assert process.stdout.readline() == "ready\n", (folder / "log").read_text()
            yield folder
        finally:
            process.kill()
            process.wait(60)
            process.stdout.close()


@contextmanager
def forked_by(commands: Path) -> Iterator[None]:
    """Fork the processes that this one starts as modules of Python."""
    before = sys.executable
    sys.executable = str(commands / "python")
    try:
        yield
    finally:
        sys.executable = before


def opened_copy_of(folder: Path) -> Callable[[Path], AbstractContextManager[Master]]:
    """Return a function that opens a master, and makes a new one as a copy of the empty one in a folder.

    To make tables, views and comments takes longer than to load a run. `test_history_layout` checks that a history
    without tables gets them.
    """
    empty = folder / "master.duckdb"

    def opened(place: Path) -> AbstractContextManager[Master]:
        folder.mkdir(exist_ok=True)
        with alone(folder):
            if not empty.exists():
                with opened_master(empty) as master:
                    landing._lay_out(master.db)  # pyright: ignore
        if not place.exists():
            shutil.copyfile(empty, place)
            keep_private(place)
        return opened_master(place)

    return opened


def resolve_here() -> None:
    """Resolve every host name to this machine, and map ports."""
    resolve, connect = socket.getaddrinfo, socket.socket.connect

    def resolved(host: Any, *given: Any, **named: Any) -> Any:
        return resolve("127.0.0.1", *given, **named)

    def connected(connection: socket.socket, address: Any) -> None:
        ports = json.loads(os.environ.get(PORTS, "{}")) if connection.family == socket.AF_INET else {}
        connect(connection, (address[0], ports.get(str(address[1]), address[1])) if ports else address)

    socket.getaddrinfo, socket.socket.connect = resolved, connected  # pyright: ignore


class Imported(MetaPathFinder, Loader):
    """Modules that use Prefect: imported, but hidden until a command imports one of them."""

    def __init__(self) -> None:
        """Import all modules, and hide these."""
        ours = chain(*(walk_packages(each.__path__, f"{each.__name__}.") for each in (flows, tasks)))
        modules = (*(each.name for each in ours), *LATE)
        sys.modules["prefect"] = None  # pyright: ignore
        for module in modules:
            with suppress(ImportError):  # it uses Prefect
                import_module(module)
        del sys.modules["prefect"]
        before = {*sys.modules}
        for module in modules:
            import_module(module)
        self.settings = prefect_settings()
        names = [name for name in {*sys.modules} - before if name.partition(".")[0] in ("prefect", "flows", "tasks")]
        self.hidden = {name: sys.modules.pop(name) for name in names}

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname not in self.hidden:
            return None
        sys.modules.update(self.hidden)
        sys.meta_path.remove(self)
        changed = {name for name, _ in prefect_settings().items() ^ self.settings.items()}
        if changed:
            from prefect.context import refresh_global_settings_context

            refresh_global_settings_context()
        if any("LOGGING" in name for name in changed):
            from prefect.logging.configuration import setup_logging

            setup_logging(incremental=False)
        claim_run()  # a process that is not forked does so when it imports the flows
        self.original = self.hidden[fullname].__spec__
        return ModuleSpec(fullname, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.hidden[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.original


def prefect_settings() -> dict[str, str]:
    """Return Prefect's settings in the environment."""
    return {name: value for name, value in os.environ.items() if name.startswith("PREFECT")}


def run(name: str, arguments: list[str]) -> int:
    """Run a command."""
    sys.argv = [name, *arguments]
    try:
        if name == "jury":
            from flows.cli import main

            return main()
        if name == "prefect":
            from prefect.cli import app

            app()
        elif "-c" in arguments:
            sys.argv = arguments[arguments.index("-c") :]
            # Processes that the code starts by `multiprocessing` would import this file as their main module.
            main_module = sys.modules["__main__"] = ModuleType("__main__")
            exec(sys.argv.pop(1), main_module.__dict__)
        else:
            sys.argv = arguments[arguments.index("-m") + 1 :]
            import_module(sys.argv[0])
            del sys.modules[sys.argv[0]]  # it is run anew
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def answer(connection: socket.socket, python: str) -> None:
    """Run one command; send its process id and its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()  # a command may kill its process group
    head, files, _, _ = socket.recv_fds(connection, 4, 64)
    message, length = b"", int.from_bytes(head, "big")
    while len(message) < length:
        message += connection.recv(length - len(message))
    name, arguments, folder, variables, numbers = json.loads(message)
    if pid := os.fork():
        connection.sendall(pid.to_bytes(4, "big"))
        if connection in select.select([connection, os.pidfd_open(pid)], [], [])[0]:
            os.kill(pid, signal.SIGKILL)  # as the command was
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with suppress(BrokenPipeError):
            connection.sendall(bytes([code if code >= 0 else 128 - code]))
        os._exit(0)
    for number, file in zip(numbers, [fcntl.fcntl(file, fcntl.F_DUPFD, 512) for file in files], strict=True):
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    if WORKER not in arguments:
        sys.executable = python
        resolve_here()
    code = 1
    try:
        code = run(name, arguments)
    finally:
        # `os._exit` leaves out what Python does at the end of a program.
        threading._shutdown()  # pyright: ignore
        atexit._run_exitfuncs()  # pyright: ignore
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def serve(place: str) -> None:
    find_prefect(Path())  # commands are quiet
    gc.disable()
    imported = Imported()
    landing.opened_master = opened_copy_of(Path(place).with_name("empty"))
    from tasks.pages import page

    templates = page._templates()  # pyright: ignore
    for template in templates.list_templates(["j2"]):
        templates.get_template(template)
    sys.meta_path.insert(0, imported)
    gc.freeze()  # no command searches all these objects for garbage
    gc.set_threshold(100_000, 50, 1000)  # with the defaults, a Prefect server does so for a twentieth of its time
    gc.enable()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(place)
        listening.listen()
        print("ready", flush=True)
        while True:
            connection, _ = listening.accept()
            if not os.fork():
                answer(connection, str(Path(place).with_name("python")))
            connection.close()


if __name__ == "__main__":
    serve(sys.argv[1])
