"""Queries of the history: SQL that only reads, the choice of an evaluation, and the cost of the month.

Each function that opens the history raises InputError where there is none, or DuckDB refuses a query.
"""

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from datetime import date, datetime, time
from decimal import Decimal
from difflib import get_close_matches
from functools import wraps
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar, cast

from tasks.errors import InputError
from tasks.history.database import HISTORY, Connection, UnknownName, ended_after, reading, told
from tasks.ledger.evaluations import shared_words, unmeasured_words
from tasks.records import BudgetStop
from tasks.spending.budget import VARIABLE, Month, Sum, month_budget, month_of
from tasks.text import listed, money, number_of

if TYPE_CHECKING:
    from polars import DataFrame

P = ParamSpec("P")
R = TypeVar("R")
_CATALOG = """
    SELECT table_name AS name, 'table' AS kind, comment FROM duckdb_tables() WHERE NOT internal AND NOT temporary
    UNION ALL
    SELECT view_name, 'view', comment FROM duckdb_views() WHERE NOT internal
    ORDER BY kind DESC, name"""


class Table(NamedTuple):
    """Answer to a query. Values are Python's own; JSON columns are decoded."""

    columns: tuple[str, ...]
    """Unique names: a second `score` is `score_2`."""
    rows: list[tuple[Any, ...]]


class Entry(NamedTuple):
    """Table or view that can be queried by its name."""

    name: str
    kind: str
    """`table` or `view`."""
    comment: str


class Column(NamedTuple):
    """Column of a table or view."""

    name: str
    kind: str
    """DuckDB's type."""
    meaning: str


ROWS_AT_ONCE = 2048
"""Rows fetched before their size is checked."""
_PLAIN = {type(None), bool, int, str}
"""Types that JSON writes as they are."""
_HELD: ContextVar[tuple[Path, Connection] | None] = ContextVar("held", default=None)
"""History that is held open, with its store."""
_SHARD_RUNS = """
    CREATE OR REPLACE TEMP TABLE shard_runs AS FROM history.main.shard_runs UNION ALL
    SELECT run_id, evaluation_id FROM runs WHERE run_id = $1 AND status = 'unfinished' AND coalesce(shards, 1) = 1"""
_EVALUATIONS = "CREATE OR REPLACE TEMP TABLE evaluations AS FROM history.main.evaluations"
"""Temporary copy of a view, as `_SHARD_RUNS` makes another: views look for a name among the temporary tables first."""


@contextmanager
def held_open(store: Path) -> Generator[None]:
    """Send all queries to this store within the context to one open history; a nested context shares it.

    Opening takes longer than most answers. All answers within the context are of one moment, even if a landing
    completes meanwhile.
    """
    with opened(store) as db:
        token = _HELD.set((store, db))
        try:
            yield
        finally:
            _HELD.reset(token)


@contextmanager
def held_together(store: Path, unfinished: str = "") -> Generator[None]:
    """Hold the history open as `held_open` does, and compute `evaluations`, the base of most views, only once.

    DuckDB would otherwise plan and compute it again in each query of the other views, often twice.

    Args:
        unfinished: id of a run; if it has not finished, the views show it, too, as an evaluation of its own.
    """
    with held_open(store), opened(store) as db:
        db.execute(_SHARD_RUNS, [unfinished])
        db.execute(_EVALUATIONS)
        yield


def one_opening(answer: Callable[Concatenate[Path, P], R]) -> Callable[Concatenate[Path, P], R]:
    """Decorate a function whose first argument is a store: all its queries run within `held_together`.

    Where the store is held open already, they run as the others of that context.
    """

    @wraps(answer)
    def asked(store: Path, *given: P.args, **named: P.kwargs) -> R:
        held = _HELD.get()
        with nullcontext() if held and held[0] == store else held_together(store):
            return answer(store, *given, **named)

    return asked


@contextmanager
def opened(store: Path) -> Generator[Connection]:
    """Open the history for a moment, or use the one that is held open for this store."""
    held = _HELD.get()
    if held and held[0] == store:
        with told():
            yield held[1]
    else:
        if not (store / HISTORY).exists():
            raise InputError(
                f"{store} holds no history yet: `jury run` makes one, `jury store sync` makes it from the ledgers"
            )
        with reading(store) as db:
            yield db


def query(
    store: Path, name_or_sql: str, values: Sequence[object] = (), seconds: float = 0, most_bytes: int = 0
) -> Table:
    """Return the rows of the table or view of this name, or the answer to SQL; of several statements the last answers.

    Args:
        values: values of `$1`, `$2` … in the SQL: texts of strangers never become a part of it.
        seconds: time after which the query is interrupted; 0: no limit.
        most_bytes: maximum size of the answer, written out; 0: no limit.

    Raises:
        InputError: there is no such name; a value is beyond Python's range; the answer is too large; or DuckDB refused
            the SQL (with the reason and its message). SQL can neither write to a history opened here nor reach other
            files.
    """
    with opened(store) as db, ended_after(db, seconds):
        db.execute(as_sql(db, name_or_sql), list(values))
        described = db.description or []
        with _showable():
            rows = _fetch(db, most_bytes) if described else []
            kinds = [str(column[1]) for column in described]
            columns = distinct([column[0] for column in described])
            return Table(columns, _decoded(rows, kinds) if "JSON" in kinds else rows)


def _fetch(db: Connection, most_bytes: int) -> list[tuple[Any, ...]]:
    """Return all rows, and check their size instead of limiting the memory: DuckDB crashes if it gets none."""
    if not most_bytes:
        return db.fetchall()
    rows: list[tuple[Any, ...]] = []
    size = 0
    while batch := db.fetchmany(ROWS_AT_ONCE):
        size += len(repr(batch))
        if size > most_bytes:
            bound = f"{most_bytes / 1e9:g} GB"
            raise InputError(f"the answer does not fit into {bound}: ask for fewer rows (LIMIT) or for shorter texts")
        rows += batch
    return rows


def catalog(store: Path) -> list[Entry]:
    """Return the tables and views of the history with their comments, views first."""
    with opened(store) as db:
        return _entries(db)


def columns_of(store: Path, name: str) -> list[Column]:
    """Return the columns of a table or view with their comments.

    Raises:
        InputError: there is no such name.
    """
    sql = "SELECT column_name, data_type, comment FROM duckdb_columns() WHERE table_name = $1 AND database_name = $2"
    with opened(store) as db:
        known = _known(db, name.strip().rstrip(";").strip()).lower()
        return [Column(*row) for row in db.execute(sql, [known, Path(HISTORY).stem]).fetchall()]


def as_json_rows(table: Table) -> list[dict[str, Any]]:
    """Return rows as JSON objects: times as ISO 8601 (UTC), NaN and infinity as null, other types as text.

    Raises:
        InputError: a value is nested too deeply.
    """
    with _showable():
        # Most values need no conversion, and a function call for each takes as long as the query.
        return [
            {
                name: value if type(value) in _PLAIN else _json(value)
                for name, value in zip(table.columns, row, strict=True)
            }
            for row in table.rows
        ]


@contextmanager
def _showable() -> Generator[None]:
    try:
        yield
    except (OverflowError, RecursionError, ValueError) as error:
        raise InputError(
            f"a value of the answer is beyond what can be shown ({error}): ask for its column as text, column::VARCHAR"
        ) from error


def _entries(db: Connection) -> list[Entry]:
    return [Entry(*row) for row in db.execute(_CATALOG).fetchall()]


def _known(db: Connection, name: str) -> str:
    names = [entry.name for entry in _entries(db)]
    if name.lower() not in names:
        alike = get_close_matches(name.lower(), names, 1)
        meant = f", did you mean {alike[0]}?" if alike else ":"
        raise UnknownName(f"no table or view is called {name!r}{meant} there are {', '.join(names)}; or write SQL")
    return name


def as_sql(db: Connection, name_or_sql: str) -> str:
    """Return the given SQL, or SQL for all rows of the table or view of this name.

    Raises:
        InputError: there is no such name.
    """
    text = name_or_sql.strip().rstrip(";").strip()
    return text if len(text.split()) > 1 else f'FROM "{_known(db, text)}"'


def distinct(names: list[str]) -> tuple[str, ...]:
    """Return unique names of columns: a second `score` is `score_2`, unless another column has that name."""
    found: list[str] = []
    for name in names:
        unique, number = name, 1
        while unique in found or (number > 1 and unique in names):
            number += 1
            unique = f"{name}_{number}"
        found.append(unique)
    return tuple(found)


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


def write_frames(store: Path, questions: Sequence[str], seconds: float, folder: Path) -> None:
    """Write all rows of the tables or views of these names, or the answers to SQL, all at one moment, as Arrow files.

    JSON columns are texts; a second column of one name is `<name>_2`. A statement that is not a query gives no columns.

    Args:
        folder: folder of the files, which are named `0`, `1` …

    Raises:
        InputError: there is no such name, no answer to the SQL, or a frame cannot hold the answer.
    """
    with opened(store) as db:
        for number, question in enumerate(questions):
            _frame(db, as_sql(db, question), seconds).write_ipc(folder / str(number))


def _frame(db: Connection, sql: str, seconds: float) -> "DataFrame":
    import polars

    with ended_after(db, seconds):
        answer = db.sql(sql)
        if answer is None:  # pyright: ignore[reportUnnecessaryComparison]
            return polars.DataFrame()
        names = distinct(answer.columns)
        if [*names] != answer.columns:
            quoted = ", ".join('"{}"'.format(name.replace('"', '""')) for name in names)
            answer = db.sql(f"FROM ({sql}\n) AS answer({quoted})")
        rows = answer.materialize()  # within DuckDB's limits
    try:
        return polars.DataFrame(rows)
    except (polars.exceptions.PolarsError, polars.exceptions.PanicException) as error:
        raise InputError(
            f"this answer has a column that no frame can hold: cast it to another type: {error}"
        ) from error


SHOWN = 5
"""Runs named in an error."""


class Evaluation(NamedTuple):
    """Finished evaluation: the columns of the view `evaluations` that comparisons use."""

    run_id: str
    flow: str
    started_at: datetime
    """UTC."""
    dataset: str
    dataset_key: str
    series_key: str
    candidates: list[str]
    judge: str
    prompt_set: str
    dimensions: list[str]
    """Dimensions or tags, in the order of the prompt set."""
    protocol_key: str
    protocol: dict[str, str]
    calls: int
    reused: int
    replies: int
    anew: int
    measured: bool
    stopped: dict[str, Any] | None
    """Fields of a `BudgetStop`; None: the evaluation is complete."""

    @property
    def unmeasured(self) -> str:
        """Sentence if the evaluation measured nothing; otherwise empty."""
        if self.measured or self.stopped:
            return ""
        return unmeasured_words(self.replies, self.anew, self.run_id, self.calls)

    @property
    def partial(self) -> str:
        """Sentence if the evaluation stopped at its budget; otherwise empty."""
        return f"{self.run_id}: {stop_of(self.stopped).sentence}" if self.stopped else ""


def stop_of(row: Mapping[str, Any]) -> BudgetStop:
    """Return the column `stopped` as a record."""
    return BudgetStop.model_validate({name: value for name, value in row.items() if value is not None})


def find(store: Path, wanted: str) -> Evaluation:
    """Return the finished evaluation with this id, or the only one whose id begins so.

    Raises:
        InputError: there is none, or several; or it is unfinished.
    """
    columns = ", ".join(Evaluation._fields)
    sql = f"SELECT {columns} FROM evaluations WHERE starts_with(run_id, $1) ORDER BY run_id"
    found = [Evaluation(*row) for row in query(store, sql, values=(wanted,)).rows]
    exact = [run for run in found if run.run_id == wanted]
    if len(exact or found) != 1:
        raise InputError(_not_one(store, wanted, [run.run_id for run in found]))
    return (exact or found)[0]


def newest(store: Path, flow: str = "", candidate: str = "", measured: bool = False) -> str:
    """Return the id of the newest finished evaluation of a flow and a candidate; empty: of any.

    Args:
        measured: choose only among those that measured something.

    Raises:
        InputError: there is none.
    """
    sql = """SELECT run_id FROM evaluations
        WHERE (measured OR NOT $1) AND $2 IN ('', flow) AND ($3 = '' OR list_contains(candidates, $3))
        ORDER BY started_at DESC, run_id DESC LIMIT 1"""
    found = query(store, sql, values=(measured, flow, candidate)).rows
    if not found:
        what = f"finished {flow} run" if flow else "finished run"
        of = (f" of {candidate}" if candidate else "") + " with own replies" * measured
        raise InputError(f"{store} holds no {what}{of}; `jury status` lists the runs")
    return str(found[0][0])


def last_comparable(store: Path, run_id: str, candidate: str = "") -> tuple[str, list[str]]:
    """Return the newest comparable evaluation before this one, and the candidates that both have; empty: there is none.

    An evaluation that measured nothing is compared with none, and none with it.

    Args:
        candidate: one that both must have; empty: any.
    """
    sql = """SELECT b.run_id, list_sort(list_intersect(b.candidates, e.candidates))
        FROM evaluations e JOIN evaluations b USING (flow, series_key, protocol_key)
        WHERE e.run_id = $1 AND e.measured AND b.measured AND b.started_at < e.started_at
            AND list_has_any(b.candidates, e.candidates) AND ($2 = '' OR list_contains(b.candidates, $2))
        ORDER BY b.started_at DESC, b.run_id DESC LIMIT 1"""
    found = query(store, sql, values=(run_id, candidate)).rows
    return found[0] if found else ("", [])


def runs_of_candidates(store: Path, one: str, other: str, flow: str = "") -> list[tuple[str, str]]:
    """Return the newest complete evaluation of each of two candidates, for each flow (or this one) that has both.

    They are the same evaluation if one has both candidates; else ones that compare are preferred to newer ones. There
    are none if neither name is a candidate's.

    Raises:
        InputError: only one of the names is a candidate's, or no flow has both.
    """
    sql = """SELECT a.run_id, b.run_id FROM evaluations a JOIN evaluations b USING (flow)
        WHERE list_contains(a.candidates, $1) AND list_contains(b.candidates, $2) AND $3 IN ('', flow)
            AND a.stopped IS NULL AND b.stopped IS NULL
        QUALIFY row_number() OVER (PARTITION BY flow ORDER BY a.run_id = b.run_id DESC,
            (a.series_key, a.protocol_key) = (b.series_key, b.protocol_key) DESC,
            greatest(a.started_at, b.started_at) DESC, least(a.started_at, b.started_at) DESC) = 1
        ORDER BY a.started_at, a.run_id"""
    found = [(str(before), str(after)) for before, after in query(store, sql, values=(one, other, flow)).rows]
    every = "SELECT DISTINCT unnest(candidates) AS candidate FROM evaluations ORDER BY candidate"
    names = [] if found else [str(name) for (name,) in query(store, every).rows]
    if {one, other} & {*names}:
        raise InputError(
            f"no {flow or 'flow'} has complete runs of both {one!r} and {other!r}; candidates are {listed(names)}"
        )
    return found


def shared_replies(store: Path, one: str, other: str) -> str:
    """Return a sentence if two evaluations share replies; otherwise an empty text."""
    if one == other:
        return ""
    sql = """WITH counting AS (
        FROM judgment_attempts WHERE last_attempt AND status = 'ok' AND coalesce("control", '') = '')
        SELECT count(*) FILTER (a.run_id IS NOT NULL), count(*) FROM counting b LEFT JOIN (
            SELECT DISTINCT run_id, "key", judged_at FROM counting WHERE run_id = $1) a USING ("key", judged_at)
        WHERE b.run_id = $2"""
    [(shared, replies)] = query(store, sql, values=(one, other)).rows
    return shared_words(shared, replies, one, other)


def _not_one(store: Path, wanted: str, found: list[str]) -> str:
    if found:
        return f"{wanted!r} is the beginning of several runs: {listed(found, SHOWN)}"
    sql = "SELECT run_id FROM runs WHERE starts_with(run_id, $1) OR starts_with(evaluation_id, $1)"
    if query(store, sql, values=(wanted,)).rows:
        return f"run {wanted!r} is unfinished: only finished runs, with all their shards, are compared"
    newest = [str(row[0]) for row in query(store, "SELECT run_id FROM evaluations ORDER BY run_id DESC LIMIT 5").rows]
    return f"no run is called {wanted!r}; the newest finished ones are {', '.join(newest) or 'none'}"


def month_lines(store: Path, now: datetime) -> list[str]:
    """Return lines about the month's money, by the ledgers; none if nothing was spent and nothing is limited.

    Args:
        now: present time, UTC, with a time zone.
    """
    if not store.is_dir():
        return []
    try:
        amount = month_budget()
        found = Month(store, month_of(now), amount or 0.0).sum()
    except (InputError, OSError) as error:
        return [f"budget     {error}"]
    if amount:
        return [_of_budget(now, amount, found), *_uncounted(found)]
    if not (found.spent or found.unknown):
        return []
    line = f"spent      {month_of(now)}: {money(found.spent)}; {VARIABLE} is not set, so that nothing limits it"
    return [line, *_uncounted(found)]


def _of_budget(now: datetime, amount: float, found: Sum) -> str:
    unspent = sum(each.unspent for each in found.open.values())
    runs = number_of(len(found.open), "run")
    may_be = f", {money(unspent)} may be by {runs} at work or waiting" if found.open else ""
    left = money(max(found.left_of(amount), 0.0))
    return (
        f"budget     {month_of(now)}: {money(found.spent)} of {money(amount)} spent{may_be}, {left} left ({VARIABLE})"
    )


def _uncounted(found: Sum) -> list[str]:
    return [f"           without {number_of(found.unknown, 'call')} whose price is unknown"] if found.unknown else []
