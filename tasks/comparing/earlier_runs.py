"""Past of a scheduled run: its baseline, the last run, the trend."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tasks.errors import InputError
from tasks.protocols import display_of
from tasks.records import RunStart

if TYPE_CHECKING:
    from tasks.comparing.alarms import Watched
    from tasks.comparing.compare import Comparison

MOST_COMPARED = 20
"""Most candidates that are compared with themselves."""


class Past(NamedTuple):
    """Earlier results shown beside a scheduled run."""

    since: "Sequence[Comparison]" = ()
    """Comparisons with the last comparable evaluation, a candidate each; empty: there is none."""
    trend: bytes = b""
    """A PNG; empty if there is no earlier run, the history cannot be read, or the chart cannot be drawn."""
    watched: "Watched | None" = None
    """State of the candidates; None: the history cannot be read, so the next run reports a drop."""


def look_back(store: Path, start: RunStart) -> Past:
    """Return the past of a finished evaluation. Runs that the history lacks are loaded: one may be a drop."""
    # These load DuckDB, which takes long.
    from tasks.comparing.alarms import watched
    from tasks.comparing.compare import since_last
    from tasks.comparing.trend import trend_png, trend_points
    from tasks.history.landing import land

    past = Past()
    with suppress(InputError):
        land(store)
        past = past._replace(watched=watched(store, start.run_id))
        past = past._replace(since=since_last(store, start.run_id, MOST_COMPARED))
    # A drop is reported even if the trend cannot be drawn.
    with suppress(InputError, RuntimeError):
        past = past._replace(trend=trend_png(trend_points(store, start), display_of(start.flow).level))
    return past
