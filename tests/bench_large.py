"""Benchmark: what does not fit into a quick one: many replies to resume from, many samples in one run.

400,000 replies of 2.6 KB in ledgers, among which a resumed run finds those that it need not pay for again; then 2,920
and 29,200 distinct pairs of 10 KB on one dimension with a judge that answers at once, and the 29,200 again with nothing
left to ask. Told are peak memory, and how long the event loop stood still at most (`make bench-large`).
Takes about 2 GB of disk, given back at the end.
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
"""Pixels of a picture, which is half a pair, and words of a method."""
DIMENSION = "readability"
BEAT_SECONDS = 0.01
TARGETS = {"resume": 20.0, "resume memory": 300.0, "stood still": 100.0, "growth": 1.2}


# What is judged, and what was


def write_replies(store: Path, replies: int) -> None:
    """Finished runs of today with rows as the ledger writes them; each run holds its part of the replies."""
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
                filled = _filled(row, begun.run_id, reply, now - timedelta(milliseconds=reply))
                file.write(f"{filled}\n".encode())
        write_record(folder / ledger.END, end(begun.run_id, calls=replies // RUNS))


def _filled(row: str, run_id: str, number: int, moment: datetime) -> str:
    row = row.replace("KEY", sha256(f"reply {number}".encode()).hexdigest()).replace("RUN", run_id)
    return row.replace("SAMPLE", f"s{number}").replace("MOMENT", moment.isoformat())


def grain(rng: np.random.Generator, _: str) -> bytes:
    """A JPEG of half the bytes of a pair."""
    pixels = np.clip(238 + rng.normal(0, 10, (SIDE, SIDE, 3)), 0, 255).astype(np.uint8)
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=75)
    return buffer.getvalue()


# What is measured, each in a process of its own


async def watched(work: Coroutine[Any, Any, Any]) -> float:
    """Do the work; returns for how many seconds the event loop stood still at most meanwhile."""
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
    """The whole flow on one dimension: every outcome is incomplete, which changes nothing of what is measured."""
    from flows.diagram import diagram
    from tasks.records.judge import Judge
    from tasks.records.parameters import PairwiseParameters

    Rubric.prompts_for = lambda self, sample: (self.prompt(DIMENSION),)
    judge = Judge(model="bench", base_url=base_url, concurrency=IN_FLIGHT)  # pyright: ignore
    given = PairwiseParameters(dataset=root, images=f"{root}/model", store=store, judge=judge)  # pyright: ignore
    _measure(_judged(diagram, given), dict)


async def _judged(flow: Any, parameters: Any) -> None:
    state = await flow(parameters, return_state=True)
    if not state.is_completed():
        raise SystemExit(f"the run failed: {state.message}")


def _measure(work: Coroutine[Any, Any, Any], besides: Any) -> None:
    began, before, cpu = time.perf_counter(), _peak(), os.times()
    stood_still = asyncio.run(watched(work))
    wall, used = time.perf_counter() - began, sum(os.times()[:4]) - sum(cpu[:4])
    found = {"wall": wall, "cpu": used, "stood still": 1000 * stood_still, "memory": _peak(), "grown": _peak() - before}
    print(json.dumps(found | besides()))


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# The run


def resume(place: Path) -> list[str]:
    """Measure resuming; returns the targets that were missed."""
    write_replies(place / "replies", REPLIES)
    told = bench.measured(__file__, "resume", place / "replies")
    shutil.rmtree(place / "replies")
    print(f"\n| finding {told['found']:,} replies of {REPLY_BYTES / 1000:g} KB | measured | target |\n|---|---|---|")
    rows = [
        ("wall time", told["wall"], "s", "resume"),
        ("memory besides", told["grown"], "MB", "resume memory"),
        ("event loop stood still at most", told["stood still"], "ms", "stood still"),
    ]
    return _table(rows, f"| CPU | {told['cpu']:.1f} s | |")


def runs(place: Path) -> list[str]:
    """Measure runs of few and of many samples; returns the targets that were missed."""
    draw_pairs(place / "few", FEW, "JPEG", WORDS, grain)
    draw_pairs(place / "many", MANY, "JPEG", WORDS, grain)
    with bench.prefect_server(place) as (settings, _), judge_process("--seconds", "7200") as judge:

        def measured(dataset: str) -> dict[str, float]:
            store = place / f"store-{dataset}"
            return bench.measured(__file__, "run", place / dataset, store, judge.base_url, **settings)

        few, many, again = measured("few"), measured("many"), measured("many")
    print(f"\n| one dimension, pairs of {PAIR_BYTES / 1000:g} KB | wall | CPU | peak | loop stood still |")
    print("|---|---|---|---|---|")
    for name, told in ((f"{FEW:,}", few), (f"{MANY:,}", many), (f"{MANY:,}, nothing to ask", again)):
        times = f"{told['wall']:.0f} s | {told['cpu']:.0f} s"
        print(f"| {name} | {times} | {told['memory']:.0f} MB | {told['stood still']:.0f} ms |")
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
    """Measure, print the tables, and say which targets were missed."""
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
