"""An evaluation of the history as Parquet files, for whoever works on with other programs.

Owns which tables there are and what of them is written: everything, but of the judge's address the host alone, since a
path may hold a secret, and maps as lists of `{key, value}`, since not every reader has maps. What the columns hold is
the history's own words, which each file has in its metadata, too.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tasks.files import drafted
from tasks.history.asking import opened
from tasks.history.database import Connection

OF_EVALUATION = "run_id IN (SELECT run_id FROM shard_runs WHERE evaluation_id = $1)"
TABLES = {
    "outcomes": ("Each sample and candidate: status, outcome and score.", OF_EVALUATION, "candidate, sample_id"),
    "judgments": (
        "Each reply of the judge, every attempt and those about control samples and anchors among them.",
        OF_EVALUATION,
        'candidate, sample_id, control, dimension, "order", vote, attempt',
    ),
    "scores": (
        "Each candidate on each dimension or tag, in each group of samples, with interval and coverage.",
        "run_id = $1",
        'candidate, dimension, measure, "grouping", group_name',
    ),
}
"""Table -> what it has a row for, which of the rows are an evaluation's, and their order."""
HOST = r"""regexp_extract(endpoint, '^(?:https?://)?(?:[^/@]*@)?([^/?#]*)', 1)"""


class Column(NamedTuple):
    """A column of a file."""

    name: str
    type: str
    """As it is written, in DuckDB's words."""
    comment: str
    """What it holds; None is NULL."""


class Written(NamedTuple):
    """A file that was written."""

    name: str
    """Of the table; its file ends in `.parquet`."""
    words: str
    """What it has a row for."""
    rows: int
    columns: Sequence[Column]


def write_tables(store: Path, run_id: str, folder: Path) -> list[Written]:
    """Write the tables of an evaluation into a folder, each file whole.

    Raises:
        HistoryLocked: the history stayed in use.
        InputError: there is no history, or a table takes more memory than a question may.
        OSError: a file cannot be written.
    """
    with opened(store, wait_seconds=30.0) as db:
        return [_write(db, run_id, folder, name) for name in TABLES]


def _write(db: Connection, run_id: str, folder: Path, name: str) -> Written:
    import polars

    words, where, order = TABLES[name]
    told = db.execute(
        "SELECT column_name, data_type, coalesce(comment, '') FROM duckdb_columns() "
        "WHERE NOT internal AND database_name = current_database() AND table_name = $1 ORDER BY column_index",
        [name],
    ).fetchall()
    columns = [_written(Column(*row)) for row in told]
    chosen = ", ".join(_chosen(*row) for row in told)
    sql = f"SELECT {chosen} FROM {name} WHERE {where} ORDER BY {order}"
    frame = polars.DataFrame(db.sql(sql, params=[run_id]).materialize())
    described = {"description": words, "columns": json.dumps({each.name: each.comment for each in columns})}
    with drafted(folder / f"{name}.parquet") as draft:
        frame.write_parquet(draft, metadata=described)
    return Written(name, words, frame.height, columns)


def _chosen(column: str, kind: str, _comment: str) -> str:
    """What is asked for a column of this name and type."""
    name = f'"{column}"'
    if kind.startswith("MAP("):
        return f"map_entries({name}) AS {name}"
    return f"{HOST} AS {name}" if column == "endpoint" else name


def _written(column: Column) -> Column:
    if column.name == "endpoint":
        return column._replace(comment="Host of the judge.")
    kind = "STRUCT(key, value)[]" if column.type.startswith("MAP(") else re.sub(r"\(.*\)", "", column.type)
    return column._replace(type=kind)
