"""Benchmark: processor time of the client for a sample and for a control (`make bench-controls`, a minute)."""

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from bench_data import draw_pairs
from loopback_judge import judge_process
from served import JURY, environment

FEW, MANY, SHARE = 60, 300, 0.5


def main() -> None:
    """Print what a sample and a control take, as differences between whole runs; one line for each format."""
    with tempfile.TemporaryDirectory() as folder, judge_process() as judge:
        print("| diagrams | ms a sample | ms a control | ratio |\n|---|---|---|---|")
        for kind in ("JPEG", "PNG"):
            root = Path(folder) / kind
            draw_pairs(root, MANY, kind)
            few, many, both = (_seconds(root, judge.base_url, *of) for of in ((FEW, 0.0), (MANY, 0.0), (MANY, SHARE)))
            sample, control = (many - few) / (MANY - FEW), (both - many) / (MANY * SHARE)
            print(f"| {kind} | {1000 * sample:.1f} | {1000 * control:.1f} | {control / sample:.2f} |")


def _seconds(root: Path, address: str, limit: int, controls: float) -> float:
    """Processor time of a run, with all processes that it starts."""
    given = {"dataset": root, "images": root / "model", "limit": limit, "controls": controls, "judge.model": "m"}
    options = [part for name, value in given.items() for part in (f"--{name}", str(value))]
    before = _used()
    with tempfile.TemporaryDirectory() as store:
        command = [JURY, "run", "diagram", *options, "--judge.base-url", address, "--store", store]
        subprocess.run(command, check=True, capture_output=True, env=environment())
    return _used() - before


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
