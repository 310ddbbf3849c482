"""Benchmark: what prices add to a run (`make bench-prices`), for the table of public prices takes a quarter of a second
to import.

Pairs of runs in turn, each in a process of its own, by the steps that judge: one whose prices are looked up in the
table, one to which they are given. A loopback judge that answers after 0.3 s stands for OpenAI. Prints the medians of
the paired differences with 95% intervals by their ranks, and ends with 1 where the wall time grows by more than 50 ms.

    .venv/bin/python tests/bench_prices.py [--pairs N]
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from math import comb
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from loopback_judge import LoopbackJudge, allowed_reply, with_latency

LATENCY = 0.3
TARGET = 0.05
"""Seconds that prices may add to the wall time of a run."""
SAMPLES, IN_FLIGHT = 24, 32
RUN = f"""if True:
    import json, sys, time
    from pathlib import Path
    from types import SimpleNamespace
    sys.path.insert(0, {str(Path(__file__).parent)!r})
    from layout_scene import Scene, case
    from tasks.spending import prices
    listed, (store, url, given) = prices._listed, sys.argv[1:]
    prices._listed = lambda _, __, *call: listed("https://api.openai.com/v1", "gpt-5", *call)
    prices.is_loopback = lambda _: False
    judge = {{"concurrency": {IN_FLIGHT}, **json.loads(given)}}
    scene = Scene(Path(store), SimpleNamespace(base_url=url), "published", judge=judge)
    scene.cases = [case(number) for number in range({SAMPLES})]
    wall, cpu = time.monotonic(), time.process_time()
    rows = scene.judge()
    print(json.dumps([time.monotonic() - wall, time.process_time() - cpu]))
    assert len(rows) == {4 * SAMPLES} and None not in [row.price for row in rows]
    assert ("genai_prices" in sys.modules) != bool(json.loads(given))
"""
"""A run by the plain functions, to which the loopback judge is OpenAI."""
SIDES = {"looked up": {}, "given": {"price_in": 1.25, "price_out": 10.0}}


class Took(NamedTuple):
    """What a run took, in seconds, from its first question to its last row."""

    wall: float
    cpu: float
    """Of the processor, all threads of the process together."""


def took(url: str, given: dict[str, float]) -> Took:
    with TemporaryDirectory() as store:
        words = [sys.executable, "-c", RUN, store, url, json.dumps(given)]
        return Took(*json.loads(subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout))


def median(values: Sequence[float]) -> tuple[float, float, float]:
    """The median and its 95% interval: the narrowest pair of ranks that holds it with that probability."""
    ordered, n = sorted(values), len(values)
    middle = (ordered[(n - 1) // 2] + ordered[n // 2]) / 2
    rank = max((k for k in range(n // 2) if 2 * sum(comb(n, i) for i in range(k + 1)) / 2**n <= 0.05), default=0)
    return middle, ordered[rank], ordered[-1 - rank]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=24)
    pairs = parser.parse_args().pairs
    found: dict[str, list[Took]] = {side: [] for side in SIDES}
    with LoopbackJudge(keep_requests=False) as judge:
        judge.answer = with_latency(allowed_reply(), LATENCY, 0.0, 1)
        for number in range(pairs):
            for side in sorted(SIDES, reverse=bool(number % 2)):
                found[side].append(took(judge.base_url, SIDES[side]))
    print(f"{pairs} pairs of runs of {4 * SAMPLES} calls of {LATENCY:g} s, {IN_FLIGHT} at once")
    added = dict[str, float]()
    for what in Took._fields:
        given, looked = ([getattr(each, what) for each in found[side]] for side in ("given", "looked up"))
        added[what], low, high = median([b - a for a, b in zip(given, looked, strict=True)])
        words = f"{added[what]:+.3f} s [{low:+.3f}, {high:+.3f}]"
        print(f"{what:4} {median(given)[0]:5.2f} s with prices that are given; looked up: {words}", flush=True)
    return int(added["wall"] > TARGET)


if __name__ == "__main__":
    sys.exit(main())
