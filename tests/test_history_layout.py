"""Layout of the history: tables that match the records, views, and comments on both."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel
from written_history import ask, whole_run

from tasks import records
from tasks.history import landing
from tasks.history.columns import RECORDS, comment, with_definitions
from tasks.history.database import FOLDER, HISTORY, VIEWS, layout_sql, opened_master
from tasks.history.landing import land, prepare
from tasks.history.queries import catalog


def test_prepared_history_equals_one_made_by_the_first_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landing, "opened_master", opened_master)  # creates tables, while other tests copy them
    ahead, late = tmp_path / "ahead", tmp_path / "late"
    for store in (ahead, late):
        whole_run(store)
    prepare(ahead)
    made = (ahead / FOLDER / "master.duckdb").read_bytes()
    prepare(ahead)
    assert (ahead / FOLDER / "master.duckdb").read_bytes() == made
    assert not (ahead / HISTORY).exists()
    for store in (ahead, late):
        land(store)
    for what in ("duckdb_columns()", "duckdb_tables()", "duckdb_views()"):
        sql = f"SELECT COLUMNS('(table|view|column)_name|data_type|^comment') FROM {what} ORDER BY ALL"
        assert ask(ahead, sql) == ask(late, sql) != []
    assert ask(ahead, "FROM judgments") == ask(late, "FROM judgments") != []


def test_every_field_of_the_records_has_its_column(store: Path) -> None:
    def columns(table: str) -> set[str]:
        return {name for (name,) in ask(store, f"SELECT column_name FROM (DESCRIBE {table})")}

    def fields(*kinds: type[BaseModel]) -> set[str]:
        return {info.serialization_alias or name for kind in kinds for name, info in kind.model_fields.items()}

    elsewhere = {"outcomes": {"control"}, "labels": {"labels", "annotators"}, "passports": {"lines", "replies"}}
    for table in RECORDS.keys() - {"aspect_scores"}:
        assert fields(*RECORDS[table]) - columns(table) == elsewhere.get(table, set())
    assert columns("(SELECT unnest(dimensions, max_depth := 2) FROM controls)") == fields(records.DimensionOutcome)
    assert columns("(SELECT unnest(pictures['human']) FROM judgments)") == fields(records.PictureNote)
    assert columns("(SELECT unnest(seen.objects, max_depth := 2) FROM judgments)") == fields(records.SeenObject)


def test_every_table_and_column_has_a_comment(store: Path) -> None:
    assert [entry.name for entry in catalog(store) if not entry.comment] == []
    named = "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal"
    assert ask(store, f"{named} AND coalesce(comment, '') = ''") == []
    own = {(table, column) for table, column, _ in ask(store, named)}
    explaining = ask(store, named.replace("column_name", r"regexp_extract(comment, 'NULL:.* see (\w+)', 1)"))
    assert {(table, column) for table, column, _ in explaining if column} <= own, "a comment names an unknown column"
    commented = {
        (view, name)
        for view in VIEWS
        for name in re.findall(r"^-- (\w+): ", layout_sql(f"views/{view}").partition("COMMENT ON")[2], re.MULTILINE)
    }
    assert commented <= own and len(commented) > 80, "a comment is on a column that does not exist"


def test_every_view_has_a_file_of_its_name(store: Path) -> None:
    files = {file.stem for file in (Path(landing.__file__).parent / "views").glob("*.sql")}
    assert files - {"macros"} == set(VIEWS)
    assert {entry.name for entry in catalog(store) if entry.kind == "view"} == set(VIEWS)


def test_queries_and_landing_import_no_statistics() -> None:
    code = "import sys, tasks.history.database, tasks.history.landing, tasks.history.queries; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "tasks.history.landing" in loaded
    packages = {name.partition(".")[0] for name in loaded} | {".".join(name.split(".")[:2]) for name in loaded}
    heavy = {"numpy", "scipy", "PIL", "polars", "tasks.statistics", "tasks.protocols", "tasks.judging"}
    assert packages & heavy == set()


@pytest.mark.parametrize(
    ("table", "column", "expected"),
    [
        ("judgments", "price", "Price in the currency of the prices given; NULL: unknown. 0 if reused."),
        ("scores", "ties", "Overall outcomes Tie. NULL for generated images."),
        ("scores", "n", "Samples of the group. Of generated images: images."),
    ],
)
def test_column_comments_are_the_docstrings_of_fields(table: str, column: str, expected: str) -> None:
    assert comment(table, column) == expected


@pytest.mark.parametrize(
    ("table", "named", "defined"),
    [
        ("judgments", "vote", '"vote" INTEGER NOT NULL'),
        ("judgments", "price, judged_at", '"price" DOUBLE , "judged_at" TIMESTAMP NOT NULL'),
        ("runs", "shard, finished_at", '"shard" INTEGER , "finished_at" TIMESTAMP '),
        ("runs", "revision NOT NULL", '"revision" INTEGER NOT NULL'),
        ("bridges", "confusion", '"confusion" MAP(VARCHAR, BIGINT) NOT NULL'),
    ],
)
def test_named_column_is_defined_by_its_field(table: str, named: str, defined: str) -> None:
    sql = "CREATE TABLE {} (\n    {}\n);"
    assert with_definitions(sql.format(table, f"{{{named}}}")) == sql.format(table, defined)


def test_column_of_no_record_has_no_docstring() -> None:
    with pytest.raises(KeyError, match=r"judgments\.last_attempt"):
        comment("judgments", "last_attempt")
