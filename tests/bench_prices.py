"""Benchmark: what prices add to a run (`make bench-prices`), for the table of public prices takes a quarter of a second
to import.

Pairs of runs in turn, each a process of its own beside a running Prefect server: one whose prices are looked up in the
table, one to which they are given. A loopback judge that answers after 0.3 s stands for OpenAI. Prints the medians of
the paired differences with 95% intervals by their ranks.

    .venv/bin/python tests/bench_prices.py [--pairs N]
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from math import comb
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from loopback_judge import LoopbackJudge, allowed_reply, with_latency
from quoted_judges import write_figures
from served import environment, free_port, jury_up

SAMPLES, LATENCY, IN_FLIGHT = 24, 0.3, 32
GIVEN = ["--judge.price-in", "1.25", "--judge.price-out", "10"]
TARGET = 0.05
"""Seconds that prices may add to the wall time of a run."""
RUN = """if True:
    import sys
    from tasks.spending import prices
    from flows.cli import main
    listed = prices._listed
    prices._listed = lambda _, *call: listed("https://api.openai.com/v1", *call)
    prices.is_loopback = lambda _: False
    sys.exit(main(sys.argv[1:]))
"""
"""`jury`, to which the loopback judge is OpenAI."""


class Took(NamedTuple):
    """What a run took, in seconds."""

    run: float
    """From its first sample to its end, as its ledger has it."""
    command: float
    cpu: float


def took(words: list[str], store: Path) -> Took:
    before, began = {*store.glob("ledger/*/end.json")}, time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, *words], env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"jury {' '.join(words)} ended with {process.returncode}"
    [ended] = {*store.glob("ledger/*/end.json")} - before
    return Took(json.loads(ended.read_bytes())["seconds"], time.monotonic() - began, used.ru_utime + used.ru_stime)


def median(values: Sequence[float]) -> tuple[float, float, float]:
    """The median and its 95% interval: the narrowest pair of ranks that holds it with that probability."""
    ordered, n = sorted(values), len(values)
    middle = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    rank = max((k for k in range(n // 2) if 2 * sum(comb(n, i) for i in range(k + 1)) / 2**n <= 0.05), default=0)
    return middle, ordered[rank], ordered[-1 - rank]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=16)
    pairs = parser.parse_args().pairs
    sides: dict[str, list[Took]] = {"looked up": [], "given": []}
    with TemporaryDirectory() as place, LoopbackJudge(keep_requests=False) as judge:
        judge.answer = with_latency(allowed_reply(), LATENCY, 0.0, 1)
        store, figures = Path(place) / "store", write_figures(Path(place) / "data", SAMPLES)
        asked = ["--judge.model", "gpt-5", "--judge.base-url", judge.base_url, "--judge.concurrency", str(IN_FLIGHT)]
        words = ["run", "diagram", *figures, *asked, "--store", str(store), "--reuse-hours", "0"]
        with jury_up(store, free_port()):
            took([*words, *GIVEN], store)
            for number in range(pairs):
                for side in sorted(sides, reverse=bool(number % 2)):
                    sides[side].append(took([*words, *(GIVEN if side == "given" else [])], store))
                print(*(f"{side} {each[-1]}" for side, each in sides.items()), sep="; ", flush=True)
    print(f"{pairs} pairs of runs on {SAMPLES} samples, {4 * SAMPLES} calls of {LATENCY:g} s, {IN_FLIGHT} at once")
    missed = False
    for what in Took._fields:
        given, looked = ([getattr(each, what) for each in sides[side]] for side in ("given", "looked up"))
        middle, low, high = median([b - a for a, b in zip(given, looked, strict=True)])
        added = f"{middle:+.3f} s [{low:+.3f}, {high:+.3f}]"
        print(f"{what:8} {median(given)[0]:6.2f} s with prices that are given; looked up: {added}")
        missed = missed or (what == "run" and middle > TARGET)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
