"""What people's labels say of an evaluation, in words: the corrected score beside the raw one, and how far they agree.

Owns the sentences, for the terminal and for the report; their numbers are the history's (`corrected`).
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tasks.errors import HistoryLocked, InputError
from tasks.kinds import kind_of
from tasks.pages.queries import ask

Row = Mapping[str, Any]


def people_lines_of(store: Path, run_id: str) -> list[str]:
    """What people's labels say of an evaluation; nothing where the history cannot be asked now."""
    try:
        return people_lines(ask(store, "people", run=run_id).rows)
    except (HistoryLocked, InputError):
        return []


def people_lines(rows: Iterable[Row]) -> list[str]:
    """A sentence for each score that people's labels are about, and one more on what agreement can mean."""
    return [line for row in rows if row["labels"] or "does not count" in row["why"] for line in _lines(row)]


def corrected_words(row: Row) -> str:
    """The corrected score and its interval; empty where there is none."""
    if row["corrected"] is None:
        return ""
    decimals = kind_of(row["flow"]).decimals
    value, low, high = (f"{row[name]:.{decimals}f}" for name in ("corrected", "corrected_low", "corrected_high"))
    return f"{value} [{low}, {high}]"


def _lines(row: Row) -> Iterable[str]:
    whose = f"{row['candidate']}, {row['dimension']}"
    if words := corrected_words(row):
        more = f" ({row['cannot_tell']} more could not be told)" if row["cannot_tell"] else ""
        decimals = kind_of(row["flow"]).decimals
        yield (
            f"{whose}: {words} corrected by {row['labels']} labels of {_people(row['people'])}{more}; the judge alone: "
            f"{row['score']:.{decimals}f}" + (f". {row['why']}" if row["why"] else "")
        )
    else:
        yield f"{whose}: not corrected by people: {row['why']}"
    yield from _agreement(row)


def _agreement(row: Row) -> Iterable[str]:
    """How far judge and people agree, and people among themselves, each with what so few samples leave open."""
    told = [_share("judge and people agree on", row, "agreed", row["labels"])]
    told.append(_share("people agree with each other on", row, "people_agreed", row["shared"]))
    if any(told):
        yield f"  {'; '.join(filter(None, told))} (95% intervals: what so few leave open; kappa: jury agreement)"


def _share(words: str, row: Row, name: str, n: int) -> str:
    if row[name] is None:
        return ""
    low, high = 100 * row[f"{name}_low"], 100 * row[f"{name}_high"]
    return f"{words} {row[name]:.0%} of {n}, which can mean {low:.0f}-{high:.0f}%"


def _people(number: int) -> str:
    return "1 person" if number == 1 else f"{number} people"
