"""Benchmark: views, report queries and landing in a history of one million judgments (`make bench-history`).

The history has two years of nightly evaluations: 700 of 292 figures on four dimensions, and 83 of 2,212 images, each
with 40 anchors; in the last month, the scores of judge and candidates drop. One night of each kind is loaded, and
DuckDB copies its rows in the order of the runs. Each query opens its own connection and fetches all rows.
"""

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from factories import finished, image, judgment, outcome, scored
from written_history import pair

from tasks.comparing.alarms import watched
from tasks.history import queries as history
from tasks.history.database import HISTORY, alone_with_master, opened_master
from tasks.history.landing import land
from tasks.pages import queries
from tasks.records import ANCHOR, INSTRUCTION, OTHER, SAME, Judgment, Outcome

FIGURE_RUNS, FIGURES = 700, 292
IMAGE_RUNS, IMAGES = 83, 2212
ANCHORS, DROPPED = 40, 40
"""Anchors of each run, and runs at the end with an open alarm."""
TARGET_SECONDS = 1.0
TURNS = 3

ROWS_OF_SAMPLES = {
    **dict.fromkeys(("verdicts", "judgment_attempts", "disagreements", "best_images", "failures"), "run_id"),
    "ratings": "source",
}
"""Views with one row per sample or call -> their column of evaluations. All their rows are most of the history: people
query one evaluation, or counts by evaluation, so both are measured."""


# The history


def figures(dropped: bool) -> Iterator[Judgment | Outcome]:
    for number in range(FIGURES):
        groups = {"category": ("agent", "vision", "science")[number % 3], "difficulty": ("easy", "hard")[number % 2]}
        yield from pair(f"test_{number}", *_verdicts(number, dropped), **groups)
    for number in range(ANCHORS):
        yield from map(_anchor, pair(f"test_{number}", *_verdicts(number, dropped)))
    for number in range(15):
        yield outcome(f"test_{number}", "GGGG", "Tie", control=(SAME, OTHER, INSTRUCTION)[number % 3])


def _verdicts(number: int, dropped: bool) -> tuple[str, str]:
    return ("HHGH", "Human") if dropped else (("MHGM", "GGMG")[number % 2], "Model")


def _anchor(row: Judgment | Outcome) -> Judgment | Outcome:
    return row.model_copy(update={"control": ANCHOR})


def images(dropped: bool) -> Iterator[Judgment | Outcome]:
    for number in range(IMAGES):
        sample, score = f"{number // 4}/{number % 4}", (number % 8 + 2.0) * (0.7 if dropped else 1)
        aspects = scored(count_accuracy=score, object_uniformity=5.0)
        rows = (
            image(sample, score, aspects=aspects, satisfied=number % 2 == 0),
            judgment(sample, "counting", None, flow="counting", order="single", scores=scored(overall_score=score)),
        )
        yield from rows
        yield from map(_anchor, rows if number < ANCHORS else ())


def fill(store: Path) -> None:
    """Load one night of each kind into the history, then copy their rows night after night."""
    counting = {"dimensions": ("counting",), "parameters": {"threshold": 7.0}}
    for number, (flow, night, more) in enumerate((("diagram", figures, {}), ("counting", images, counting))):
        for dropped in (False, True):
            run_id = f"2020010{2 * number + dropped + 1}T000000-{flow}-000000"
            finished(store, run_id, [*night(dropped)], anchors_key="a" * 64, **more)
    land(store)
    with alone_with_master(store) as place, opened_master(place) as master:
        db = master.db
        db.execute("SET preserve_insertion_order = true; SET memory_limit = '4GB'")
        db.execute(_MADE)
        for table, changes in _CHANGES.items():
            own = ", ".join(f"{value} AS {column}" for column, value in {"run_id": "made.run_id", **changes}.items())
            rows = f"SELECT t.* REPLACE ({own}) FROM {table} t JOIN made ON made.source = t.run_id ORDER BY n"
            db.execute(f"INSERT INTO {table} BY NAME {rows}")
        db.execute("CHECKPOINT history")
    began = time.perf_counter()
    land(store)
    print(f"the nights of two years against their baselines: {time.perf_counter() - began:.2f} s\n")


_MADE = f"""
CREATE TEMP TABLE made AS
SELECT n, n % 9 = 8 AND n // 9 < {IMAGE_RUNS} AS images, n >= {FIGURE_RUNS + IMAGE_RUNS - DROPPED} AS dropped,
       TIMESTAMP '2024-11-01 02:00:00' + n * INTERVAL 22 HOURS AS began,
       CASE WHEN images THEN 'counting' ELSE 'diagram' END AS flow,
       strftime(began, '%Y%m%dT%H%M%S000-') || flow || printf('-%06x', n) AS run_id,
       printf('2020010%d', 1 + 2 * images::INTEGER + dropped::INTEGER) || 'T000000-' || flow || '-000000' AS source,
       ['alpha', 'beta'][1 + n % 2] AS candidate, (n // 200)::VARCHAR AS prompts
FROM range({FIGURE_RUNS + IMAGE_RUNS}) t(n)"""
_WORDS = """repeat('the encoder attends to ' || hash(made.run_id, t."key") || ', and ', {})"""
_OWN = {"candidate": "made.candidate"}
_CHANGES: dict[str, dict[str, str]] = {
    "runs": {
        "evaluation_id": "made.run_id", "scheduled": "true", "started_at": "began",
        "finished_at": "began + INTERVAL 9 MINUTES", "candidates": "[made.candidate]",
        "protocol_key": "repeat(made.prompts, 64)", "protocol": "map_concat(t.protocol, MAP {'prompts': made.prompts})",
        "replies_from": "MAP([made.run_id], [map_values(t.replies_from)[1]])",
    },
    "judgments": {
        **_OWN, "key": 'sha256(made.run_id || t."key")', "reasoning": _WORDS.format(12), "raw": _WORDS.format(24),
        "system_fingerprint": "'fp_' || n // 60", "judged_at": "began + INTERVAL 3 MINUTES",
    },
    "outcomes": {**_OWN, "decided_at": "began + INTERVAL 5 MINUTES"},
    "anchor_outcomes": {},
    "controls": {},
    **dict.fromkeys(("aspect_scores", "scores", "rates"), _OWN),
}  # fmt: skip
"""Table -> columns that change in the copies of its rows."""


# Measurements


def questions(store: Path) -> Iterator[tuple[str, str]]:
    """Yield name and SQL of a query: all views, then all queries of the report on the newest evaluations."""
    newest = "SELECT max(run_id) FROM evaluations WHERE flow = '{}'"
    figures, images = (str(history.query(store, newest.format(flow)).rows[0][0]) for flow in ("diagram", "counting"))
    for entry in history.catalog(store):
        if column := ROWS_OF_SAMPLES.get(entry.name):
            run = images if entry.name == "best_images" else figures
            yield f"view {entry.name}, one evaluation", f"FROM {entry.name} WHERE {column} = '{run}'"
            counted = f"SELECT {column}, count(*) FROM {entry.name} GROUP BY ALL"
            yield f"view {entry.name}, counted by evaluation", counted
        elif entry.kind == "view":
            yield f"view {entry.name}", f"FROM {entry.name}"
    for name in queries.QUERIES:
        yield f"report {name}", queries.question(name, run=figures, since="2020-01-01")
    for name in ("scores", "all_tags", "trend", "samples", "reasons"):
        yield f"report {name}, images", queries.question(name, run=images)


def measure_query(store: Path, sql: str) -> tuple[float, int]:
    """Return the median of several times, and the number of rows."""
    times: list[float] = []
    rows = 0
    for _ in range(TURNS):
        began = time.perf_counter()
        rows = len(history.query(store, sql).rows)
        times.append(time.perf_counter() - began)
    return sorted(times)[TURNS // 2], rows


def measure_landings(store: Path) -> Iterator[tuple[str, float, float]]:
    """Yield name, wall seconds and CPU seconds of landings in an empty history and in this one."""
    with tempfile.TemporaryDirectory() as place:
        land(empty := Path(place))
        for where, name in ((empty, "in an empty history"), (store, "in this one")):
            for what in ("nothing new", "one more night"):
                if what != "nothing new":
                    write_next_night(where)
                wall, processor = time.perf_counter(), time.process_time()
                land(where)
                yield f"{what}, {name}", time.perf_counter() - wall, time.process_time() - processor


def write_next_night(store: Path) -> None:
    began = datetime(2027, 1, 1, tzinfo=UTC) + timedelta(days=len([*(store / "ledger").glob("*")]))
    last = str((FIGURE_RUNS + IMAGE_RUNS - 1) // 200)
    run_id = f"{began:%Y%m%dT%H%M%S000}-diagram-000000"
    finished(store, run_id, [*figures(dropped=False)], key=last, scheduled=True, anchors_key="a" * 64)


def main() -> int:
    with tempfile.TemporaryDirectory() as place, contextlib.suppress(BrokenPipeError):
        store = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(place) / "store"
        if not (store / HISTORY).exists():
            fill(store)
        size = (store / HISTORY).stat().st_size / 1e6
        counts = "SELECT (SELECT count(*) FROM judgments), (SELECT count(*) FROM outcomes)"
        [(judgments, outcomes)] = history.query(store, counts).rows
        print(f"{judgments:,} judgments, {outcomes:,} outcomes, {size:,.0f} MB; {os.cpu_count()} cores\n")
        print("| asked | rows | seconds |\n| --- | ---: | ---: |")
        newest = history.query(store, "SELECT max_by(run_id, started_at) FROM evaluations").rows[0][0]
        began = time.perf_counter()
        known = watched(store, str(newest))
        took = time.perf_counter() - began
        slow = ["what a night tells"] * (took > TARGET_SECONDS)
        print(f"| what the newest night tells | {len(known.open)} alarms | {took:.2f} |")
        for name, sql in questions(store):
            took, rows = measure_query(store, sql)
            print(f"| {name} | {rows:,} | {took:.2f} |", flush=True)
            slow += [name] * (took > TARGET_SECONDS)
        print("\n| lands | seconds | CPU seconds |\n| --- | ---: | ---: |")
        for what, wall, processor in measure_landings(store):
            print(f"| {what} | {wall:.2f} | {processor:.2f} |", flush=True)
        print(f"\nslower than {TARGET_SECONDS:g} s: {', '.join(slow) or 'none'}")
        return int(bool(slow))
    return 0


if __name__ == "__main__":
    sys.exit(main())
