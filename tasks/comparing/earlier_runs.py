"""The past of a scheduled run: its baseline, the last run, the trend."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tasks.errors import InputError
from tasks.kinds import kind_of
from tasks.records import RunStart

if TYPE_CHECKING:
    from tasks.comparing.alarms import Watched
    from tasks.comparing.compare import Comparison

MOST_COMPARED = 20
"""Candidates that are compared with themselves."""


class Past(NamedTuple):
    """The past that a scheduled run is shown beside."""

    since: "Sequence[Comparison]" = ()
    """With the last evaluation that compares, a candidate each; empty: none does."""
    trend: bytes = b""
    """A PNG; empty where there is no earlier run at all, or the history cannot be read or the chart not be drawn."""
    watched: "Watched | None" = None
    """None: the history cannot be read, so that the next run tells of a drop."""


def look_back(store: Path, start: RunStart) -> Past:
    """Look at the past of a finished evaluation. Runs that the history lacks are loaded: one may be a drop."""
    # Ask the history: DuckDB takes long to load.
    from tasks.comparing.alarms import watched
    from tasks.comparing.compare import since_last
    from tasks.comparing.trend import trend_png, trend_points
    from tasks.history.landing import land

    past = Past()
    with suppress(InputError):
        land(store)
        past = past._replace(watched=watched(store, start.run_id))
        past = past._replace(since=since_last(store, start.run_id, MOST_COMPARED))
    # A drop is told whether or not the trend can be drawn.
    with suppress(InputError, RuntimeError):
        past = past._replace(trend=trend_png(trend_points(store, start), kind_of(start.flow).display.level))
    return past
