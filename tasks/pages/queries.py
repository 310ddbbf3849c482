"""Queries of the pages, by name. `queries.sql` has their text; a page shows each one as it was run."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from tasks.comparing.points import COLUMNS, Point
from tasks.history import asking as history

_BEGIN = re.compile(r"^-- (\w+): (.+)$", re.MULTILINE)


class Answer(NamedTuple):
    """A query as it was run, and its result."""

    title: str
    sql: str
    """Text with its parameters filled in, so that `jury query` can run it again."""
    rows: list[dict[str, Any]]


def names() -> list[str]:
    """Return the names of all queries."""
    return list(_QUERIES)


def question(name: str, **values: str) -> str:
    """Return the SQL of one query, with these values (ids of evaluations) in their places."""
    quoted = {key: "'" + value.replace("'", "''") + "'" for key, value in values.items()}
    return Template(_QUERIES[name][1]).substitute(quoted)


def ask(store: Path, name: str, **values: str) -> Answer:
    """Run one query on the history of a store.

    Raises:
        InputError: there is no history, or it cannot be queried.
    """
    sql = question(name, **values)
    return Answer(_QUERIES[name][0], sql, history.as_json_rows(history.query(store, sql)))


def points(rows: Iterable[Mapping[str, Any]]) -> list[Point]:
    """Convert rows of the view `trend` to points."""
    found: list[Point] = []
    for row in rows:
        values = {name: row[name] for name in COLUMNS}
        values["started_at"] = datetime.fromisoformat(row["started_at"])
        found.append(Point(**values))
    return found


def _read() -> dict[str, tuple[str, str]]:
    """Read name -> title and SQL."""
    _, *parts = _BEGIN.split(Path(__file__).with_name("queries.sql").read_text(encoding="utf-8"))
    return {
        name: (title, sql.strip().rstrip(";"))
        for name, title, sql in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    }


_QUERIES = _read()
