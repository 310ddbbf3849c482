"""Queries of the pages, by name, and sentences on people's labels from their answers."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from string import Template
from typing import Any

from tasks.errors import InputError
from tasks.history import queries as history
from tasks.ledger import run_files as ledger
from tasks.ledger.labels import ABOUT
from tasks.protocols import protocol_of

_BEGIN = re.compile(r"^-- (\w+): .+$", re.MULTILINE)


def question(name: str, **values: str) -> str:
    """Return the SQL of one query, with these values (ids of evaluations) in their places."""
    quoted = {key: "'" + value.replace("'", "''") + "'" for key, value in values.items()}
    return Template(QUERIES[name]).substitute(quoted)


def ask(store: Path, name: str, **values: str) -> list[dict[str, Any]]:
    """Return the rows of one query on the history of a store; InputError if there is none."""
    return history.as_json_rows(history.query(store, question(name, **values)))


_, *_parts = _BEGIN.split(Path(__file__).with_name("queries.sql").read_text(encoding="utf-8"))
QUERIES = {name: sql.strip().rstrip(";") for name, sql in zip(_parts[::2], _parts[1::2], strict=True)}
"""Name -> SQL."""


Row = Mapping[str, Any]


def people_lines_of(store: Path, run_id: str) -> list[str]:
    """Return sentences on people's labels for an evaluation; empty if the history cannot be queried now."""
    if not ledger.folders_with(store, "labels", ABOUT):  # found sooner than the history opens
        return []
    try:
        return people_lines(ask(store, "people", run=run_id))
    except InputError:
        return []


def people_lines(rows: Iterable[Row]) -> list[str]:
    """Return a sentence for each score that people's labels are about: first what the judge says, then people."""
    return [f"{_judge_words(row)}; {words}" for row in rows if (words := people_in_brief(row))]


def people_in_brief(row: Row) -> str:
    """Return what people say of a score, to follow what the judge says of it; empty if no labels are about it."""
    if not row["labels"] and "does not count" not in row["why"]:
        return ""
    if row["corrected"] is None:
        told = f"not corrected by people: {row['why']}{_bounds(row)}"
    else:
        by = f"corrected by {row['labels']} labels of {_people(row['people'])}"
        told = "; ".join(filter(None, [f"{by}: {_interval(row)}{_bounds(row)}", row["why"]]))
    judge = _share("judge and people agree on", row, ("agreed", "kappa"), row["labels"])
    people = _share("people agree with each other on", row, ("people_agreed", "people_kappa"), row["shared"])
    return "; ".join(filter(None, [told, judge, people]))


def corrected_words(row: Row) -> str:
    """Return the corrected score with its interval, labels, people and agreement; empty if there is none."""
    if row["corrected"] is None:
        return ""
    return f"{_interval(row)} ({row['labels']} labels of {_people(row['people'])}, {row['agreed']:.0%} as the judge)"


def _judge_words(row: Row) -> str:
    score = "no score" if row["score"] is None else f"{row['score']:.{protocol_of(row['flow']).decimals}f}"
    return f"{row['candidate']}, {row['dimension']}: {score} by the judge"


def _interval(row: Row) -> str:
    decimals = protocol_of(row["flow"]).decimals
    value, low, high = (f"{row[name]:.{decimals}f}" for name in ("corrected", "corrected_low", "corrected_high"))
    return f"{value} [{low}, {high}]"


def _bounds(row: Row) -> str:
    """Return the bounds for what has no answer, and what the number before them supposes; empty if none."""
    if row["bounds_low"] is None:
        return ""
    low, high = (f"{row[name]:.{protocol_of(row['flow']).decimals}f}" for name in ("bounds_low", "bounds_high"))
    supposed = " if those without an answer of judge or people are like the others" * (row["corrected"] is not None)
    return f"{supposed}, and between {low} and {high} whatever those are"


def _share(words: str, row: Row, names: tuple[str, str], n: int) -> str:
    """Return a share with its 95% interval, and the agreement beyond chance, as far as they are defined."""
    name, kappa = names
    if row[name] is None:
        return ""
    low, high = 100 * row[f"{name}_low"], 100 * row[f"{name}_high"]
    beyond = "" if row[kappa] is None else f" (kappa {row[kappa]:.2f})"
    return f"{words} {row[name]:.0%} [{low:.0f}, {high:.0f}] of {n}{beyond}"


def _people(number: int) -> str:
    return "1 person" if number == 1 else f"{number} people"
