"""Landing of ledgers in the history, by runs and by sync, with real files."""

import errno
import shutil
from io import StringIO
from pathlib import Path
from typing import Any

import duckdb
import pytest
from factories import RUN, end, image, judgment, line, outcome, picture, start, write_run
from written_history import ask, keep, whole_run

from tasks.errors import InputError
from tasks.history import database, derived_tables, landing
from tasks.history.database import FOLDER, HISTORY
from tasks.history.landing import Landed, land, missing, rebuild
from tasks.history.queries import as_json_rows, query
from tasks.labels.agreement import agreement
from tasks.ledger.run_files import write_record
from tasks.records import Judgment, Outcome

EARLIER, LATER = "20261119T120000-diagram-0000aa", "20261121T120000-diagram-0000aa"
TABLES = ("runs", "judgments", "outcomes", "scores", "pictures")


# Loading


def test_loaded_rows_equal_those_of_the_ledger_without_a_torn_last_line(tmp_path: Path) -> None:
    strange = "tabs\t, \"quotes\", 'single', line\nbreaks, nul \x00, \u4e2d\u6587 \U0001f600, \\u0041, "
    strange += "long " * 50_000
    rows = [
        judgment("s1", raw=strange, reasoning=strange, price=None),
        judgment("s2", verdict=None, status="refused", error="it's refused; DROP TABLE runs", pictures={}),
        outcome("s1", caption=strange, notes=("a", "b"), injected="blur", caught=True),
        outcome("s2", "-GXB", None, status="incomplete", problem="it's gone"),
    ]
    with (write_run(tmp_path, start(), rows, end()) / "judgments.jsonl").open("ab") as file:
        file.write(judgment("torn").model_dump_json().encode()[:300])
    assert land(tmp_path).left_out == ()
    timed = "strftime({0}, '%Y-%m-%dT%H:%M:%S+00:00') AS {0}"
    judgments = query(tmp_path, f"SELECT * EXCLUDE last_attempt REPLACE ({timed.format('judged_at')}) FROM judgments")
    outcomes = query(tmp_path, f"SELECT * REPLACE ({timed.format('decided_at')}) FROM outcomes")
    assert [Judgment.model_validate(row) for row in as_json_rows(judgments)] == rows[:2]
    assert [Outcome.model_validate(row) for row in as_json_rows(outcomes)] == rows[2:]


def test_rates_cover_all_shards_of_an_evaluation_once_none_is_damaged(tmp_path: Path) -> None:
    def shard(number: int, *rows: Judgment | Outcome) -> Path:
        run_id = f"2026112{number}T120000-diagram-0000aa"
        part = {"evaluation_id": "nightly", "shard": number, "shards": 2, "parameters": {"votes": 2}}
        return write_run(tmp_path, start(run_id, **part), list(rows), end())

    votes = [judgment("s1", verdict=verdict, vote=vote) for vote, verdict in ((1, "Model"), (2, "Model"))]
    damaged = shard(1, *votes, outcome("s1")) / "judgments.jsonl"
    votes = [judgment("s2", verdict=verdict, vote=vote) for vote, verdict in ((1, "Model"), (2, "Human"))]
    other, whole = shard(2, *votes, outcome("s2")), damaged.read_bytes()
    damaged.write_bytes(whole + b"{}\n")
    assert land(tmp_path).loaded == (other.name,)
    damaged.write_bytes(whole)
    land(tmp_path)
    sql = "SELECT run_id, dimension, n, value FROM reliability WHERE measure = 'repeat_agreement' ORDER BY ALL"
    assert ask(tmp_path, sql) == [("nightly", "faithfulness", 2, 0.5), ("nightly", "overall", 2, 0.5)]


def test_fault_in_one_run_or_table_leaves_the_others_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError("no candidates")

    strange = whole_run(tmp_path, EARLIER)
    (strange / "run.json").write_text((strange / "run.json").read_text().replace('"diagram"', '"video"'))
    whole_run(tmp_path, LATER)
    monkeypatch.setattr(derived_tables, "compare_with_best", fail)
    monkeypatch.setattr(landing, "what_is_due", lambda _: (False, False, True))
    landed = land(tmp_path)
    assert landed.loaded == (LATER,)
    assert f"{strange} was left out: a fault of Image Jury, KeyError" in landed.left_out[0]
    assert "The table versus_best could not be computed: a fault of Image Jury, ZeroDivision" in landed.left_out[1]
    assert ask(tmp_path, "SELECT DISTINCT run_id FROM leaderboard") == [(LATER,)]


class ClosedTerminal(StringIO):
    """Output to a terminal that was closed."""

    def write(self, words: str) -> int:
        raise OSError(errno.EIO, f"cannot show {words}")


def test_long_landing_reports_its_progress_unless_the_terminal_is_closed(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(landing, "TELL_SECONDS", -1.0)
    write_run(store, start(EARLIER), [judgment(), outcome()], end())
    assert land(store).loaded == (EARLIER,)
    assert capsys.readouterr().err == f"0 of 1 ledgers loaded into {store / HISTORY} …\n"
    write_run(store, start(LATER), [judgment(), outcome()], end())
    monkeypatch.setattr("sys.stderr", ClosedTerminal())
    assert land(store).loaded == (LATER,)


def test_picture_has_one_row_for_each_form_sent(tmp_path: Path) -> None:
    sent_smaller = picture("s1h").model_copy(update={"sent_sha256": "5" * 64, "changes": ("resized",)})
    whole_run(tmp_path, EARLIER)
    keep(tmp_path, RUN, [outcome("s1", pictures={"human": sent_smaller, "model": picture("s1m")})])
    source, other = (f"pictures/{picture(name).source_sha256}.jpg" for name in ("s1h", "s1m"))
    found = sorted(ask(tmp_path, "SELECT picture_path, changes FROM pictures"))
    assert found == [(source, []), (source, ["resized"]), (other, [])]


# Syncing


def test_sync_loads_only_new_grown_or_finished_runs(tmp_path: Path) -> None:
    whole_run(tmp_path, EARLIER)
    growing = write_run(tmp_path, start(), [judgment("s1")], None)
    assert missing(tmp_path) == [EARLIER]
    assert land(tmp_path).loaded == (EARLIER, RUN)
    assert land(tmp_path).loaded == ()

    with (growing / "judgments.jsonl").open("a") as file:
        file.write(line(judgment("s2")))
    assert land(tmp_path).loaded == (RUN,)
    assert ask(tmp_path, f"SELECT count(*) FROM judgments WHERE run_id = '{RUN}'") == [(2,)]
    assert [ask(tmp_path, f"SELECT count(*) FROM {table}")[0][0] for table in TABLES] == [2, 6, 1, 5, 2]

    write_record(growing / "end.json", end(ledger_rows={"judgments.jsonl": 2}))
    assert missing(tmp_path) == [RUN]
    assert land(tmp_path).loaded == (RUN,)
    assert ask(tmp_path, f"SELECT status FROM runs WHERE run_id = '{RUN}'") == [("finished",)]
    assert (land(tmp_path).loaded, missing(tmp_path)) == ((), [])


def test_invalid_row_is_reported_by_line_and_its_run_is_skipped(tmp_path: Path) -> None:
    damaged = write_run(tmp_path, start(), [judgment(f"s{number}") for number in range(2_500)], None)
    with (damaged / "judgments.jsonl").open("a") as rows:
        rows.write('{"schema": 7, "vote": "first"}\n')
    whole_run(tmp_path, LATER)
    found = land(tmp_path)
    assert found.loaded == (LATER,)
    [sentence] = found.left_out
    assert f'{damaged}/judgments.jsonl", in line 2501: Failed to cast' in sentence
    assert ask(tmp_path, "SELECT DISTINCT run_id FROM judgments") == [(LATER,)]


def test_last_attempt_is_found_for_each_call(tmp_path: Path) -> None:
    calls: list[dict[str, Any]] = [
        {}, {"candidate": "beta"}, {"sample_id": "s2"}, {"control": "anchor"}, {"dimension": "readability"},
        {"order": "model_first"}, {"vote": 2},
    ]  # fmt: skip
    rows = [judgment(attempt=attempt, **call) for n, call in enumerate(calls) for attempt in range(1, 2 + n % 3)]
    keep(tmp_path, RUN, rows)
    of_call = 'PARTITION BY candidate, sample_id, "control", dimension, "order", vote'
    last = f"SELECT last_attempt = (attempt = max(attempt) OVER ({of_call})) FROM judgments"
    assert ask(tmp_path, f"SELECT bool_and(last) FROM ({last}) AS found(last)") == [(True,)]
    assert ask(tmp_path, "SELECT count(*), count(*) FILTER (last_attempt) FROM judgments") == [(len(rows), len(calls))]


@pytest.mark.parametrize("given", [{"threshold": "high"}, {"threshold": None}, {}])
def test_threshold_that_is_no_number_counts_as_damage(tmp_path: Path, given: dict[str, Any]) -> None:
    damaged = write_run(tmp_path, start(flow="counting", parameters=given), [image()], end())
    found = "'high'" if given.get("threshold") else "None"
    message = f"The ledger {damaged} was left out: run.json: parameters.threshold is {found}; a number is expected"
    assert land(tmp_path) == Landed((), (message,))


def test_run_too_large_for_memory_is_reported_and_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB keeps the texts of 2,048 rows, here 50 MB, in memory whatever its limit."""
    monkeypatch.setattr(database, "_idle", [])
    rows = [judgment(f"s{number}", raw=f"{number} long " * 2_500) for number in range(2_100)]
    write_run(tmp_path, start(), rows, end())
    whole_run(tmp_path, LATER)
    with monkeypatch.context() as small:
        small.setitem(database._WRITER, "memory_limit", "50MB")
        found = land(tmp_path)
    assert found.loaded == (LATER,)
    [sentence] = found.left_out
    assert f"{RUN} was left out: it does not fit into memory" in sentence and "\n" not in sentence
    assert ask(tmp_path, "SELECT run_id FROM runs UNION SELECT run_id FROM judgments") == [(LATER,)]
    assert database._idle == [], "an instance that wrote to its temporary folder takes no other"
    assert land(tmp_path) == Landed((RUN,), ())
    assert len(database._idle) == 1
    sql = f"SELECT count(*), min(length(raw)) FROM judgments WHERE run_id = '{RUN}'"
    assert ask(tmp_path, sql) == [(2_100, len(rows[0].raw))]


def test_rebuild_replaces_files_that_are_no_history(store: Path) -> None:
    for file in (store / HISTORY, store / FOLDER / "master.duckdb"):
        file.unlink()
        file.write_bytes(b"something else altogether" * 1000)
    for use in (land, missing):
        with pytest.raises(ValueError, match=r"cannot be opened: .*`jury store rebuild`"):
            use(store)
    assert rebuild(store).loaded == (RUN,)
    assert ask(store, "SELECT run_id FROM runs") == [(RUN,)]


@pytest.mark.parametrize("mark", ["", "CREATE MACRO layout() AS 'another';"])
def test_history_of_another_version_asks_for_a_rebuild(tmp_path: Path, mark: str) -> None:
    whole_run(tmp_path)
    (tmp_path / FOLDER).mkdir()
    with duckdb.connect(tmp_path / FOLDER / "master.duckdb") as db:
        db.execute(f"{mark} CREATE TABLE runs (run_id VARCHAR)")
    with pytest.raises(ValueError, match="another version of Image Jury; `jury store rebuild`"):
        land(tmp_path)
    assert rebuild(tmp_path).loaded == (RUN,)
    assert land(tmp_path) == Landed((), ())


def test_question_to_a_history_of_another_version_asks_for_a_rebuild(store: Path) -> None:
    (store / HISTORY).chmod(0o600)
    with duckdb.connect(store / HISTORY) as db:
        db.execute("CREATE OR REPLACE MACRO layout() AS 'another'; DROP VIEW evaluations")
    for ask_it in (lambda: query(store, "evaluations"), lambda: agreement(store, RUN, RUN)):
        with pytest.raises(InputError, match=r"^The history was made by another version .*`jury store rebuild`"):
            ask_it()
    assert query(store, "SELECT run_id FROM runs").rows == [(RUN,)]


def test_rebuild_without_readable_ledgers_keeps_the_history(tmp_path: Path) -> None:
    run = whole_run(tmp_path)
    land(tmp_path)
    (run / "run.json").write_text("torn")
    assert len(rebuild(tmp_path).left_out) == 1
    run.rename(tmp_path / "elsewhere")
    assert rebuild(tmp_path) == Landed((), ())
    assert ask(tmp_path, "SELECT run_id FROM runs") == [(RUN,)]
    shutil.rmtree(tmp_path / FOLDER)  # somebody sent the history alone, or copied all but hidden files
    whole_run(tmp_path, LATER)
    assert land(tmp_path) == Landed((LATER,), ())
    assert ask(tmp_path, "SELECT run_id FROM runs ORDER BY run_id") == [(RUN,), (LATER,)]
