"""Benchmark: many replies to resume from, and many samples in one run (`make bench-large`).

A resumed run searches 400,000 replies of 2.6 KB in ledgers for those that it can reuse. Then runs judge 2,920 and
29,200 distinct pairs of 10 KB on one dimension with a judge that answers at once, and the 29,200 again with nothing
left to ask. It prints peak memory and the longest time that the event loop was blocked. It needs about 2 GB of disk
until it ends.
"""

import asyncio
import json
import os
import platform
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import bench
import numpy as np
from bench_data import draw_pairs
from bench_sides import IN_FLIGHT
from factories import end, judgment, start
from loopback_judge import judge_process
from PIL import Image

from tasks.ledger import run_files as ledger
from tasks.ledger.reuse import earlier_replies
from tasks.ledger.run_files import write_record
from tasks.rubrics.rubric import Rubric

REPLIES, RUNS, REPLY_BYTES = 400_000, 4, 2_600
FEW, MANY, PAIR_BYTES = 2_920, 29_200, 10_000
SIDE, WORDS = 180, 100
"""Width and height in pixels of one picture of a pair; number of words in a method text."""
DIMENSION = "readability"
BEAT_SECONDS = 0.01
TARGETS = {"resume": 20.0, "resume memory": 300.0, "stood still": 100.0, "growth": 1.2}


# Data


def write_replies(store: Path, replies: int) -> None:
    """Write finished runs of today, each with an equal part of the replies."""
    named = {"key": "KEY", "run_id": "RUN", "sample_id": "SAMPLE", "judged_at": "MOMENT"}
    row = judgment(**named).model_dump_json()
    words = ("the encoder attends to the state of each token, " * 60)[: (REPLY_BYTES - len(row)) // 2]
    row = judgment(**named, reasoning=words, raw=f'{{"reasoning": "{words}"}}').model_dump_json()
    now = datetime.now(UTC)
    for number in range(RUNS):
        begun = start(f"20261122T00000{number}-diagram-000000", started_at=now.isoformat())
        folder = ledger.folder(store, begun.run_id)
        folder.mkdir(parents=True)
        write_record(folder / ledger.RUN, begun)
        with (folder / ledger.JUDGMENTS).open("wb") as file:
            for reply in range(number, replies, RUNS):
                filled = _fill_in(row, begun.run_id, reply, now - timedelta(milliseconds=reply))
                file.write(f"{filled}\n".encode())
        write_record(folder / ledger.END, end(begun.run_id, calls=replies // RUNS))


def _fill_in(row: str, run_id: str, number: int, moment: datetime) -> str:
    row = row.replace("KEY", sha256(f"reply {number}".encode()).hexdigest()).replace("RUN", run_id)
    return row.replace("SAMPLE", f"s{number}").replace("MOMENT", moment.isoformat())


def grain(rng: np.random.Generator, _: str) -> bytes:
    """Draw a JPEG with half of the bytes of a pair."""
    pixels = np.clip(238 + rng.normal(0, 10, (SIDE, SIDE, 3)), 0, 255).astype(np.uint8)
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=75)
    return buffer.getvalue()


# Measurements, each in its own process


async def longest_block(work: Coroutine[Any, Any, Any]) -> float:
    """Do the work; return the longest time in seconds that it blocked the event loop."""
    longest = 0.0

    async def beat() -> None:
        nonlocal longest
        while True:
            before = time.perf_counter()
            await asyncio.sleep(BEAT_SECONDS)
            longest = max(longest, time.perf_counter() - before - BEAT_SECONDS)

    beating = asyncio.create_task(beat())
    await asyncio.sleep(0)
    await work
    beating.cancel()
    return longest


def measure_resume(store: str) -> None:
    now = start("20991231T000000-diagram-new", started_at=datetime.now(UTC).isoformat())
    found: list[int] = []

    async def find() -> None:
        found.append(len(await asyncio.to_thread(earlier_replies, Path(store), now, 20.0)))

    _measure(find(), lambda: {"found": found[0]})


def measure_run(root: str, store: str, base_url: str) -> None:
    """Run the whole flow on one dimension; all outcomes are incomplete, which does not affect the measurement."""
    from flows.diagram import diagram
    from tasks.records.judge import Judge
    from tasks.records.parameters import PairwiseParameters

    Rubric.prompts_for = lambda self, sample: (self.prompt(DIMENSION),)
    judge = Judge(model="bench", base_url=base_url, concurrency=IN_FLIGHT)  # pyright: ignore
    given = PairwiseParameters(dataset=root, images=f"{root}/model", store=store, judge=judge)  # pyright: ignore
    _measure(_run_flow(diagram, given), dict)


async def _run_flow(flow: Any, parameters: Any) -> None:
    state = await flow(parameters, return_state=True)
    if not state.is_completed():
        raise SystemExit(f"the run failed: {state.message}")


def _measure(work: Coroutine[Any, Any, Any], besides: Any) -> None:
    began, before, cpu = time.perf_counter(), _peak(), os.times()
    blocked = asyncio.run(longest_block(work))
    wall, used = time.perf_counter() - began, sum(os.times()[:4]) - sum(cpu[:4])
    found = {"wall": wall, "cpu": used, "stood still": 1000 * blocked, "memory": _peak(), "grown": _peak() - before}
    print(json.dumps(found | besides()))


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# The run


def resume(place: Path) -> list[str]:
    """Measure resuming; return the missed targets."""
    write_replies(place / "replies", REPLIES)
    found = bench.measure(__file__, "resume", place / "replies")
    shutil.rmtree(place / "replies")
    print(f"\n| finding {found['found']:,} replies of {REPLY_BYTES / 1000:g} KB | measured | target |\n|---|---|---|")
    rows = [
        ("wall time", found["wall"], "s", "resume"),
        ("memory besides", found["grown"], "MB", "resume memory"),
        ("event loop stood still at most", found["stood still"], "ms", "stood still"),
    ]
    return _table(rows, f"| CPU | {found['cpu']:.1f} s | |")


def runs(place: Path) -> list[str]:
    """Measure runs of few and of many samples; return the missed targets."""
    draw_pairs(place / "few", FEW, "JPEG", WORDS, grain)
    draw_pairs(place / "many", MANY, "JPEG", WORDS, grain)
    with bench.prefect_server(place) as (settings, _), judge_process("--seconds", "7200") as judge:

        def measure(dataset: str) -> dict[str, float]:
            store = place / f"store-{dataset}"
            return bench.measure(__file__, "run", place / dataset, store, judge.base_url, **settings)

        few, many, again = measure("few"), measure("many"), measure("many")
    print(f"\n| one dimension, pairs of {PAIR_BYTES / 1000:g} KB | wall | CPU | peak | loop stood still |")
    print("|---|---|---|---|---|")
    for name, found in ((f"{FEW:,}", few), (f"{MANY:,}", many), (f"{MANY:,}, nothing to ask", again)):
        times = f"{found['wall']:.0f} s | {found['cpu']:.0f} s"
        print(f"| {name} | {times} | {found['memory']:.0f} MB | {found['stood still']:.0f} ms |")
    print("\n| | measured | target |\n|---|---|---|")
    growth = [
        (f"peak of {MANY:,} over that of {FEW:,}", many["memory"] / few["memory"], "x", "growth"),
        ("with nothing left to ask", again["memory"] / few["memory"], "x", "growth"),
    ]
    return _table(growth)


def _table(rows: list[tuple[str, float, str, str]], *others: str) -> list[str]:
    for name, value, unit, target in rows:
        print(f"| {name} | {value:.3g} {unit} | {TARGETS[target]:g} {unit} |")
    for line in others:
        print(line)
    return [name for name, value, _, target in rows if value > TARGETS[target]]


def main() -> int:
    """Measure; print the tables and the missed targets."""
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as folder:
        missed = [*resume(Path(folder)), *runs(Path(folder))]
    print(f"\nmissed: {', '.join(missed)}" if missed else "\nall targets met")
    return 1 if missed else 0


if __name__ == "__main__":
    if len(sys.argv) > 1:
        {"resume": measure_resume, "run": measure_run}[sys.argv[1]](*sys.argv[2:])
    else:
        sys.exit(main())
