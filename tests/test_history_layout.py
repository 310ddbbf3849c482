"""How the history is laid out: tables like the records, views, and what explains them."""

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel
from written_history import ask, whole_run

from tasks.controls.status import ControlRow
from tasks.errors import InputError
from tasks.history import layout
from tasks.history.asking import catalog
from tasks.history.database import HISTORY, attach, staging
from tasks.history.handing_over import make_history
from tasks.history.loading import sync
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


def test_a_history_that_was_made_ahead_is_the_one_that_the_first_run_makes(tmp_path: Path) -> None:
    ahead, late = tmp_path / "ahead", tmp_path / "late"
    for store in (ahead, late):
        whole_run(store)
    make_history(ahead)
    made = (ahead / HISTORY).read_bytes()
    make_history(ahead)
    assert (ahead / HISTORY).read_bytes() == made
    for store in (ahead, late):
        sync(store)
    for what in ("duckdb_columns()", "duckdb_tables()", "duckdb_views()"):
        told = f"SELECT COLUMNS('(table|view|column)_name|data_type|^comment') FROM {what} ORDER BY ALL"
        assert ask(ahead, told) == ask(late, told) != []
    assert ask(ahead, "FROM judgments") == ask(late, "FROM judgments") != []


def test_every_field_of_the_records_has_its_column(tmp_path: Path) -> None:
    whole_run(tmp_path)
    sync(tmp_path)

    def columns(table: str) -> set[str]:
        return {name for (name,) in ask(tmp_path, f"SELECT column_name FROM (DESCRIBE {table})")}

    def fields(*kinds: type[BaseModel]) -> set[str]:
        return {info.serialization_alias or name for kind in kinds for name, info in kind.model_fields.items()}

    loaded = {"status", "ledger_bytes", "judge_key", "replies_from", "forgotten"}
    assert columns("runs") == fields(RunStart, RunEnd) | loaded
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
    uncommented = (
        "SELECT table_name, column_name FROM duckdb_columns() WHERE coalesce(comment, '') = '' AND table_name IN "
    )
    assert ask(tmp_path, f"{uncommented} (SELECT table_name FROM duckdb_tables())") == []


def test_every_file_of_a_view_is_a_view_of_its_name(tmp_path: Path) -> None:
    whole_run(tmp_path)
    sync(tmp_path)
    files = {file.stem for file in (Path(layout.__file__).parent / "views").glob("*.sql")}
    assert files - {"macros"} == set(layout.VIEWS)
    assert {entry.name for entry in catalog(tmp_path) if entry.kind == "view"} == set(layout.VIEWS)


def test_rows_are_staged_in_the_tables_of_the_history_and_nothing_else(tmp_path: Path) -> None:
    whole_run(tmp_path)
    sync(tmp_path)
    columns = "SELECT table_name, column_name, data_type, is_nullable FROM duckdb_columns() WHERE NOT internal"
    tables = f"{columns} AND table_name IN (SELECT table_name FROM duckdb_tables()) ORDER BY ALL"
    with staging() as db:
        layout.make_tables(db)
        assert db.execute(tables).fetchall() == ask(tmp_path, tables)
        views, comments = "duckdb_views() WHERE NOT internal", "duckdb_columns() WHERE comment IS NOT NULL"
        for beside in (views, comments):
            assert db.execute(f"SELECT * FROM {beside}").fetchall() == []


def test_an_empty_history_is_told_from_one_of_another_version(tmp_path: Path) -> None:
    with staging() as db:
        attach(db, tmp_path / HISTORY, 1)
        assert not layout.is_laid_out(db)
        layout.lay_out(db)
        assert layout.is_laid_out(db)
        db.execute("CREATE OR REPLACE MACRO history.layout() AS 'another'")
        with pytest.raises(InputError, match="another version of Image Jury"):
            layout.is_laid_out(db)


@pytest.mark.parametrize("module", ["asking", "database", "evaluations", "layout", "loading"])
def test_what_only_asks_loads_no_statistics(module: str) -> None:
    code = f"import sys, tasks.history.{module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert f"tasks.history.{module}" in loaded
    packages = {name.partition(".")[0] for name in loaded} | {".".join(name.split(".")[:2]) for name in loaded}
    assert packages & {"numpy", "scipy", "PIL", "polars", "tasks.statistics", "tasks.kinds", "tasks.controls"} == set()
