"""What explains a column: the docstring of the field that it comes from, in words for both."""

from pathlib import Path

import pytest
from written_history import ask, whole_run

from tasks.history.comments import RECORDS, comment
from tasks.history.loading import sync


@pytest.mark.parametrize(
    ("table", "column", "said"),
    [
        ("judgments", "schema", "Version of the row; an older row is lifted to the present one when it is read."),
        ("judgments", "price", "In the currency of the prices given; NULL: no price is known. 0 when reused."),
        ("runs", "run_id", "Name of the run and of its ledger folder; ids sort by time."),
        ("runs", "sham_calls", "Those of the calls that were about control samples or anchors. NULL while unfinished."),
        ("scores", "candidate", "System whose figures or images were judged."),
        ("scores", "ties", "Overall outcomes Tie. NULL for generated images."),
        ("scores", "image_mean", "Mean over images, 0-10 or a share. NULL for figures."),
        ("scores", "n", "Samples of the group. Of generated images: images."),
        ("aspect_scores", "score", "0-10; NULL where the aspect does not apply."),
        ("labels", "source_sha256", "SHA-256 of that file."),
    ],
)
def test_a_column_is_explained_by_the_docstrings_of_its_fields(
    tmp_path: Path, table: str, column: str, said: str
) -> None:
    assert comment(table, column) == said


def test_the_history_holds_the_docstrings_of_all_records(tmp_path: Path) -> None:
    whole_run(tmp_path)
    sync(tmp_path)
    sql = "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE table_name IN "
    found = {(table, column): said for table, column, said in ask(tmp_path, f"{sql} {tuple(RECORDS)}")}
    fields = {
        (table, field.serialization_alias or name)
        for table, records in RECORDS.items()
        for record in records
        for name, field in record.model_fields.items()
    }
    explained = fields & found.keys()
    assert len(explained) > 140
    assert {place for place in explained if found[place] != comment(*place)} == set()


def test_a_column_of_no_record_has_no_docstring() -> None:
    with pytest.raises(KeyError, match=r"judgments\.last_attempt"):
        comment("judgments", "last_attempt")
