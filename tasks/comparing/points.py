"""Points of a trend: what of the view `trend` is drawn, joined and tested."""

from datetime import datetime
from typing import NamedTuple

MOST_RUNS = 60
"""Runs drawn of each series, the newest: more would stand too close to be told apart."""


class Point(NamedTuple):
    """One evaluation in a series: a row of the view `trend`."""

    candidate: str
    dimension: str
    """`overall`, a dimension or a tag."""
    started_at: datetime
    """UTC."""
    run_id: str
    score: float | None
    """None: nothing of it was scored."""
    ci_low: float | None
    ci_high: float | None
    break_reason: str | None
    """What keeps it from being compared with the point before; None: nothing does."""
    protocol_key: str = ""
    dataset_key: str = ""
    baseline_score: float | None = None
    """What the nightly alarm measures it by; None: it is no night, or there is no baseline yet."""
    dropped: bool = False
    """Whether a drop below the baseline is open."""
    judge_change: str | None = None
    """Answered models and system fingerprints that the point before did not have, each with what it is."""
    joint: str | None = None
    """Where it is the first of another judge that a bridge joins to the line: which, and what was added before it."""


COLUMNS = tuple(name for name in Point._fields if name != "joint")
"""Columns of the view `trend` that make a point."""
