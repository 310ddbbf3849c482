"""Benchmark: a history of one million judgments, and how long its views and the report's questions take to answer.

What two years of nightly evaluations leave: 700 of 292 figures on four dimensions, and 83 of 2,212 images, each with
40 anchors; in the last month the judge and the candidates have dropped. The rows are made by DuckDB in the tables of
`tables.sql`, run after run as they would have come; every answer is fetched whole through `tasks.history`, each time
through a connection of its own (`make bench-history`).
"""

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
from factories import end, outcome, start, write_run

from tasks.comparing.alarms import watched
from tasks.history import asking as history
from tasks.history.database import HISTORY
from tasks.history.loading import store_nights, sync
from tasks.pages import queries

FIGURE_RUNS, FIGURES = 700, 292
IMAGE_RUNS, IMAGES, PROMPTS = 83, 2212, 553
ANCHORS, DROPPED = 40, 40
"""Anchors of each run, and runs at the end with an open alarm."""
DIMENSIONS = ("faithfulness", "conciseness", "readability", "aesthetics")
TARGET_SECONDS = 1.0
TURNS = 3

ROWS_OF_SAMPLES = {
    "verdicts": "run_id",
    "judgment_attempts": "run_id",
    "disagreements": "run_id",
    "best_images": "run_id",
    "failures": "run_id",
    "ratings": "source",
}
"""Views with a row a sample or call -> their column of evaluations. All their rows are most of the history: people ask
for those of one evaluation, or for a number of each, and both are asked here."""


# The history


def fill(store: Path) -> None:
    """Make the history with its tables, by loading one small run, and put the generated rows into them."""
    write_run(
        store, start("20200101T000000-diagram-000000", started_at="2020-01-01T00:00:00+00:00"), [outcome()], end()
    )
    sync(store)
    with duckdb.connect(store / HISTORY) as db:
        db.execute("SET preserve_insertion_order = true")
        db.execute(_RUNS)
        for table, sql in _ROWS.items():
            db.execute(f"INSERT INTO {table} BY NAME {sql}")
        db.execute("CHECKPOINT")
    began = time.perf_counter()
    store_nights(store)
    print(f"the nights of two years against their baselines: {time.perf_counter() - began:.2f} s\n")


_RUNS = f"""
CREATE TEMP TABLE made AS
SELECT n, n % 9 = 8 AND n // 9 < {IMAGE_RUNS} AS images,
       TIMESTAMP '2024-11-01 02:00:00' + n * INTERVAL 22 HOURS AS began,
       CASE WHEN images THEN 'counting' ELSE 'diagram' END AS flow,
       strftime(began, '%Y%m%dT%H%M%S000-') || flow || printf('-%06x', n) AS run_id,
       ['alpha', 'beta'][1 + n % 2] AS candidate, n // 200 AS protocol
FROM range({FIGURE_RUNS + IMAGE_RUNS}) t(n) ORDER BY n;
CREATE TEMP TABLE questions AS
SELECT run_id, flow, candidate, began, images, sample, 'test_' || sample AS sample_id, dimension,
       hash(run_id, sample, dimension) AS chance, n, '' AS control, protocol
FROM made, LATERAL (SELECT unnest(range(CASE WHEN images THEN {IMAGES} ELSE {FIGURES} END)) AS sample),
     LATERAL (SELECT unnest(CASE WHEN images THEN ['counting'] ELSE {list(DIMENSIONS)} END) AS dimension)
ORDER BY n, sample;
CREATE TEMP TABLE anchor_questions AS
SELECT * REPLACE (hash(run_id, sample, dimension, 'anchor') AS chance, 'anchor' AS control) FROM questions
WHERE sample < {ANCHORS} ORDER BY n, sample;
INSERT INTO runs BY NAME
SELECT run_id, run_id AS evaluation_id, 1 AS shard, 1 AS shards, flow, 'finished' AS status, began AS started_at,
       began + INTERVAL 9 MINUTES AS finished_at, 540.0 AS seconds, '1.0' AS version, '' AS prefect_run_id,
       true AS scheduled, 'bench' AS dataset, flow AS dataset_key, [candidate] AS candidates,
       CASE WHEN images THEN {IMAGES} ELSE {FIGURES} END AS samples, 'default' AS prompt_set,
       MAP {{'faithfulness': sha256(protocol::VARCHAR)}} AS prompts, {list(DIMENSIONS)} AS dimensions, 'gpt-x' AS model,
       'https://judge.example/v1' AS endpoint, sha256(flow) AS anchors_key,
       flow AS resume_key, sha256(flow || protocol) AS protocol_key,
       sha256(protocol::VARCHAR) AS judge_key, MAP {{'model': 'gpt-x', 'prompts': protocol::VARCHAR}} AS protocol,
       '{{"threshold": 7.0}}' AS parameters, 1168 AS calls, 0 AS reused,
       MAP([run_id], [1168::BIGINT]) AS replies_from, MAP {{'ok': 1168::BIGINT}} AS judgments,
       MAP {{'complete': 292::BIGINT}} AS outcomes, []::VARCHAR[] AS warnings, 1 AS ledger_bytes, 3 AS "schema"
FROM made ORDER BY n"""
_PICTURE = """{'source_sha256': sha256(flow || sample), 'sent_sha256': sha256(flow || sample), 'format': 'PNG',
    'mode': 'RGB', 'width': 1400, 'height': 500, 'bytes': 125000, 'sent_format': 'PNG', 'sent_width': 1400,
    'sent_height': 500, 'sent_bytes': 125000, 'changes': []::VARCHAR[]}"""
_PICTURES = (
    f"CASE WHEN images THEN MAP {{'image': {_PICTURE}}} ELSE MAP {{'human': {_PICTURE}, 'model': {_PICTURE}}} END"
)
_VERDICT = "['Model', 'Human', 'Both are good', 'Both are bad'][1 + (chance % 4)::INTEGER]"
_WORDS = "repeat('the encoder attends to ' || chance || ', and ', 12)"
_JUDGMENTS = f"""
SELECT run_id, flow, sample_id, candidate, control, dimension,
       CASE WHEN images THEN 'single' ELSE 'human_first' END AS "order", 1 AS vote, 1 AS attempt, true AS last_attempt,
       CASE WHEN chance % 200 = 0 THEN 'refused' ELSE 'ok' END AS status,
       CASE WHEN NOT images AND chance % 200 > 0 THEN {_VERDICT} END AS verdict,
       'Faithfulness of Human: ' || {_WORDS} || '; Conclusion: so.' AS reasoning, {_WORDS} || {_WORDS} AS raw,
       CASE WHEN chance % 200 = 0 THEN 'content policy' ELSE '' END AS error, 'stop' AS finish_reason,
       'json_schema' AS rung, 'strict' AS recovery, sha256(run_id || sample || dimension) AS "key",
       sha256(dimension) AS prompt_sha256, sha256(sample_id) AS text_sha256, {_PICTURES} AS pictures,
       'gpt-x' AS model_asked, 'gpt-x-1' AS model_answered, 'fp_' || n // 60 AS system_fingerprint,
       'https://judge.example/v1' AS endpoint,
       1000 + (chance % 500)::BIGINT AS tokens_in, 100 + (chance % 90)::BIGINT AS tokens_out, 0 AS tokens_cached,
       0.01 AS price, 2.0 + (chance % 100)::BIGINT / 50 AS seconds, []::VARCHAR[] AS not_sent, 0 AS http_retries,
       began + INTERVAL 3 MINUTES AS judged_at, '' AS reused_from, 3 AS "schema"
FROM (FROM questions UNION ALL FROM anchor_questions)"""
_ANCHOR_OUTCOMES = f"""
SELECT run_id, flow, 'alpha' AS candidate, sample_id, '' AS category,
       CASE WHEN images THEN 'counting' ELSE '' END AS tag, 'complete' AS status,
       avg(CASE WHEN images THEN points / 10 ELSE points END) AS score, list({{
           'dimension': dimension, 'verdict': NULL::VARCHAR, 'score': points, 'human_first': NULL::VARCHAR,
           'model_first': NULL::VARCHAR, 'published': NULL::VARCHAR, 'votes': 1, 'ok_votes': 1,
           'order_flip': NULL::BOOLEAN, 'reversal': NULL::BOOLEAN}}) AS dimensions
FROM (
    SELECT *, 50.0 * ((CASE WHEN chance % 4 > 0 THEN hash(sample, dimension) ELSE chance END) % 3)
              * CASE WHEN n < {FIGURE_RUNS + IMAGE_RUNS - DROPPED} THEN 1 ELSE 0.7 END AS points
    FROM anchor_questions
) GROUP BY ALL"""
_OUTCOMES = f"""
SELECT run_id, flow, sample_id, candidate, ['agent', 'vision', 'science'][1 + sample % 3] AS category,
       ['easy', 'hard'][1 + sample % 2] AS difficulty, CASE WHEN images THEN 'counting' ELSE '' END AS tag,
       CASE WHEN images THEN (sample // 4)::VARCHAR ELSE '' END AS prompt_id,
       CASE WHEN images THEN 'a photo of two clocks, number ' || sample // 4 ELSE '' END AS prompt,
       'complete' AS status, CASE WHEN NOT images THEN overall END AS overall,
       CASE WHEN images THEN (chance % 101)::BIGINT / 10
            ELSE MAP {{'Model': 100.0, 'Tie': 50.0, 'Human': 0.0}}[overall] END AS score,
       CASE WHEN images THEN aspects ELSE [] END AS aspects,
       CASE WHEN images THEN (chance % 91)::BIGINT / 10 END AS aspect_mean,
       CASE WHEN images THEN chance % 2 = 0 END AS satisfied, 'tier 1' AS tier, 'tier 1: so' AS "path",
       dimensions, 'Overview of the method.' AS caption, {_PICTURES} AS pictures, '' AS problem,
       []::VARCHAR[] AS notes, '' AS injected, began + INTERVAL 5 MINUTES AS decided_at, 3 AS "schema"
FROM (
    SELECT run_id, flow, candidate, began, images, sample, sample_id, min(chance) AS chance,
           ['Model', 'Tie', 'Human'][1 + (min(chance) % 3)::INTEGER] AS usual,
           CASE WHEN max(n) < {FIGURE_RUNS + IMAGE_RUNS - DROPPED} THEN usual ELSE 'Human' END AS overall,
           [{{'aspect': 'count_accuracy', 'score': (min(chance) % 11)::DOUBLE, 'explanation': '2 of 2'}}] AS aspects,
           list({{'dimension': dimension, 'verdict': CASE WHEN NOT images THEN {_VERDICT} END,
                 'score': (50 * (chance % 3))::DOUBLE, 'human_first': CASE WHEN NOT images THEN {_VERDICT} END,
                 'model_first': NULL::VARCHAR, 'published': NULL::VARCHAR, 'votes': 1, 'ok_votes': 1,
                 'order_flip': NULL::BOOLEAN, 'reversal': NULL::BOOLEAN}}) AS dimensions
    FROM questions GROUP BY ALL
)
ORDER BY run_id, sample"""
_ASPECTS = """
SELECT run_id, flow, candidate, sample_id, tag, 1 AS vote, unnest(aspects, recursive := true)
FROM outcomes WHERE tag <> '' AND flow = 'counting'"""
_GROUPS = """LATERAL (SELECT unnest([
    {'grouping': 'all', 'name': ''}, {'grouping': 'category', 'name': 'agent'},
    {'grouping': 'category', 'name': 'vision'}, {'grouping': 'category', 'name': 'science'},
    {'grouping': 'difficulty', 'name': 'easy'},
    {'grouping': 'difficulty', 'name': 'hard'}]) AS "group")"""
_SCORES = f"""
SELECT run_id, candidate, dimension, 'score' AS measure, "group"['grouping'] AS "grouping",
       "group"['name'] AS group_name, 292 AS n, 290 AS scored, 90 AS model_wins, 90 AS human_wins, 60 AS both_good,
       50 AS both_bad, 0 AS mixed, 0 AS mixed_votes, 0 AS ties, 0 AS forfeits, 0 AS carried, 50.0 + n % 7 AS score,
       45.0 AS ci_low, 57.0 AS ci_high, 'bayesian bootstrap' AS "method", 0.99 AS coverage
FROM made, {_GROUPS}, LATERAL (SELECT unnest({[*DIMENSIONS, "overall"]}) AS dimension) WHERE NOT images
UNION ALL BY NAME
SELECT run_id, candidate, 'counting' AS dimension, unnest(['score', 'aspect_mean', 'good', 'satisfied']) AS measure,
       'all' AS "grouping", '' AS group_name, 2212 AS n, 2200 AS scored, 553 AS prompts, 0.5 AS score,
       0.5 AS image_mean, 0.4 AS ci_low, 0.6 AS ci_high, 'bayesian bootstrap' AS "method", 0.99 AS coverage
FROM made WHERE images
UNION ALL BY NAME
SELECT run_id, candidate, 'counting' AS dimension, 'score' AS measure, 'aspect' AS "grouping",
       unnest(['count_accuracy', 'object_uniformity', 'spatial_legibility']) AS group_name, 2212 AS n, 2200 AS scored,
       553 AS prompts, 7.5 AS score, 7.5 AS image_mean, 7.0 AS ci_low, 8.0 AS ci_high, 'bayesian bootstrap' AS "method",
       0.99 AS coverage
FROM made WHERE images"""
_CONTROLS = """
SELECT run_id, flow, candidate, 'test_' || which AS sample_id,
       ['same picture', 'other sample', 'instruction'][1 + which % 3] AS control,
       ['false preference', 'neglect', 'injection'][1 + which % 3] AS measure, 'complete' AS status, 'Tie' AS overall,
       50.0 AS score, [] AS dimensions, 'Tie' AS real_overall, 50.0 AS real_score, hash(run_id, which) % 9 = 0
       AS failed, 4 AS questions, 4 AS answered, 4.0 * (hash(run_id, which) % 9 = 0)::INTEGER AS failures
FROM made, LATERAL (SELECT unnest(range(15)) AS which)"""
_RATES = """
SELECT run_id, candidate, unnest(['faithfulness', 'conciseness', 'readability', 'aesthetics', 'overall']) AS dimension,
       'pivotal' AS measure, 292 AS n, 0.3 AS "value", 0.25 AS ci_low, 0.35 AS ci_high, 'bayesian bootstrap' AS "method"
FROM made WHERE NOT images"""
_ROWS = {
    "judgments": _JUDGMENTS,
    "outcomes": _OUTCOMES,
    "anchor_outcomes": _ANCHOR_OUTCOMES,
    "aspect_scores": _ASPECTS,
    "controls": _CONTROLS,
    "scores": _SCORES,
    "rates": _RATES,
}
"""Table -> its rows, in the order in which they are made."""


# What is measured


def questions(store: Path) -> Iterator[tuple[str, str]]:
    """(what is asked, its SQL): every view, then every question of the report about the newest evaluations."""
    newest = "SELECT max(run_id) FROM evaluations WHERE flow = '{}'"
    figures, images = (str(history.query(store, newest.format(flow)).rows[0][0]) for flow in ("diagram", "counting"))
    for entry in history.catalog(store):
        if column := ROWS_OF_SAMPLES.get(entry.name):
            run = images if entry.name == "best_images" else figures
            yield f"view {entry.name}, one evaluation", f"FROM {entry.name} WHERE {column} = '{run}'"
            yield (
                f"view {entry.name}, counted by evaluation",
                f"SELECT {column}, count(*) FROM {entry.name} GROUP BY ALL",
            )
        elif entry.kind == "view":
            yield f"view {entry.name}", f"FROM {entry.name}"
    previous = str(queries.ask(store, "previous", run=figures).rows[0]["run_id"])
    for name in queries.names():
        yield f"report {name}", queries.question(name, run=figures, previous=previous, since="2020-01-01")
    for name in ("scores", "aspects", "six_tags", "trend", "samples", "reasons"):
        yield f"report {name}, images", queries.question(name, run=images)


def seconds(store: Path, sql: str) -> tuple[float, int]:
    """The middle of several times, and the number of rows."""
    times: list[float] = []
    rows = 0
    for _ in range(TURNS):
        began = time.perf_counter()
        rows = len(history.query(store, sql).rows)
        times.append(time.perf_counter() - began)
    return sorted(times)[TURNS // 2], rows


def main() -> int:
    """Fill, ask, print a Markdown table; 1 where an answer took longer than the target."""
    with tempfile.TemporaryDirectory() as place, contextlib.suppress(BrokenPipeError):
        store = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(place) / "store"
        if not (store / HISTORY).exists():
            fill(store)
        size = (store / HISTORY).stat().st_size / 1e6
        [(judgments, outcomes)] = history.query(
            store, "SELECT (SELECT count(*) FROM judgments), (SELECT count(*) FROM outcomes)"
        ).rows
        print(f"{judgments:,} judgments, {outcomes:,} outcomes, {size:,.0f} MB; {os.cpu_count()} cores\n")
        print("| asked | rows | seconds |\n| --- | ---: | ---: |")
        newest = history.query(store, "SELECT max_by(run_id, started_at) FROM evaluations").rows[0][0]
        began = time.perf_counter()
        known = watched(store, str(newest))
        took = time.perf_counter() - began
        slow = ["what a night tells"] * (took > TARGET_SECONDS)
        print(f"| what the newest night tells | {len(known.open)} alarms | {took:.2f} |")
        for name, sql in questions(store):
            took, rows = seconds(store, sql)
            print(f"| {name} | {rows:,} | {took:.2f} |", flush=True)
            slow += [name] * (took > TARGET_SECONDS)
        print(f"\nslower than {TARGET_SECONDS:g} s: {', '.join(slow) or 'none'}")
        return int(bool(slow))
    return 0


if __name__ == "__main__":
    sys.exit(main())
