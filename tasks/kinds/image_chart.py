"""The chart of a text-to-image run: the score of every tag and aspect, with its interval.

Owns what is drawn; the numbers are those of the score rows, and how all charts look stands in `chart_style`.
"""

from collections.abc import Sequence

from tasks.kinds.image_tables import ranked
from tasks.presentation.chart_style import BAR_HEIGHT, GREY, MOST_CANDIDATES, WIDTH, Chart, faceted, lines
from tasks.presentation.wording import score_with_interval
from tasks.statistics.image_scores import HIGHEST, GradeRow, by_tag
from tasks.text import one_line

TITLE = "Mean scores with their 95% intervals"
COLOUR = "#0072B2"
OPACITY_OF_ASPECTS = 0.4
"""So that the intervals can be seen on their bars, black on white and white on black."""


def image_chart(rows: Sequence[GradeRow], notes: Sequence[str] = ()) -> Chart:
    """A panel for each of the best candidates with a bar for every tag and for each aspect of it, 0-10.

    Args:
        rows: those of one run, at least one.
        notes: what must be known to read the scores, to stand under the title.
    """
    best = [candidate for candidate, _ in ranked(rows)[:MOST_CANDIDATES]]
    found = [row for grades in by_tag(rows) for row in (grades.score, *grades.aspects)]
    drawn = [row for row in found if row.candidate in best]
    # Tags of one flow may share an aspect: a line belongs to both and is labelled by the aspect alone.
    places = list(dict.fromkeys(map(_place, drawn)))
    values = [{"place": best.index(row.candidate), "line": places.index(_place(row)), **_bar(row)} for row in drawn]
    labels = [aspect or tag for tag, aspect in places]
    panel = {"width": WIDTH, "height": BAR_HEIGHT * len(labels), "layer": _layers(labels)}
    words = " ".join(map(_in_words, drawn))
    return faceted({"text": TITLE, "subtitle": list(notes)}, values, best, panel, f"{TITLE}. {words}")


def _place(row: GradeRow) -> tuple[str, str]:
    return row.dimension, row.group_name


def _in_words(row: GradeRow) -> str:
    names = filter(None, (row.candidate, row.dimension, row.group_name))
    return f"{', '.join(map(one_line, names))}: {score_with_interval(row)}."


def _bar(row: GradeRow) -> Chart:
    return {
        "score": row.score,
        "low": row.ci_low,
        "high": row.ci_high,
        "opacity": OPACITY_OF_ASPECTS if row.group_name else 1,
        "words": score_with_interval(row),
    }


def _layers(labels: Sequence[str]) -> list[Chart]:
    """Bars, the intervals on them and the numbers beside them."""
    y = lines(labels)
    scale = {"domain": [0, HIGHEST]}
    x = {"field": "score", "type": "quantitative", "scale": scale, "title": None}
    opacity = {"field": "opacity", "type": "quantitative", "scale": None}
    low = {"field": "low", "type": "quantitative", "scale": scale}
    beside = {"x": {"value": WIDTH + 8}, "text": {"field": "words", "type": "nominal"}}
    bar = {"type": "bar", "color": COLOUR, "stroke": GREY, "strokeWidth": 0.5, "height": {"band": 0.8}}
    return [
        {"mark": bar, "encoding": {"y": y, "x": x, "fillOpacity": opacity}},
        {"mark": {"type": "rule", "strokeWidth": 2}, "encoding": {"y": y, "x": low, "x2": {"field": "high"}}},
        {"mark": {"type": "text", "align": "left"}, "encoding": {"y": y, **beside}},
    ]
