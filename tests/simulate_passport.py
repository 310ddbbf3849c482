"""How often a passport says of a judge what is true: judges with known faults, and good ones, by real requests.

Each judge of `causes.toml` gets a passport for each of some seeds, and must fail exactly the lines of its row. A good
judge, which errs in 3 of 100 items by chance, gets one for each of many seeds, and should fail no line in 95 of 100.
"""

import argparse
import tempfile
from pathlib import Path

from passport_judges import FAULTY, Judge, Key, card_of, failed

from tasks.passport.lines import GOOD, causes


def simulate(seeds: int, good: int, first: int) -> int:
    """Print what was found; returns how many judges with a fault were not told by exactly their lines."""
    wrong, clean = 0, 0
    with tempfile.TemporaryDirectory() as place:
        for seed in range(first, first + max(seeds, good)):
            key = Key(seed)
            for cause in causes() if seed < first + seeds else ():
                found = failed(card_of(FAULTY[cause.name](key), seed, Path(place)))
                if found != cause.fails:
                    wrong += 1
                    print(f"seed {seed}, {cause.name}: failed {sorted(found)}, expected {sorted(cause.fails)}")
            if seed < first + good:
                found = failed(card_of(Judge(key, 1 - GOOD, seed), seed, Path(place)))
                clean += not found
                print(f"seed {seed}, a good judge: failed {sorted(found) or 'none'}", flush=True)
    print(f"{len(causes())} causes, {seeds} seeds: {wrong} of {len(causes()) * seeds} cards have other lines")
    print(f"a good judge, {good} seeds: {clean} cards without a failed line ({clean / good:.1%})")
    return wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="seeds for each judge with a fault")
    parser.add_argument("--good", type=int, default=60, help="seeds for the good judge")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    options = parser.parse_args()
    raise SystemExit(1 if simulate(options.seeds, options.good, options.first) else 0)
