"""Benchmark: the bill of the shared layout beside that of the published one, on twins (`make bench-layout`).

The bill is that of four dimensions, in calls on faithfulness without a cache.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from billing_twins import RULES, BillingTwin
from own_data import MINI
from plain_runs import bills, long_case, many, published_cases

from tasks.judging.case import Case

METHODS = (10_500, 20_000)
"""Bytes of a method section; the first is usual in PaperBananaBench."""
SAMPLES = 100
"""Of which each writes so small a part of the prompts that more of them change little."""
FEW_IN_FLIGHT, USUAL_IN_FLIGHT = 2, 16
"""With two calls at once one key is enough for a run; with the usual number more calls a minute have one key than are
sure to find it, so that there are several."""


def print_bills(place: Path) -> None:
    """A table for each way of billing."""
    workloads: dict[str, Callable[[], list[Case]]] = {}
    if MINI.is_dir():
        workloads |= {
            "PaperBananaBench, as far as it is here": published_cases,
            f"the same pairs as {SAMPLES} samples": lambda: many(published_cases(), SAMPLES),
        }
    for method in METHODS:
        title = f"{SAMPLES} samples with {method:,} bytes of method"
        workloads[title] = lambda method=method: many(long_case(method), SAMPLES)
    for name, rules in RULES.items():
        print(f"\n{name}: reading {rules.read:g}x, writing {rules.write:g}x")
        print(f"| | published | shared | shared, {USUAL_IN_FLIGHT} in flight |\n|---|---|---|---|")
        for number, (title, made) in enumerate(workloads.items()):
            few = _bills(name, place / f"{name}-{number}", made, FEW_IN_FLIGHT)
            usual = _bills(name, place / f"{name}-{number}-usual", made, USUAL_IN_FLIGHT)["shared"]
            print(f"| {title} | {few['published']:.2f} x | {few['shared']:.2f} x | {usual:.2f} x |", flush=True)


def _bills(name: str, place: Path, made: Callable[[], list[Case]], in_flight: int) -> dict[str, float]:
    routed = in_flight if in_flight > FEW_IN_FLIGHT else 0
    with (
        BillingTwin(name, latency=0.02 if routed else 0.0, in_flight=routed) as twin,
        pytest.MonkeyPatch.context() as patch,
    ):
        twin.take_its_place(patch, key="")
        return bills(twin, place, made, in_flight)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print_bills(Path(folder))
