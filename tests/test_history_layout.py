"""How the history is laid out: tables like the records, views, and what explains them."""

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
from tasks.history.database import FOLDER, HISTORY, opened_master
from tasks.history.landing import land, prepare
from tasks.history.queries import catalog


def test_a_history_that_was_prepared_is_the_one_that_the_first_run_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landing, "opened_master", opened_master)  # which makes it, where other tests have a copy
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
        told = f"SELECT COLUMNS('(table|view|column)_name|data_type|^comment') FROM {what} ORDER BY ALL"
        assert ask(ahead, told) == ask(late, told) != []
    assert ask(ahead, "FROM judgments") == ask(late, "FROM judgments") != []


def test_every_field_of_the_records_has_its_column(store: Path) -> None:
    def columns(table: str) -> set[str]:
        return {name for (name,) in ask(store, f"SELECT column_name FROM (DESCRIBE {table})")}

    def fields(*kinds: type[BaseModel]) -> set[str]:
        return {info.serialization_alias or name for kind in kinds for name, info in kind.model_fields.items()}

    elsewhere = {"outcomes": {"control"}, "labels": {"labels", "annotators"}, "passports": {"lines"}}
    for table in RECORDS.keys() - {"aspect_scores"}:
        assert fields(*RECORDS[table]) - columns(table) == elsewhere.get(table, set())
    assert columns("(SELECT unnest(dimensions, max_depth := 2) FROM controls)") == fields(records.DimensionOutcome)
    assert columns("(SELECT unnest(pictures['human']) FROM judgments)") == fields(records.PictureNote)
    assert columns("(SELECT unnest(seen.objects, max_depth := 2) FROM judgments)") == fields(records.SeenObject)


def test_everything_in_the_history_is_explained(store: Path) -> None:
    assert [entry.name for entry in catalog(store) if not entry.comment] == []
    named = "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal"
    assert ask(store, f"{named} AND coalesce(comment, '') = ''") == []
    own = {(table, column) for table, column, _ in ask(store, named)}
    explaining = ask(store, named.replace("column_name", r"regexp_extract(comment, 'NULL:.* see (\w+)', 1)"))
    assert {(table, column) for table, column, _ in explaining if column} <= own, "what is said to explain is not there"
    said = {
        (view, name)
        for view in landing.VIEWS
        for name in re.findall(r"^-- (\w+): ", landing._sql(f"views/{view}").partition("COMMENT ON")[2], re.MULTILINE)
    }
    assert said <= own and len(said) > 80, "a comment is on a column that is not there"


def test_every_file_of_a_view_is_a_view_of_its_name(store: Path) -> None:
    files = {file.stem for file in (Path(landing.__file__).parent / "views").glob("*.sql")}
    assert files - {"macros"} == set(landing.VIEWS)
    assert {entry.name for entry in catalog(store) if entry.kind == "view"} == set(landing.VIEWS)


@pytest.mark.parametrize("module", ["database", "landing", "queries"])
def test_what_only_asks_loads_no_statistics(module: str) -> None:
    code = f"import sys, tasks.history.{module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert f"tasks.history.{module}" in loaded
    packages = {name.partition(".")[0] for name in loaded} | {".".join(name.split(".")[:2]) for name in loaded}
    heavy = {"numpy", "scipy", "PIL", "polars", "tasks.statistics", "tasks.protocols", "tasks.judging"}
    assert packages & heavy == set()


@pytest.mark.parametrize(
    ("table", "column", "said"),
    [
        ("judgments", "price", "Price in the currency of the prices given; NULL: unknown. 0 if reused."),
        ("scores", "ties", "Overall outcomes Tie. NULL for generated images."),
        ("scores", "n", "Samples of the group. Of generated images: images."),
    ],
)
def test_a_column_is_explained_by_the_docstrings_of_its_fields(table: str, column: str, said: str) -> None:
    assert comment(table, column) == said


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
def test_a_named_column_is_defined_by_its_fields(table: str, named: str, defined: str) -> None:
    sql = "CREATE TABLE {} (\n    {}\n);"
    assert with_definitions(sql.format(table, f"{{{named}}}")) == sql.format(table, defined)


def test_a_column_of_no_record_has_no_docstring() -> None:
    with pytest.raises(KeyError, match=r"judgments\.last_attempt"):
        comment("judgments", "last_attempt")
