"""The trend of a scheduled evaluation: its scores over time, with their intervals, broken where runs do not compare.

Owns which points are drawn and how they look, written as Vega-Lite; the numbers are those of the view `trend`, and
`plotter` draws it.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from tasks.history.asking import query
from tasks.parameters import T2I
from tasks.presentation.charts import LONGEST_NAME, LOOK, MOST_CANDIDATES, WIDTH
from tasks.presentation.drawing import png
from tasks.records import OVERALL, RunStart
from tasks.text import one_line

MOST_RUNS = 60
"""Runs drawn of each series, the newest: more would stand too close to be told apart."""
HEIGHT = 120
INK, BREAK, BREAK_INK = "#0072B2", "#D55E00", "#A04500"
"""Blue and vermilion of Okabe and Ito (2008); a break is dashed and labelled, too."""
TITLE = "Score over time (UTC), with its 95% interval"
LONGEST_REASON = 44
STEP = 14
"""Pixels from the label of one break to that of the next, which may stand close to it."""
LEVELS = 3
"""Lines of labels above the points."""


class Point(NamedTuple):
    """One run in a series: a row of the view `trend`."""

    candidate: str
    dimension: str
    """`overall`, or a tag."""
    started_at: datetime
    """UTC."""
    score: float | None
    """None: nothing of the run was scored."""
    ci_low: float | None
    ci_high: float | None
    break_reason: str | None
    """What keeps it from being compared with the point before; None: nothing does."""


def trend_points(store: Path, start: RunStart) -> list[Point]:
    """The last runs of the series that a run belongs to, oldest first: overall scores, or those of each tag.

    One of which nothing was scored is left out, and what it broke is told of the next.

    Raises:
        HistoryLocked: the history stayed in use.
        InputError: there is no history.
    """
    sql = f"""SELECT {", ".join(Point._fields)} FROM trend
        WHERE flow = $1 AND dataset = $2 AND model = $3 AND prompt_set = $4 AND list_contains($5, candidate)
          AND (dimension = '{OVERALL}' OR list_contains($6, dimension))
        QUALIFY row_number() OVER (PARTITION BY candidate, dimension ORDER BY started_at DESC) <= {MOST_RUNS}
        ORDER BY candidate, dimension_position(dimension), started_at"""
    tags = list(start.dimensions) if start.flow in T2I else []
    series = (start.flow, start.dataset, start.model, start.prompt_set, list(start.candidates), tags)
    points = [Point(*row) for row in query(store, sql, values=series).rows]
    return [point for _, each in groupby(points, key=_place) for point in _scored(each)]


def _place(point: Point) -> tuple[str, str]:
    return point.candidate, point.dimension


def _scored(points: Iterable[Point]) -> Iterator[Point]:
    """The scored points of a series, each with the reasons of all that were left out since the one before it."""
    reasons: list[str] = []
    for point in points:
        reasons += point.break_reason.split(", ") if point.break_reason else []
        if point.score is not None:
            yield point._replace(break_reason=", ".join(dict.fromkeys(reasons)) or None)
            reasons = []


def trend_chart(points: Sequence[Point]) -> bytes:
    """A PNG with a panel for every candidate (and tag); nothing where no series has two points.

    Args:
        points: sorted by candidate and dimension, then by time.
    """
    found = [list(each) for _, each in groupby(points, key=_place)]
    series = [each for each in found if len(each) > 1][:MOST_CANDIDATES]
    return png(_spec(series)) if series else b""


def _spec(series: Sequence[Sequence[Point]]) -> dict[str, Any]:
    several = len({each[0].dimension for each in series}) > 1
    # Names stand in the labels alone: shortened ones may be equal.
    names = [one_line(each[0].candidate, LONGEST_NAME) + f": {each[0].dimension}" * several for each in series]
    header = {"title": None, "labelExpr": f"{json.dumps(names)}[datum.value]", "labelLimit": WIDTH}
    strip = STEP * min(LEVELS, max(sum(point.break_reason is not None for point in each) for each in series))
    return {
        "title": {"text": TITLE},
        "data": {"values": [row for place, each in enumerate(series) for row in _rows(place, each)]},
        "facet": {"row": {"field": "place", "type": "ordinal", "header": header}},
        "spec": {"width": WIDTH, "height": HEIGHT + strip, "layer": _layers(strip)},
        "config": LOOK,
    }


def _rows(place: int, points: Sequence[Point]) -> list[dict[str, Any]]:
    """The points as records for the chart: those joined by a line share a segment, the first after a break names it."""
    rows: list[dict[str, Any]] = []
    segment = 0
    for at, point in enumerate(points):
        row = {"place": place, "time": _utc(point.started_at), "score": point.score}
        if point.break_reason is not None and at:
            segment += 1
            late = at > len(points) / 2  # the label goes to the left, where there is room for it
            row |= {
                "break": _utc(points[at - 1].started_at + (point.started_at - points[at - 1].started_at) / 2),
                "left" if late else "right": one_line(point.break_reason, LONGEST_REASON),
                "level": STEP * ((segment - 1) % LEVELS),
            }
        rows.append({**row, "low": point.ci_low, "high": point.ci_high, "segment": segment})
    return rows


def _utc(moment: datetime) -> str:
    return f"{moment.isoformat()}Z"


def _layers(strip: int) -> list[dict[str, Any]]:
    """The intervals as bands and bars, the scores on them, and above them the breaks with their reasons."""
    x = {"field": "time", "type": "temporal", "title": None, "scale": {"type": "utc", "padding": 10}}
    x["axis"] = {"grid": False, "tickCount": 6, "labelPadding": 8}
    scale = {"zero": False, "nice": True, "range": [HEIGHT + strip, strip]}
    y = {"field": "score", "type": "quantitative", "title": None, "scale": scale, "axis": {"tickCount": 5}}
    band = {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}}
    segment = {"field": "segment", "type": "nominal"}
    between = {**x, "field": "break"}
    level = {"field": "level", "type": "quantitative", "scale": None}
    bottom = {"value": HEIGHT + strip}
    rule = {"type": "rule", "color": BREAK, "strokeDash": [5, 4]}
    label = {"type": "text", "fontSize": 12, "color": BREAK_INK, "baseline": "top", "limit": WIDTH // 2}
    return [
        {"mark": {"type": "area", "color": INK, "opacity": 0.18}, "encoding": {**band, "detail": segment}},
        {"mark": {"type": "rule", "color": INK, "opacity": 0.5}, "encoding": band},
        {"mark": {"type": "line", "color": INK}, "encoding": {"x": x, "y": y, "detail": segment}},
        {"mark": {"type": "circle", "size": 40, "color": INK, "opacity": 1}, "encoding": {"x": x, "y": y}},
        {"transform": [_has("break")], "mark": rule, "encoding": {"x": between, "y": level, "y2": bottom}},
        *(
            {
                "transform": [_has(side)],
                "mark": {**label, "align": align, "dx": dx},
                "encoding": {"x": between, "y": level, "text": {"field": side, "type": "nominal"}},
            }
            for side, align, dx in (("right", "left", 4), ("left", "right", -4))
        ),
    ]


def _has(field: str) -> dict[str, str]:
    return {"filter": f"isValid(datum['{field}'])"}
