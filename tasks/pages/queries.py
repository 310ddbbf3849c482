"""The questions of the pages to the history, by name. Their text is `queries.sql`; a page shows each one as asked."""

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
    """A question as it was asked, and what the history says to it."""

    title: str
    sql: str
    """Without a parameter left, so that it can be put to `jury query` again."""
    rows: list[dict[str, Any]]


def names() -> list[str]:
    """The names of all questions."""
    return list(_QUERIES)


def question(name: str, **values: str) -> str:
    """The SQL of one question, with these values (ids of evaluations) in their places."""
    quoted = {key: "'" + value.replace("'", "''") + "'" for key, value in values.items()}
    return Template(_QUERIES[name][1]).substitute(quoted)


def ask(store: Path, name: str, **values: str) -> Answer:
    """Put one question to the history of a store.

    Raises:
        InputError: there is no history, or it cannot be asked.
    """
    sql = question(name, **values)
    return Answer(_QUERIES[name][0], sql, history.as_json_rows(history.query(store, sql)))


def points(rows: Iterable[Mapping[str, Any]]) -> list[Point]:
    """Rows of the view `trend` as points."""
    found: list[Point] = []
    for row in rows:
        values = {name: row[name] for name in COLUMNS}
        values["started_at"] = datetime.fromisoformat(row["started_at"])
        found.append(Point(**values))
    return found


def _read() -> dict[str, tuple[str, str]]:
    """Name -> title and SQL."""
    _, *parts = _BEGIN.split(Path(__file__).with_name("queries.sql").read_text(encoding="utf-8"))
    return {
        name: (title, sql.strip().rstrip(";"))
        for name, title, sql in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    }


_QUERIES = _read()
