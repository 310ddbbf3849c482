"""Benchmark: whole runs against a judge that goes away, comes back, or hangs (`make bench-outages`, about ten minutes).

146 pairs on four dimensions, 584 calls of 200 ms, 16 in flight, on a running Prefect server. After a third of the calls
the judge is away for 40 s, or for three minutes; or it is restarted ten times during the run, and away for 2 s each
time; or it takes every call and says nothing any more.
"""

import json
import re
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
TIMEOUT_SECONDS, PATIENCE_SECONDS = 20, 60
"""Of a run whose judge hangs."""
SPARE_SECONDS = 15.0
"""For the end of a run that has given up."""
GIVEN_UP = re.compile(r"(?s)has not answered for 60 s.*samples are not judged.*the same command.*asks for the rest")


class Found(NamedTuple):
    code: int
    ok: int
    requests: int
    cut_off: int
    """Those of them that the judge took and dropped when it went away."""
    wall: float
    hung: float
    """Seconds from the moment when it fell silent until the command ended."""
    err: str


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


def measured(root: Path, store: Path, settings: dict[str, str], trouble: Callable[..., None], **options: int) -> Found:
    with Troubled() as judge:
        given = {"dataset": root, "images": root / "model", "store": store, "judge.model": "bench"}
        given |= {"judge.base-url": judge.base_url, **{f"judge.{name}-seconds": each for name, each in options.items()}}
        beside = threading.Thread(target=trouble, args=(judge,), daemon=True)
        beside.start()
        started = time.monotonic()
        done = bench.jury_run(given, settings)
        ended = time.monotonic()
        beside.join()
        rows = [json.loads(line) for file in store.glob("ledger/*/judgments.jsonl") for line in file.open()]
        ok = sum(row["status"] == "ok" for row in rows)
        wall, hung = ended - started, ended - judge.silent_since
        return Found(done.returncode, ok, judge.count, judge.cut_off, wall, hung, done.stderr)


def came_through(found: Found) -> bool:
    """Nothing is missing, and little was asked twice."""
    return (found.code, found.ok) == (0, CALLS) and found.requests <= MOST_REQUESTS * CALLS


def gave_up(found: Found) -> bool:
    """The run ended with its patience, and said so."""
    return found.code == 2 and found.hung <= PATIENCE_SECONDS + SPARE_SECONDS and bool(GIVEN_UP.search(found.err))


CASES: dict[str, tuple[Callable[[Troubled], None], dict[str, int], Callable[[Found], bool]]] = {
    "away for 40 s": (partial(Troubled.goes_away, times=1, seconds=40), {}, came_through),
    "away for 3 minutes": (partial(Troubled.goes_away, times=1, seconds=180), {}, came_through),
    "restarted ten times": (partial(Troubled.goes_away, times=10, seconds=2), {}, came_through),
    "silent": (Troubled.hangs, {"timeout": TIMEOUT_SECONDS, "patience": PATIENCE_SECONDS}, gave_up),
}


def main() -> int:
    """Measure, print the table, and say which targets were missed."""
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        draw_pairs(place / "pairs", PAIRS, "JPEG")
        print(f"{CALLS} calls of 200 ms\n\n| the judge is | exit code | ok | requests | cut off | wall | |")
        print("|---|---|---|---|---|---|---|")
        with bench.prefect_server(place) as (settings, _):
            del settings["PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"]  # what is said counts
            for name, (trouble, options, met) in CASES.items():
                found = measured(place / "pairs", place / name, settings, trouble, **options)
                missed += not met(found)
                counts = found.code, found.ok, found.requests, found.cut_off
                print(bench.line(name, *counts, f"{found.wall:.0f} s", met(found)), flush=True)
            print(f"\ngiven up after {found.hung:.0f} s: {found.err.strip().splitlines()[-1]}")
    print(f"\n{missed} missed" if missed else "\nall targets met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
