"""What came before a scheduled run: where it stands against its baseline and the last run, and the trend it goes on."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tasks.comparing.since_last import Since, since_last
from tasks.errors import HistoryLocked, InputError
from tasks.kinds import kind_of
from tasks.records import RunStart

if TYPE_CHECKING:
    from tasks.comparing.alarms import Watched

WAIT_SECONDS = 10.0
"""Longest wait for a history that is in use."""


class Past(NamedTuple):
    """What a scheduled run is shown beside."""

    since: Since | None
    """None: no earlier run compares with it."""
    trend: bytes
    """A PNG; empty where there is no earlier run at all, or the history cannot be read or the chart not be drawn."""
    watched: "Watched | None" = None
    """None: the history cannot be read, so that the next run tells of a drop."""


def look_back(store: Path, start: RunStart) -> Past:
    """The past of a finished evaluation. Runs that the history lacks are loaded: a night that is missing may be a drop.

    Raises:
        InputError: the run's ledger cannot be read.
    """
    # Ask the history: DuckDB takes long to load.
    from tasks.comparing.alarms import watched
    from tasks.comparing.trend import trend_png, trend_points
    from tasks.history.loading import sync

    past = Past(since_last(store, start.run_id), b"")
    with suppress(HistoryLocked, InputError):
        sync(store, wait_seconds=WAIT_SECONDS)
        past = past._replace(watched=watched(store, start.run_id))
    # A drop is told whether or not the trend can be drawn.
    with suppress(HistoryLocked, InputError, RuntimeError):
        past = past._replace(trend=trend_png(trend_points(store, start), kind_of(start.flow).display.level))
    return past
