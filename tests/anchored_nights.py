"""Ledgers of nightly scheduled runs with anchors, in which chosen figures or anchors fall or rise."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from factories import WON, end, judgment, outcome, start, write_run

from tasks.records import ANCHOR, Outcome, RunStart

FIRST = datetime(2026, 9, 1, 3, tzinfo=UTC)


def outcomes(day: int, change: int, names: range, control: str = "") -> Iterator[Outcome]:
    """Yield outcomes that vary from night to night; of these, `change` fall or, if negative, rise."""
    for number in names:
        usual = ("MMGH" if (number + day) % 7 else "MMGG", "Model")
        moved = ("HMGH", "Human") if change > 0 else WON
        came = moved if number < abs(change) else usual
        yield outcome(f"s{number:02}", *came, control=control)


def night(store: Path, day: int, judge: int = 0, candidate: int = 0, anchors: str = "a", **changes: object) -> RunStart:
    """Store a scheduled run with anchors on a day (1, 2, …); `judge` anchors and `candidate` figures fall."""
    at = FIRST + timedelta(days=day - 1)
    given = {"scheduled": True, "started_at": at.isoformat(), "anchors_key": anchors * 64, **changes}
    begun = start(f"{at:%Y%m%dT%H%M%S}000-diagram-{day:06}", **given)
    rows = [*outcomes(day, candidate, range(40)), *outcomes(day, judge, range(20), ANCHOR), judgment(control=ANCHOR)]
    write_run(store, begun, rows, end())
    return begun
