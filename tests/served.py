"""`jury up` as a separate process, and helpers to observe it."""

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import yaml

from flows.server.server import home, kept_sign_in, sign_in_header

JURY = str(Path(sys.executable).with_name("jury"))
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "CRASHED"}


def headers(api: str, auth: str = "") -> dict[str, str]:
    """Return the headers of a request that changes something: the token of a new client."""
    client, signed_in = str(uuid4()), sign_in_header(auth)
    asked = urllib.request.Request(f"{api}/csrf-token?client={client}", headers=signed_in)
    with urllib.request.urlopen(asked, timeout=120) as reply:
        token = json.loads(reply.read())["token"]
    protected = {"Prefect-Csrf-Client": client, "Prefect-Csrf-Token": token}
    return {"content-type": "application/json", **protected, **signed_in}


class Up(NamedTuple):
    process: Any
    store: Path
    port: int
    auth: str = ""

    @property
    def ui(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def api(self, path: str, body: Any = None, method: str | None = None) -> Any:
        """Return the server's answer to a GET, or to a POST of `body` unless another method is given."""
        data = None if body is None else json.dumps(body).encode()
        changes = body is not None or method is not None
        deadline = time.monotonic() + 120
        while True:
            try:
                sent = headers(f"{self.ui}/api", self.auth) if changes else sign_in_header(self.auth)
                request = urllib.request.Request(f"{self.ui}/api{path}", data, sent, method=method)
                with urllib.request.urlopen(request, timeout=120) as reply:
                    return json.loads(reply.read() or "null")
            except urllib.error.HTTPError as error:
                # SQLite was busy; Prefect's own clients retry, too.
                if error.code != HTTPStatus.SERVICE_UNAVAILABLE or time.monotonic() > deadline:
                    raise
            time.sleep(0.25)

    def output(self) -> str:
        return log_of(self.store).read_text()

    def runs(self) -> list[dict[str, Any]]:
        """Return the flow runs that are more than scheduled, the oldest first."""
        states = {"state": {"type": {"not_any_": ["SCHEDULED"]}}}
        return self.api("/flow_runs/filter", {"flow_runs": states, "sort": "EXPECTED_START_TIME_ASC"})

    def deployment(self, name: str) -> dict[str, Any]:
        return self.api(f"/deployments/name/{name}")

    def start_run(self, name: str, **form: Any) -> str:
        """Start a run of a deployment with these parameters like a person; return its id."""
        asked = {"name": "typed", "parameters": {"parameters": form}, "state": {"type": "SCHEDULED"}}
        return self.api(f"/deployments/{self.deployment(name)['id']}/create_flow_run", asked)["id"]

    def state(self, run: str) -> str:
        return self.api(f"/flow_runs/{run}")["state_type"]

    def wait_for_end(self, run: str, last: Collection[str] = ENDED, seconds: float = 300) -> dict[str, Any]:
        """Wait for the end of a run; return it."""
        wait_for(lambda: self.state(run) in last, seconds)
        return self.api(f"/flow_runs/{run}")


def listed(name: str, crons: Mapping[str, str], form: Mapping[str, Any], timezone: str = "UTC") -> dict[str, Any]:
    """Return an entry of a list of deployments; `crons` has its schedules by slug."""
    own = {"name": name, "entrypoint": "flows.counting.counting", "description": "Of a test.", "tags": ["test"]}
    schedules = [{"slug": slug, "cron": cron, "timezone": timezone} for slug, cron in crons.items()]
    return {**own, "schedules": schedules, "parameters": {"parameters": dict(form)}}


def write_list(path: Path, *entries: dict[str, Any]) -> str:
    path.write_text(yaml.safe_dump({"deployments": [*entries]}))
    return str(path)


def log_of(store: Path) -> Path:
    return store.with_name(f"{store.name}-up.log")


def command(*words: object, program: str = JURY) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, with no Prefect server except that of its store."""
    return subprocess.run([program, *map(str, words)], capture_output=True, text=True, env=environment(), timeout=200)


def users_of(home: Path) -> list[Path]:
    """Return the folders in /proc of processes with this Prefect home."""
    found: list[Path] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"PREFECT_HOME={home}".encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append(process)
    return found


def free_port() -> int:
    """Return a free port below those of connections: one of these could take it before a server does."""
    while True:
        port = 20_000 + secrets.randbelow(12_768)
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port


def environment() -> dict[str, str]:
    """Return our environment without the Prefect server of other tests."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "JURY"))}


@contextmanager
def jury_up(
    store: Path, port: int, *options: str, ended_by: signal.Signals = signal.SIGINT, program: str = JURY
) -> Iterator[Up]:
    """Yield `jury up` once it is up; end it by Ctrl-C or another signal, and check its exit code unless killed."""
    command = [program, "up", "--store", str(store), "--port", str(port), *options]
    log = log_of(store)
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, text=True, env=environment())
        try:
            wait_for(lambda: "Ctrl-C stops all of it" in log.read_text() or process.poll() is not None, 240)
            assert process.poll() is None, log.read_text()
            yield Up(process, store, port, kept_sign_in(home(store)))
        finally:
            process.send_signal(ended_by)
            assert process.wait(120) == (-ended_by if ended_by == signal.SIGKILL else 0), log.read_text()


def words_after_the_start(output: str) -> list[str]:
    """Return the lines of `jury up` after its start, except restarts; fail on a traceback."""
    assert "Traceback" not in output
    lines = output.partition("Ctrl-C stops all of it.\n")[2].splitlines()
    return [line for line in lines if "starts again" not in line]


@contextmanager
def on_ctrl_c(handler: Any) -> Iterator[None]:
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def wait_for(condition: Any, seconds: float = 300.0) -> None:
    """Wait until the condition holds, with a limit that only a busy machine needs.

    A check may ask a server, so pauses grow with the time passed.
    """
    began = time.monotonic()
    while not condition():
        waited = time.monotonic() - began
        assert waited < seconds, "waited in vain"
        time.sleep(min(max(waited / 10, 0.1), 2.0))


def shown_until_closed(ours: int) -> str:
    """Return everything written to the other side of a pseudo-terminal until it was closed; close this side, too.

    One read may return only a part.
    """
    shown = b""
    try:
        while block := os.read(ours, 65536):
            shown += block
    except OSError:  # Linux reports the closed other side this way
        pass
    finally:
        os.close(ours)
    return shown.decode().replace("\r\n", "\n")
