"""Benchmark: the page of a run of 5,000 figures in Chromium, from the disk (`make bench-page`).

It prints the size of the page, the seconds until it is usable, and the 95th percentile of frame times while scrolling
through the samples at 6,000 pixels a second. It takes about two minutes, and 200 MB of disk until it ends.
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from factories import RUN, end, start, write_run
from opened_page import Visit, chromium
from playwright.sync_api import sync_playwright
from written_history import noise, pair, written

from tasks.history.landing import land
from tasks.records import Outcome

SAMPLES = 5_000
REASON = "Faithfulness of Human: {0}; Faithfulness of Model: {0}; Conclusion: the {1} keeps every module in its place."
WORDS = "each arrow leads from one module to the next as the text has it, " * 4
CAPTION = "Overview of the method: an encoder, a memory of traces and a decoder that answers questions. " * 3
TARGETS = {"page, MB": 10.0, "opens, s": 2.0, "frame, ms": 60.0}
SCROLLED = """async () => {
    const frame = () => new Promise(requestAnimationFrame), taken = [];
    document.getElementById("list").scrollIntoView({ behavior: "instant" });
    for (let before = await frame(), end = scrollY + 60000; scrollY < end;) {
        const now = await frame();
        taken.push(now - before);
        scrollBy({ top: 6 * (now - before), behavior: "instant" });
        before = now;
    }
    return taken.sort((one, other) => one - other)[Math.floor(0.95 * taken.length)];
}"""


def make(place: Path) -> Path:
    """Write the page of a run with distinct pictures."""
    verdicts = (("MHGM", "Model"), ("HHGM", "Human"), ("GGGG", "Tie"))
    texts = {"reasoning": REASON.format(WORDS, "Model"), "caption": CAPTION}
    rows = [row for number in range(SAMPLES) for row in pair(f"s{number}", *verdicts[number % 3], **texts)]
    write_run(place / "store", start(RUN, samples=SAMPLES), rows, end(RUN))
    (place / "store" / "pictures").mkdir()
    picture = noise(160)
    for note in (note for row in rows if isinstance(row, Outcome) for note in row.pictures.values()):
        (place / "store" / "pictures" / f"{note.source_sha256}.jpg").write_bytes(picture)
    land(place / "store")
    return written(place / "store", place / "page.html")


def measure(page: Path) -> dict[str, float]:
    """Return the measurement for each target."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        began = time.perf_counter()
        visit: Any = Visit(browser, page.as_uri(), width=1400)
        visit.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
        opened = time.perf_counter() - began
        visit.press("j")
        found = {"page, MB": page.stat().st_size / 1e6, "opens, s": opened, "frame, ms": visit.evaluate(SCROLLED)}
        visit.check()
        return found


def main() -> int:
    """Measure and print the table; return whether a target was missed."""
    with tempfile.TemporaryDirectory() as folder:
        found = measure(make(Path(folder)))
    print(f"\n| {SAMPLES:,} samples | measured | target |\n|---|---|---|")
    for name, value in found.items():
        print(f"| {name} | {value:.3g} | {TARGETS[name]:g} |")
    return any(value > TARGETS[name] for name, value in found.items())


if __name__ == "__main__":
    sys.exit(main())
