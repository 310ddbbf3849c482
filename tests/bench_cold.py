"""Benchmark: seconds from the start of `jury run` to its first call when nothing is running yet (`make bench-cold`).

32 pairs of about 250 KB on four dimensions; a loopback judge that answers at once. Each run is its own process and is
watched from outside: the first answer of a server it started, its first call, its end. CPU seconds include those of
processes that the command started and waited for.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from bench_data import draw_pairs
from bench_sides import IN_FLIGHT
from loopback_judge import LoopbackJudge
from served import JURY, environment, free_port, jury_up

from flows.server import server_process
from tasks.demo.chat import PROBE

PAIRS = 32
TURNS = 3
TARGETS = {"after server": 2.0, "new store": 1.0, "jury up": 4.0, "mistake": 3.0, "demo": 25.0}
"""Seconds to the first call after the server's first answer; by how many a new store is slower than an old one; to the
first call while `jury up` runs; to the report of a mistake in the dataset; for the whole demo."""
HEAD = "| command | server answers | judge asked | first call | after server | mistake told | wall | CPU |"
LISTENING = "0A"


class Found(NamedTuple):
    """Events of one command, in seconds since its start; NaN if an event never came."""

    server: float = float("nan")
    probe: float = float("nan")
    call: float = float("nan")
    message: float = float("nan")
    """The first message on standard error."""
    wall: float = float("nan")
    cpu: float = float("nan")

    @property
    def after_server(self) -> float:
        """Seconds from the server's first answer to the first question about a sample."""
        return self.call - self.server

    def line(self, name: str) -> str:
        seconds = (self.server, self.probe, self.call, self.after_server, self.message, self.wall, self.cpu)
        return f"| {name} | " + " | ".join("-" if value != value else f"{value:.1f} s" for value in seconds) + " |"


def watch_command(words: list[str], judge: LoopbackJudge | None = None) -> Found:
    started, seen = time.monotonic(), dict[str, float]()
    first = len(judge.requests) if judge else 0
    given = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    process = subprocess.Popen([JURY, *words], env=environment(), text=True, **given)
    watching = threading.Thread(target=_watch_server, args=(process.pid, seen), daemon=True)
    watching.start()
    for line in process.stderr or ():
        if line.startswith("jury: "):
            seen.setdefault("message", time.monotonic())
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    asked = judge.requests[first:] if judge else []
    for kind in ("probe", "call"):
        times = [each.arrived for each in asked if (each.schema_name == PROBE) == (kind == "probe")]
        seen |= {kind: min(times)} if times else {}
    seen["wall"] = time.monotonic()
    return Found(**{name: at - started for name, at in seen.items()}, cpu=used.ru_utime + used.ru_stime)


def _watch_server(parent: int, seen: dict[str, float]) -> None:
    """Record when a server that this process started answers for the first time."""
    while Path(f"/proc/{parent}").exists():
        for port in _ports(parent):
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/api/health", timeout=120):
                seen["server"] = time.monotonic()
                return
        time.sleep(0.05)


def _ports(parent: int) -> list[int]:
    """Return the ports on which the children of a process listen."""
    with suppress(OSError):
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        links = [str(link.readlink()) for child in children for link in Path(f"/proc/{child}/fd").iterdir()]
        inodes = {link[8:-1] for link in links if link.startswith("socket:[")}
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return [int(line[1].split(":")[1], 16) for line in lines if line[3] == LISTENING and line[9] in inodes]
    return []


def run_words(data: Path, store: Path, judge: LoopbackJudge) -> list[str]:
    given = ["--dataset", data, "--images", data / "model", "--store", store, "--reuse-hours", 0]
    asked = ["--judge.model", "bench", "--judge.base-url", judge.base_url, "--judge.concurrency", IN_FLIGHT]
    return ["run", "diagram", *map(str, [*given, *asked])]


def measure(place: Path, judge: LoopbackJudge) -> dict[str, Found]:
    """Measure one run of each kind; each call uses new folders for the new stores."""
    data, old, new = place / "pairs", place / "old", Path(tempfile.mkdtemp(dir=place))
    found = {
        "new store": watch_command(run_words(data, new / "store", judge), judge),
        "old store": watch_command(run_words(data, old, judge), judge),
        "mistake": watch_command([*run_words(data, new / "other", judge), "--dataset", str(place / "nowhere")]),
        "demo": watch_command(["demo", "--store", str(new / "demo")]),
    }
    with jury_up(old, free_port()):
        found["jury up"] = watch_command(run_words(data, old, judge), judge)
    return found


def median_of(turns: list[dict[str, Found]], name: str, field: str) -> float:
    return statistics.median(getattr(turn[name], field) for turn in turns)


def target_values(turns: list[dict[str, Found]]) -> dict[str, float]:
    """Return the values that have targets."""
    return {
        "after server": max(median_of(turns, name, "after_server") for name in ("new store", "old store")),
        "new store": median_of(turns, "new store", "call") - median_of(turns, "old store", "call"),
        "jury up": median_of(turns, "jury up", "call"),
        "mistake": median_of(turns, "mistake", "message"),
        "demo": median_of(turns, "demo", "wall"),
    }


def main() -> list[str]:
    """Measure, print two tables, and return the missed targets."""
    server_process.prepared_file()
    with tempfile.TemporaryDirectory() as folder, LoopbackJudge() as judge:
        place = Path(folder)
        draw_pairs(place / "pairs", PAIRS, "JPEG")
        watch_command(run_words(place / "pairs", place / "old", judge), judge)
        turns = [measure(place, judge) for _ in range(TURNS)]
    print(f"\n{HEAD}\n|{'---|' * HEAD.count(' | ')}---|")
    for name in turns[0]:
        print(Found(*(median_of(turns, name, field) for field in Found._fields)).line(name))
    found = target_values(turns)
    print("\n| cold start | measured | target |\n|---|---|---|")
    for name, target in TARGETS.items():
        print(f"| {name} | {found[name]:.1f} s | {target:g} s |")
    return [f"{name} (cold start)" for name, target in TARGETS.items() if not found[name] <= target]


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
