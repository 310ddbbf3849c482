"""Columns of the history: types and comments, from the fields of the records that provide the values.

Columns without a record have both in `tables.sql`.
"""

import re
from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from tasks.history.derived_tables import Correction
from tasks.judging.results import AnchorRow, ControlRow
from tasks.ledger.labels import LabelRow, LabelSet
from tasks.ledger.passports import Card, CardLine
from tasks.ledger.side_records import BridgeRow, OtherCall, Restart
from tasks.records import AspectScore, HistoryRecord, Judgment, Outcome, PictureNote, Record, RunEnd, RunStart
from tasks.statistics.rates import RateRow
from tasks.statistics.scores import GradeRow, ScoreRow

RECORDS: Mapping[str, tuple[type[HistoryRecord], ...]] = {
    "runs": (RunStart, RunEnd),
    "judgments": (Judgment,),
    "outcomes": (Outcome,),
    "controls": (ControlRow,),
    "anchor_outcomes": (AnchorRow,),
    "aspect_scores": (AspectScore, Judgment),
    "scores": (ScoreRow, GradeRow),
    "rates": (RateRow,),
    "pictures": (PictureNote,),
    "labels": (LabelRow, LabelSet),
    "passports": (CardLine, Card),
    "other_calls": (OtherCall,),
    "baselines": (Restart,),
    "bridges": (BridgeRow,),
    "corrections": (Correction,),
}
"""Table -> records whose fields are its columns."""

_WITHOUT: Mapping[type[HistoryRecord], str] = {
    RunEnd: "NULL while unfinished.",
    ScoreRow: "NULL for generated images.",
    GradeRow: "NULL for figures.",
}
"""Meaning of NULL in a column that only this one of its table's records has."""
_TYPES: Mapping[Any, str] = {
    str: "VARCHAR",
    int: "BIGINT",
    float: "DOUBLE",
    bool: "BOOLEAN",
    dict[str, object]: "JSON",
}
_TABLE = re.compile(r"^CREATE TABLE (\w+) \(.+?^\);", re.DOTALL | re.MULTILINE)
_NAMES = re.compile(r"\{(.+?)\}", re.DOTALL)


def with_definitions(sql: str) -> str:
    """Return the SQL of tables, with definitions of columns in place of the names in braces.

    A column may be NULL if its field may be None or left out, unless NOT NULL follows the name.
    """
    return _TABLE.sub(_defined, sql)


def comment(table: str, column: str) -> str:
    """Return the comment of a column: the docstrings of the fields of this name, and the meaning of NULL.

    Raises:
        KeyError: no record of the table has a field of this name.
    """
    fields = _fields(table, column)
    words = [re.sub(r"\bNone\b", "NULL", " ".join((field.description or "").split())) for field in fields.values()]
    return " ".join(filter(None, dict.fromkeys([*words, _without(table, fields)])))


def _defined(table: re.Match[str]) -> str:
    def definitions(names: re.Match[str]) -> str:
        return ", ".join(_definition(table[1], *each.split(maxsplit=1)) for each in names[1].split(","))

    return _NAMES.sub(definitions, table[0])


def _definition(table: str, column: str, not_null: str = "") -> str:
    fields = _fields(table, column)
    kind = "TIMESTAMP" if column.endswith("_at") else _type(next(iter(fields.values())))
    may_be_null = _without(table, fields) or any(
        not field.is_required() or NoneType in get_args(field.annotation) for field in fields.values()
    )
    return f'"{column}" {kind} {not_null if may_be_null else "NOT NULL"}'


def _fields(table: str, column: str) -> Mapping[type[HistoryRecord], FieldInfo]:
    told = {record: _by_key(record).get(column) for record in RECORDS[table]}
    found = {record: field for record, field in told.items() if field}
    if not found:
        raise KeyError(f"no record has the column {table}.{column}")
    return found


@cache  # called for every column of a history
def _by_key(record: type[Record]) -> dict[str, FieldInfo]:
    """Return the fields of a record by key in the ledger."""
    return {field.serialization_alias or name: field for name, field in record.model_fields.items()}


def _without(table: str, fields: Mapping[type[HistoryRecord], FieldInfo]) -> str:
    """Return the meaning of NULL in a column that not all records of its table have; empty: it has none."""
    return "" if len(fields) == len(RECORDS[table]) else next(filter(None, map(_WITHOUT.get, fields)), "")


def _type(field: FieldInfo) -> str:
    """Return the type of a column; a whole number may have its own in the field's metadata."""
    return next((each for each in field.metadata if isinstance(each, str)), "") or _type_of(field.annotation)


def _type_of(annotation: Any) -> str:
    if annotation in _TYPES:
        return _TYPES[annotation]
    origin, given = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return "VARCHAR"
    if origin is UnionType:
        return _type_of(next(each for each in given if each is not NoneType))
    if origin is tuple:
        return f"{_type_of(given[0])}[]"
    if origin is dict:
        return f"MAP({_type_of(given[0])}, {_type_of(given[1])})"
    fields = (f'"{name}" {_type(field)}' for name, field in _by_key(annotation).items())
    return f"STRUCT({', '.join(fields)})"
