"""What came before a scheduled run: how it stands against the last one, and the trend that it goes on."""

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tasks.comparing.regression import Since, since_last
from tasks.errors import HistoryLocked
from tasks.kinds import kind_of
from tasks.records import RunStart


class Past(NamedTuple):
    """What a scheduled run is shown beside."""

    since: Since | None
    """None: no earlier run compares with it."""
    trend: bytes
    """A PNG; empty where there is no earlier run at all, or the history cannot be read or the chart not be drawn."""


def look_back(store: Path, start: RunStart) -> Past:
    """The past of a finished evaluation that is in its store's history.

    Raises:
        InputError: the run's ledger cannot be read.
    """
    from tasks.comparing.trend import trend_png, trend_points  # asks the history: DuckDB takes long to load

    since, trend = since_last(store, start.run_id), b""
    # A drop is told whether or not the trend can be drawn.
    with suppress(HistoryLocked, ValueError, RuntimeError):
        trend = trend_png(trend_points(store, start), kind_of(start.flow).display.level)
    return Past(since, trend)
