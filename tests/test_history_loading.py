"""What a run and a sync bring from ledgers into the history, as real files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
from factories import RUN, end, image, judgment, line, outcome, picture, start, write_run
from written_history import ask, whole_run

from tasks.errors import InputError
from tasks.history import database
from tasks.history.asking import as_json_rows, query
from tasks.history.database import HISTORY
from tasks.history.loading import Synced, pending, store_run, sync
from tasks.judging.results import Results
from tasks.ledger.reading import read_judgments, read_outcomes
from tasks.ledger.writing import write_record
from tasks.records import (
    Judgment,
    Outcome,
    RunStart,
    Seen,
    SeenObject,
)

pytestmark = pytest.mark.usefixtures("laid_out")

EARLIER, LATER = "20261119T120000-diagram-0000aa", "20261121T120000-diagram-0000aa"


TABLES = ("runs", "judgments", "outcomes", "scores", "pictures")


# What is loaded


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


@pytest.mark.parametrize("count", [10**30, 2**31, -5])
def test_a_row_with_numbers_that_cannot_be_is_loaded_without_them(tmp_path: Path, count: int) -> None:
    """Rows were once written as the judge counted; a run that holds one was left out for good."""
    seen = Seen(objects=(SeenObject(name="dog", present=True, count=count, color=""),))
    rows = [
        judgment("s1", tokens_in=count, price=count / 1e6),
        judgment("s2", tokens_out=count, tokens_cached=count),
        judgment("s3", seen=seen),
        judgment("s4", tokens_in=2**31 - 1),
    ]
    run = write_run(tmp_path, start(), rows, end())
    assert sync(tmp_path) == Synced((RUN,), ())
    told = "SELECT tokens_in, tokens_out, tokens_cached, price, seen FROM judgments ORDER BY sample_id"
    assert ask(tmp_path, told) == [
        (0, 100, 10, None, None),
        (1000, 0, 0, None, None),
        (1000, 100, 10, 0.25, None),
        (2**31 - 1, 100, 10, 0.25, None),
    ]
    assert [row.tokens_in for row in read_judgments(run)] == [0, 1000, 1000, 2**31 - 1]


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
        ("chance_agreement", 0.5, 2),
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


@pytest.mark.parametrize(
    ("schema", "told"), [("4", [(None, 31)]), *((schema, [("fp_1", 19), ("fp_2", 12)]) for schema in "56")]
)
def test_the_stored_ledgers_since_schema_4_load(tmp_path: Path, schema: str, told: list[Any]) -> None:
    (tmp_path / "ledger").symlink_to(Path(__file__).parent / "ledgers" / schema)
    synced = sync(tmp_path)
    assert len(synced.loaded) == 1 and not synced.left_out
    assert ask(tmp_path, "SELECT sample_id, overall FROM outcomes ORDER BY 1") == [
        ("test_0", "Model"),
        ("test_1", "Human"),
        ("test_2", None),
    ]
    fingerprints = "SELECT system_fingerprint, count(*) FROM judgments WHERE status = 'ok' GROUP BY 1 ORDER BY 1"
    assert ask(tmp_path, fingerprints) == told


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
    assert ask(tmp_path, "SELECT run_id, measure, dimension, n, value FROM reliability ORDER BY ALL") == [
        ("nightly", "chance_agreement", "faithfulness", 2, 0.625),
        ("nightly", "chance_agreement", "overall", 2, 0.625),
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
    assert sync(tmp_path).left_out == ()
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


# What a sync finds


def test_sync_loads_what_is_new_grown_or_finished_and_nothing_else(tmp_path: Path) -> None:
    whole_run(tmp_path, EARLIER)
    growing = write_run(tmp_path, start(), [judgment("s1")], None)
    assert pending(tmp_path) == [EARLIER]
    assert sync(tmp_path).loaded == (EARLIER, RUN)
    assert sync(tmp_path).loaded == ()

    with (growing / "judgments.jsonl").open("a") as file:
        file.write(line(judgment("s2")))
    assert sync(tmp_path).loaded == (RUN,)
    assert ask(tmp_path, f"SELECT count(*) FROM judgments WHERE run_id = '{RUN}'") == [(2,)]

    write_record(growing / "end.json", end(ledger_rows={"judgments.jsonl": 2}))
    assert pending(tmp_path) == [RUN]
    assert sync(tmp_path).loaded == (RUN,)
    assert ask(tmp_path, f"SELECT status FROM runs WHERE run_id = '{RUN}'") == [("finished",)]
    assert (sync(tmp_path).loaded, pending(tmp_path)) == ((), [])


@pytest.mark.parametrize(
    ("file", "line", "said"),
    [
        ("judgments.jsonl", "no JSON at all", "expected ident"),
        ("judgments.jsonl", '{"schema": 7}', "line 5: ledger schema 7"),
        ("judgments.jsonl", '{"schema": 1, "sample_id": "s9"}', "NOT NULL constraint failed"),
        ("judgments.jsonl", '{"schema": 1, "vote": "first"}', 'judgments.jsonl", in line 5: Failed to cast'),
        ("outcomes.jsonl", '{"schema": 1, "dimensions": 3}', "outcomes.jsonl"),
        ("run.json", "and more", "trailing characters"),
    ],
)
def test_a_damaged_ledger_is_named_and_stops_no_other(tmp_path: Path, file: str, line: str, said: str) -> None:
    damaged = whole_run(tmp_path)
    whole_run(tmp_path, LATER)
    with (damaged / file).open("a") as rows:
        rows.write(line + "\n")
    found = sync(tmp_path)
    assert found.loaded == (LATER,)
    (sentence,) = found.left_out
    assert str(damaged) in sentence
    assert said in sentence
    with pytest.raises(ValueError, match=RUN):
        store_run(tmp_path, RUN)


def test_a_row_that_is_refused_far_down_is_told_by_its_line_and_nothing_of_its_run_is_loaded(tmp_path: Path) -> None:
    damaged = write_run(tmp_path, start(), [judgment(f"s{number}") for number in range(2_500)], None)
    with (damaged / "judgments.jsonl").open("a") as rows:
        rows.write('{"schema": 1, "vote": "first"}\n')
    whole_run(tmp_path, LATER)
    found = sync(tmp_path)
    assert found.loaded == (LATER,)
    [sentence] = found.left_out
    assert f'{damaged}/judgments.jsonl", in line 2501: Failed to cast' in sentence
    assert ask(tmp_path, "SELECT DISTINCT run_id FROM judgments") == [(LATER,)]


def test_the_last_attempt_is_found_among_the_attempts_of_one_call(tmp_path: Path) -> None:
    calls: list[dict[str, Any]] = [
        {},
        {"candidate": "beta"},
        {"sample_id": "s2"},
        {"control": "anchor"},
        {"dimension": "readability"},
        {"order": "model_first"},
        {"vote": 2},
    ]
    rows = [
        judgment(attempt=attempt, **call) for number, call in enumerate(calls) for attempt in range(1, 2 + number % 3)
    ]
    write_run(tmp_path, start(), rows, end())
    store_run(tmp_path, RUN)
    of_call = 'PARTITION BY candidate, sample_id, "control", dimension, "order", vote'
    last = f"SELECT last_attempt = (attempt = max(attempt) OVER ({of_call})) FROM judgments"
    assert ask(tmp_path, f"SELECT bool_and(last) FROM ({last}) AS found(last)") == [(True,)]
    assert ask(tmp_path, "SELECT count(*), count(*) FILTER (last_attempt) FROM judgments") == [(len(rows), len(calls))]


def test_many_ledgers_are_loaded_a_few_at_a_time_each_by_itself(tmp_path: Path) -> None:
    for number in range(23):
        place = whole_run(tmp_path, f"20260101T0000{number:02}000-diagram-{number:06}")
        if number in (0, 7):
            (place / "run.json").write_text("no run")
    found = sync(tmp_path)
    assert len(found.loaded) == 21 and len(found.left_out) == 2
    [(one,)] = ask(tmp_path, "SELECT count(*) FROM judgments WHERE run_id LIKE '%000001'")
    assert one and ask(tmp_path, "SELECT count(*) FROM judgments GROUP BY run_id") == [(one,)] * 21
    assert ask(tmp_path, "SELECT count(*), count(DISTINCT run_id) FROM runs") == [(21, 21)]


@pytest.mark.parametrize(
    ("parameters", "found"), [({"threshold": "high"}, "'high'"), ({"threshold": None}, "None"), ({}, "None")]
)
def test_a_threshold_that_is_no_number_is_damage(tmp_path: Path, parameters: dict[str, Any], found: str) -> None:
    damaged = write_run(tmp_path, start(flow="counting", parameters=parameters), [image()], end())
    assert sync(tmp_path) == Synced(
        (), (f"The ledger {damaged} was left out: run.json: parameters.threshold is {found}; a number is expected",)
    )


@pytest.mark.parametrize(("file", "text"), [("run.json", '{"schema": 3}'), ("run.json", "\udcff"), ("end.json", "{}")])
def test_a_ledger_that_lacks_fields_or_letters_is_damaged(tmp_path: Path, file: str, text: str) -> None:
    damaged = whole_run(tmp_path)
    whole_run(tmp_path, LATER)
    (damaged / file).write_bytes(text.encode(errors="surrogateescape"))
    found = sync(tmp_path)
    assert found.loaded == (LATER,)
    assert [str(damaged) in sentence for sentence in found.left_out] == [True]


def test_thousands_of_long_replies_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB holds the texts of 2,048 rows at once, whatever its bound on memory; here those are 60 MB."""
    monkeypatch.setattr(database, "_LEAST_MEMORY", 60_000_000)
    long = "the encoder attends " * 1_500
    write_run(tmp_path, start(), [judgment(f"s{number}", raw=long) for number in range(2_100)], end())
    assert sync(tmp_path) == Synced((RUN,), ())
    assert ask(tmp_path, "SELECT count(*), min(length(raw)) FROM judgments") == [(2_100, len(long))]


def test_a_run_that_does_not_fit_into_memory_is_named_and_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_MOST_MEMORY", 60_000_000)
    write_run(tmp_path, start(), [judgment(f"s{number}", raw="long " * 6_000) for number in range(2_100)], end())
    whole_run(tmp_path, LATER)
    found = sync(tmp_path)
    assert found.loaded == (LATER,)
    [sentence] = found.left_out
    assert RUN in sentence and "was left out" in sentence and "Out of Memory" in sentence and "\n" not in sentence
    assert ask(tmp_path, "SELECT run_id FROM runs UNION SELECT run_id FROM judgments") == [(LATER,)]
    monkeypatch.undo()
    assert sync(tmp_path) == Synced((RUN,), ())


def test_a_fault_of_the_program_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(start: RunStart, runs: Sequence[Path]) -> Results:
        raise ValueError(f"zip() has arguments of different lengths: {start.run_id}, {runs}")

    monkeypatch.setattr("tasks.history.staging.results_of", faulty)
    whole_run(tmp_path)
    with pytest.raises(ValueError, match="zip") as caught:
        sync(tmp_path)
    assert not isinstance(caught.value, InputError)


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
    assert len(sync(tmp_path, rebuild=True).left_out) == 1
    run.rename(tmp_path / "elsewhere")
    assert sync(tmp_path, rebuild=True) == Synced((), ())
    assert ask(tmp_path, "SELECT run_id FROM runs") == [(RUN,)]
