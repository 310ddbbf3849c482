"""How soon the index of 1,000 evaluations can be used: cold starts of both browsers (`make bench-index`).

Each start is of a new process with an empty profile, so that nothing is kept from the one before. Told are the medians
in milliseconds: from the beginning of the navigation until the page's script has run and until the page stands and can
be used, and from a word in the search to the table that it leaves.
"""

import statistics
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from firefox import started_firefox
from playwright.sync_api import sync_playwright
from test_index_browser import RUNS, thousand
from visited_page import Visit

STARTS = 5
LIMIT = 1_000
SIZE = 1_000_000
USED = """async () => {
    const drawn = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    const told = performance.getEntriesByType("navigation")[0];
    await drawn();
    const stands = performance.now();
    const search = document.querySelector("[name=search]");
    search.value = "2026-11-2";
    search.dispatchEvent(new Event("input", { bubbles: true }));
    await drawn();
    return [told.domContentLoadedEventEnd, stands, performance.now() - stands];
}"""


def measured(playwright: Any, name: str, file: Path) -> list[float]:
    """The three times of one cold start."""
    if name == "firefox":
        with TemporaryDirectory() as profile, started_firefox("firefox-esr", Path(profile)) as firefox:
            return Visit(firefox, file.as_uri(), width=1400).evaluate(USED)
    chromium = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"])
    found = Visit(chromium, file.as_uri(), width=1400).evaluate(USED)
    chromium.close()
    return found


def main() -> None:
    """Measure, and fail where a limit is passed."""
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "index.html"
        file.write_text(thousand())
        size = file.stat().st_size
        print(f"{RUNS:,} evaluations: {size / 1000:.0f} KB")
        late = size > SIZE
        for name in ("chromium", "firefox"):
            times = [measured(playwright, name, file) for _ in range(STARTS)]
            script, stands, search = (statistics.median(column) for column in zip(*times, strict=True))
            print(f"{name}: script has run {script:.0f} ms, stands {stands:.0f} ms, search {search:.0f} ms")
            late |= stands > LIMIT
    sys.exit(late)


if __name__ == "__main__":
    main()
