"""Quotes by a pilot of five samples, held against the bills of the runs that follow.

Judges that write little, much, and that reason, each on datasets of its own, through the whole chain with a judge on
loopback. What a judge writes scatters by 0.3 in logarithms from call to call, so that the mean of a pilot's 20 replies
alone may be off by a tenth.

    .venv/bin/python tests/simulate_quote.py [--samples N] SEED …

Prints a line for each run, and ends with 1 where fewer than nine of ten bills are within the range of their quote.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from loopback_judge import LoopbackJudge, judged_by
from quoted_judges import JUDGES, PRICES, BilledJudge, write_figures
from served import JURY

CLOSE = 0.1
"""How far off a quote is to be, as a share of the bill."""


def jury(*arguments: str) -> Any:
    ended = subprocess.run([JURY, *arguments, "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(ended.stdout)


def compared(judge: BilledJudge, samples: int, seed: int) -> tuple[float, float, float, float]:
    """What the quote and its pilot come to, its ends, and what was paid in the end."""
    with LoopbackJudge() as loopback, TemporaryDirectory() as place:
        loopback.answer = judge
        store = ["--store", f"{place}/store"]
        figures = write_figures(Path(place) / "data", samples, seed)
        given = ["run", "diagram", *figures, *judged_by(loopback, **PRICES), *store]
        quote = jury(*given, "--quote")
        jury(*given)
        [paid] = jury("query", "SELECT sum(price) AS price FROM spend", *store)
        [standard] = quote["taken"]["prices"]
        low, middle, high = (standard["price"][end] + quote["pilot_price"] for end in ("low", "middle", "high"))
        return low, middle, high, paid["price"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("seeds", type=int, nargs="*", default=[1, 2, 3])
    given = parser.parse_args()
    close = held = runs = 0
    for seed in given.seeds:
        for name, judge in JUDGES.items():
            low, middle, high, paid = compared(judge, given.samples, seed)
            off, runs = middle / paid - 1, runs + 1
            close, held = close + (abs(off) <= CLOSE), held + (low <= paid <= high)
            print(f"seed {seed}  {name:9}  quote {middle:.4f} [{low:.4f}, {high:.4f}]  paid {paid:.4f}  {off:+.1%}")
    print(f"{runs} quotes: {close} within a tenth of the bill, {held} bills within the range")
    return int(held < 0.9 * runs)


if __name__ == "__main__":
    sys.exit(main())
