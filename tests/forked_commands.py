"""Commands `jury` and `prefect` for scripts, run by processes that are forked from one that has done the imports.

Imports take most of the processor time of a short command, and of the processes that a run starts for its pages and
thumbnails. The `python` on the commands' path therefore forks these, too. A command has the id of its forked process as
its name (`comm`), and kills it where it is killed itself. Every host name resolves to this machine, and ports are
mapped as the caller asks. Usage as a program: SOCKET PORTS (a JSON object); `installed` writes the commands.
"""

import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from pkgutil import ModuleInfo, walk_packages
from types import ModuleType
from typing import Any

import flows
import tasks
from flows.server.server import find_prefect
from flows.server.supervision import claim_run

LATE = ("prefect.cli", "prefect.flow_engine", "prefect.utilities.visualization")
LATE += ("anyio._backends._asyncio", "genai_prices", "httpcore2", "pydantic.v1", "scipy.optimize", "truststore")
"""Modules of others that commands import sooner or later."""
WITHOUT_PREFECT = ("tasks.pages.background", "tasks.pictures.thumbnails")
FORKED = (*WITHOUT_PREFECT, "flows.api", "flows.server.runner", "prefect.engine")
"""Modules that commands start as programs and that run in the commands' environment."""
CLIENT = """#!{python} -SEs
import json, os, signal, socket, sys
if os.path.basename(sys.argv[0]) == "python" and not {{*sys.argv}} & {{*{forked}}}:
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
with socket.socket(socket.AF_UNIX) as made:
    made.connect({socket!r})
    message = json.dumps([os.path.basename(sys.argv[0]), sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(made, [len(message).to_bytes(4, "big")], [0, 1, 2])
    made.sendall(message)
    pid = int.from_bytes(made.recv(4), "big")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: os.kill(pid, number))
    with open("/proc/self/comm", "w") as name:
        name.write(str(pid))
    code = made.recv(1)
os._exit(code[0] if code else 1)
"""


@contextmanager
def installed(folder: Path, ports: Mapping[int, int], settings: Mapping[str, str]) -> Iterator[Path]:
    """Start the process; yield the folder of the commands."""
    place = folder / "socket"
    for name in ("jury", "prefect", "python"):
        file = folder / name
        written = CLIENT.format(python=sys.executable, socket=str(place), forked=FORKED)
        file.write_text(written, encoding="utf-8")
        file.chmod(0o755)
    with (folder / "log").open("w") as log:
        program = [sys.executable, __file__, str(place), json.dumps(ports)]
        process = subprocess.Popen(program, env=settings, stdout=subprocess.PIPE, stderr=log, text=True)
        assert process.stdout
        try:
            assert process.stdout.readline() == "ready\n", (folder / "log").read_text()
            yield folder
        finally:
            process.kill()
            process.wait(60)
            process.stdout.close()


def resolve_here(ports: Mapping[int, int]) -> None:
    """Resolve every host name to this machine and map these ports to others."""
    resolve, connect = socket.getaddrinfo, socket.socket.connect

    def resolved(host: Any, *given: Any, **named: Any) -> Any:
        return resolve("127.0.0.1", *given, **named)

    def connected(connection: socket.socket, address: Any) -> None:
        moved = (address[0], ports.get(address[1], address[1])) if connection.family == socket.AF_INET else address
        connect(connection, moved)

    socket.getaddrinfo, socket.socket.connect = resolved, connected  # pyright: ignore


def prefect_settings() -> dict[str, str]:
    """Return Prefect's settings in the environment, where commands are quiet."""
    find_prefect(Path())
    return {name: value for name, value in os.environ.items() if name.startswith("PREFECT")}


def run(name: str, arguments: list[str], imported: Mapping[str, str]) -> int:
    """Run a command; `imported` are the settings with which Prefect was imported."""
    from prefect.cli import app
    from prefect.context import refresh_global_settings_context

    sys.argv = [name, *arguments]
    if name == "jury":
        from flows.cli import main

        if "PREFECT_API_URL" in os.environ and prefect_settings() != imported:
            refresh_global_settings_context()
        return main()
    module = arguments[arguments.index("-m") + 1 :] if name == "python" else []
    if module[:1] not in ([each] for each in WITHOUT_PREFECT):
        refresh_global_settings_context()
    try:
        if module:
            claim_run()  # a process that is not forked does so when it imports the flows
            sys.argv = module
            runpy.run_module(module[0], run_name="__main__", alter_sys=True)
        else:
            app()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def answer(connection: socket.socket, python: str, imported: Mapping[str, str]) -> None:
    """Run one command; send its process id and its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()  # a command may kill its process group
    head, files, _, _ = socket.recv_fds(connection, 4, 3)
    message, length = b"", int.from_bytes(head, "big")
    while len(message) < length:
        message += connection.recv(length - len(message))
    name, arguments, folder, environment = json.loads(message)
    if pid := os.fork():
        connection.sendall(pid.to_bytes(4, "big"))
        if connection in select.select([connection, os.pidfd_open(pid)], [], [])[0]:
            os.kill(pid, signal.SIGKILL)  # as the command was
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with suppress(BrokenPipeError):
            connection.sendall(bytes([code if code >= 0 else 128 - code]))
        os._exit(0)
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.executable = python
    code = 1
    try:
        code = run(name, arguments, imported)
    finally:
        atexit._run_exitfuncs()  # pyright: ignore
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def modules_of(package: ModuleType) -> Iterator[ModuleInfo]:
    return walk_packages(package.__path__, f"{package.__name__}.")


def serve(place: str, ports: Mapping[int, int]) -> None:
    from tasks.pages import page

    imported = prefect_settings()
    for module in (*LATE, *(each.name for package in (flows, tasks) for each in modules_of(package))):
        import_module(module)
    templates = page._templates()  # pyright: ignore
    for template in templates.list_templates(["j2"]):
        templates.get_template(template)
    gc.freeze()  # no command searches all these objects for garbage
    resolve_here(ports)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(place)
        listening.listen()
        print("ready", flush=True)
        while True:
            connection, _ = listening.accept()
            if not os.fork():
                answer(connection, str(Path(place).with_name("python")), imported)
            connection.close()


if __name__ == "__main__":
    serve(sys.argv[1], {int(port): to for port, to in json.loads(sys.argv[2]).items()})
