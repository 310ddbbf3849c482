"""Layout of the history: its tables, its views, and the mark that identifies its version.

`tables.sql` runs first, then `views/`. `comments` has the comments on the columns.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection as Connection

from tasks.errors import InputError
from tasks.history.database import REBUILD

VIEWS = (
    "shard_runs",
    "evaluations",
    "verdicts",
    "ratings",
    "by_group",
    "leaderboard",
    "by_category",
    "by_difficulty",
    "t2i_leaderboard",
    "by_aspect",
    "best_images",
    "reliability",
    "trend",
    "alarms",
    "coverage",
    "disagreements",
    "corrected",
    "judgment_attempts",
    "cost",
    "spend",
    "control_rates",
    "anchors",
    "judge_versions",
    "picture_contract",
    "failures",
)
"""Views, each a file of that name in `views/`, after the views that it uses; `macros` has shared macros."""


def _sql(name: str) -> str:
    return (Path(__file__).parent / f"{name}.sql").read_text(encoding="utf-8")


_TABLES = _sql("tables")
_VIEWS = "\n".join(_sql(f"views/{name}") for name in ("macros", *VIEWS))
_MARK = hashlib.sha256((_TABLES + _VIEWS).encode()).hexdigest()


def lay_out(db: Connection) -> None:
    """Make tables, views, comments and the mark in the attached, empty `history`."""
    db.execute(_TABLES)
    db.execute("\n".join(_column_comments(db)))
    db.execute(f"{_VIEWS} CREATE MACRO layout() AS '{_MARK}'")


def is_laid_out(db: Connection) -> bool:
    """Return whether the open `history` has tables; it may be new. Call it outside of a transaction: a no ends one.

    Raises:
        InputError: the tables are those of another version.
    """
    found = _mark(db)
    if found != _MARK and db.execute("SELECT * FROM duckdb_tables() WHERE database_name = 'history'").fetchone():
        raise InputError(f"The history was made by another version of Image Jury; {REBUILD}")
    return found is not None


def _mark(db: Connection) -> str | None:
    try:
        found = db.execute("SELECT history.main.layout()").fetchone()
    except duckdb.CatalogException:
        return None
    return found[0] if found else None


def _column_comments(db: Connection) -> Iterator[str]:
    # Records of statistics import numpy and scipy, which readers of a history do not need.
    from tasks.history.comments import comment

    uncommented = """SELECT table_name, column_name FROM duckdb_columns()
        WHERE database_name = 'history' AND NOT internal AND comment IS NULL"""
    for table, column in db.execute(uncommented).fetchall():
        words = comment(table, column).replace("'", "''")
        yield f"""COMMENT ON COLUMN {table}."{column}" IS '{words}';"""
