"""Style of all charts, written as Vega-Lite.

A chart is drawn as SVG, in the text color of its page, and as PNG on white. Neutral parts have the `INK` of their
surroundings, or a grey that suits both.
"""

import json
from collections.abc import Sequence
from typing import Any

from tasks.text import one_line

Chart = dict[str, Any]
"""Vega-Lite description. Its `description` gives the content of the chart in words, for readers who cannot see it."""

MOST_CANDIDATES = 6
"""Most candidates in a chart, the best first: more would make the picture taller than a screen."""
WIDTH, BAR_HEIGHT = 360, 26
"""Pixels. With the labels on both sides, the chart fills the column in which the Prefect UI shows Markdown."""
LONGEST_NAME = 60
LABEL_WIDTH = 240
"""Widest label at the left of a bar, in pixels; a longer one ends in an ellipsis."""
INK = "currentColor"
"""Color of the text around the chart; black in a PNG."""
GREY = "#808080"
"""Color of rules and edges, visible on white and on a dark page."""

_TEXT = {"labelColor": INK, "labelFontSize": 13}
_LOOK: Chart = {
    "background": None,
    "padding": 2,
    "view": {"stroke": None},
    "title": {
        "anchor": "start",
        "fontSize": 15,
        "subtitleFontSize": 12,
        "subtitlePadding": 4,
        "offset": 8,
        "color": INK,
        "subtitleColor": INK,
    },
    "axis": {**_TEXT, "domain": False, "ticks": False, "gridColor": GREY, "gridOpacity": 0.35},
    "header": {**_TEXT, "labelFontWeight": "bold", "labelOrient": "top", "labelAnchor": "start", "labelPadding": 2},
    "legend": {
        **_TEXT,
        "orient": "top",
        "columnPadding": 18,
        "symbolType": "square",
        "symbolStrokeColor": GREY,
    },
    "mark": {"aria": False},
    "text": {"fontSize": 12, "color": INK},
    "rule": {"color": INK},
    "facet": {"spacing": 12},
}


def faceted(title: Chart, values: Sequence[Chart], panels: Sequence[str], panel: Chart, words: str) -> Chart:
    """Return a chart of panels, one below the other.

    Args:
        values: records of the data; `place` is the number of a record's panel.
        panels: names of the panels, which may be a stranger's.
        panel: size and layers of each panel.
        words: description for readers who cannot see the chart.
    """
    header = {"title": None, "labelExpr": numbered(panels), "labelLimit": WIDTH}
    return {
        "description": words,
        "title": title,
        "data": {"values": list(values)},
        "facet": {"row": {"field": "place", "type": "ordinal", "header": header}},
        "spec": panel,
        "config": _LOOK,
    }


def layer(mark: str | Chart, where: str = "", **encoding: Chart) -> Chart:
    """Return a layer of a panel: marks of the records for which an expression is true; empty: of all."""
    return {"transform": [{"filter": where}] if where else [], "mark": mark, "encoding": encoding}


def lines(labels: Sequence[str]) -> Chart:
    """Return the vertical axis of a panel with a bar for each label; `line` of a record is the number of its label."""
    axis = {"labelExpr": numbered(labels), "labelLimit": LABEL_WIDTH}
    return {"field": "line", "type": "ordinal", "title": None, "axis": axis}


def numbered(names: Sequence[str]) -> str:
    """Return the expression that labels a number with its name.

    The data has numbers instead of names, because shortened names may be equal, and long ones would take ages to draw.
    """
    return f"{json.dumps([one_line(name, LONGEST_NAME) for name in names])}[datum.value]"
