"""Benchmark: whole runs against a judge that goes away, comes back, or hangs (`make bench-outages`, about ten minutes).

146 pairs on four dimensions, 584 calls of 200 ms, 16 in flight, on a running Prefect server. After a third of the calls
the judge is away for 40 s, or for three minutes; or it is restarted ten times during the run, and away for 2 s each
time; or it takes every call and says nothing any more.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import bench
from bench_limits import CALLS, PAIRS
from loopback_judge import LoopbackJudge
from loopback_replies import Reply, Request, allowed_reply, delayed, hang

MOST_REQUESTS = 1.1
"""Times the calls; the questions whether the judge is back among them."""
RESTARTS = 10
RESTART_SECONDS = 2.0
TIMEOUT_SECONDS, PATIENCE_SECONDS = 20, 60
"""Of a run whose judge hangs."""
SPARE_SECONDS = 30.0
"""For the start and the end of a run, beyond patience."""
GIVEN_UP = re.compile(
    r"has not answered for 1 min.*samples are not judged.*the same command.*asks for the rest", re.DOTALL
)


class Found(NamedTuple):
    """What came of one run."""

    code: int
    ok: int
    requests: int
    wall: float
    err: str

    def line(self, name: str, met: bool) -> str:
        cells = (name, self.code, self.ok, self.requests, f"{self.wall:.0f} s", "met" if met else "missed")
        return f"| {' | '.join(map(str, cells))} |"


def away(judge: LoopbackJudge, times: int, seconds: float) -> None:
    """Stop the judge so often while the calls come in, and start it again after so long."""
    for each in range(1, times + 1):
        while judge.count < each * CALLS // (times + 2):
            time.sleep(0.02)
        judge.__exit__()
        time.sleep(seconds)
        judge.__enter__()


def hangs(judge: LoopbackJudge) -> None:
    """Nothing more is answered after a third of the calls."""
    answers = judge.answer

    def answer(request: Request) -> Reply:
        return hang() if judge.count > CALLS // 3 else answers(request)  # pyright: ignore

    judge.answer = answer


def measured(root: Path, store: Path, settings: dict[str, str], trouble: Callable[[LoopbackJudge], None]) -> Found:
    """One run of the command while the trouble happens."""
    plain = allowed_reply()
    with LoopbackJudge(lambda request: delayed(plain(request), 0.2), keep_requests=False) as judge:
        options = {"dataset": root, "images": root / "model", "store": store, "judge.model": "bench"}
        options |= {"judge.base-url": judge.base_url}
        options |= (
            {"judge.timeout-seconds": TIMEOUT_SECONDS, "judge.patience-seconds": PATIENCE_SECONDS}
            if (trouble is hangs)
            else {}
        )
        given = [str(part) for name, value in options.items() for part in (f"--{name}", value)]
        command = [str(Path(sys.executable).with_name("jury")), "run", "diagram", *given]
        beside = threading.Thread(target=trouble, args=(judge,), daemon=True)
        beside.start()
        started = time.monotonic()
        done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True)
        wall = time.monotonic() - started
        beside.join(5)
        rows = [json.loads(line) for file in store.glob("ledger/*/judgments.jsonl") for line in file.open()]
        return Found(done.returncode, sum(row["status"] == "ok" for row in rows), judge.count, wall, done.stderr)


def main() -> int:
    """Measure, print the table, and say which targets were missed."""
    troubles: dict[str, Callable[[LoopbackJudge], None]] = {
        "away for 40 s": lambda judge: away(judge, 1, 40.0),
        "away for 3 minutes": lambda judge: away(judge, 1, 180.0),
        f"restarted {RESTARTS} times": lambda judge: away(judge, RESTARTS, RESTART_SECONDS),
        "hangs": hangs,
    }
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        bench.draw_dataset(place / "pairs", PAIRS)
        (place / "home").mkdir()
        print(f"{CALLS} calls of 200 ms\n\n| the judge is | exit code | ok | requests | wall | |")
        print("|---|---|---|---|---|---|")
        with bench.prefect_server(place / "home") as (api, _):
            settings = {"PREFECT_API_URL": api, "PREFECT_HOME": str(place / "client"), "DO_NOT_TRACK": "1"}
            for name, trouble in troubles.items():
                found = measured(place / "pairs", place / name.replace(" ", "-"), settings, trouble)
                met = gave_up(found) if trouble is hangs else came_through(found)
                missed += not met
                print(found.line(name, met), flush=True)
                if not met or trouble is hangs:
                    print(f"\n{found.err.strip()[-600:]}\n", flush=True)
    print(f"\n{missed} missed" if missed else "\nall targets met")
    return 1 if missed else 0


def came_through(found: Found) -> bool:
    """Nothing is missing, and little was asked twice."""
    return (found.code, found.ok) == (0, CALLS) and found.requests <= MOST_REQUESTS * CALLS


def gave_up(found: Found) -> bool:
    """The run ended within its patience, and said so."""
    return found.code == 2 and found.wall <= PATIENCE_SECONDS + SPARE_SECONDS and bool(GIVEN_UP.search(found.err))


if __name__ == "__main__":
    sys.exit(main())
