"""Benchmark: the whole flow against a bare client loop on one machine (`make bench-speed`).

A loopback judge at 200 ms (log-normal, sigma 0.3), 64 calls in flight, a running Prefect server. Each measurement runs
in its own process, for its own CPU and peak memory. Loop and flow take turns; the run with the median wall time counts.
Arguments are names of workloads; without any, all are measured.
"""

import contextlib
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from bench_data import draw_checklists, draw_images, draw_pairs
from bench_sides import DIMENSIONS, EARLY, IN_FLIGHT
from loopback_judge import judge_process
from served import free_port

from flows.server.server import client_settings, own_server

SIDES = Path(__file__).with_name("bench_sides.py")
PAIRS, MANY = 292, 2920
TURNS = 3
SERVER_SECONDS, MEMORY_MB, GROWTH, REUSE_SECONDS, THUMBNAIL_MS = 4.0, 400.0, 1.2, 10.0, 25.0
NONE = math.inf
"""No target: the measured value is printed only."""


class Workload(NamedTuple):
    title: str
    kind: str
    """`pairs`, `images`, or the instrument of a checklist."""
    samples: int
    file_format: str
    wall: float
    cpu: float = NONE
    thumbnail_ms: float = THUMBNAIL_MS
    ramp_apart: bool = False
    """Whether the target of the wall time excludes the ramp of the gate."""

    @property
    def calls(self) -> int:
        return self.samples * (len(DIMENSIONS) if self.kind == "pairs" else 1)

    @property
    def pictures(self) -> int:
        return self.samples * (2 if self.kind == "pairs" else 1)

    def draw(self, root: Path) -> None:
        if self.kind in CHECKS:
            prompts, checks = CHECKS[self.kind]
            draw_checklists(root, prompts, self.samples // prompts, checks)
            return
        (draw_pairs if self.kind == "pairs" else draw_images)(root, self.samples, self.file_format)


CHECKS = {"together": (600, 1813), "single": (1080, 13_536)}
"""Instrument -> numbers of prompts and checks, as in UniGenBench and T2I-CoReBench."""
TWO_TIMES = "pairs of {}, each of two times about {} KB"
WORKLOADS = {
    "png-pairs": Workload(TWO_TIMES.format("PNG", 275), "pairs", PAIRS, "PNG", 1.15, 1.5),
    # As matplotlib writes them; pixels must be decoded before sending.
    "rgba-pairs": Workload("pairs of PNG with an opaque alpha channel, 300 KB each", "pairs", PAIRS, "RGBA", NONE),
    "jpeg-pairs": Workload(TWO_TIMES.format("JPEG", 125), "pairs", PAIRS, "JPEG", 1.10, 1.35, ramp_apart=True),
    "png-images": Workload("PNG images of 1024 pixels, about 1.5 MB each", "images", 553, "PNG", 1.25, NONE, NONE),
    "jpeg-images": Workload("JPEG images of about 125 KB each", "images", 2212, "JPEG", 1.25, 2.0),
    "checklists": Workload("JPEG images with about three checks each, asked together", "together", 2400, "JPEG", 1.25),
}
FEW = Workload("", "pairs", 2, "JPEG", 0, 0)
GROWN = Workload("", "pairs", MANY, "JPEG", 0, 0)
SINGLE = Workload("", "single", 1080, "JPEG", 0, 0)

Found = dict[str, float]


class Row(NamedTuple):
    """A row of a table; the target is an upper bound of the measured value."""

    name: str
    loop: str
    flow: str
    measured: float
    target: float
    unit: str


class Bench:
    """A Prefect server, a judge, and a folder for datasets and stores."""

    def __init__(self, place: Path, settings: dict[str, str], server: int, judge: str) -> None:
        self._place, self._settings, self._server, self._judge = place, settings, server, judge

    def drawn(self, name: str, workload: Workload) -> Path:
        workload.draw(self._place / name)
        return self._place / name

    def loop(self, workload: Workload, root: Path) -> Found:
        return measure(SIDES, "bare", workload.kind, root, self._judge)

    def flow(self, workload: Workload, root: Path, store: str) -> Found:
        before = cpu_of(self._server)
        found = measure(SIDES, "flow", workload.kind, root, self._judge, self._place / store, **self._settings)
        server = cpu_of(self._server) - before
        return found | {"server": server, "ramp": ramp_seconds(self._place / store)}

    def rows(self, name: str, workload: Workload) -> Iterator[Row]:
        """Measure loop and flow in turns, then the flow again, which reuses every reply."""
        root = self.drawn(name, workload)
        loops, flows = list[Found](), list[Found]()
        for turn in range(TURNS):
            loops.append(self.loop(workload, root))
            flows.append(self.flow(workload, root, f"{name}-{turn}"))
        loop, flow = _median_run(loops), _median_run(flows)
        reuse = self.flow(workload, root, f"{name}-0")["wall"]
        yield _ratio_row("wall time", loop, flow, "wall", NONE if workload.ramp_apart else workload.wall)
        if workload.ramp_apart:
            name_apart = f"wall time but {flow['ramp']:.2f} s, the ramp of the gate"
            yield _ratio_row(name_apart, loop, flow | {"wall": flow["wall"] - flow["ramp"]}, "wall", workload.wall)
        yield _ratio_row("client CPU", loop, flow, "cpu", workload.cpu)
        each = 1000 * flow["thumbnails"] / workload.pictures
        seconds = f"{flow['thumbnails']:.1f} s, done {flow['behind']:.1f} s after the table"
        yield Row("CPU of thumbnails behind it, a picture", "-", seconds, each, workload.thumbnail_ms, "ms")
        yield Row("Prefect server CPU", "-", f"{flow['server']:.1f} s", flow["server"], SERVER_SECONDS, "s")
        yield Row("peak memory", *_cells(loop, flow, "memory", "MB"), flow["memory"], MEMORY_MB, "MB")
        yield Row("wall time, everything reused", "-", f"{reuse:.1f} s", reuse, REUSE_SECONDS, "s")
        if name == "jpeg-pairs":
            yield self._growth(flow["memory"])
        if name == "checklists":
            found = self.flow(SINGLE, self.drawn("single", SINGLE), "single-store")
            memory = f"{found['late']:.0f} MB, of {found['early']:.0f} MB then; peak {found['memory']:.0f} MB"
            calls = f"memory after 13,536 single calls, over that after {EARLY:,}"
            yield Row(calls, "-", memory, found["late"] / found["early"], GROWTH, "x")

    def _growth(self, few: float) -> Row:
        flow = self.flow(GROWN, self.drawn("grown", GROWN), "grown-store")
        many = flow["memory"]
        return Row(f"peak memory, {MANY} pairs", "-", f"{many:.0f} MB", many / few, GROWTH, "x")


def ramp_seconds(store: Path) -> float:
    """Return the seconds of full concurrency that a run lost until `IN_FLIGHT` calls were in flight, 0 if never."""
    changes = list[tuple[float, int]]()
    for file in (store / "ledger").glob("*/judgments.jsonl"):
        for row in map(json.loads, file.read_text().splitlines()):
            ended = datetime.fromisoformat(row["judged_at"]).timestamp()
            changes += [(ended - row["seconds"], 1), (ended, -1)]
    lacked, in_flight, before = 0.0, 0, math.inf
    for now, change in sorted(changes):
        lacked += max(0.0, now - before) * (1 - in_flight / IN_FLIGHT)
        in_flight, before = in_flight + change, now
        if in_flight == IN_FLIGHT:
            return lacked
    return 0.0


def _cells(loop: Found, flow: Found, what: str, unit: str) -> tuple[str, str]:
    digits = 0 if unit == "MB" else 1
    return f"{loop[what]:.{digits}f} {unit}", f"{flow[what]:.{digits}f} {unit}"


def _ratio_row(name: str, loop: Found, flow: Found, what: str, target: float) -> Row:
    return Row(name, *_cells(loop, flow, what, "s"), flow[what] / loop[what], target, "x")


def _median_run(runs: list[Found]) -> Found:
    return sorted(runs, key=lambda run: run["wall"])[len(runs) // 2]


def measure(program: str | Path, *arguments: object, **environment: str) -> Found:
    """Run a program; return the measurements that it prints."""
    command = [sys.executable, str(program), *map(str, arguments)]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


@contextlib.contextmanager
def prefect_server(place: Path) -> Iterator[tuple[dict[str, str], int]]:
    """Start a Prefect server; yield the environment of silent flows on it, and its process id."""
    (place / "home").mkdir()
    own = {"PREFECT_HOME": str(place / "client"), "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL"}
    with own_server(place / "home", free_port()) as server:
        yield client_settings(server.api) | own, server.pid


def line(*cells: object) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"


def cpu_of(pid: int) -> float:
    """Return CPU seconds of a process and its children so far, from /proc."""
    total = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(stat.parent.name) == pid or int(fields[1]) == pid:
                total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def main(names: list[str]) -> int:
    """Measure; print the tables and the missed targets."""
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}; a judge at 200 ms, {IN_FLIGHT} calls in flight")
    missed = list[str]()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        latency = ("--latency", "0.2", "--sigma", "0.3", "--seed", "1")
        with prefect_server(place) as (settings, pid), judge_process(*latency) as judge:
            bench = Bench(place, settings, pid, judge.base_url)
            # A new server compiles its queries during the first run; measure a warm one.
            bench.flow(FEW, bench.drawn("few", FEW), "few-store")
            for name in names or WORKLOADS:
                missed += _report(WORKLOADS[name], bench.rows(name, WORKLOADS[name]))
    print(f"\nmissed: {', '.join(missed)}" if missed else "\nall targets met")
    return 1 if missed else 0


def _report(workload: Workload, rows: Iterator[Row]) -> list[str]:
    """Print the measurements of one workload as Markdown; return the missed targets."""
    title = f"{workload.samples} {workload.title}: {workload.calls} calls"
    print(f"\n| {title} | bare client loop | whole flow | measured | target |\n|---|---|---|---|---|", flush=True)
    missed = list[str]()
    for row in rows:
        target = "-" if row.target == NONE else f"{row.target:g} {row.unit}"
        print(line(row.name, row.loop, row.flow, f"{row.measured:.2f} {row.unit}", target))
        if row.measured > row.target:
            missed.append(f"{row.name} ({title})")
    return missed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
