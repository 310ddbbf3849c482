"""Benchmark: how long `jury run` takes to its first call when nothing is running yet (a part of `make bench`).

32 pairs of about 250 KB on four dimensions; a loopback judge that answers at once. Each run is a process of its own,
looked at from outside: the first request that any server of it answers, the first question about a sample, its end.
CPU seconds are those of the command and all that it started and waited for.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

import bench
from loopback_judge import LoopbackJudge
from served import JURY, environment, free_port, jury_up

from flows.runtime import prepared_database
from tasks.embedded_judge.chat import PROBE

PAIRS = 32
TURNS = 3
AFTER_SERVER, NEW_STORE, WITH_SERVER, MISTAKE, DEMO = 2.0, 1.0, 4.0, 3.0, 25.0
"""Targets in seconds."""
LISTENING = "0A"


class Found(NamedTuple):
    """What was seen of one command, in seconds since its start; NaN: that never came."""

    server: float = float("nan")
    probe: float = float("nan")
    call: float = float("nan")
    told: float = float("nan")
    """The first line on standard error that tells of a mistake."""
    wall: float = float("nan")
    cpu: float = float("nan")

    @property
    def after_server(self) -> float:
        """From the server's first answer to the first question about a sample."""
        return self.call - self.server

    def line(self, name: str) -> str:
        """As a row of a Markdown table."""
        seconds = (self.server, self.probe, self.call, self.after_server, self.told, self.wall, self.cpu)
        return f"| {name} | " + " | ".join("-" if value != value else f"{value:.1f} s" for value in seconds) + " |"


def command(words: list[str], judge: LoopbackJudge | None = None) -> Found:
    """Run a command to its end and look at it meanwhile."""
    started, seen = time.monotonic(), dict[str, float]()
    first = len(judge.requests) if judge else 0
    given = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    process = subprocess.Popen([JURY, *words], env=environment(), text=True, **given)
    watching = threading.Thread(target=_watch_server, args=(process.pid, seen), daemon=True)
    watching.start()
    for line in process.stderr or ():
        if line.startswith("jury: "):
            seen.setdefault("told", time.monotonic())
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    asked = judge.requests[first:] if judge else []
    for kind in ("probe", "call"):
        times = [each.arrived for each in asked if (each.schema_name == PROBE) == (kind == "probe")]
        seen |= {kind: min(times)} if times else {}
    seen["wall"] = time.monotonic()
    return Found(**{name: at - started for name, at in seen.items()}, cpu=used.ru_utime + used.ru_stime)


def _watch_server(parent: int, seen: dict[str, float]) -> None:
    """Note when a server that this process started answers for the first time."""
    while Path(f"/proc/{parent}").exists():
        for port in _ports(parent):
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/api/health", timeout=120):
                seen["server"] = time.monotonic()
                return
        time.sleep(0.05)


def _ports(parent: int) -> list[int]:
    """Ports on which the children of a process listen."""
    with suppress(OSError):
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        links = [os.readlink(link) for child in children for link in Path(f"/proc/{child}/fd").iterdir()]
        inodes = {link[8:-1] for link in links if link.startswith("socket:[")}
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return [int(line[1].split(":")[1], 16) for line in lines if line[3] == LISTENING and line[9] in inodes]
    return []
