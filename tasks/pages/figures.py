"""Where things stand in the report's figures, as shares of their width and height in percent. The template draws them.

Owns geometry and nothing else, so that the drawings follow the page's theme and width without a script.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from tasks.presentation.charts import NARROWEST_LABELLED, PARTS
from tasks.statistics.image_scores import HIGHEST
from tasks.statistics.scores import ScoreRow
from tasks.text import number_words

UNSCORED = "an evaluation between them, of which nothing was scored"

Rows = Sequence[Mapping[str, Any]]


class Segment(NamedTuple):
    """One part of a bar."""

    name: str
    number: int
    start: float
    width: float
    colour: str
    ink: str
    labelled: bool
    """Whether there is room for the number."""


class Bar(NamedTuple):
    """All samples of one dimension, split by verdict."""

    segments: tuple[Segment, ...]

    @property
    def words(self) -> str:
        """The same for who cannot see it."""
        return ", ".join(f"{each.name} {each.number}" for each in self.segments)


class Whisker(NamedTuple):
    """A mean with its interval on a scale from 0 to 100 percent."""

    value: float
    low: float | None
    high: float | None


class Point(NamedTuple):
    """One evaluation in a trend."""

    x: float
    y: float
    low: float
    high: float
    words: str


class Stretch(NamedTuple):
    """Evaluations that may be compared with each other."""

    points: tuple[Point, ...]

    @property
    def line(self) -> str:
        """The means, as SVG's points."""
        return " ".join(f"{point.x:.2f},{point.y:.2f}" for point in self.points)

    @property
    def band(self) -> str:
        """The intervals, as SVG's points."""
        there = [f"{point.x:.2f},{point.low:.2f}" for point in self.points]
        back = [f"{point.x:.2f},{point.high:.2f}" for point in reversed(self.points)]
        return " ".join([*there, *back])


class Break(NamedTuple):
    """Where a trend breaks, and why."""

    x: float
    why: str


class Scale(NamedTuple):
    """The part of all possible scores that a trend is drawn on."""

    bottom: float
    top: float

    def y(self, value: float) -> float:
        """How far below the top, in percent."""
        return 100 * (self.top - value) / (self.top - self.bottom)


class Trend(NamedTuple):
    """One candidate on one dimension or tag over time."""

    candidate: str
    dimension: str
    scale: Scale
    stretches: tuple[Stretch, ...]
    breaks: tuple[Break, ...]
    first: datetime
    last: datetime


def bar(row: ScoreRow) -> Bar:
    """The parts of one bar, empty ones left out."""
    segments: list[Segment] = []
    start = 0.0
    for part in PARTS:
        count = part.of(row)
        width = 100 * count / row.n
        if count:
            roomy = width >= 100 * NARROWEST_LABELLED
            segments.append(Segment(part.name, count, start, width, part.colour, part.ink, roomy))
        start += width
    return Bar(tuple(segments))


def whisker(score: float | None, low: float | None, high: float | None, highest: float) -> Whisker | None:
    """A mean and its interval of a scale from 0 to `highest`; None where nothing was scored."""
    if score is None:
        return None
    scale = 100 / highest
    return Whisker(score * scale, None if low is None else low * scale, None if high is None else high * scale)


def trends(rows: Rows, images: bool) -> list[Trend]:
    """The trends of two evaluations or more, from rows in the order candidate, dimension, time."""
    highest = HIGHEST if images else 100.0
    series = groupby(rows, lambda row: (row["candidate"], row["dimension"]))
    found = [(place, _comparable(list(rows_of_one))) for place, rows_of_one in series]
    return [_trend(*place, parts, highest) for place, parts in found if sum(map(len, parts)) > 1]


def _comparable(rows: Rows) -> list[Rows]:
    """Rows as far as they compare with each other. One that was not scored is left out, but may break the trend."""
    parts: list[list[Mapping[str, Any]]] = []
    for row in rows:
        if not parts or row["comparable"] is False:
            parts.append([])
        parts[-1].append(row)
    scored = ([row for row in part if row["score"] is not None] for part in parts)
    return [part for part in scored if part]


def _trend(candidate: str, dimension: str, parts: Sequence[Rows], highest: float) -> Trend:
    first, last = _moment(parts[0][0]), _moment(parts[-1][-1])
    span = (last - first).total_seconds() or 1.0
    scale = _scale([row for part in parts for row in part], highest)
    stretches = [
        Stretch(tuple(_point(row, 100 * (_moment(row) - first).total_seconds() / span, scale) for row in part))
        for part in parts
    ]
    breaks = [
        Break((before.points[-1].x + after.points[0].x) / 2, part[0]["break_reason"] or UNSCORED)
        for (before, after), part in zip(pairwise(stretches), parts[1:], strict=True)
    ]
    return Trend(candidate, dimension, scale, tuple(stretches), tuple(breaks), first, last)


def _scale(rows: Rows, highest: float) -> Scale:
    """From the lowest end of an interval to the highest, widened to whole tenths of all that is possible."""
    ends = [row[end] for row in rows for end in ("score", "ci_low", "ci_high") if row[end] is not None]
    step = highest / 10
    bottom = step * min(9, math.floor(min(ends) / step))
    return Scale(bottom, max(bottom + step, step * math.ceil(max(ends) / step)))


def _moment(row: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(row["started_at"])


def _point(row: Mapping[str, Any], x: float, scale: Scale) -> Point:
    y, low, high = (scale.y(row["score"] if row[end] is None else row[end]) for end in ("score", "ci_low", "ci_high"))
    ends = [number_words(row[end], 1) for end in ("ci_low", "ci_high") if row[end] is not None]
    interval = f" [{', '.join(ends)}]" if ends else ""
    words = f"{row['started_at'][:16].replace('T', ' ')}: {number_words(row['score'], 1)}{interval}, {row['run_id']}"
    return Point(x, y, low, high, words)
