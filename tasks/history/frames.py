"""Answers of the history as Polars frames: it is opened for a moment, asked, and closed.

What is asked and how it is refused is as in `asking`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.errors import InputError
from tasks.history.asking import as_sql, distinct, opened
from tasks.history.database import Connection, ended_after

if TYPE_CHECKING:
    from polars import DataFrame


def write_frames(store: Path, questions: Sequence[str], seconds: float, folder: Path) -> None:
    """Write each answer as a file of Arrow's into a folder, `0`, `1` …; see `frames`."""
    for number, frame in enumerate(frames(store, questions, seconds)):
        frame.write_ipc(folder / str(number))


def frames(store: Path, questions: Sequence[str], seconds: float, wait_seconds: float = 30.0) -> "list[DataFrame]":
    """Everything in the tables or views of these names, or what this SQL comes to, all at one moment.

    Columns that hold JSON are texts; a second column of one name is `<name>_2`. What is no query has no columns.

    Raises:
        HistoryLocked: the history stayed in use for `wait_seconds`.
        InputError: there is no history, no such name, no answer to the SQL, or none that a frame can hold.
    """
    with opened(store, wait_seconds) as db:
        return [_frame(db, as_sql(db, question), seconds) for question in questions]


def _frame(db: Connection, sql: str, seconds: float) -> "DataFrame":
    import polars

    with ended_after(db, seconds):
        answer = db.sql(sql)
        if answer is None:  # pyright: ignore[reportUnnecessaryComparison]
            return polars.DataFrame()
        names = distinct(answer.columns)
        if [*names] != answer.columns:
            quoted = ", ".join('"{}"'.format(name.replace('"', '""')) for name in names)
            answer = db.sql(f"FROM ({sql}) AS answer({quoted})")
        rows = answer.materialize()  # within the bounds of DuckDB
    try:
        return polars.DataFrame(rows)
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException) as error:
        raise InputError(
            f"this answer has a column that no frame can hold: cast it to another type: {error}"
        ) from error
