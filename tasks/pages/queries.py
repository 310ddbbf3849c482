"""Queries of the pages, by name, and sentences on people's labels from their answers."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from tasks.comparing.trend import Point
from tasks.errors import InputError
from tasks.history import queries as history
from tasks.protocols import protocol_of
from tasks.statistics.concordance import FEWEST

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
        values = {name: row[name] for name in Point._fields}
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


Row = Mapping[str, Any]


def people_lines_of(store: Path, run_id: str) -> list[str]:
    """Return sentences on people's labels for an evaluation; empty if the history cannot be queried now."""
    try:
        return people_lines(ask(store, "people", run=run_id).rows)
    except InputError:
        return []


def people_lines(rows: Iterable[Row]) -> list[str]:
    """Return a sentence for each score that people's labels are about, and one more on the agreement."""
    return [line for row in rows if _is_about(row) for line in _lines(row)]


def people_in_brief(row: Row) -> str:
    """Return the same in few words, for a place beside the raw score; empty if no labels are about it."""
    if not _is_about(row):
        return ""
    if not (words := corrected_words(row)):
        return f"not corrected by people: {row['why']}{_bounds(row)}"
    told = f"corrected by {row['labels']} labels of {_people(row['people'])}: {words}{_bounds(row)}"
    return "; ".join([told, *agreement_words(row), *filter(None, [row["why"]])])


def corrected_words(row: Row) -> str:
    """Return the corrected score and its interval; empty if there is none."""
    if row["corrected"] is None:
        return ""
    decimals = protocol_of(row["flow"]).decimals
    value, low, high = (f"{row[name]:.{decimals}f}" for name in ("corrected", "corrected_low", "corrected_high"))
    return f"{value} [{low}, {high}]"


def _bounds(row: Row) -> str:
    """Return the bounds for what people could not tell, and what the number before them supposes; empty if none."""
    if row["bounds_low"] is None:
        return ""
    low, high = (f"{row[name]:.{protocol_of(row['flow']).decimals}f}" for name in ("bounds_low", "bounds_high"))
    supposed = " if those they could not tell are like the others" if row["corrected"] is not None else ""
    return f"{supposed}, and between {low} and {high} whatever those {row['cannot_tell']} are"


def _is_about(row: Row) -> bool:
    """Return whether people's labels are about this score, even if they do not count."""
    return bool(row["labels"]) or "does not count" in row["why"]


def _lines(row: Row) -> Iterable[str]:
    whose = f"{row['candidate']}, {row['dimension']}"
    if words := corrected_words(row):
        decimals = protocol_of(row["flow"]).decimals
        by = f"corrected by {row['labels']} labels of {_people(row['people'])}{_bounds(row)}"
        alone = f"the judge alone: {row['score']:.{decimals}f}"
        yield f"{whose}: {words} {by}; {alone}" + (f". {row['why']}" if row["why"] else "")
    else:
        yield f"{whose}: not corrected by people: {row['why']}{_bounds(row)}"
    if told := agreement_words(row):
        yield f"  {'; '.join(told)} (95% intervals; kappa has none below {FEWEST} samples)"


def agreement_words(row: Row) -> list[str]:
    """Describe the agreement of judge and people, and of people with each other, each with its interval."""
    told = (
        _share("judge and people agree on", row, ("agreed", "kappa"), row["labels"]),
        _share("people agree with each other on", row, ("people_agreed", "people_kappa"), row["shared"]),
    )
    return [*filter(None, told)]


def _share(words: str, row: Row, names: tuple[str, str], n: int) -> str:
    name, kappa = names
    if row[name] is None:
        return ""
    low, high = 100 * row[f"{name}_low"], 100 * row[f"{name}_high"]
    return f"{words} {row[name]:.0%} of {n}, which can mean {low:.0f}-{high:.0f}%{_kappa(row, kappa)}"


def _kappa(row: Row, name: str) -> str:
    """Return the agreement beyond chance; empty if undefined, as for a rater with one answer for everything."""
    if row[name] is None:
        return ""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return f", kappa {row[name]:.2f}" + (f" [{low:.2f}, {high:.2f}]" if low is not None and high is not None else "")


def _people(number: int) -> str:
    return "1 person" if number == 1 else f"{number} people"
