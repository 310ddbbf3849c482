"""Comments on the columns of the history: the docstrings of the records that provide the values.

Columns without a record have their comment in `tables.sql`.
"""

import re
from collections.abc import Mapping
from functools import cache

from tasks.history.derived_tables import Correction
from tasks.judging.results import AnchorRow, ControlRow
from tasks.ledger.labels import LabelRow, LabelSet
from tasks.ledger.passports import Card, CardLine
from tasks.ledger.side_records import BridgeRow, OtherCall, Restart
from tasks.records import AspectScore, HistoryRecord, Judgment, Outcome, PictureNote, RunEnd, RunStart
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


def comment(table: str, column: str) -> str:
    """Return the comment of a column: the docstrings of the fields of this name, and the meaning of NULL.

    Raises:
        KeyError: no record of the table has a field of this name.
    """
    told = [(record, _docstrings(record)) for record in RECORDS[table]]
    having = [(record, docstrings[column]) for record, docstrings in told if column in docstrings]
    if not having:
        raise KeyError(f"no record has the column {table}.{column}")
    words = [docstring for _, docstring in having]
    if len(having) < len(told):
        words += [_WITHOUT.get(record, "") for record, _ in having]
    return " ".join(filter(None, dict.fromkeys(words)))


@cache  # called for every column of a history
def _docstrings(record: type[HistoryRecord]) -> dict[str, str]:
    """Return the docstrings of a record's fields by key in the ledger, with NULL for None; empty if there is none."""
    return {
        field.serialization_alias or name: re.sub(r"\bNone\b", "NULL", " ".join((field.description or "").split()))
        for name, field in record.model_fields.items()
    }
