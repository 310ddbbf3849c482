"""The chart of a text-to-image run: the score of every tag and aspect, with its interval.

Owns its look, written as Vega-Lite; `plotter` draws it.
"""

import json
from collections.abc import Sequence
from typing import Any

from tasks.presentation.charts import BAR_HEIGHT, LONGEST_NAME, LOOK, MOST_CANDIDATES, RULE, WIDTH
from tasks.presentation.drawing import png
from tasks.presentation.image_tables import ranked
from tasks.presentation.wording import score_with_interval
from tasks.statistics.image_scores import HIGHEST, GradeRow
from tasks.text import one_line

TITLE = "Mean scores with their 95% intervals"
BETWEEN = ": "
TAG, ASPECT = "#0072B2", "#B9DDF1"


def grade_chart(rows: Sequence[GradeRow], notes: Sequence[str]) -> bytes:
    """A PNG with a bar for every tag of every candidate and for each aspect of it, 0-10."""
    best = [candidate for candidate, _ in ranked(rows)[:MOST_CANDIDATES]]
    drawn = [row for row in rows if row.measure == "score" and row.candidate in best]
    names = json.dumps([one_line(candidate, LONGEST_NAME) for candidate in best])
    header = {"title": None, "labelExpr": f"{names}[datum.value]", "labelLimit": WIDTH}
    lines = list(dict.fromkeys(_line(row) for row in drawn))
    return png(
        {
            "title": {"text": TITLE, "subtitle": list(notes)},
            "data": {"values": [{"place": best.index(row.candidate), **_bar(row)} for row in drawn]},
            "facet": {"row": {"field": "place", "type": "ordinal", "header": header}},
            "spec": {"width": WIDTH, "height": BAR_HEIGHT * len(lines), "layer": _layers(lines)},
            "config": LOOK,
        }
    )


def _line(row: GradeRow) -> str:
    return f"{row.dimension}{BETWEEN}{row.group_name}" if row.group_name else row.dimension


def _bar(row: GradeRow) -> dict[str, Any]:
    return {
        "line": _line(row),
        "score": row.score,
        "low": row.ci_low,
        "high": row.ci_high,
        "colour": ASPECT if row.group_name else TAG,
        "words": score_with_interval(row),
    }


def _layers(lines: Sequence[str]) -> list[dict[str, Any]]:
    """Bars, the intervals on them and the numbers beside them."""
    # Tags of one flow may share an aspect: a line is named by both and labelled by the aspect alone.
    label = f"indexof(datum.label, '{BETWEEN}') < 0 ? datum.label : split(datum.label, '{BETWEEN}')[1]"
    axis = {"labelExpr": label, "labelLimit": 240}
    y = {"field": "line", "type": "nominal", "sort": list(lines), "title": None, "axis": axis}
    scale = {"domain": [0, HIGHEST]}
    x = {"field": "score", "type": "quantitative", "scale": scale, "title": None}
    colour = {"field": "colour", "type": "nominal", "scale": None}
    low = {"field": "low", "type": "quantitative", "scale": scale}
    beside = {"x": {"value": WIDTH + 8}, "text": {"field": "words", "type": "nominal"}}
    bar = {"type": "bar", "stroke": RULE, "strokeWidth": 0.5, "height": {"band": 0.8}}
    return [
        {"mark": bar, "encoding": {"y": y, "x": x, "color": colour}},
        {"mark": {"type": "rule", "strokeWidth": 2}, "encoding": {"y": y, "x": low, "x2": {"field": "high"}}},
        {"mark": {"type": "text", "align": "left"}, "encoding": {"y": y, **beside}},
    ]
