"""The history as real files: what is loaded from ledgers, what the views make of it, and who may hold it when."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest
from factories import DIMENSIONS, RUN, end, judgment, outcome, picture, start, write_run
from pydantic import BaseModel

from tasks.controls.status import ControlRow
from tasks.errors import HistoryLocked
from tasks.history.asking import as_json_rows, catalog, query
from tasks.history.database import HISTORY
from tasks.history.loading import Synced, pending, store_run, sync
from tasks.ledger.files import read_judgments, read_outcomes
from tasks.records import (
    AspectScore,
    DimensionOutcome,
    Judgment,
    Outcome,
    PictureNote,
    RunEnd,
    RunStart,
    Seen,
    SeenObject,
)
from tasks.statistics.image_scores import GradeRow
from tasks.statistics.rates import RateRow
from tasks.statistics.scores import ScoreRow

EARLIER, LATER = "20261119T120000-diagram-0000aa", "20261121T120000-diagram-0000aa"
TABLES = ("runs", "judgments", "outcomes", "scores", "pictures")


def ask(store: Path, sql: str) -> list[tuple[Any, ...]]:
    return query(store, sql, wait_seconds=5).rows


def whole_run(store: Path, run_id: str = RUN, **changes: Any) -> Path:
    """A finished run of one sample, judged Model throughout."""
    rows = [judgment("s1", dimension) for dimension in DIMENSIONS]
    return write_run(store, start(run_id, samples=1, **changes), [*rows, outcome("s1")], end())


# What is loaded


def test_every_field_of_the_records_has_its_column(tmp_path: Path) -> None:
    whole_run(tmp_path)
    sync(tmp_path)

    def columns(table: str) -> set[str]:
        return {name for (name,) in ask(tmp_path, f"SELECT column_name FROM (DESCRIBE {table})")}

    def fields(*kinds: type[BaseModel]) -> set[str]:
        return {info.serialization_alias or name for kind in kinds for name, info in kind.model_fields.items()}

    assert columns("runs") == fields(RunStart, RunEnd) | {"status", "ledger_bytes", "judge_key"}
    assert columns("judgments") == fields(Judgment) | {"last_attempt"}
    assert columns("outcomes") == fields(Outcome) - {"control"}
    assert columns("controls") == fields(ControlRow) | {"run_id"}
    assert columns("(SELECT unnest(dimensions, max_depth := 2) FROM controls)") == fields(DimensionOutcome)
    assert columns("scores") == fields(ScoreRow, GradeRow) | {"run_id"}
    assert columns("rates") == fields(RateRow) | {"run_id"}
    assert columns("pictures") == fields(PictureNote) | {"thumbnail"}
    assert columns("(SELECT unnest(pictures['human']) FROM judgments)") == fields(PictureNote)
    assert columns("(SELECT unnest(pictures['human']) FROM outcomes)") == fields(PictureNote)
    assert columns("(SELECT unnest(dimensions, max_depth := 2) FROM outcomes)") == fields(DimensionOutcome)
    assert columns("(SELECT unnest(aspects, max_depth := 2) FROM outcomes)") == fields(AspectScore)
    assert columns("(SELECT unnest(scores, max_depth := 2) FROM judgments)") == fields(AspectScore)
    assert columns("(SELECT unnest([seen], max_depth := 2) FROM judgments)") == fields(Seen)
    assert columns("(SELECT unnest(seen.objects, max_depth := 2) FROM judgments)") == fields(SeenObject)


def test_everything_in_the_history_is_explained(tmp_path: Path) -> None:
    whole_run(tmp_path)
    sync(tmp_path)
    assert [entry.name for entry in catalog(tmp_path) if not entry.comment] == []
    uncommented = "SELECT table_name, column_name FROM duckdb_columns() WHERE comment IS NULL AND table_name IN "
    assert ask(tmp_path, f"{uncommented} (SELECT table_name FROM duckdb_tables())") == []


def test_rows_come_back_as_they_went_in(tmp_path: Path) -> None:
    strange = (
        "tabs\t, \"quotes\", 'single', line\nbreaks, nul \x00, \u4e2d\u6587 \U0001f600, \\u0041, " + "long " * 50_000
    )
    rows = [
        judgment("s1", raw=strange, reasoning=strange, price=None),
        judgment("s2", verdict=None, status="refused", error="it's refused; DROP TABLE runs", pictures={}),
        outcome("s1", caption=strange, notes=("a", "b"), injected="blur", caught=True),
        outcome("s2", "-GXB", None, status="incomplete", problem="it's gone"),
    ]
    run = write_run(tmp_path, start(), rows, end())
    store_run(tmp_path, RUN)
    timed = "strftime({0}, '%Y-%m-%dT%H:%M:%S+00:00') AS {0}"
    judgments = query(tmp_path, f"SELECT * EXCLUDE last_attempt REPLACE ({timed.format('judged_at')}) FROM judgments")
    outcomes = query(tmp_path, f"SELECT * REPLACE ({timed.format('decided_at')}) FROM outcomes")
    assert [Judgment.model_validate(row) for row in as_json_rows(judgments)] == list(read_judgments(run))
    assert [Outcome.model_validate(row) for row in as_json_rows(outcomes)] == list(read_outcomes(run))


def test_the_stored_ledger_of_schema_1_loads(tmp_path: Path) -> None:
    (tmp_path / "ledger").symlink_to(Path(__file__).parent / "ledgers" / "1")
    assert sync(tmp_path) == Synced(("20261120T190000-diagram-4f2a1b",), ())
    board = "SELECT dimension, n, scored, model_wins, human_wins, both_good, both_bad, forfeits, score FROM leaderboard"
    assert ask(tmp_path, board) == [
        ("faithfulness", 3, 3, 1, 0, 1, 0, 1, 50.0),
        ("conciseness", 3, 3, 0, 1, 1, 0, 1, pytest.approx(50 / 3)),
        ("readability", 3, 2, 1, 0, 0, 0, 1, 50.0),
        ("aesthetics", 3, 3, 0, 1, 0, 1, 1, pytest.approx(50 / 3)),
        ("overall", 3, 2, 1, 0, 0, 0, 1, 50.0),
    ]
    assert ask(tmp_path, "SELECT calls, reused, tokens_in, price FROM cost") == [(8, 1, 8000, None)]
    assert ask(tmp_path, "SELECT kind, status, sample_id FROM failures ORDER BY ALL") == [
        ("judgment", "refused", "s2"),
        ("outcome", "forfeit", "s3"),
    ]


def test_the_stored_ledger_of_schema_2_loads(tmp_path: Path) -> None:
    (tmp_path / "ledger").symlink_to(Path(__file__).parent / "ledgers" / "2")
    assert sync(tmp_path) == Synced(("20261120T220000-position-5c0d2e",), ())
    board = "SELECT candidate, tag, score, aspect_mean, satisfied, n, scored, len(missing) FROM t2i_leaderboard"
    assert ask(tmp_path, board) == [
        ("steady", "position", 9.0, 8.5, 1.0, 2, 1, None),
        ("careless", "position", 2.0, pytest.approx(18.5 / 3), 0.0, 1, 1, None),
        ("careless", "overall", None, None, None, 1, 1, 5),
        ("steady", "overall", None, None, None, 2, 1, 5),
    ]
    assert ask(tmp_path, "SELECT DISTINCT seen.objects[1].color, seen.relation_holds FROM judgments ORDER BY ALL") == [
        ("brown", False),
        ("brown", True),
        (None, None),
    ]
    assert ask(tmp_path, "SELECT count(*), count(DISTINCT aspect) FROM aspect_scores") == [(8, 4)]
    assert ask(tmp_path, "SELECT kind, status, sample_id FROM failures") == [("outcome", "bad_picture", "00001/none")]


def test_the_stored_ledger_of_schema_3_loads(tmp_path: Path) -> None:
    """Two samples in both orders with two votes each, one of them refused, and a forfeit."""
    run_id = "20261121T080000-diagram-7a30c9"
    (tmp_path / "ledger").symlink_to(Path(__file__).parent / "ledgers" / "3")
    assert sync(tmp_path) == Synced((run_id,), ())
    outcomes = "SELECT sample_id, overall, published, p_model, p_tie, p_human, pivotal FROM outcomes ORDER BY sample_id"
    assert ask(tmp_path, outcomes) == [
        # Readability is Human in one order and Model in the other: drawn, it leaves a win or a tie that tier 2 decides
        # by aesthetics, Model in half of the votes and neutral in the others.
        ("test_0", "Model", "Model", 0.75, 0.25, 0.0, ["faithfulness", "readability"]),
        # Were readability Model, tier 2 would say Human still.
        ("test_1", "Human", "Human", 0.0, 0.0, 1.0, ["faithfulness"]),
        ("test_2", None, None, None, None, None, []),
    ]
    scores = "SELECT measure, dimension, score, n, scored, mixed FROM by_group WHERE \"grouping\" = 'all'"
    assert ask(tmp_path, f"{scores} AND dimension IN ('readability', 'overall') ORDER BY ALL") == [
        ("published", "overall", pytest.approx(100 / 3), 3, 3, 0),
        ("published", "readability", pytest.approx(50 / 3), 3, 3, 0),
        ("score", "overall", pytest.approx(100 / 3), 3, 3, 0),
        ("score", "readability", pytest.approx(100 / 3), 3, 3, 1),
    ]
    assert ask(tmp_path, "SELECT dimension, count(*) FROM leaderboard GROUP BY ALL HAVING count(*) > 1") == []
    assert ask(tmp_path, "SELECT dimension, count(*) FROM trend GROUP BY ALL HAVING count(*) > 1") == []
    rates = "SELECT measure, value, n FROM reliability WHERE dimension = 'readability' OR measure = 'tier_1'"
    assert ask(tmp_path, f"{rates} ORDER BY ALL") == [
        ("first_position", 1.0, 1),
        ("order_flip", 0.5, 2),
        ("pivotal", 0.5, 2),
        ("repeat_agreement", 1.0, 2),
        ("reversal", 0.5, 2),
        ("tier_1", 1.0, 2),
    ]
    before = ask(tmp_path, "FROM rates ORDER BY ALL")
    store_run(tmp_path, run_id)
    assert ask(tmp_path, "FROM rates ORDER BY ALL") == before


def test_rates_and_published_scores_go_by_the_evaluation_and_only_by_what_was_repeated(tmp_path: Path) -> None:
    def shard(number: int, *rows: Judgment | Outcome) -> None:
        run_id = f"2026112{number}T120000-diagram-0000aa"
        part = {"evaluation_id": "nightly", "shard": number, "shards": 2, "parameters": {"votes": 2}}
        write_run(tmp_path, start(run_id, **part), list(rows), end())

    votes = [judgment("s1", verdict=verdict, vote=vote) for vote, verdict in ((1, "Model"), (2, "Model"))]
    shard(1, *votes, outcome("s1", published="Human"))
    votes = [judgment("s2", verdict=verdict, vote=vote) for vote, verdict in ((1, "Model"), (2, "Human"))]
    shard(2, *votes, outcome("s2", published="Model"))
    sync(tmp_path)
    assert ask(tmp_path, "SELECT run_id, measure, dimension, n, value FROM reliability ORDER BY dimension") == [
        ("nightly", "repeat_agreement", "faithfulness", 2, 0.5),
        ("nightly", "repeat_agreement", "overall", 2, 0.5),
    ]
    published = "SELECT run_id, dimension, n, score FROM by_group WHERE measure = 'published'"
    assert ask(tmp_path, published) == [("nightly", "overall", 2, 50.0)]


def test_a_run_that_asked_once_has_no_published_score_beside_its_own(tmp_path: Path) -> None:
    write_run(tmp_path, start(), [outcome("s1", published="Model", p_model=1.0, p_tie=0.0, p_human=0.0)], end())
    sync(tmp_path)
    assert ask(tmp_path, "SELECT DISTINCT measure FROM scores") == [("score",)]
    assert ask(tmp_path, "SELECT measure FROM rates WHERE dimension = 'overall' ORDER BY 1") == [
        ("p_human",),
        ("p_model",),
        ("p_tie",),
        ("pivotal",),
        ("tier_1",),
    ]


def test_a_torn_last_line_is_ignored(tmp_path: Path) -> None:
    run = whole_run(tmp_path)
    with (run / "judgments.jsonl").open("ab") as file:
        file.write(judgment("torn").model_dump_json().encode()[:300])
    assert sync(tmp_path).damaged == ()
    assert ask(tmp_path, "SELECT DISTINCT sample_id FROM judgments") == [("s1",)]


def test_loading_a_run_again_replaces_it(tmp_path: Path) -> None:
    whole_run(tmp_path, EARLIER)
    whole_run(tmp_path)
    for run_id in (RUN, EARLIER, RUN):
        store_run(tmp_path, run_id)
    assert [ask(tmp_path, f"SELECT count(*) FROM {table}")[0][0] for table in TABLES] == [2, 8, 2, 10, 2]


def test_a_picture_has_one_row_for_each_form_it_was_sent_in(tmp_path: Path) -> None:
    sent_smaller = picture("s1h").model_copy(update={"sent_sha256": "5" * 64, "changes": ("resized",)})
    whole_run(tmp_path, EARLIER)
    write_run(tmp_path, start(), [outcome("s1", pictures={"human": sent_smaller, "model": picture("s1m")})], end())
    sync(tmp_path)
    source, other = picture("s1h").source_sha256, picture("s1m").source_sha256
    assert sorted(ask(tmp_path, "SELECT thumbnail, changes FROM pictures")) == [
        (f"pictures/{source}.jpg", []),
        (f"pictures/{source}.jpg", ["resized"]),
        (f"pictures/{other}.jpg", []),
    ]


# What the views make of it


def test_counts_add_up_to_scored_and_only_scored_samples_count(tmp_path: Path) -> None:
    rows = [
        outcome("s1", "MGMH", "Model", category="vision", difficulty="hard"),
        outcome("s2", "HBXH", "Human", category="vision", difficulty="easy"),
        outcome("s3", "GBMH", "Tie", category="science"),
        outcome("s4", "-M-G", None, status="incomplete", category="science", difficulty="easy"),
        outcome("s5", "----", None, status="forfeit", category="vision", difficulty="hard"),
        outcome("s6", "----", None, status="no_reference", category="vision", difficulty="hard"),
        outcome("s7", "----", None, status="bad_picture", difficulty="hard"),
    ]
    write_run(tmp_path, start(), rows, end())
    store_run(tmp_path, RUN)
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
    assert ask(tmp_path, f"SELECT category, n, scored, score FROM by_category {overall}") == [
        ("science", 2, 1, 50.0),
        ("vision", 4, 3, pytest.approx(100 / 3)),
    ]
    assert ask(tmp_path, f"SELECT difficulty, n, scored, score FROM by_difficulty {overall}") == [
        ("easy", 2, 1, 0.0),
        ("hard", 4, 2, 50.0),
    ]
    assert query(tmp_path, "coverage").rows[0][4:] == (7, 4, 4 / 7, 3, 1, 1, 1, 1)
    assert ask(tmp_path, "SELECT dimension, verdict, score FROM verdicts WHERE sample_id = 's2' ORDER BY score, 1") == [
        ("aesthetics", "Human", 0.0),
        ("faithfulness", "Human", 0.0),
        ("overall", "Human", 0.0),
        ("conciseness", "Both are bad", 50.0),
        ("readability", "Mixed", 50.0),
    ]
    kinds = "SELECT sample_id, status FROM failures WHERE kind = 'outcome' ORDER BY 1"
    assert ask(tmp_path, kinds) == [("s5", "forfeit"), ("s6", "no_reference"), ("s7", "bad_picture")]


def test_candidates_are_scored_apart(tmp_path: Path) -> None:
    rows = [outcome("s1"), outcome("s1", "HHHH", "Human", candidate="beta")]
    write_run(tmp_path, start(candidates=("alpha", "beta")), rows, end())
    store_run(tmp_path, RUN)
    found = ask(tmp_path, "SELECT candidate, n, score FROM leaderboard WHERE dimension = 'overall'")
    assert found == [("alpha", 1, 100.0), ("beta", 1, 0.0)]


def test_an_unfinished_run_is_in_runs_and_failures_alone(tmp_path: Path) -> None:
    write_run(tmp_path, start(), [judgment(), outcome("s1", "MHMH"), outcome("s2", "MHMH", None)], None)
    sync(tmp_path)
    assert ask(tmp_path, "SELECT status, finished_at, protocol_key, calls FROM runs") == [("unfinished",) + (None,) * 3]
    filled = {entry.name for entry in catalog(tmp_path) if entry.kind == "view" and query(tmp_path, entry.name).rows}
    assert filled == {"failures"}
    assert ask(tmp_path, "SELECT kind, status, run_id FROM failures") == [("run", "unfinished", RUN)]
    assert pending(tmp_path) == []


def test_the_last_attempt_counts_and_all_are_kept(tmp_path: Path) -> None:
    rows = [
        judgment("s1", verdict=None, status="unavailable", error="timed out"),
        judgment("s2", verdict=None, status="unavailable", error="timed out"),
        judgment("s1", attempt=2),
        judgment("s2", verdict=None, status="invalid", error="no JSON", attempt=2),
    ]
    write_run(tmp_path, start(), rows, end())
    store_run(tmp_path, RUN)
    attempts = "SELECT sample_id, attempt, last_attempt FROM judgment_attempts ORDER BY ALL"
    assert ask(tmp_path, attempts) == [("s1", 1, False), ("s1", 2, True), ("s2", 1, False), ("s2", 2, True)]
    assert ask(tmp_path, "SELECT sample_id, status, problem FROM failures") == [("s2", "invalid", "no JSON")]


def test_disagreements_are_samples_with_both_winners(tmp_path: Path) -> None:
    rows = [outcome("s1", "MHGM"), outcome("s2", "MMGB"), outcome("s3", "HHXH", "Human"), outcome("s4", "-MHM", None)]
    write_run(tmp_path, start(), rows, end())
    store_run(tmp_path, RUN)
    assert ask(tmp_path, "SELECT sample_id, model_dimensions, human_dimensions FROM disagreements") == [
        ("s1", ["faithfulness", "aesthetics"], ["conciseness"]),
        ("s4", ["conciseness", "aesthetics"], ["readability"]),
    ]


@pytest.mark.parametrize(
    ("calls", "price"),
    [
        ([{"price": 0.25}, {"price": 0.5}], 0.75),
        ([{"price": 0.25}, {"price": None}], None),
        ([{"price": 0.0, "reused_from": EARLIER}], 0.0),
        ([{"price": 0.25}, {"price": None, "status": "unavailable", "verdict": None}], 0.25),
        ([{"price": None, "status": "unavailable", "verdict": None}], None),
    ],
)
def test_an_unknown_price_is_never_a_number(tmp_path: Path, calls: list[dict[str, Any]], price: float | None) -> None:
    rows = [judgment(f"s{number}", **call) for number, call in enumerate(calls)]
    write_run(tmp_path, start(), rows, end())
    store_run(tmp_path, RUN)
    assert ask(tmp_path, "SELECT price FROM cost") == [(price,)]


def test_cost_counts_calls_and_not_what_was_reused(tmp_path: Path) -> None:
    rows = [
        judgment("s1", price=0.25),
        judgment("s2", price=0.0, reused_from=EARLIER),
        judgment("s3", verdict=None, status="unavailable", model_answered="", tokens_in=0, tokens_out=0, price=None),
    ]
    write_run(tmp_path, start(), rows, end())
    store_run(tmp_path, RUN)
    assert ask(tmp_path, "SELECT model, calls, reused, tokens_in, tokens_out, seconds FROM cost") == [
        ("gpt-x", 1, 0, 0, 0, 2.0),
        ("gpt-x-1", 1, 1, 1000, 100, 2.0),
    ]


def test_trend_says_which_rows_compare_and_leaves_out_what_was_reused(tmp_path: Path) -> None:
    def night(day: int, protocol: str, dataset: str, calls: int = 4, model: str = "gpt-x") -> None:
        run_id = f"202611{day}T120000-diagram-0000aa"
        begun = start(run_id, started_at=f"2026-11-{day}T12:00:00+00:00", dataset_key=dataset, model=model)
        write_run(tmp_path, begun, [outcome()], end(protocol_key=protocol, calls=calls, reused=4 - calls))

    night(10, "p1", "d1")
    night(11, "p1", "d1")
    night(12, "p2", "d1")
    night(13, "p2", "d1", calls=0)
    night(14, "p9", "d1", model="other")
    night(15, "p2", "d1")
    night(16, "p2", "d2")
    sync(tmp_path)
    found = ask(tmp_path, "SELECT day(started_at), model, comparable FROM trend WHERE dimension = 'overall'")
    assert found == [
        (10, "gpt-x", None),
        (11, "gpt-x", True),
        (12, "gpt-x", False),
        (15, "gpt-x", True),
        (16, "gpt-x", False),
        (14, "other", None),
    ]


# What a sync finds


def test_sync_loads_what_is_new_grown_or_finished_and_nothing_else(tmp_path: Path) -> None:
    whole_run(tmp_path, EARLIER)
    growing = write_run(tmp_path, start(), [judgment("s1")], None)
    assert pending(tmp_path) == [EARLIER]
    assert sync(tmp_path).loaded == (EARLIER, RUN)
    assert sync(tmp_path).loaded == ()

    with (growing / "judgments.jsonl").open("a") as file:
        file.write(judgment("s2").model_dump_json() + "\n")
    assert sync(tmp_path).loaded == (RUN,)
    assert ask(tmp_path, f"SELECT count(*) FROM judgments WHERE run_id = '{RUN}'") == [(2,)]

    (growing / "end.json").write_text(end().model_dump_json())
    assert pending(tmp_path) == [RUN]
    assert sync(tmp_path).loaded == (RUN,)
    assert ask(tmp_path, f"SELECT status FROM runs WHERE run_id = '{RUN}'") == [("finished",)]
    assert (sync(tmp_path).loaded, pending(tmp_path)) == ((), [])


@pytest.mark.parametrize(
    ("file", "line", "said"),
    [
        ("judgments.jsonl", "no JSON at all", "Expecting value"),
        ("judgments.jsonl", '{"schema": 7}', "line 5: ledger schema 7"),
        ("judgments.jsonl", '{"schema": 1, "sample_id": "s9"}', "NOT NULL constraint failed"),
        ("judgments.jsonl", '{"schema": 1, "vote": "first"}', 'judgments.jsonl", in line 5: Failed to cast'),
        ("outcomes.jsonl", '{"schema": 1, "dimensions": 3}', "outcomes.jsonl"),
        ("run.json", "and more", "Extra data"),
    ],
)
def test_a_damaged_ledger_is_named_and_stops_no_other(tmp_path: Path, file: str, line: str, said: str) -> None:
    damaged = whole_run(tmp_path)
    whole_run(tmp_path, LATER)
    with (damaged / file).open("a") as rows:
        rows.write(line + "\n")
    found = sync(tmp_path)
    assert found.loaded == (LATER,)
    (sentence,) = found.damaged
    assert str(damaged) in sentence
    assert said in sentence
    with pytest.raises(ValueError, match=RUN):
        store_run(tmp_path, RUN)


def contents(store: Path) -> dict[str, list[str]]:
    return {table: sorted(map(repr, ask(store, f"FROM {table}"))) for table in TABLES}


def test_a_rebuild_gives_the_same_rows(tmp_path: Path) -> None:
    rows = [outcome(f"s{n}", "MGHX"[n % 4] * 4, ("Model", "Tie", "Human", "Tie")[n % 4]) for n in range(40)]
    write_run(tmp_path, start(), [judgment(), *rows], end())
    whole_run(tmp_path, EARLIER)
    write_run(tmp_path, start(LATER), [judgment()], None)
    for run_id in (LATER, RUN, EARLIER):
        store_run(tmp_path, run_id)
    before = contents(tmp_path)
    assert sync(tmp_path, rebuild=True) == Synced((EARLIER, RUN, LATER), ())
    assert contents(tmp_path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [HISTORY, "ledger"]


def test_a_rebuild_replaces_what_is_no_history(tmp_path: Path) -> None:
    whole_run(tmp_path)
    (tmp_path / HISTORY).write_bytes(b"something else altogether" * 1000)
    with pytest.raises(ValueError, match=r"cannot be opened: .*`jury sync --rebuild`"):
        sync(tmp_path)
    assert sync(tmp_path, rebuild=True).loaded == (RUN,)
    assert ask(tmp_path, "SELECT run_id FROM runs") == [(RUN,)]


def test_a_history_of_another_version_asks_for_a_rebuild(tmp_path: Path) -> None:
    whole_run(tmp_path)
    with duckdb.connect(tmp_path / HISTORY) as db:
        db.execute("CREATE TABLE runs (run_id VARCHAR)")
    for load in (lambda: store_run(tmp_path, RUN), lambda: sync(tmp_path)):
        with pytest.raises(ValueError, match="another version of Image Jury; `jury sync --rebuild`"):
            load()
    assert sync(tmp_path, rebuild=True).loaded == (RUN,)
    assert sync(tmp_path) == Synced((), ())


def test_a_rebuild_from_no_ledger_that_can_be_read_leaves_the_history_alone(tmp_path: Path) -> None:
    run = whole_run(tmp_path)
    sync(tmp_path)
    (run / "run.json").write_text("torn")
    assert len(sync(tmp_path, rebuild=True).damaged) == 1
    run.rename(tmp_path / "elsewhere")
    assert sync(tmp_path, rebuild=True) == Synced((), ())
    assert ask(tmp_path, "SELECT run_id FROM runs") == [(RUN,)]


def test_the_file_is_of_the_storage_version_that_older_clients_open(tmp_path: Path) -> None:
    whole_run(tmp_path)
    for rebuild in (False, True):
        sync(tmp_path, rebuild)
        tags = ask(tmp_path, "SELECT tags['storage_version'] FROM duckdb_databases() WHERE database_name = 'history'")
        assert tags[0][0].startswith("v1.0.0")


# Who may hold it when

HOLD = """
import duckdb, sys
db = duckdb.connect(sys.argv[1], read_only=sys.argv[2] == "read")
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held(store: Path, mode: str) -> Iterator[subprocess.Popen[str]]:
    """The history held open by another process, until its input is closed."""
    command = [sys.executable, "-c", HOLD, str(store / HISTORY), mode]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == "held\n"
        yield holder
        holder.communicate()


@pytest.mark.parametrize("mode", ["read", "write"])
def test_a_history_in_use_is_not_written_and_its_holder_is_named(tmp_path: Path, mode: str) -> None:
    whole_run(tmp_path, EARLIER)
    sync(tmp_path)
    whole_run(tmp_path)
    with held(tmp_path, mode) as holder:
        for load in (
            lambda: store_run(tmp_path, RUN, wait_seconds=0.2),
            lambda: sync(tmp_path, wait_seconds=0.2),
            lambda: sync(tmp_path, rebuild=True, wait_seconds=0.2),
        ):
            with pytest.raises(HistoryLocked, match=rf"{HISTORY} is in use: .*python.* \(PID {holder.pid}\)"):
                load()
    assert pending(tmp_path) == [RUN]
    assert sync(tmp_path).loaded == (RUN,)


def test_readers_share_the_history_and_a_writer_keeps_them_out(tmp_path: Path) -> None:
    whole_run(tmp_path)
    sync(tmp_path)
    with held(tmp_path, "read"):
        assert query(tmp_path, "SELECT run_id FROM runs", wait_seconds=0).rows == [(RUN,)]
    with held(tmp_path, "write") as holder, pytest.raises(HistoryLocked, match=f"PID {holder.pid}"):
        query(tmp_path, "runs", wait_seconds=0.1)


def test_whoever_finds_the_history_in_use_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole_run(tmp_path, EARLIER)
    sync(tmp_path)
    whole_run(tmp_path)
    waits: list[float] = []
    with held(tmp_path, "write") as holder:

        def release(seconds: float) -> None:
            waits.append(seconds)
            holder.communicate()

        monkeypatch.setattr("tasks.history.database.time.sleep", release)
        store_run(tmp_path, RUN, wait_seconds=30)
    assert len(waits) == 1
    assert pending(tmp_path) == []


@pytest.mark.parametrize("read_only", [True, False])
def test_a_connection_of_this_process_counts_as_a_holder(tmp_path: Path, read_only: bool) -> None:
    whole_run(tmp_path)
    sync(tmp_path)
    with duckdb.connect(tmp_path / HISTORY, read_only=read_only):
        for use in (lambda: store_run(tmp_path, RUN, 0.1), lambda: query(tmp_path, "runs", 0.1)):
            with pytest.raises(HistoryLocked, match=rf"this process \(PID {os.getpid()}\)"):
                use()


def test_two_processes_that_store_at_once_both_land(tmp_path: Path) -> None:
    runs = (EARLIER, RUN)
    for run_id in runs:
        whole_run(tmp_path, run_id)
    code = "import sys, pathlib, tasks.history.loading as s; s.store_run(pathlib.Path(sys.argv[1]), sys.argv[2], wait_seconds=60)"
    with (
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), EARLIER]) as one,
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path), RUN]) as other,
    ):
        assert (one.wait(), other.wait()) == (0, 0)
    assert [run_id for (run_id,) in ask(tmp_path, "SELECT run_id FROM runs ORDER BY run_id")] == list(runs)
    assert pending(tmp_path) == []
