"""The one chart of a run: how often the Model won, drew and lost, dimension by dimension.

Owns its look, written as Vega-Lite; the numbers are those of the score rows, and `plotter` draws it.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.presentation.drawing import png
from tasks.presentation.wording import score_notes, score_with_interval
from tasks.statistics.scores import ScoreRow, ranking
from tasks.text import one_line

MOST_CANDIDATES = 6
"""Candidates drawn, the best first: more would make the picture taller than a screen."""
WIDTH, BAR_HEIGHT = 420, 26
"""Pixels; with the labels on both sides the chart fills the column in which the Prefect UI shows Markdown."""
LONGEST_NAME = 60
NARROWEST_LABELLED = 0.04
"""Share of a bar that has room for its number."""


TITLE = "Samples by verdict, and the mean score with its 95% interval"
RULE = "#808080"
LOOK: dict[str, object] = {
    "background": "white",
    "padding": 12,
    "view": {"stroke": None},
    "title": {"anchor": "start", "fontSize": 15, "subtitleFontSize": 12, "subtitlePadding": 4, "offset": 8},
    "axis": {"labelFontSize": 13, "domain": False, "ticks": False},
    "header": {
        "labelFontSize": 13,
        "labelFontWeight": "bold",
        "labelOrient": "top",
        "labelAnchor": "start",
        "labelPadding": 2,
    },
    "legend": {"labelFontSize": 13, "orient": "top", "symbolType": "square", "symbolStrokeColor": RULE},
    "text": {"fontSize": 12},
    "facet": {"spacing": 12},
}
"""Black on white in readable sizes, whatever theme the page around it has."""


@dataclass(frozen=True)
class Part:
    """One part of a bar."""

    name: str
    of: Callable[[ScoreRow], int]
    colour: str
    ink: str = "black"
    """Colour of the number on it."""


# Blue and vermilion of Okabe and Ito (2008) can be told apart with every kind of colour vision; the neutral verdicts
# between them differ in lightness, too.
PARTS = (
    Part("Model", lambda row: row.model_wins, "#0072B2", "white"),
    Part("both good", lambda row: row.both_good, "#B9DDF1"),
    Part("mixed", lambda row: row.mixed, "#F6E8A6"),
    Part("tie", lambda row: row.ties, "#DDDDDD"),
    Part("both bad", lambda row: row.both_bad, "#9C9C9C"),
    Part("Human", lambda row: row.human_wins, "#D55E00", "white"),
    Part("forfeit", lambda row: row.forfeits, "#4A2545", "white"),
    Part("not scored", lambda row: row.n - row.scored, "#FFFFFF"),
)


def verdict_chart(rows: Sequence[ScoreRow], flow: str) -> bytes:
    """A PNG with a bar for every dimension of every candidate, split by verdict, and its score beside it.

    Args:
        rows: those of one run, at least one; only the groups of all samples are drawn.
    """
    best = [row.candidate for row in ranking(rows)[:MOST_CANDIDATES]]
    drawn = [row for row in rows if row.grouping == "all" and row.candidate in best]
    parts = [part for part in PARTS if any(map(part.of, drawn))]
    dimensions = list(dict.fromkeys(row.dimension for row in drawn))
    values = [{"place": best.index(row.candidate), **segment} for row in drawn for segment in _segments(row, parts)]
    # Names stand in the labels alone: shortened ones may be equal, and those of any length would take ages to draw.
    names = json.dumps([one_line(candidate, LONGEST_NAME) for candidate in best])
    header = {"title": None, "labelExpr": f"{names}[datum.value]", "labelLimit": WIDTH}
    return png(
        {
            "title": {"text": TITLE, "subtitle": score_notes(flow, drawn)},
            "data": {"values": values},
            "facet": {"row": {"field": "place", "type": "ordinal", "header": header}},
            "spec": {"width": WIDTH, "height": BAR_HEIGHT * len(dimensions), "layer": _layers(parts, dimensions)},
            "config": LOOK,
        }
    )


def _segments(row: ScoreRow, parts: Sequence[Part]) -> Iterator[dict[str, str | float]]:
    """The parts of one bar as records for the chart: where each begins and ends, in shares of all samples."""
    start = 0.0
    for part in parts:
        count = part.of(row)
        end = start + count / row.n
        yield {
            "dimension": row.dimension,
            "part": part.name,
            "ink": part.ink,
            "start": start,
            "end": end,
            "middle": (start + end) / 2,
            "number": str(count) if end - start >= NARROWEST_LABELLED else "",
            "score": score_with_interval(row) if part is parts[0] else "",
        }
        start = end


def _layers(parts: Sequence[Part], dimensions: Sequence[str]) -> list[dict[str, Any]]:
    """Bars, the numbers on them and the scores beside them."""
    names, colours = [part.name for part in parts], [part.colour for part in parts]
    colour = {
        "field": "part",
        "type": "nominal",
        "scale": {"domain": names, "range": colours},
        "legend": {"title": None},
    }
    share = {"field": "start", "type": "quantitative", "scale": {"domain": [0, 1]}, "axis": None}
    y = {"field": "dimension", "type": "nominal", "sort": dimensions, "title": None}
    bar = {"type": "bar", "stroke": RULE, "strokeWidth": 0.5, "height": {"band": 0.8}}
    number = {"field": "number", "type": "nominal"}
    middle = {"field": "middle", "type": "quantitative"}
    ink = {"field": "ink", "type": "nominal", "scale": None}
    beside = {"x": {"value": WIDTH + 8}, "text": {"field": "score", "type": "nominal"}}
    return [
        {"mark": bar, "encoding": {"y": y, "x": share, "x2": {"field": "end"}, "color": colour}},
        {"mark": "text", "encoding": {"y": y, "x": middle, "text": number, "color": ink}},
        {"mark": {"type": "text", "align": "left"}, "encoding": {"y": y, **beside}},
    ]
