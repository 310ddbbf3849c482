"""Queries of a history on disk: by name and in SQL, and refusals."""

import json
from pathlib import Path
from typing import Any

import pytest

from flows.commands.query import WIDEST
from tasks.history import landing
from tasks.history.database import HISTORY
from tasks.history.landing import VIEWS
from tasks.history.queries import Table, as_json_rows, catalog, held_together, query


@pytest.mark.parametrize("name", ["leaderboard", " leaderboard; ", "LEADERBOARD"])
def test_name_returns_the_whole_table_or_view(store: Path, name: str) -> None:
    assert query(store, name) == query(store, "SELECT * FROM leaderboard")
    assert len(query(store, name).rows) == 5


@pytest.mark.parametrize("name", ["leaders", "", ";", "runs--"])
def test_unknown_name_lists_existing_ones(store: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"no table or view is called .*leaderboard, .*judgments, .*or write SQL"):
        query(store, name)
    with pytest.raises(ValueError, match=r"called 'Leaderbord', did you mean leaderboard\? there are "):
        query(store, "Leaderbord")


def test_query_without_arguments_prints_every_comment_in_full(store: Path, jury: Any) -> None:
    code, out, _ = jury("query", "--store", store)
    assert code == 0 and max(len(entry.comment) for entry in catalog(store)) > WIDEST
    assert all(" ".join(entry.comment.split()) in out for entry in catalog(store))


def test_views_return_the_same_from_precomputed_evaluations(store: Path) -> None:
    views = Path(landing.__file__).parent / "views"

    def computes_evaluations(view: str) -> bool:
        """Return whether a view reads the table of runs other than for the positions of dimensions."""
        places = "dimension_position" in (views / f"{view}.sql").read_text(encoding="utf-8")
        return query(store, f"EXPLAIN FROM {view}").rows[0][1].count("main.runs") > places

    alone, listed = {view: query(store, view) for view in VIEWS}, catalog(store)
    with held_together(store):
        with held_together(store):
            assert {view: query(store, view) for view in VIEWS} == alone and catalog(store) == listed
        together = {view for view in VIEWS if not computes_evaluations(view)}
    assert {*VIEWS} - together <= {"spend", "failures"}, "the others read the precomputed tables"
    assert query(store, "evaluations") == alone["evaluations"]


def test_missing_history_names_the_commands_that_make_one(tmp_path: Path) -> None:
    for ask in (lambda: query(tmp_path, "runs"), lambda: catalog(tmp_path)):
        with pytest.raises(ValueError, match="no history yet: `jury run` makes one, `jury store sync`"):
            ask()
    assert not (tmp_path / HISTORY).exists()


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELEC 1", "^DuckDB refused this SQL: .*syntax error"),
        ("DELETE FROM runs", "^DuckDB refused this SQL: .*read-only"),
        ("DROP VIEW leaderboard", "^DuckDB refused this SQL: .*read-only"),
        ("CREATE TABLE mine AS SELECT 1", "^DuckDB refused this SQL: .*read-only"),
        ("SELECT 1; DELETE FROM runs", "^DuckDB refused this SQL: .*read-only"),
        ("SELECT * FROM read_csv('/etc/passwd')", "^DuckDB refused this SQL: .*disabled by configuration"),
        ("SELECT * FROM read_text('{place}/seen.txt')", "^DuckDB refused this SQL: .*disabled by configuration"),
        ("FROM '{place}/seen.txt'", "^DuckDB refused this SQL: .*does not exist"),
        ("ATTACH '{place}/other.duckdb' AS other", "^DuckDB refused this SQL: .*disabled by configuration"),
        ("COPY runs TO '{place}/out.csv'", "^DuckDB refused this SQL: .*disabled by configuration"),
        ("INSTALL httpfs", "^DuckDB refused this SQL: .*disabled by configuration"),
        ("SELECT 'a'::INT", "^DuckDB refused this SQL: .*Could not convert"),
        ("SET enable_external_access = true", "^DuckDB refused this SQL: .*locked"),
    ],
)
def test_forbidden_sql_is_refused_and_changes_nothing(store: Path, sql: str, message: str) -> None:
    (store / "seen.txt").write_text("secret")
    before = sorted(store.rglob("*")), (store / HISTORY).read_bytes()
    with pytest.raises(ValueError, match=message):
        query(store, sql.format(place=store))
    assert (sorted(store.rglob("*")), (store / HISTORY).read_bytes()) == before


@pytest.mark.parametrize(
    ("sql", "table"),
    [
        ("CREATE TEMP TABLE mine AS SELECT 1; SELECT 2 AS two", Table(("two",), [(2,)])),
        ("-- only a remark", Table((), [])),
        ("SELECT run_id FROM runs WHERE false", Table(("run_id",), [])),
    ],
)
def test_last_of_several_statements_returns_its_result_if_it_has_one(store: Path, sql: str, table: Table) -> None:
    assert query(store, sql) == table


def test_rows_become_plain_json(store: Path) -> None:
    sql = """SELECT 1 AS i, 1.5::DECIMAL(4, 2) AS d, 'nan'::DOUBLE AS nan, '-inf'::DOUBLE AS inf, NULL AS none,
        true AS b, TIMESTAMP '2026-11-20 18:00:00.5' AS t, DATE '2026-11-20' AS day, [{'a': [1, NULL]}] AS nested,
        MAP {'human': {'at': TIMESTAMP '2026-01-01', 'x': 'inf'::FLOAT}} AS map, '{"k": [1]}'::JSON AS j,
        '00000000-0000-0000-0000-000000000001'::UUID AS u"""
    (row,) = as_json_rows(query(store, sql))
    assert json.loads(json.dumps(row, allow_nan=False)) == {
        "i": 1, "d": 1.5, "nan": None, "inf": None, "none": None, "b": True, "t": "2026-11-20T18:00:00.500000",
        "day": "2026-11-20", "nested": [{"a": [1, None]}], "map": {"human": {"at": "2026-01-01T00:00:00", "x": None}},
        "j": {"k": [1]}, "u": "00000000-0000-0000-0000-000000000001",
    }  # fmt: skip
    [row] = as_json_rows(query(store, "SELECT parameters FROM runs"))
    assert row == {"parameters": {"votes": 1, "judge": {"model": "gpt-x"}}}
