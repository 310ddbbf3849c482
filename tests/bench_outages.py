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
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import bench
from bench_data import draw_pairs
from bench_limits import CALLS, PAIRS
from loopback_judge import LoopbackJudge
from loopback_replies import Reply, Request, allowed_reply, delayed, hang

MOST_REQUESTS = 1.1
"""Times the calls; the questions whether the judge is back among them."""
OUTAGES = {"away for 40 s": (1, 40.0), "away for 3 minutes": (1, 180.0), "restarted ten times": (10, 2.0)}
"""How often the judge goes away, and for how many seconds each time."""
TIMEOUT_SECONDS, PATIENCE_SECONDS = 20, 60
"""Of a run whose judge hangs."""
SPARE_SECONDS = 15.0
"""For the end of a run that has given up."""
GIVEN_UP = re.compile(
    r"has not answered for 60 s.*samples are not judged.*the same command.*asks for the rest", re.DOTALL
)


class Found(NamedTuple):
    """What came of one run."""

    code: int
    ok: int
    requests: int
    cut_off: int
    """Those of them that the judge took and dropped when it went away."""
    wall: float
    hung: float
    """Seconds from the moment when it fell silent until the command ended."""
    err: str

    def line(self, name: str, met: bool) -> str:
        """As a row of a Markdown table."""
        cells = (
            name,
            self.code,
            self.ok,
            self.requests,
            self.cut_off,
            f"{self.wall:.0f} s",
            "met" if met else "missed",
        )
        return f"| {' | '.join(map(str, cells))} |"


class Troubled(LoopbackJudge):
    """A judge that answers after 200 ms, and in the middle of the run does not."""

    def __init__(self) -> None:
        plain = allowed_reply()
        super().__init__(lambda request: delayed(plain(request), 0.2), keep_requests=False)
        self.cut_off = 0
        self.silent_since = 0.0

    def goes_away(self, times: int, seconds: float) -> None:
        """It stops so often while the calls come in, and starts again after so long."""
        for each in range(1, times + 1):
            while self.count < each * CALLS // (times + 2):
                time.sleep(0.02)
            self.cut_off += self.in_flight
            self.__exit__()
            time.sleep(seconds)
            self.__enter__()

    def hangs(self) -> None:
        """Nothing more is answered after a third of the calls."""
        answers = self.answer

        def answer(request: Request) -> Reply | Awaitable[Reply]:
            if self.count <= CALLS // 3:
                return answers(request)
            self.silent_since = self.silent_since or time.monotonic()
            return hang()

        self.answer = answer


def measured(
    root: Path, store: Path, settings: dict[str, str], trouble: Callable[[Troubled], None], **options: int
) -> Found:
    """One run of the command while the trouble happens."""
    with Troubled() as judge:
        given = {"dataset": root, "images": root / "model", "store": store, "judge.model": "bench"}
        given |= {"judge.base-url": judge.base_url, **{f"judge.{name}-seconds": each for name, each in options.items()}}
        command = [str(Path(sys.executable).with_name("jury")), "run", "diagram"]
        command += [str(part) for name, value in given.items() for part in (f"--{name}", value)]
        beside = threading.Thread(target=trouble, args=(judge,), daemon=True)
        beside.start()
        started = time.monotonic()
        done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True)
        ended = time.monotonic()
        beside.join()
        rows = [json.loads(line) for file in store.glob("ledger/*/judgments.jsonl") for line in file.open()]
        ok = sum(row["status"] == "ok" for row in rows)
        wall, hung = ended - started, ended - judge.silent_since
        return Found(done.returncode, ok, judge.count, judge.cut_off, wall, hung, done.stderr)


def main() -> int:
    """Measure, print the table, and say which targets were missed."""
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        draw_pairs(place / "pairs", PAIRS, "JPEG")
        (place / "home").mkdir()
        print(f"{CALLS} calls of 200 ms\n\n| the judge is | exit code | ok | requests | cut off | wall | |")
        print("|---|---|---|---|---|---|---|")
        with bench.prefect_server(place / "home") as (api, _):
            settings = {"PREFECT_API_URL": api, "PREFECT_HOME": str(place / "client"), "DO_NOT_TRACK": "1"}
            for name, (times, seconds) in OUTAGES.items():
                found = measured(
                    place / "pairs", place / name, settings, partial(Troubled.goes_away, times=times, seconds=seconds)
                )
                missed += not (met := came_through(found))
                print(found.line(name, met), flush=True)
            found = measured(
                place / "pairs", place / "hangs", settings, Troubled.hangs,
                timeout=TIMEOUT_SECONDS, patience=PATIENCE_SECONDS,
            )  # fmt: skip
            missed += not (met := gave_up(found))
            print(found.line(f"silent, given up after {found.hung:.0f} s", met))
            print(f"\n{found.err.strip().splitlines()[-1]}")
    print(f"\n{missed} missed" if missed else "\nall targets met")
    return 1 if missed else 0


def came_through(found: Found) -> bool:
    """Nothing is missing, and little was asked twice."""
    return (found.code, found.ok) == (0, CALLS) and found.requests <= MOST_REQUESTS * CALLS


def gave_up(found: Found) -> bool:
    """The run ended with its patience, and said so."""
    return found.code == 2 and found.hung <= PATIENCE_SECONDS + SPARE_SECONDS and bool(GIVEN_UP.search(found.err))


if __name__ == "__main__":
    sys.exit(main())
