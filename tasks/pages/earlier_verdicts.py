"""What came of the samples of a page in the evaluations before: rows of the history made small enough for a page.

A page has the evaluations once, and each of its samples names them by their place. How they look is for `page.js`.
"""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from tasks.kinds.display import Display
from tasks.pages.page_names import page_name
from tasks.pages.reasoning import Rows
from tasks.records import Record


class Before(Record):
    """An evaluation before the one of a page."""

    run: str
    when: str
    """Minute in which it began, UTC."""
    differs: bool = False
    """Whether it judged another dataset, or by another protocol."""
    page: str
    """File of its page, which may lie beside this one."""


class Earlier(Record):
    """What came of one sample in one of them."""

    at: int
    """Which of them, from 0."""
    overall: str
    """Outcome, or score of a generated image."""
    verdicts: tuple[str, ...] = ()
    """By dimension, where there are several."""


class EarlierVerdicts(NamedTuple):
    """All that is known of an evaluation's samples from before."""

    before: list[Before]
    """The newest first."""
    of: Mapping[tuple[str, str], tuple[Earlier, ...]]
    """(candidate, sample) -> the newest first."""


def earlier_verdicts(rows: Rows, display: Display[Any]) -> EarlierVerdicts:
    """The answer to the question `earlier`, in its order.

    Args:
        rows: of evaluations, one after the other.
        display: how what was judged is shown.
    """
    before: dict[str, Before] = {}
    found: defaultdict[tuple[str, str], list[Earlier]] = defaultdict(list)
    for row in rows:
        before.setdefault(row["run_id"], _before(row))
        verdicts = tuple(each or "missing" for each in row["verdicts"]) if len(row["verdicts"]) > 1 else ()
        overall = display.labels(row, {}, 0.0).overall
        earlier = Earlier(at=len(before) - 1, overall=overall, verdicts=verdicts)
        found[row["candidate"], row["sample_id"]].append(earlier)
    return EarlierVerdicts([*before.values()], {place: tuple(each) for place, each in found.items()})


def _before(row: Mapping[str, Any]) -> Before:
    when = f"{datetime.fromisoformat(row['started_at']):%Y-%m-%d %H:%M}"
    return Before(run=row["run_id"], when=when, differs=not row["comparable"], page=page_name(row["run_id"]))
