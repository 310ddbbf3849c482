"""The chart of a pairwise run: how often the Model won, drew and lost, and the mean score with its interval.

Owns what is drawn; the numbers are those of the score rows, and how all charts look stands in `chart_style`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tasks.presentation.chart_style import BAR_HEIGHT, GREY, INK, MOST_CANDIDATES, WIDTH, Chart, faceted, lines
from tasks.presentation.wording import score_with_interval
from tasks.records import OVERALL
from tasks.statistics.scores import ScoreRow, ranking
from tasks.text import one_line

MOST_GROUPS = 24
"""Categories drawn; the tables have them all."""
NARROWEST_LABELLED = 0.04
"""Share of a bar that has room for its number."""
SCALE_START, SCALE_WIDTH = WIDTH + 14, 90
"""Pixels: where the scale of the scores begins, 0, and how far it is from there to 100."""

TITLES = {
    "all": "Samples by verdict, and the mean score with its 95% interval",
    "category": "Outcomes by category, and the mean score with its 95% interval",
    "difficulty": "Outcomes by difficulty, and the mean score with its 95% interval",
}
"""By grouping of the score rows."""


@dataclass(frozen=True)
class Part:
    """One part of a bar."""

    name: str
    count: Callable[[ScoreRow], int]
    colour: str
    number_colour: str = "black"


# Blue and vermilion of Okabe and Ito (2008) can be told apart with every kind of colour vision; the neutral verdicts
# between them differ in lightness, too.
PARTS = (
    Part("Model", lambda row: row.model_wins, "#0072B2", "white"),
    Part("both good", lambda row: row.both_good, "#B9DDF1"),
    Part("mixed", lambda row: row.mixed, "#F6E8A6"),
    Part("tie", lambda row: row.ties, "#DDDDDD"),
    Part("both bad", lambda row: row.both_bad, "#9C9C9C"),
    Part("Human", lambda row: row.human_wins, "#D55E00", "white"),
    Part("forfeit", lambda row: row.forfeits, "#8A5A84", "white"),
    Part("not scored", lambda row: row.n - row.scored, "transparent", INK),
)


def verdict_chart(rows: Sequence[ScoreRow], notes: Sequence[str] = (), grouping: str = "all") -> Chart:
    """A panel for each of the best candidates with a bar for every dimension, or for the outcomes of every group.

    Args:
        rows: those of one run, at least one of all its samples.
        notes: what must be known to read the scores, to stand under the title.
        grouping: `all`, `category` or `difficulty`; there must be rows of it.
    """
    best = [row.candidate for row in ranking(rows)[:MOST_CANDIDATES]]
    found = [row for row in rows if row.grouping == grouping and row.candidate in best]
    labels = list(dict.fromkeys(map(_label, found)))[:MOST_GROUPS]
    drawn = [row for row in found if _label(row) in labels and (grouping == "all" or row.dimension == OVERALL)]
    parts = [part for part in PARTS if any(map(part.count, drawn))]
    values = [
        {"place": best.index(row.candidate), "line": labels.index(_label(row)), **record}
        for row in drawn
        for record in (*_segments(row, parts), _score(row))
    ]
    title = {"text": TITLES[grouping], "subtitle": list(notes)}
    panel = {"width": WIDTH, "height": BAR_HEIGHT * len(labels), "layer": _layers(parts, labels)}
    return faceted(title, values, best, panel, f"{TITLES[grouping]}. {' '.join(map(_in_words, drawn))}")


def _label(row: ScoreRow) -> str:
    return row.group_name or row.dimension


def _in_words(row: ScoreRow) -> str:
    counts = ", ".join(f"{part.name} {part.count(row)}" for part in PARTS if part.count(row))
    return f"{one_line(row.candidate)}, {one_line(_label(row))}: {counts}; {score_with_interval(row)}."


def _segments(row: ScoreRow, parts: Sequence[Part]) -> Iterator[Chart]:
    """The parts of one bar as records for the chart: where each begins and ends, in shares of all samples."""
    start = 0.0
    for part in parts:
        count = part.count(row)
        end = start + count / row.n
        if count:
            yield {
                "part": part.name,
                "number_colour": part.number_colour,
                "start": start,
                "end": end,
                "middle": (start + end) / 2,
                "words": f"{part.name}: {count} of {row.n}",
                "number": str(count) if end - start >= NARROWEST_LABELLED else "",
            }
        start = end


def _score(row: ScoreRow) -> Chart:
    """The score and its interval as a record for the chart: in pixels beside the bar, and in words beside those."""
    places = {name: getattr(row, name) for name in ("score", "ci_low", "ci_high")}
    known = {name: SCALE_START + SCALE_WIDTH * value / 100 for name, value in places.items() if value is not None}
    return {**known, "score_words": score_with_interval(row)}


def _layers(parts: Sequence[Part], labels: Sequence[str]) -> list[Chart]:
    """Bars and the numbers on them; beside them the scores on a scale from 0 to 100 with a mark at 50, and in words."""
    names, colours = [part.name for part in parts], [part.colour for part in parts]
    colour = {
        "field": "part",
        "type": "nominal",
        "scale": {"domain": names, "range": colours},
        "legend": {"title": None},
    }
    share = {"type": "quantitative", "scale": {"domain": [0, 1]}, "axis": None}
    extent = {"x": {**share, "field": "start"}, "x2": {"field": "end"}}
    y = lines(labels)
    number = {"field": "number", "type": "nominal"}
    number_colour = {"field": "number_colour", "type": "nominal", "scale": None}
    bar = {"type": "bar", "stroke": GREY, "strokeWidth": 0.5, "height": {"band": 0.8}, "aria": True}
    words = {"field": "words", "type": "nominal"}
    end, middle = SCALE_START + SCALE_WIDTH, SCALE_START + SCALE_WIDTH / 2
    score = {"field": "score", "type": "quantitative", "scale": None}
    low, high = {"field": "ci_low", "type": "quantitative", "scale": None}, {"field": "ci_high"}
    segment, scored = [{"filter": "isValid(datum.part)"}], [{"filter": "isValid(datum.score_words)"}]
    return [
        {
            "transform": segment,
            "mark": bar,
            "encoding": {"y": y, **extent, "color": colour, "description": words},
        },
        {
            "transform": segment,
            "mark": "text",
            "encoding": {"y": y, "x": {**share, "field": "middle"}, "text": number, "color": number_colour},
        },
        {
            "transform": scored,
            "mark": {"type": "rule", "color": GREY},
            "encoding": {"y": y, "x": {"value": SCALE_START}, "x2": {"value": end}},
        },
        {
            "transform": scored,
            "mark": {"type": "tick", "color": GREY, "thickness": 1, "height": 10},
            "encoding": {"y": y, "x": {"value": middle}},
        },
        {
            "transform": [{"filter": "isValid(datum.ci_low)"}],
            "mark": {"type": "rule", "strokeWidth": 3},
            "encoding": {"y": y, "x": low, "x2": high},
        },
        {
            "transform": [{"filter": "isValid(datum.score)"}],
            "mark": {"type": "point", "shape": "circle", "filled": True, "size": 60, "opacity": 1, "color": INK},
            "encoding": {"y": y, "x": score},
        },
        {
            "transform": scored,
            "mark": {"type": "text", "align": "left"},
            "encoding": {"y": y, "x": {"value": end + 12}, "text": {"field": "score_words", "type": "nominal"}},
        },
    ]
