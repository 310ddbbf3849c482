"""The history asked: a table or view by its name, or any SQL that only reads.

Owns how an answer is brought into Python and JSON. How the history is opened is for `database`, how it is made for
`layout` and `loading`; how an answer is shown is the command's.
"""

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import date, datetime, time
from decimal import Decimal
from difflib import get_close_matches
from functools import wraps
from math import isfinite
from pathlib import Path
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar, cast

from tasks.errors import InputError
from tasks.history.database import HISTORY, Connection, ended_after, reading, told

P = ParamSpec("P")
R = TypeVar("R")
_CATALOG = """
    SELECT table_name AS name, 'table' AS kind, comment FROM duckdb_tables() WHERE NOT internal AND NOT temporary
    UNION ALL
    SELECT view_name, 'view', comment FROM duckdb_views() WHERE NOT internal
    ORDER BY kind DESC, name"""


class Table(NamedTuple):
    """The answer to a query. Values are Python's own; JSON columns are decoded."""

    columns: tuple[str, ...]
    """Names, each once: a second `score` is `score_2`."""
    rows: list[tuple[Any, ...]]


class Entry(NamedTuple):
    """A table or view that can be asked by its name."""

    name: str
    kind: str
    """`table` or `view`."""
    comment: str


_PLAIN = {type(None), bool, int, str}
"""What JSON writes as it is."""
_HELD: ContextVar[tuple[Path, Connection] | None] = ContextVar("held", default=None)
"""A history that is held open, with its store."""
_ARE_TOGETHER = "FROM duckdb_tables() WHERE temporary"
_TOGETHER = """
    CREATE TEMP TABLE shard_runs AS FROM history.main.shard_runs;
    CREATE TEMP TABLE evaluations AS FROM history.main.evaluations"""
"""Views look for a name among the temporary tables first."""


@contextmanager
def held_open(store: Path, wait_seconds: float = 30.0) -> Generator[None]:
    """Put all queries to this store within the context to one opened history: opening takes longer than most answers.
    Within another such context it is opened already.

    Nobody can write to it meanwhile, so it is for a few seconds at most.

    Raises:
        HistoryLocked: the history stayed in use for `wait_seconds`.
        InputError: there is no history.
    """
    with opened(store, wait_seconds) as db:
        token = _HELD.set((store, db))
        try:
            yield
        finally:
            _HELD.reset(token)


@contextmanager
def held_together(store: Path, wait_seconds: float = 30.0) -> Generator[None]:
    """As `held_open`, for whoever asks a dozen questions: `evaluations`, which most views are made of, is put together
    once, and the other views read that. Otherwise DuckDB plans and computes it anew in each of them, often twice.

    Raises:
        HistoryLocked: the history stayed in use for `wait_seconds`.
        InputError: there is no history, or it was made by another version.
    """
    with held_open(store, wait_seconds), opened(store, wait_seconds) as db:
        if not db.execute(_ARE_TOGETHER).fetchone():
            db.execute(_TOGETHER)
        yield


def one_opening(answer: Callable[Concatenate[Path, P], R]) -> Callable[Concatenate[Path, P], R]:
    """Of a function whose first argument is a store: all that it asks is asked as within `held_open`."""

    @wraps(answer)
    def asked(store: Path, *given: P.args, **named: P.kwargs) -> R:
        with held_open(store):
            return answer(store, *given, **named)

    return asked


@contextmanager
def opened(store: Path, wait_seconds: float) -> Generator[Connection]:
    """The history for a moment: the one that is held open, if it is this one.

    Raises:
        HistoryLocked: the history stayed in use for `wait_seconds`.
        InputError: there is no history, or DuckDB refused what was asked of it.
    """
    held = _HELD.get()
    if held and held[0] == store:
        with told():
            yield held[1]
    else:
        with reading(_existing(store), wait_seconds) as db:
            yield db


def query(
    store: Path, name_or_sql: str, wait_seconds: float = 30.0, values: Sequence[object] = (), seconds: float = 0
) -> Table:
    """Everything in the table or view of this name, or what this SQL comes to. Of several statements the last answers.

    What takes longer than `seconds` is interrupted; 0: nothing is.
    `values` stand for the `$1`, `$2` … of the SQL: texts of strangers never become a part of it.

    Raises:
        HistoryLocked: the history stayed in use for `wait_seconds`.
        InputError: there is no history or no such name, or DuckDB refused the SQL (why, and its message): a history
            opened here cannot be written to, and SQL reaches no other files.
    """
    with opened(store, wait_seconds) as db, ended_after(db, seconds):
        db.execute(as_sql(db, name_or_sql), list(values))
        described = db.description or []
        rows = db.fetchall() if described else []
    kinds = [str(column[1]) for column in described]
    columns = distinct([column[0] for column in described])
    return Table(columns, _decoded(rows, kinds) if "JSON" in kinds else rows)


def catalog(store: Path, wait_seconds: float = 30.0) -> list[Entry]:
    """Tables and views of the history with what they hold, views first.

    Raises:
        HistoryLocked: the history stayed in use for `wait_seconds`.
        InputError: there is no history.
    """
    with opened(store, wait_seconds) as db:
        return _entries(db)


def as_json_rows(table: Table) -> list[dict[str, Any]]:
    """Rows as JSON objects: times as ISO 8601 (UTC), what JSON cannot say (NaN, infinity) as null, the rest as text."""
    return [
        # Most values stay as they are, and to call a function for each takes as long as to ask for them.
        {name: value if type(value) in _PLAIN else _json(value) for name, value in zip(table.columns, row, strict=True)}
        for row in table.rows
    ]


def _existing(store: Path) -> Path:
    history = store / HISTORY
    if not history.exists():
        raise InputError(f"{store} holds no history yet: `jury run` makes one, `jury sync` makes it from the ledgers")
    return history


def _entries(db: Connection) -> list[Entry]:
    return [Entry(*row) for row in db.execute(_CATALOG).fetchall()]


def _known(db: Connection, name: str) -> str:
    names = [entry.name for entry in _entries(db)]
    if name.lower() not in names:
        alike = get_close_matches(name.lower(), names, 1)
        meant = f", did you mean {alike[0]}?" if alike else ":"
        raise InputError(f"no table or view is called {name!r}{meant} there are {', '.join(names)}; or write SQL")
    return name


def as_sql(db: Connection, name_or_sql: str) -> str:
    """The SQL that is asked, or that for all of the table or view of this name.

    Raises:
        InputError: there is no such name.
    """
    text = name_or_sql.strip().rstrip(";").strip()
    return text if len(text.split()) > 1 else f'FROM "{_known(db, text)}"'


def distinct(names: list[str]) -> tuple[str, ...]:
    """The names of columns, each once: a second `score` is `score_2`."""
    return tuple(
        f"{name}_{names[:at].count(name) + 1}" if name in names[:at] else name for at, name in enumerate(names)
    )


def _decoded(rows: list[tuple[Any, ...]], kinds: list[str]) -> list[tuple[Any, ...]]:
    return [
        tuple(json.loads(value) if kind == "JSON" and value else value for kind, value in zip(kinds, row, strict=True))
        for row in rows
    ]


def _json(value: object) -> object:
    match value:
        case None | bool() | int() | str():
            return value
        case float() | Decimal():
            return float(value) if isfinite(value) else None
        case date() | datetime() | time():
            return value.isoformat()
        case Mapping():
            items = cast(Mapping[object, object], value).items()
            return {str(key): _json(each) for key, each in items}
        case list() | tuple():
            return [_json(each) for each in cast(list[object], value)]
        case _:
            return str(value)
