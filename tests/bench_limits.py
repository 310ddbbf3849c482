"""Benchmark: the whole flow and a bare client loop against judges with rate limits (`make bench-limits`).

146 pairs on four dimensions, 584 calls of 200 ms. Judges take 20 calls a second (a bucket of 20), 8 calls at once, or
both; their replies state how long to wait, state the limits in headers, or state nothing. At most 16 or 64 calls are in
flight. Then 1, 2, 4 and 8 runs share a judge that states nothing and always refuses one figure of the first run. Each
flow is its own process, on a running Prefect server.
`python tests/bench_limits.py together` measures only the second table, in about an hour and a half; numbers after it
select the numbers of runs.
"""

import asyncio
import itertools
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import bench
from bench_data import draw_pairs
from bench_sides import DIMENSIONS, bare_pairs
from limited_judges import TELLINGS, Limited
from loopback_judge import LoopbackJudge

PAIRS = 146
CALLS = PAIRS * len(DIMENSIONS)
IN_FLIGHT = (16, 64)
JUDGES = (
    ("20 calls a second", {"a_second": 20.0}, CALLS / 20, 1.15),
    ("8 calls at once", {"at_once": 8}, CALLS * 0.2 / 8, 1.4),
    ("both", {"a_second": 20.0, "at_once": 8}, CALLS / 20, 1.15),
)
"""Name, options of `Limited`, the least possible seconds for all calls, and the target as a multiple of them."""
OPENING = 16
"""Refused calls allowed at the beginning, before the limits are known."""
SHARES = {"nothing": 0.3, "retry-after": 0.3, "headers": 0.05}
"""Statement of a judge -> further refused calls allowed, as a share of all calls. No header states a limit of calls at
once."""
TOGETHER: dict[str, tuple[dict[str, Any], float]] = {
    "8 calls at once": ({"at_once": 8}, 40.0),
    "20 calls a second": ({"a_second": 20.0}, 20.0),
    "5 calls a second": ({"a_second": 5.0}, 5.0),
}
"""Limits of a judge that several runs ask -> options of `Limited`, and the most calls a second."""
RUNS_TOGETHER = (1, 2, 4, 8)
TOGETHER_SECONDS = {1: 90, 2: 240, 4: 300, 8: 360}
"""Number of runs -> seconds for which all calls keep the judge busy. The fastest run ends earlier, and all runs should
have calls left for three minutes."""
LEAST_SHARE = 0.5
"""Least allowed calls of the slowest run, over its fair share, while all have calls left."""


class Found(NamedTuple):
    """Result of one run."""

    ok: int
    refused: int
    wall: float


class Row(NamedTuple):
    """The bare loop and the flow against one judge."""

    judge: str
    tells: str
    in_flight: int
    loop: Found
    flow: Found
    least_seconds: float
    most_times: float
    most_refused: float

    @property
    def times(self) -> float:
        """Wall time of the flow, as a multiple of the least possible."""
        return self.flow.wall / self.least_seconds

    @property
    def met(self) -> bool:
        """Whether the flow meets its targets."""
        return self.flow.ok == CALLS and self.flow.refused <= self.most_refused and self.times <= self.most_times

    def line(self) -> str:
        """Return a row of a Markdown table."""
        sides = (f"{each.ok} ok, {each.refused} refused, {each.wall:.1f} s" for each in (self.loop, self.flow))
        of_target = f"{self.times:.2f}x of {self.most_times:g}x, {self.flow.refused} of {self.most_refused:.0f}"
        return bench.line(self.judge, self.tells, self.in_flight, *sides, of_target, "met" if self.met else "missed")


async def bare(root: Path, base_url: str, in_flight: int) -> int:
    """Run a simple loop with the client's own two retries; return the number of answered calls."""
    from openai import AsyncOpenAI, OpenAIError

    slots, answered = asyncio.Semaphore(in_flight), 0

    async def call(client: AsyncOpenAI, name: str, messages: list[Any], schema: dict[str, Any]) -> None:
        nonlocal answered
        form: Any = {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": schema}}
        async with slots:
            try:
                await client.chat.completions.create(model="bare", messages=messages, response_format=form)
                answered += 1
            except OpenAIError:
                pass

    async with AsyncOpenAI(api_key="none", base_url=base_url) as client, asyncio.TaskGroup() as group:
        for read in bare_pairs(root):
            for each in read():
                group.create_task(call(client, *each))
    return answered


def measure_bare(root: str, base_url: str, _: str, in_flight: str) -> None:
    """Run the loop in this process and print its measurements."""
    started = time.perf_counter()
    answered = asyncio.run(bare(Path(root), base_url, int(in_flight)))
    print(json.dumps({"wall": time.perf_counter() - started, "ok": answered}))


def measure_flow(root: str, base_url: str, store: str, in_flight: str, run: str = "bench") -> None:
    """Run the whole flow in this process and print its measurements."""
    from flows.diagram import diagram
    from tasks.records.judge import Judge
    from tasks.records.parameters import PairwiseParameters

    judge = Judge(model="bench", base_url=base_url, concurrency=int(in_flight), extra={"run": run})  # pyright: ignore
    given = PairwiseParameters(dataset=root, images=f"{root}/model", store=store, judge=judge)  # pyright: ignore
    started = time.perf_counter()
    asyncio.run(diagram(given, return_state=True))
    wall = time.perf_counter() - started
    [end] = Path(store).glob("ledger/*/end.json")
    print(json.dumps({"wall": wall, "ok": json.loads(end.read_text())["judgments"]["ok"]}))


def measure(kind: str, root: Path, store: Path, judge: Limited, in_flight: int, settings: dict[str, str]) -> Found:
    with LoopbackJudge(judge, keep_requests=False) as served:
        found = bench.measure(__file__, kind, root, served.base_url, store, in_flight, **settings)
    return Found(int(found["ok"]), judge.refused, found["wall"])


def rows(root: Path, place: Path, settings: dict[str, str]) -> Iterator[Row]:
    for (name, options, least, most), tells, in_flight in itertools.product(JUDGES, TELLINGS, IN_FLIGHT):
        store = place / f"{name}-{tells}-{in_flight}"
        loop = measure("bare", root, store, Limited(tells=tells, **options), in_flight, settings)
        flow = measure("flow", root, store, Limited(tells=tells, **options), in_flight, settings)
        stated = tells if tells != "headers" or "a_second" in options else "nothing"
        yield Row(name, tells, in_flight, loop, flow, least, most, OPENING + SHARES[stated] * CALLS)


class Together(NamedTuple):
    """Result of several runs that share a judge, which always refuses one figure of the first run."""

    name: str
    runs: int
    good: int
    """Calls of all runs about the other figures."""
    ok: int
    requests: int
    """Answered and refused requests, without those about the bad figure."""
    bad_requests: int
    share: float
    """Calls of the slowest run while all had calls left, over its fair share."""
    walls: tuple[float, ...]

    @property
    def met(self) -> bool:
        """Whether all good calls were answered, few were refused, and each run had its share."""
        most = {1: 1.3, 2: 1.3}.get(self.runs, 2.0)
        most = 1.6 if self.runs < 4 and self.name == "5 calls a second" else most
        return self.ok == self.good and self.requests <= most * self.good and self.share >= LEAST_SHARE

    def line(self) -> str:
        """Return a row of a Markdown table."""
        answered, requests = f"{self.ok:,} of {self.good:,}", f"{self.requests / self.good:.2f}"
        cells = (self.bad_requests, f"{self.share:.2f}", f"{min(self.walls):.0f}-{max(self.walls):.0f} s")
        return bench.line(self.name, self.runs, answered, requests, *cells, "met" if self.met else "missed")


def measure_together(name: str, runs: int, place: Path, settings: dict[str, str]) -> Together:
    options, a_second = TOGETHER[name]
    pairs = math.ceil(TOGETHER_SECONDS[runs] * a_second / len(DIMENSIONS) / runs)
    root = place / f"{name}-{runs}"
    draw_pairs(root / "data", pairs, "JPEG")
    judge = Limited(**options, bad=f"Overview {pairs // 3} of the method")
    with LoopbackJudge(judge, keep_requests=False) as served:
        flow = [sys.executable, __file__, "flow", root / "data", served.base_url]
        commands = [[*flow, root / f"store-{n}", "16", f"run-{n}"] for n in range(runs)]
        # Many flows that start at the same moment find Prefect's SQLite busy, so the client must retry.
        own = {"env": {**os.environ, **settings, "PREFECT_CLIENT_MAX_RETRIES": "30"}, "stdout": subprocess.PIPE}
        started = [subprocess.Popen(command, **own) for command in commands]
        # Calls taken when the last run began its calls. Its first question does not count: with many flows, Prefect's
        # SQLite delays the first tasks of some.
        before = None
        while all(run.poll() is None for run in started):
            if before is None and len(judge.asked) == runs and min(judge.asked.values()) > 1:
                before = Counter(judge.taken)
            time.sleep(0.05)
        taken = judge.taken - (before or judge.taken)
        found = [json.loads(run.communicate()[0].splitlines()[-1]) for run in started]
    share = min(taken[f"run-{n}"] for n in range(runs)) * runs / max(1, taken.total())
    good, ok = len(DIMENSIONS) * (pairs * runs - 1), sum(each["ok"] for each in found)
    requests, walls = judge.taken.total() + judge.refused, tuple(each["wall"] for each in found)
    return Together(name, runs, good, ok, requests, judge.bad_asked, share, walls)


def print_together(place: Path, settings: dict[str, str], numbers: Sequence[int]) -> int:
    """Print a row for each judge and number of runs; return the number of missed targets."""
    print(
        "\n| the judge takes | runs | good calls answered | requests over calls | requests about the bad figure "
        "| least share of fair | wall | |"
    )
    print("|---|---|---|---|---|---|---|---|")
    missed = 0
    # One judge after another: if many flows start at once, some wait a minute for Prefect's SQLite.
    for runs, name in itertools.product(numbers, TOGETHER):
        found = measure_together(name, runs, place, settings)
        missed += not found.met
        print(found.line(), flush=True)
    return missed


def main(only_together: bool = False, numbers: Sequence[int] = RUNS_TOGETHER) -> int:
    """Measure; print the tables and the number of missed targets."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        draw_pairs(place / "half", PAIRS, "JPEG")
        (place / "together").mkdir()
        print(f"{os.cpu_count()} cores, Python {platform.python_version()}; {CALLS} calls of 200 ms\n")
        print("| the judge takes | it tells | in flight | bare loop | whole flow | wall, refused: of target | |")
        print("|---|---|---|---|---|---|---|")
        missed = 0
        with bench.prefect_server(place) as (settings, _):
            for row in () if only_together else rows(place / "half", place, settings):
                missed += not row.met
                print(row.line(), flush=True)
            missed += print_together(place / "together", settings, numbers)
    print(f"\n{missed} missed" if missed else "\nall targets met")
    return 1 if missed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["together"]:
        sys.exit(main(True, [int(number) for number in sys.argv[2:]] or RUNS_TOGETHER))
    elif len(sys.argv) > 1:
        {"bare": measure_bare, "flow": measure_flow}[sys.argv[1]](*sys.argv[2:])
    else:
        sys.exit(main())
