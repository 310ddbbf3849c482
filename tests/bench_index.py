"""Benchmark: the index page of 1,000 evaluations, rendered by the report step and opened (`make bench-index`).

The report step renders its pages in a store with its run only, and in one with 999 more evaluations of 292 figures,
each with a page; it prints median wall and CPU seconds. Then both browsers open the index, each time in a new process
with an empty profile. Medians in milliseconds are printed: from the start of the navigation until the script has run
and until the page is usable, and from a search word to the filtered table.
"""

import statistics
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from factories import end, start, write_run
from firefox import started_firefox
from opened_page import Visit
from playwright.sync_api import sync_playwright
from test_report_page_browser import index_of
from written_history import pair

from tasks.history.database import alone_with_master, opened_master
from tasks.history.landing import land
from tasks.history.queries import query
from tasks.pages.page_names import LARGE, folder_of
from tasks.pages.site import renew
from tasks.report import renewed

NEWEST, LIKE = "20261120T120000-diagram-ffffff", "20261120T060000-diagram-000000"
RUNS = 1_000
FIGURES = 292
TURNS = 5
LONGER = 2.0
"""Seconds that the report step may take longer with all evaluations in the store."""
STARTS = 5
LIMIT = 1_000
SIZE = 1_000_000
USED = """async () => {
    const drawn = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    const navigation = performance.getEntriesByType("navigation")[0];
    await drawn();
    const usable = performance.now();
    const search = document.querySelector("[name=search]");
    search.value = "2026-11-2";
    search.dispatchEvent(new Event("input", { bubbles: true }));
    await drawn();
    return [navigation.domContentLoadedEventEnd, usable, performance.now() - usable];
}"""


def measure_start(playwright: Any, name: str, file: Path) -> list[float]:
    """Return the three times of one cold start, in milliseconds."""
    if name == "firefox":
        with TemporaryDirectory() as profile, started_firefox("firefox-esr", Path(profile)) as firefox:
            return Visit(firefox, file.as_uri(), width=1400).evaluate(USED)
    chromium = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"])
    found = Visit(chromium, file.as_uri(), width=1400).evaluate(USED)
    chromium.close()
    return found


# The report step


def write_evaluation(store: Path, run_id: str, began: str, figures: int) -> None:
    """Write a scheduled evaluation of so many figures into ledger and history."""
    rows = [row for number in range(figures) for row in pair(f"s{number}", ("MHGM", "GGMG")[number % 2], "Model")]
    write_run(store, start(run_id, samples=figures, started_at=began, scheduled=True), rows, end(run_id))
    land(store)


def fill(store: Path) -> None:
    """Add 998 copies of one evaluation to the history, of four candidates, with a page each."""
    write_evaluation(store, LIKE, "2026-11-20T06:00:00+00:00", FIGURES)
    began = "TIMESTAMP '2026-11-20 06:00:00' - turn * INTERVAL 6 HOURS"
    run = f"strftime({began}, '%Y%m%dT%H%M%S') || '-diagram-' || printf('%06x', turn)"
    name = "['alpha', 'beta', 'gamma', 'delta'][1 + turn % 4]"
    of_run = {"run_id": run, "evaluation_id": run, "candidate": name, "candidates": f"[{name}]", "started_at": began}
    of_run["replies_from"] = f"MAP([{run}], [{4 * FIGURES}::BIGINT])"
    with alone_with_master(store) as place, opened_master(place) as master:
        db = master.db
        for table in ("runs", "judgments", "outcomes", "scores", "rates"):
            columns = {column for (column, *_) in db.execute(f"DESCRIBE {table}").fetchall()}
            changed = ", ".join(f"{sql} AS {column}" for column, sql in of_run.items() if column in columns)
            rows = f"SELECT * EXCLUDE turn REPLACE ({changed}) FROM {table}, range(1, {RUNS - 1}) made(turn)"
            db.execute(f"INSERT INTO {table} BY NAME {rows} WHERE run_id = '{LIKE}' ORDER BY turn DESC")
        db.execute("CHECKPOINT history")
    land(store)
    for (run_id,) in query(store, "SELECT run_id FROM evaluations").rows:
        (folder_of(store) / f"{run_id}.html").write_text('<!doctype html>\n<html lang="en">')


def measure_step(store: Path) -> tuple[float, float, float]:
    """Return wall and CPU seconds for all pages of the newest run's report step, and wall seconds for the index."""
    times: list[tuple[float, float, float]] = []
    for _ in range(TURNS):
        wall, processor = time.perf_counter(), time.process_time()
        assert renewed(str(store), NEWEST) == []
        whole, used = time.perf_counter() - wall, time.process_time() - processor
        wall = time.perf_counter()
        renew(store)
        times.append((whole, used, time.perf_counter() - wall))
    whole, used, index = (statistics.median(column) for column in zip(*times, strict=True))
    return whole, used, index


def compare_steps(folder: Path) -> float:
    """Return by how many seconds the step is slower with all evaluations in the store."""
    found: list[float] = []
    for name, others in (("its run alone", False), (f"{RUNS:,} evaluations of {FIGURES} figures", True)):
        store = folder / f"store-{len(found)}"
        write_evaluation(store, NEWEST, "2026-11-20T12:00:00+00:00", LARGE)
        renew(store, [NEWEST])
        if others:
            fill(store)
            assert query(store, "SELECT count(*) FROM evaluations").rows == [(RUNS,)]
        whole, used, index = measure_step(store)
        times = f"{whole:.2f} s (processor {used:.2f} s), of which the index {index:.2f} s"
        print(f"{name}: pages of the report step {times}")
        found.append(whole)
    print(f"the report step is {found[1] - found[0]:.2f} s longer (at most {LONGER:g})")
    return found[1] - found[0]


def main() -> None:
    """Measure; fail if a limit is exceeded."""
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        late = compare_steps(Path(folder)) > LONGER
        file = Path(folder) / "index.html"
        file.write_text(index_of(RUNS))
        size = file.stat().st_size
        print(f"{RUNS:,} evaluations: {size / 1000:.0f} KB")
        late |= size > SIZE
        for name in ("chromium", "firefox"):
            times = [measure_start(playwright, name, file) for _ in range(STARTS)]
            script, stands, search = (statistics.median(column) for column in zip(*times, strict=True))
            print(f"{name}: script has run {script:.0f} ms, stands {stands:.0f} ms, search {search:.0f} ms")
            late |= stands > LIMIT
    sys.exit(late)


if __name__ == "__main__":
    main()
