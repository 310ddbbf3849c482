"""Benchmark: the shared layout beside the published one: its bill on twins, and its wall time (`make bench-layout`).

The bill is that of four dimensions, in calls on faithfulness without a cache. The wall time is that of
292 pairs by a loopback judge at 200 ms, in turns; the run with the middle one counts. It takes about six minutes.
"""

import os
import platform
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from bench import FEW, PAIRS, TURNS, Workload, _measured, client, prefect_server
from bench_sides import IN_FLIGHT
from billing_twins import RULES, BillingTwin
from layout_scene import bills, long_case, many, published_cases
from loopback_judge import judge_process
from own_data import MINI

from tasks.judging.case import Case

METHODS = (10_500, 20_000)
"""Bytes of a method section; the first is usual in PaperBananaBench."""
SAMPLES = 100
"""Of which each writes so small a part of the prompts that more of them change little."""
FEW_IN_FLIGHT, USUAL_IN_FLIGHT = 2, 16
"""With two calls at once one key is enough for a run; with the usual number more calls a minute have one key than are
sure to find it, so that there are several."""
MOST_WALL = 1.3


def print_bills(place: Path) -> None:
    """A table for each way of billing."""
    workloads: dict[str, Callable[[], list[Case]]] = {}
    if MINI.is_dir():
        workloads |= {
            "PaperBananaBench, as far as it is here": published_cases,
            f"the same pairs as {SAMPLES} samples": lambda: many(published_cases(), SAMPLES),
        }
    for method in METHODS:
        workloads[f"{SAMPLES} samples with {method:,} bytes of method"] = partial(_long, method)
    for name, rules in RULES.items():
        print(f"\n{name}: reading {rules.read:g}x, writing {rules.write:g}x")
        print(f"| | published | shared | shared, {USUAL_IN_FLIGHT} in flight |\n|---|---|---|---|")
        for number, (title, made) in enumerate(workloads.items()):
            few = _bills(name, place / f"{name}-{number}", made, FEW_IN_FLIGHT)
            usual = _bills(name, place / f"{name}-{number}-usual", made, USUAL_IN_FLIGHT)["shared"]
            print(f"| {title} | {few['published']:.2f} x | {few['shared']:.2f} x | {usual:.2f} x |", flush=True)


def _long(method: int) -> list[Case]:
    return many(long_case(method), SAMPLES)


def _bills(name: str, place: Path, made: Callable[[], list[Case]], in_flight: int) -> dict[str, float]:
    routed = in_flight if in_flight > FEW_IN_FLIGHT else 0
    with (
        BillingTwin(name, latency=0.02 if routed else 0.0, in_flight=routed) as twin,
        pytest.MonkeyPatch.context() as patch,
    ):
        twin.take_its_place(patch, key="")
        return bills(twin, place, made, in_flight)


def wall_times(place: Path) -> dict[str, float]:
    """Layout -> seconds of the whole flow."""
    workload, seconds = Workload("", "pairs", PAIRS, "JPEG", 0, 0), dict[str, list[float]]()
    (place / "home").mkdir()
    for name, each in (("few", FEW), ("pairs", workload)):
        each.draw(place / name)
    latency = ("--latency", "0.2", "--sigma", "0.3", "--seed", "1")
    with prefect_server(place / "home") as (api, _), judge_process(*latency) as judge:
        settings = client(place, api)
        _measured("flow", "pairs", place / "few", judge.base_url, place / "few-store", **settings)
        for turn in range(TURNS):
            for layout in ("pairs", "shared"):
                store = place / f"{layout}-{turn}"
                found = _measured("flow", layout, place / "pairs", judge.base_url, store, **settings)
                seconds.setdefault(layout, []).append(found["wall"])
    return {layout: sorted(walls)[TURNS // 2] for layout, walls in seconds.items()}


def main() -> int:
    """Print both; 1 where the wall time misses its target."""
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as folder:
        print_bills(Path(folder))
        walls = wall_times(Path(folder))
    ratio = walls["shared"] / walls["pairs"]
    print(f"\n{PAIRS} pairs, a judge at 200 ms, {IN_FLIGHT} calls in flight: published {walls['pairs']:.1f} s,")
    print(f"shared {walls['shared']:.1f} s, {ratio:.2f} x; target {MOST_WALL:g} x")
    return int(ratio > MOST_WALL)


if __name__ == "__main__":
    sys.exit(main())
