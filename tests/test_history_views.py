"""Views of the history: their results for given rows."""

from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from factories import DIMENSIONS, RUN, end, judgment, other_call, outcome, start, write_run
from written_history import ask, keep, whole_run, write_evaluations

from tasks.history.landing import land, missing
from tasks.history.queries import catalog, held_open, query
from tasks.ledger.evaluations import ASKED, joint_key, protocol_differences, read_evaluation
from tasks.ledger.side_records import OTHER_CALLS
from tasks.records import ANCHOR, OVERALL, DimensionOutcome, Judgment

EARLIER = "20261119T120000-diagram-0000aa"


def test_verdict_counts_add_up_to_the_scored_samples(tmp_path: Path) -> None:
    rows = [
        outcome("s1", "MGMH", "Model", category="vision", difficulty="hard"),
        outcome("s2", "HBXH", "Human", category="vision", difficulty="easy"),
        outcome("s3", "GBMH", "Tie", category="science"),
        outcome("s4", "-M-G", None, status="incomplete", category="science", difficulty="easy"),
        outcome("s5", "----", None, status="forfeit", category="vision", difficulty="hard"),
        outcome("s6", "----", None, status="no_reference", category="vision", difficulty="hard"),
        outcome("s7", "----", None, status="bad_picture", difficulty="hard"),
    ]
    keep(tmp_path, RUN, rows)
    with held_open(tmp_path):
        counts = "model_wins, human_wins, both_good, both_bad, mixed, ties, forfeits"
        assert ask(tmp_path, f"SELECT dimension, n, scored, {counts}, score, coverage FROM leaderboard") == [
            ("faithfulness", 7, 4, 1, 1, 1, 0, 0, 0, 1, 37.5, 4 / 7),
            ("conciseness", 7, 5, 1, 0, 1, 2, 0, 0, 1, 50.0, 5 / 7),
            ("readability", 7, 4, 2, 0, 0, 0, 1, 0, 1, 62.5, 4 / 7),
            ("aesthetics", 7, 5, 0, 3, 1, 0, 0, 0, 1, 10.0, 5 / 7),
            ("overall", 7, 4, 1, 1, 0, 0, 0, 1, 1, 37.5, 4 / 7),
        ]
        summed = f"SELECT count(*) FILTER (scored <> {counts.replace(', ', ' + ')}), count(*) FROM scores"
        assert ask(tmp_path, summed) == [(0, 5 * (1 + 2 + 2))]
        overall = "WHERE dimension = 'overall'"
        found = ask(tmp_path, f"SELECT category, n, scored, score FROM by_category {overall}")
        assert found == [("science", 2, 1, 50.0), ("vision", 4, 3, pytest.approx(100 / 3))]
        found = ask(tmp_path, f"SELECT difficulty, n, scored, score FROM by_difficulty {overall}")
        assert found == [("easy", 2, 1, 0.0), ("hard", 4, 2, 50.0)]
        assert query(tmp_path, "coverage").rows[0][4:] == (7, 4, 4 / 7, 3, 1, 1, 1, 1, None, 0)
        sql = "SELECT dimension, verdict, score FROM verdicts WHERE sample_id = 's2' ORDER BY score, 1"
        assert ask(tmp_path, sql) == [
            ("aesthetics", "Human", 0.0), ("faithfulness", "Human", 0.0), ("overall", "Human", 0.0),
            ("conciseness", "Both are bad", 50.0), ("readability", "Mixed", 50.0),
        ]  # fmt: skip
        kinds = "SELECT sample_id, status FROM failures WHERE kind = 'outcome' ORDER BY 1"
        assert ask(tmp_path, kinds) == [("s5", "forfeit"), ("s6", "no_reference"), ("s7", "bad_picture")]


def test_unfinished_run_is_only_in_runs_failures_and_spend(tmp_path: Path) -> None:
    write_run(tmp_path, start(), [judgment(), outcome("s1", "MHMH"), outcome("s2", "MHMH", None)], None)
    land(tmp_path)
    assert ask(tmp_path, "SELECT status, finished_at, protocol_key, calls FROM runs") == [("unfinished",) + (None,) * 3]
    with held_open(tmp_path):
        views = [entry.name for entry in catalog(tmp_path) if entry.kind == "view"]
        filled = {name for name in views if query(tmp_path, name).rows}
    assert filled == {"failures", "spend"}
    assert ask(tmp_path, "SELECT kind, status, run_id FROM failures") == [("run", "unfinished", RUN)]
    assert missing(tmp_path) == []


def test_last_attempt_counts_and_all_are_kept(tmp_path: Path) -> None:
    rows = [
        judgment("s1", verdict=None, status="unavailable", error="timed out"),
        judgment("s2", verdict=None, status="unavailable", error="timed out"),
        judgment("s1", attempt=2),
        judgment("s2", verdict=None, status="invalid", error="no JSON", attempt=2),
    ]
    keep(tmp_path, RUN, rows)
    attempts = "SELECT sample_id, attempt, last_attempt FROM judgment_attempts ORDER BY ALL"
    assert ask(tmp_path, attempts) == [("s1", 1, False), ("s1", 2, True), ("s2", 1, False), ("s2", 2, True)]
    assert ask(tmp_path, "SELECT sample_id, status, problem FROM failures") == [("s2", "invalid", "no JSON")]


def test_disagreements_are_samples_with_both_winners(tmp_path: Path) -> None:
    rows = [outcome("s1", "MHGM"), outcome("s2", "MMGB"), outcome("s3", "HHXH", "Human"), outcome("s4", "-MHM", None)]
    keep(tmp_path, RUN, rows)
    assert ask(tmp_path, "SELECT sample_id, model_dimensions, human_dimensions FROM disagreements") == [
        ("s1", ["faithfulness", "aesthetics"], ["conciseness"]),
        ("s4", ["conciseness", "aesthetics"], ["readability"]),
    ]


def test_unknown_price_is_null(tmp_path: Path) -> None:
    known: list[tuple[list[dict[str, Any]], float | None]] = [
        ([{"price": 0.25}, {"price": 0.5}], 0.75),
        ([{"price": 0.25}, {"price": None}], None),
        ([{"price": 0.0, "reused_from": EARLIER}], 0.0),
        ([{"price": 0.25}, {"price": None, "status": "unavailable", "verdict": None}], 0.25),
        ([{"price": None, "status": "unavailable", "verdict": None}], None),
    ]
    for day, (calls, _) in enumerate(known):
        rows = [judgment(f"s{number}", **call) for number, call in enumerate(calls)]
        write_run(tmp_path, start(f"2026112{day}T120000-diagram-0000aa"), [*rows], end())
    land(tmp_path)
    assert ask(tmp_path, "SELECT price FROM cost ORDER BY run_id") == [(price,) for _, price in known]


def test_spend_is_grouped_by_day_judge_tier_and_price_source(tmp_path: Path) -> None:
    table, day = "genai-prices 0.2.3: openai gpt-5, {}, 2026-11-20", "2026-11-20T23:59:59+00:00"
    at, nothing = "2026-11-19T12:00:30+00:00", {"price": 0.0, "tokens_in": 0, "tokens_cached": 0, "tokens_out": 0}
    standard = {"service_tier": "standard", "price_source": table.format("standard")}
    flex = {"service_tier": "flex", "price_source": table.format("flex"), "price": 0.1, "saved_by_service_tier": 0.1}
    rows = [
        judgment("s1", **flex, saved_by_cache=0.02, tokens_written=5, tokens_reasoning=7, judged_at=day),
        judgment("s2", **flex, estimated=0.3, saved_by_cache=-0.01, judged_at=day),
        judgment("s3", **flex, judged_at="2026-11-21T00:00:00+00:00"),
        judgment("s4", price=None, estimated=None, saved_by_service_tier=None, saved_by_cache=None, judged_at=day),
        judgment("s5", **standard, **nothing, saved_by_reuse=0.2, reused_from=EARLIER, judged_at=at),
    ]
    write_run(tmp_path, start(), rows, None)
    land(tmp_path)
    tokens = "tokens_in, tokens_written, tokens_reasoning"
    columns = f"strftime(\"day\", '%d'), service_tier, source, calls, reused, {tokens}"
    assert ask(tmp_path, f"SELECT {columns} FROM spend") == [
        ("21", "flex", "genai-prices 0.2.3", 1, 0, 1000, 0, 0), ("20", "", "", 1, 0, 1000, 0, 0),
        ("20", "flex", "genai-prices 0.2.3", 2, 0, 2000, 5, 7), ("20", "standard", "genai-prices 0.2.3", 0, 1, 0, 0, 0),
    ]  # fmt: skip
    amounts = "price, estimated, saved_by_reuse, saved_by_service_tier, saved_by_cache"
    assert ask(tmp_path, f"SELECT {amounts} FROM spend") == [
        (0.1, 0.0, 0.0, 0.1, 0.0), (None, None, 0.0, None, None), pytest.approx((0.2, 0.3, 0.0, 0.2, 0.01)),
        (0.0, 0.0, 0.2, 0.0, 0.0),
    ]  # fmt: skip


def test_spend_is_grouped_by_purpose(tmp_path: Path) -> None:
    def spent(run_id: str, *rows: Judgment, **changes: Any) -> None:
        write_run(tmp_path, start(run_id, **changes), [row.model_copy(update={"run_id": run_id}) for row in rows], None)

    spent(RUN, judgment(price=1.0), judgment(price=2.0, control=ANCHOR), judgment(price=4.0, control="same"))
    spent("20261120T13-diagram-b", judgment(price=8.0), made_for="bridge")
    spent("20261120T15-diagram-d", judgment(price=32.0), parameters={"quote": "pilot"})
    OTHER_CALLS.keep(tmp_path, [other_call("a", price=64.0, flow="diagram"), other_call("a", price=128.0)])
    OTHER_CALLS.keep(tmp_path, [other_call("b", price=None, purpose="passport", asked_by="p")])
    done = land(tmp_path)
    assert len(done.loaded) == 3 and done.besides["other_calls"] == ("a", "b")
    assert ask(tmp_path, "SELECT purpose, flow, calls, price FROM spend ORDER BY purpose, flow") == [
        ("anchors", "diagram", 1, 2.0), ("bridge", "diagram", 1, 8.0), ("passport", "", 1, None),
        ("pilot", "diagram", 1, 32.0), ("probe", "", 1, 128.0), ("probe", "diagram", 1, 64.0),
        ("run", "diagram", 2, 5.0),
    ]  # fmt: skip


def test_cost_counts_calls_without_reused_replies(tmp_path: Path) -> None:
    rows = [
        judgment("s1", price=0.25),
        judgment("s2", price=0.0, reused_from=EARLIER),
        judgment("s3", verdict=None, status="unavailable", judge_answered="", tokens_in=0, tokens_out=0, price=None),
    ]
    keep(tmp_path, RUN, rows)
    found = ask(tmp_path, "SELECT judge, calls, reused, tokens_in, tokens_out, seconds FROM cost")
    assert found == [("gpt-x", 1, 0, 0, 0, 2.0), ("gpt-x-1", 1, 1, 1000, 100, 2.0)]


# SQL and Python in agreement


PROTOCOLS = [
    ({}, {}), ({"a": "1"}, {"a": "1"}), ({"a": "1", "b": "2"}, {"b": "3", "c": "4"}),
    ({ASKED: "x", "model answered": "y"}, {ASKED: "z", "model answered": "y"}),
    ({"prompt b": "1", "prompt a": ""}, {"prompt b": "1"}),
]  # fmt: skip


def test_protocols_and_keys_are_equal_in_sql_and_python(store: Path) -> None:
    with held_open(store):
        sql = "SELECT protocol_differences(map($1::VARCHAR[], $2::VARCHAR[]), map($3::VARCHAR[], $4::VARCHAR[]))"
        for one, other in PROTOCOLS:
            given = [list(one), list(one.values()), list(other), list(other.values())]
            assert query(store, sql, values=given).rows == [(protocol_differences(one, other),)]
        sql = "SELECT joint_key(key, key <> '') FROM (SELECT unnest($1::VARCHAR[] || ['']) AS key)"
        for keys in (["k1"], ["k1", "k1"], ["k2", "k1"], ["k2", "k1", "k3", "k1"]):
            assert query(store, sql, values=[keys]).rows == [(joint_key(keys),)]


def test_dimensions_follow_the_order_of_the_evaluations_prompt_set(tmp_path: Path) -> None:
    """A prompt set gets a dimension between two sharded runs; each trend remains in one piece."""
    added = ("faithfulness", "novelty", *DIMENSIONS[1:])
    for day, names in (("19", DIMENSIONS), ("20", added)):
        for shard in (1, 2):
            part = {"evaluation_id": f"e{day}", "shard": shard, "shards": 2, "dimensions": names}
            rows = [outcome(f"s{shard}", dimensions=tuple(DimensionOutcome(
                dimension=name, verdict="Model", score=100.0, votes=1, ok_votes=1) for name in names))]  # fmt: skip
            begun = start(
                f"202611{day}T120000-diagram-0000a{shard}", started_at=f"2026-11-{day}T12:00:00+00:00", **part
            )
            write_run(tmp_path, begun, rows, end())
    land(tmp_path)
    sql = "SELECT dimension FROM leaderboard WHERE run_id = 'e20'"
    assert [name for (name,) in query(tmp_path, sql).rows] == [*added, OVERALL]
    trend = [tuple(row) for row in query(tmp_path, "SELECT dimension, run_id FROM trend").rows]
    seen = [name for name in (*added, OVERALL) for _ in range(1 if name == "novelty" else 2)]
    assert sorted(name for name, _ in trend) == sorted(seen)
    assert [name for name, _ in groupby(trend, key=lambda row: row[0])] == [*added, OVERALL]


def test_evaluation_has_the_same_runs_in_sql_and_python(tmp_path: Path) -> None:
    def shard(day: int, number: int, dataset: str = "d1", answered: str = "gpt-x-1", **ended: Any) -> None:
        run_id = f"202611{day:02}T120000-diagram-0000aa"
        part = {"evaluation_id": "nightly", "shard": number, "shards": 3, "dataset_key": dataset}
        begun = start(run_id, started_at=f"2026-11-{day:02}T12:00:00+00:00", **part)
        protocol = {"model answered": answered, "temperature": "1.0"}
        ends = f"2026-11-{day:02}T13:00:00+00:00"
        done = end(finished_at=ends, protocol=protocol, **ended) if ended else None
        write_run(tmp_path, begun, [outcome(f"s{day}")], done)

    shard(1, 1, protocol_key="p0", calls=1)
    shard(2, 2, protocol_key="p2", calls=10)
    shard(3, 1, protocol_key="p1", calls=100, reused=7)
    shard(4, 2, dataset="d2", protocol_key="p9", calls=1000)
    shard(5, 3, answered="", protocol_key="p3", calls=0)
    shard(6, 3)
    whole_run(tmp_path)
    land(tmp_path)
    with held_open(tmp_path):
        for evaluation_id in ("nightly", RUN):
            whole = read_evaluation(tmp_path, evaluation_id)
            runs = ask(tmp_path, f"SELECT run_id FROM shard_runs WHERE evaluation_id = '{evaluation_id}' ORDER BY 1")
            assert [run_id for (run_id,) in runs] == sorted(run.name for run in whole.folders)
            assert whole.end
            timed = "strftime({0}, '%Y-%m-%dT%H:%M:%S+00:00')"
            columns = "seconds, samples, protocol_key, calls, reused, len(warnings)"
            sql = f"""SELECT {timed.format("started_at")}, {timed.format("finished_at")}, {columns} FROM evaluations
                WHERE run_id = '{evaluation_id}'"""
            begun, ended = whole.start, whole.end
            rest = (ended.seconds, begun.samples, ended.protocol_key, ended.calls, ended.reused, len(ended.warnings))
            assert ask(tmp_path, sql) == [(begun.started_at, ended.finished_at, *rest)]


def test_anchors_and_candidate_have_scores_of_the_same_kind(tmp_path: Path) -> None:
    night = {"scheduled": True, "anchors_key": "a" * 64}
    for day, verdicts in enumerate(("MMHH", "HHHH", "MMMM")):
        anchors = [outcome("a1", verdicts, "Tie", control=ANCHOR), outcome("a2", "MG-M", None, control=ANCHOR)]
        replies = [
            judgment("a1", control=ANCHOR, system_fingerprint=f"fp_{day // 2}"),
            judgment("s1", system_fingerprint=f"fp_{day // 2}"),
            judgment("s2", system_fingerprint="old", reused_from="another run"),
        ]
        keys = night | ({"anchors_key": "b" * 64} if day == 2 else {})
        begun = start(f"2026112{day}T020000-diagram-0000aa", started_at=f"2026-11-2{day}T02:00:00+00:00", **keys)
        write_run(tmp_path, begun, [outcome("s1", "MMMH"), *anchors, *replies], end())
    land(tmp_path)
    sql = "SELECT anchors, judged, anchor_score, candidate_score, difference, comparable, fingerprints FROM anchors"
    assert ask(tmp_path, sql) == [
        (2, 1, 50.0, 75.0, 25.0, None, ["fp_0"]),
        (2, 1, 0.0, 75.0, 75.0, True, ["fp_0"]),
        (2, 1, 100.0, 75.0, -25.0, False, ["fp_1"]),
    ]
    found = ask(tmp_path, "SELECT system_fingerprint, replies, is_new FROM judge_versions ORDER BY run_id")
    assert found == [("fp_0", 2, None), ("fp_0", 2, False), ("fp_1", 2, True)]
    assert ask(tmp_path, "SELECT DISTINCT sample_id FROM outcomes") == [("s1",)]


def test_changes_lists_samples_with_another_outcome_and_their_pictures(tmp_path: Path) -> None:
    write_evaluations(tmp_path)
    columns = "sample_id, outcome_before, outcome, change, comparable, picture, picture_before, human_picture"
    [row] = ask(tmp_path, f"SELECT {columns} FROM changes")
    assert row[:5] == ("s2", "Tie", "Model", 50.0, True)
    assert all((tmp_path / place).is_file() for place in row[5:])
    [worst] = ask(tmp_path, "SELECT picture FROM samples WHERE flow = 'counting' ORDER BY score LIMIT 1")
    assert (tmp_path / worst[0]).is_file()
