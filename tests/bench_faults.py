"""Benchmark: whole runs with a judge that always fails on some figures (`make bench-faults`, about 45 minutes).

100 figures, 400 calls of 50 ms; every fault of `faulty_judges`, for one call, one figure, five figures, half and all of
them, with 6 and 16 calls in flight. Each row has the samples judged, the exit code, requests about bad figures (all,
and the most for one question), and the wall time with its bound: 1.5 x a run without faults + ceil(2b / c) x L for b
bad calls.
`python tests/bench_faults.py 429 302 half` measures these faults and shares alone.
"""

import itertools
import json
import math
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import NamedTuple

import bench
from bench_data import draw_pairs
from faulty_judges import FAULTS, SILENT, Faulty
from loopback_judge import LoopbackJudge

from tasks.endpoint.client import MOST_FAILURES, RETRY_SECONDS

FIGURES, CALL_SECONDS = 100, 0.05
TIMEOUT, CALL, PATIENCE = 4.0, 20.0, 30.0
LENGTH = max(CALL, MOST_FAILURES * (TIMEOUT + 4 * RETRY_SECONDS))
"""Seconds that one call without a reply may take, L in the bound."""
SHARES = {"one call": 1, "one figure": 1, "five figures": 5, "half": FIGURES // 2, "all": FIGURES}
CONCURRENCIES = (6, 16)
AT_ONCE = 2
"""Rows measured at the same time, as nearly all of their time is waiting."""


class Found(NamedTuple):
    """Result of one run."""

    code: int
    statuses: Counter[str]
    wall: float
    words: str


def run(root: Path, store: Path, judge: Faulty, concurrency: int, settings: dict[str, str]) -> Found:
    with LoopbackJudge(judge, keep_requests=False) as served:
        options = {
            "dataset": root, "images": root / "model", "store": store,
            "judge.model": "m", "judge.base-url": served.base_url, "judge.concurrency": concurrency,
            "judge.timeout-seconds": TIMEOUT, "judge.call-seconds": CALL, "judge.patience-seconds": PATIENCE,
            "retries": 2,
        }  # fmt: skip
        began = time.perf_counter()
        done = bench.jury_run(options, settings)
        wall = time.perf_counter() - began
    rows = [row for path in store.glob("ledger/*/outcomes.jsonl") for row in path.read_text().splitlines()]
    statuses = Counter(json.loads(row)["status"] for row in rows)
    words = [line for line in done.stderr.splitlines() if line.strip()]
    return Found(done.returncode, statuses, wall, words[-1][:160] if words else "")


def bad_figures(share: str) -> frozenset[str]:
    number = SHARES[share]
    first = FIGURES - number if share == "five figures" else FIGURES // 3 if number == 1 else 0
    step = 2 if share == "half" else 1
    return frozenset(f"Figure {first + step * each}." for each in range(number))


def main(names: list[str]) -> int:
    """Measure, print the table, and return 1 if a row misses its target."""
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        draw_pairs(place / "data", FIGURES, "JPEG")
        path = place / "data" / "diagram" / "test.json"
        records = json.loads(path.read_text())
        for number, record in enumerate(records):
            record["visual_intent"] = f"Figure {number}."
        path.write_text(json.dumps(records))
        print("| fault | of | in flight | judged | exit | requests, most for one | wall of bound | |")
        print("|---|---|---|---|---|---|---|---|")
        with bench.prefect_server(place) as (settings, _):
            plain = plain_walls(place, settings)

            def measure(case: tuple[str, str, int]) -> tuple[Found, Faulty]:
                name, share, concurrency = case
                dimension = "readability" if share == "one call" else ""
                judge = Faulty(FAULTS[name], bad_figures(share), CALL_SECONDS, dimension)
                store = place / f"{name}-{share}-{concurrency}"
                return run(place / "data", store, judge, concurrency, settings), judge

            faults = [each for each in FAULTS if each in names] or FAULTS
            shares = [each for each in SHARES if each in names] or SHARES
            cases = [*itertools.product(faults, shares, CONCURRENCIES)]
            with ThreadPoolExecutor(AT_ONCE) as pool:
                for case, (found, judge) in zip(cases, pool.map(measure, cases), strict=True):
                    missed += row(*case, found, judge, plain[case[2]])
    return bool(missed)


def plain_walls(place: Path, settings: dict[str, str]) -> dict[int, float]:
    """Return the seconds of a run without faults by concurrency, measured two at a time like the rows.

    The first runs only fill the caches of machine and server.
    """

    def wall(number: int) -> float:
        good = Faulty(FAULTS["429"], frozenset(), CALL_SECONDS)
        return run(place / "data", place / f"plain-{number}", good, CONCURRENCIES[number % 2], settings).wall

    with ThreadPoolExecutor(AT_ONCE) as pool:
        walls = list(pool.map(wall, range(3 * AT_ONCE)))[AT_ONCE:]
    return {each: median(walls[number::2]) for number, each in enumerate(CONCURRENCIES)}


def row(name: str, share: str, concurrency: int, found: Found, judge: Faulty, plain: float) -> bool:
    """Print a row of the table; return whether it misses its target."""
    bad = len(judge.bad)
    calls = bad if share == "one call" else 4 * bad
    bound = 1.5 * plain + math.ceil(2 * calls / concurrency) * LENGTH
    complete = found.statuses["complete"]
    most = max(judge.asked.values(), default=0)
    met = found.wall <= bound and found.code == (2 if share == "all" else 3)
    # A missing verdict that cannot change the outcome leaves its sample complete.
    judged_well = FIGURES - bad <= complete <= (FIGURES if share == "one call" else FIGURES - bad)
    met = met and judged_well and (name not in SILENT or most <= 6)
    judged = ", ".join(f"{number} {status}" for status, number in sorted(found.statuses.items())) or "none"
    cells = (name, share, concurrency, judged, found.code, f"{judge.asked.total()}, {most}")
    print(bench.line(*cells, f"{found.wall:.0f} of {bound:.0f} s", "met" if met else "MISSED"), flush=True)
    if share == "all" or not met:
        print(f"<!-- {found.words} -->", flush=True)
    return not met


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
