"""The report's questions to the history, by name.

Owns how they are found and asked; their text is `queries.sql`, and the page shows each one as it was asked.
"""

import re
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

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
        HistoryLocked: the history stayed in use.
        InputError: there is no history, or it cannot be asked.
    """
    sql = question(name, **values)
    return Answer(_QUERIES[name][0], sql, history.as_json_rows(history.query(store, sql)))


def _read() -> dict[str, tuple[str, str]]:
    """Name -> title and SQL."""
    _, *parts = _BEGIN.split(Path(__file__).with_name("queries.sql").read_text(encoding="utf-8"))
    return {
        name: (title, sql.strip().rstrip(";"))
        for name, title, sql in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    }


_QUERIES = _read()
