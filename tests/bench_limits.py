"""Benchmark: the whole flow and a bare client loop against judges that take only so many calls (`make bench-limits`).

146 pairs on four dimensions, 584 calls of 200 ms; a judge that takes 20 calls a second (a bucket of 20), one that takes
8 at once, one that does both; each says how long to wait, tells its limits in headers, or says nothing; 16 and 64 calls
in flight at most. Then two runs at once beside one that asks as much alone, against each judge that says nothing. Each
flow is a process of its own, on a running Prefect server.
"""

import asyncio
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import bench
from bench_data import draw_pairs
from bench_sides import DIMENSIONS, bare_pairs, ours
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
"""What it takes, as options of `Limited`; the least seconds for all calls; the target, as a multiple of them."""
OPENING = 16
"""Refused calls that are allowed at the beginning, before anything is known."""
SHARES = {"nothing": 0.4, "retry-after": 0.05, "headers": 0.05}
"""Refused calls that are allowed besides, as a share of all, by what the judge tells. Of calls at once no header
tells."""
DRAWS = 3
"""Of one run and of two at once, in turns: a handful of refusals differs by chance."""
MOST_TOGETHER = 1.2
"""Refused calls of two runs together, as a multiple of those of one."""
LEAST_SHARE = 0.25
"""Of the calls taken while both run."""


class Found(NamedTuple):
    """What came of one run."""

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
        """As a row of a Markdown table."""
        cells = (
            self.judge,
            self.tells,
            f"{self.in_flight}",
            f"{self.loop.ok} ok, {self.loop.refused} refused, {self.loop.wall:.1f} s",
            f"{self.flow.ok} ok, {self.flow.refused} refused, {self.flow.wall:.1f} s",
            f"{self.times:.2f}x of {self.most_times:g}x, {self.flow.refused} of {self.most_refused:.0f}",
            "met" if self.met else "missed",
        )
        return f"| {' | '.join(cells)} |"


async def bare(root: Path, base_url: str, in_flight: int) -> int:
    """The loop that anyone would write, with the client's own two retries; returns the calls that were answered."""
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
    """One run of the loop, as a process of its own."""
    started = time.perf_counter()
    answered = asyncio.run(bare(Path(root), base_url, int(in_flight)))
    print(json.dumps({"wall": time.perf_counter() - started, "ok": answered}))


def measure_flow(root: str, base_url: str, store: str, in_flight: str, run: str = "bench") -> None:
    """One run of the whole flow, as a process of its own."""
    from flows.diagram import diagram
    from tasks.parameters import Judge, PairwiseParameters

    judge = Judge(model="bench", base_url=base_url, concurrency=int(in_flight), extra={"run": run})  # pyright: ignore
    given = PairwiseParameters(dataset=root, images=f"{root}/model", store=store, judge=judge)  # pyright: ignore
    started = time.perf_counter()
    asyncio.run(ours(diagram, given))
    wall = time.perf_counter() - started
    [end] = Path(store).glob("ledger/*/end.json")
    print(json.dumps({"wall": wall, "ok": json.loads(end.read_text())["judgments"]["ok"]}))


def measured(kind: str, root: Path, store: Path, judge: Limited, in_flight: int, settings: dict[str, str]) -> Found:
    with LoopbackJudge(judge, keep_requests=False) as served:
        command = [sys.executable, __file__, kind, str(root), served.base_url, str(store), str(in_flight)]
        done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{kind} failed:\n{done.stderr}")
    found = json.loads(done.stdout.splitlines()[-1])
    return Found(found["ok"], judge.refused, found["wall"])


def rows(root: Path, place: Path, settings: dict[str, str]) -> Iterator[Row]:
    for (name, options, least, most), tells, in_flight in itertools.product(JUDGES, TELLINGS, IN_FLIGHT):
        store = place / f"{name}-{tells}-{in_flight}"
        loop = measured("bare", root, store, Limited(tells=tells, **options), in_flight, settings)
        flow = measured("flow", root, store, Limited(tells=tells, **options), in_flight, settings)
        told = tells if tells != "headers" or "a_second" in options else "nothing"
        yield Row(name, tells, in_flight, loop, flow, least, most, OPENING + SHARES[told] * CALLS)


class Pair(NamedTuple):
    """What came of two runs that ask one judge at the same time."""

    ok: int
    refused: int
    share: float
    """Of the run that got less, in the calls taken while both ran."""
    walls: tuple[float, ...]


def two_runs(root: Path, place: Path, judge: Limited, settings: dict[str, str]) -> Pair:
    with LoopbackJudge(judge, keep_requests=False) as served:
        command = [sys.executable, __file__, "flow", str(root), served.base_url]
        names = ("one", "other")
        runs = [
            subprocess.Popen(
                [*command, str(place / name), "64", name], env={**os.environ, **settings}, stdout=subprocess.PIPE
            )
            for name in names
        ]
        while all(run.poll() is None for run in runs):
            time.sleep(0.05)
        share = min(judge.taken[name] for name in names) / sum(judge.taken.values())
        found = [json.loads(run.communicate()[0].splitlines()[-1]) for run in runs]
    return Pair(sum(each["ok"] for each in found), judge.refused, share, tuple(each["wall"] for each in found))


def beside_another(root: Path, place: Path, settings: dict[str, str]) -> int:
    """One run and two at once that together ask as much, in turns, as rows of a table; how many targets were missed.

    More is refused the longer a judge is asked: so the one has as many pairs as both have together.
    """
    print("\n| two runs at once, the judge takes | ok | refused, one run | refused, two | least share | wall | |")
    print("|---|---|---|---|---|---|---|")
    missed = 0
    for name, options, *_ in JUDGES:
        alone: list[int] = []
        pairs: list[Pair] = []
        for draw in range(DRAWS):
            at = place / f"{name}-{draw}"
            alone.append(measured("flow", root / "all", at / "alone", Limited(**options), 64, settings).refused)
            pairs.append(two_runs(root / "half", at, Limited(**options), settings))
        times = sum(pair.refused for pair in pairs) / sum(alone)
        least = min(pair.share for pair in pairs)
        met = all(pair.ok == 2 * CALLS for pair in pairs) and times <= MOST_TOGETHER and least >= LEAST_SHARE
        missed += not met
        cells = (
            name,
            _each(pair.ok for pair in pairs),
            _each(alone),
            f"{_each(pair.refused for pair in pairs)}: {times:.2f}x of {MOST_TOGETHER:g}x",
            f"{least:.0%} of {LEAST_SHARE:.0%}",
            _each(f"{max(pair.walls):.0f} s" for pair in pairs),
            "met" if met else "missed",
        )
        print(f"| {' | '.join(cells)} |", flush=True)
    return missed


def _each(figures: Iterable[object]) -> str:
    return ", ".join(map(str, figures))


def main() -> int:
    """Measure, print the table, and say which targets were missed."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        draw_pairs(place / "half", PAIRS, "JPEG")
        draw_pairs(place / "all", 2 * PAIRS, "JPEG")
        (place / "home").mkdir()
        print(f"{os.cpu_count()} cores, Python {platform.python_version()}; {CALLS} calls of 200 ms\n")
        print("| the judge takes | it tells | in flight | bare loop | whole flow | wall, refused: of target | |")
        print("|---|---|---|---|---|---|---|")
        missed = 0
        with bench.prefect_server(place / "home") as (api, _):
            settings = bench.client(place, api)
            for row in rows(place / "half", place, settings):
                missed += not row.met
                print(row.line(), flush=True)
            missed += beside_another(place, place / "two", settings)
    print(f"\n{missed} missed" if missed else "\nall targets met")
    return 1 if missed else 0


if __name__ == "__main__":
    if len(sys.argv) > 1:
        {"bare": measure_bare, "flow": measure_flow}[sys.argv[1]](*sys.argv[2:])
    else:
        sys.exit(main())
