"""The Prefect server of a store: started, told apart from anybody else's, and found again.

A port that answers proves nothing: it may be another person's Prefect, and registering deployments there would write
into it. A server is ours when the process that we noted lives, and what answers has our version and our home.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator, Mapping
from functools import partial
from http.client import HTTPException
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, cast

from pydantic import TypeAdapter, ValidationError

from flows.runtime import sign_in
from flows.runtime.guard import own_settings
from flows.runtime.kept_process import KeptProcess
from flows.runtime.prepared_database import give
from tasks.errors import InputError
from tasks.files import private_folder

HOST = "127.0.0.1"
NOTE = "server.json"
LOG = "server.log"
"""In the home of a server: what it says."""
PATIENCE_SECONDS = 120.0
ANSWER_SECONDS = 30.0
"""For a server that is there to say what it is: one that a busy machine keeps from it is not gone."""
QUIET = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
}
"""Telemetry and advertisements off."""
NOT_FOR_SERVERS = ("PREFECT_API_URL", "PREFECT_PROFILE", "PREFECT_API_AUTH_STRING", "PREFECT_SERVER_API_AUTH_STRING")
"""What of the environment is about another server than the one that is started."""


_ENDED = "the Prefect server has ended; its last words are in {}"


class Server(NamedTuple):
    """A running server of ours."""

    port: int
    pid: int
    """Of the server's process."""
    auth: str = ""
    """What signs in; "": nobody has to. Never noted with the rest."""

    @property
    def ui(self) -> str:
        """Where a person looks at it."""
        return f"http://{HOST}:{self.port}"

    @property
    def api(self) -> str:
        """What `PREFECT_API_URL` is for its clients."""
        return api_at(self.port)


def api_at(port: int) -> str:
    """Address of the API of a server of ours, running or not."""
    return f"http://{HOST}:{port}/api"


def home(store: Path) -> Path:
    """Prefect's home under a store, so that it and a person's other Prefect never mix."""
    return store.absolute() / "prefect"


def running(store: Path) -> Server | None:
    """The server that `jury up` runs for this store, when it is there and proves to be ours."""
    try:
        server = TypeAdapter(Server).validate_json((home(store) / NOTE).read_bytes())
        os.kill(server.pid, 0)
    except (OSError, OverflowError, ValidationError):
        return None
    server = server._replace(auth=sign_in.kept(home(store)))
    return server if _answers_as_ours(server, home(store)) else None


def made_home(store: Path) -> Path:
    """Prefect's home under a store, there and readable by its user alone."""
    place = home(store)
    private_folder(place)
    with contextlib.suppress(PermissionError):  # it is another user's, who has let this one in
        place.chmod(0o700)
    return place


@contextlib.contextmanager
def own_server(store: Path, port: int, auth: str = "") -> Generator[Server]:
    """A server of our own, for as long as the context lasts. Its output goes to `server.log` in its home. Where it is
    killed, it begins again.

    Args:
        auth: what has to be sent to sign in; "": nothing has.

    Raises:
        InputError: the server did not start, as where another has taken the port meanwhile, or it ended and could not
            be kept.
    """
    place = made_home(store)
    give(place)
    process = KeptProcess(partial(_begin, place, port, auth), partial(_tell_of_end, place))
    try:
        server = _wait_for(port, auth, process.now, place)
        process.keep()
        yield server
    finally:
        process.end()
        (place / NOTE).unlink(missing_ok=True)
    if process.lost:
        raise InputError(_ENDED.format(place / LOG))


def _begin(place: Path, port: int, auth: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "flows.runtime.served_process"]
    with (place / LOG).open("ab") as log:
        # A session of its own: Ctrl-C is for `jury up`, which lets the runs end before their server goes.
        process = subprocess.Popen(
            command,
            env=_environment(place, port, auth),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    (place / NOTE).write_text(json.dumps({"port": port, "pid": process.pid}), encoding="utf-8")
    return process


def _tell_of_end(place: Path) -> None:
    print(f"{_ENDED.format(place / LOG)}; it begins again …", file=sys.stderr)


def client_settings(api: str, auth: str = "") -> dict[str, str]:
    """Environment in which Prefect's client uses this server, signing in where it has to."""
    return {**QUIET, "PREFECT_API_URL": api, **({"PREFECT_API_AUTH_STRING": auth} if auth else {})}


def refuse_taken(port: int) -> None:
    """Raise InputError where a port of this machine is taken, with who has it as far as that can be told."""
    with socket.socket() as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((HOST, port))
        except OSError as error:
            raise InputError(
                f"port {port} is taken by {_holder(port)}; choose another with --port, or end that program"
            ) from error


def _environment(place: Path, port: int, auth: str) -> Mapping[str, str]:
    others = {name: value for name, value in os.environ.items() if name not in NOT_FOR_SERVERS}
    signed_in = {"PREFECT_SERVER_API_AUTH_STRING": auth} if auth else {}
    own = {
        "PREFECT_HOME": str(place),
        "PREFECT_SERVER_API_HOST": HOST,
        "PREFECT_SERVER_API_PORT": str(port),
        # The browser asks whoever served the page, on whatever port that is.
        "PREFECT_SERVER_UI_API_URL": "/api",
        # Who holds places under a limit is still known after a restart, and soon forgotten when it has vanished.
        "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": "prefect.server.concurrency.lease_storage.filesystem",
        "PREFECT_SERVER_SERVICES_REPOSSESSOR_LOOP_SECONDS": "5",
    }
    return {**others, **QUIET, **own_settings(f"http://{HOST}:{port},http://localhost:{port}"), **own, **signed_in}


def _wait_for(port: int, auth: str, process: subprocess.Popen[bytes], place: Path) -> Server:
    server, deadline = Server(port, process.pid, auth), time.monotonic() + PATIENCE_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        if _answers_as_ours(server, place):
            return server
        time.sleep(0.2)
    raise InputError(f"the Prefect server did not start; its last words are in {place / LOG}")


def _answers_as_ours(server: Server, place: Path) -> bool:
    try:
        found = _get(server, "/admin/version")
        settings = _get(server, "/admin/settings") if found == version("prefect") else None
    except (OSError, HTTPException, json.JSONDecodeError, UnicodeDecodeError):
        return False
    if not isinstance(settings, dict):
        return False
    there = str(cast(dict[str, object], settings).get("home", ""))
    return Path(there).resolve() == place.resolve()


def _get(server: Server, path: str) -> Any:
    asked = urllib.request.Request(f"{server.api}{path}", headers=sign_in.header(server.auth))
    with urllib.request.urlopen(asked, timeout=ANSWER_SECONDS) as reply:
        return json.load(reply)


def _holder(port: int) -> str:
    """The program that listens on a port, from /proc where there is one."""
    with contextlib.suppress(OSError):
        wanted = f"0100007F:{port:04X}", f"00000000:{port:04X}"
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
        inodes = {fields[9] for fields in map(str.split, lines) if fields[1] in wanted and fields[3] == "0A"}
        for link in Path("/proc").glob("[0-9]*/fd/*"):
            with contextlib.suppress(OSError):
                if str(link.readlink()).removeprefix("socket:[").removesuffix("]") in inodes:
                    words = (link.parents[1] / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    return f"process {link.parents[1].name} ({words.strip()[:120]})"
    return "another program"
