"""What came before a scheduled run: how it stands against the last one, and the trend that it goes on."""

from pathlib import Path
from typing import NamedTuple

from tasks.comparing.regression import Since, since_last
from tasks.records import RunStart


class Past(NamedTuple):
    """What a scheduled run is shown beside."""

    since: Since | None
    """None: no earlier run compares with it."""
    trend: bytes
    """A PNG; empty where there is no earlier run at all."""


def look_back(store: Path, start: RunStart) -> Past:
    """The past of a finished evaluation that is in its store's history.

    Raises:
        HistoryLocked: the history stayed in use.
        ValueError: the history or the run's ledger cannot be read.
        RuntimeError: the trend cannot be drawn.
    """
    from tasks.showing.trend_chart import trend_chart, trend_points  # asks the history: DuckDB takes long to load

    return Past(since_last(store, start.run_id), trend_chart(trend_points(store, start)))
