"""Charts as SVG: labelled bars and panels, and the marks that they are made of."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from markupsafe import Markup

from tasks.presentation.wording import Scored, score_with_interval
from tasks.text import one_line

MOST_CANDIDATES = 6
"""Most candidates in a chart, the best first: more would make the picture taller than a screen."""
WIDTH, BAR_HEIGHT = 360, 26
"""Pixels. With the labels on both sides, the chart fills the column in which the Prefect UI shows Markdown."""
INK = "currentColor"
"""Color of the text around the chart; black in a file."""
GREY = "#808080"
"""Color of rules and edges, visible on white and on a dark page."""
FONT = 13
LETTER = 7
"""Pixels of an average letter of that font, to leave room for a text before it is drawn."""
LONGEST_NAME = 60
LONGEST_LABEL = 32
"""Longest label at the left of a bar, in letters."""
HEADER = 26
"""Pixels for the title and the name of a panel."""
MARGIN = 12
"""Pixels of white around a chart in a file."""


class Chart(NamedTuple):
    """A drawing."""

    width: float
    height: float
    marks: Markup

    def on_page(self, words: str) -> Markup:
        """Return the chart as one SVG element for an HTML page, in the color and the font of the text around it.

        Args:
            words: its content for readers who cannot see it.
        """
        shape = Markup('<svg class="chart" role="img" aria-label="{}" viewBox="0 0 {:.0f} {:.0f}">{}</svg>')
        return shape.format(words, self.width, self.height, self.marks)

    def as_file(self) -> bytes:
        """Return the chart as an SVG file, black on white."""
        width, height = self.width + 2 * MARGIN, self.height + 2 * MARGIN
        shape = Markup(
            '<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" viewBox="{2} {2} {0:.0f} {1:.0f}"'
            ' font-family="sans-serif"><rect x="{2}" y="{2}" width="100%" height="100%" fill="white"/>{3}</svg>'
        )
        return shape.format(width, height, -MARGIN, self.marks).encode("utf-8", "replace")


class Panel(NamedTuple):
    """Part of a chart under a name of its own, with its marks from (0, 0) down to its height."""

    name: str
    marks: Markup
    height: float


def rows(candidate: str, bars: Sequence[tuple[str, Markup]], ticks: Sequence[tuple[float, str]] = ()) -> Panel:
    """Return a panel with a label at the left of each bar, whose marks begin at (0, 0).

    Args:
        bars: label and marks of each; a label may be a stranger's.
        ticks: place on the bars in pixels and name of each value that a line marks across all of them.
    """
    height = len(bars) * BAR_HEIGHT
    lines = [rule(x, 0, x, height, opacity=0.35) for x, _ in ticks]
    names = [text(x, height + 14, name, anchor="middle") for x, name in ticks]
    drawn = [
        at(0, place * BAR_HEIGHT, joined([text(-8, 17, label, longest=LONGEST_LABEL, anchor="end"), marks]))
        for place, (label, marks) in enumerate(bars)
    ]
    return Panel(candidate, joined([*lines, *names, *drawn]), height + (20 if ticks else 0))


def stacked(title: str, panels: Sequence[Panel], left: float, right: float) -> Chart:
    """Return a chart of panels, one below the other.

    Args:
        left: pixels at the left of each panel's zero.
        right: pixels at its right.
    """
    marks = [text(0, 16, title, size=15, bold=True)] if title else []
    y: float = HEADER if title else 0
    for panel in panels:
        marks.append(text(left, y + 17, panel.name, longest=LONGEST_NAME, bold=True))
        marks.append(at(left, y + HEADER, panel.marks))
        y += HEADER + panel.height + 8
    return Chart(left + right, y, joined(marks))


def label_room(labels: Iterable[str]) -> float:
    """Return the pixels that these labels need at the left of their bars."""
    return text_room(one_line(each, LONGEST_LABEL) for each in labels) + 12


def text_room(texts: Iterable[str]) -> float:
    """Return about the pixels that the longest of these texts needs."""
    return LETTER * max(map(len, texts), default=0)


# Marks


def at(x: float, y: float, marks: Markup) -> Markup:
    """Return marks moved by so many pixels."""
    return Markup('<g transform="translate({},{})">{}</g>').format(_number(x), _number(y), marks)


def bar(x: float, y: float, width: float, height: float, color: str, opacity: float = 1) -> Markup:
    """Return a rectangle with a grey edge."""
    shape = '<rect x="{}" y="{}" width="{}" height="{}" fill="{}" fill-opacity="{}" stroke="{}" stroke-width=".5"/>'
    return Markup(shape).format(*map(_number, (x, y, width, height)), color, opacity, GREY)


MEAN_SCORES = "Mean scores with their 95% intervals"
SCORE_COLOUR = "#0072B2"
OPACITY_OF_PARTS = 0.4
"""Opacity that keeps the intervals visible on their bars, black on white and white on black."""


def score_chart(title: str, scores: Sequence[Scored], highest: float, whole: str = "") -> Chart:
    """Draw a panel for each of the best candidates with a bar for each score from 0 to `highest`, its interval on it.

    Args:
        scores: scores of dimensions, each followed by those of its parts, which are fainter; the best candidate first.
        whole: name of the only dimension; empty: its own.
    """
    ticks = [(WIDTH * number / 5, f"{highest * number / 5:g}") for number in range(6)]
    best = [*dict.fromkeys(row.candidate for row in scores)][:MOST_CANDIDATES]
    scores = [row for row in scores if row.candidate in best]
    labels = [row.group_name or whole or row.dimension for row in scores]
    bars = [(label, _score_bar(row, highest)) for label, row in zip(labels, scores, strict=True)]
    panels = [
        rows(name, [each for each, row in zip(bars, scores, strict=True) if row.candidate == name], ticks)
        for name in best
    ]
    return stacked(title, panels, label_room(labels), WIDTH + 8 + text_room(map(score_with_interval, scores)))


def _score_bar(row: Scored, highest: float) -> Markup:
    scale, middle = WIDTH / highest, BAR_HEIGHT / 2
    marks = [text(WIDTH + 8, middle + 4, score_with_interval(row))]
    if row.score is not None:
        opacity = OPACITY_OF_PARTS if row.group_name else 1
        marks.append(bar(0, 3, scale * row.score, BAR_HEIGHT - 6, SCORE_COLOUR, opacity))
    if row.ci_low is not None and row.ci_high is not None:
        marks.append(rule(scale * row.ci_low, middle, scale * row.ci_high, middle, INK, 2))
    return joined(marks)


def rule(
    x: float, y: float, x2: float, y2: float, color: str = GREY, width: float = 1, dash: str = "", opacity: float = 1
) -> Markup:
    """Return a straight line."""
    shape = '<line x1="{}" y1="{}" x2="{}" y2="{}" stroke="{}" stroke-width="{}" stroke-opacity="{}"{}/>'
    return Markup(shape).format(*map(_number, (x, y, x2, y2)), color, width, opacity, _dashes(dash))


def path(points: Iterable[tuple[float, float]], color: str, dash: str = "") -> Markup:
    """Return a line through these points, in pixels."""
    return Markup('<path d="M{}" fill="none" stroke="{}" stroke-width="2"{}/>').format(
        _places(points), color, _dashes(dash)
    )


def area(points: Iterable[tuple[float, float]], color: str) -> Markup:
    """Return the pale area within these corners, in pixels."""
    return Markup('<path d="M{}Z" fill="{}" fill-opacity=".25"/>').format(_places(points), color)


def dot(x: float, y: float, color: str, words: str) -> Markup:
    """Return a filled circle; readers who point at it see the words."""
    shape = '<circle cx="{}" cy="{}" r="4" fill="{}"><title>{}</title></circle>'
    return Markup(shape).format(_number(x), _number(y), color, words)


def text(
    x: float,
    y: float,
    words: str,
    *,
    longest: int = 160,
    anchor: str = "start",
    size: float = FONT,
    bold: bool = False,
    color: str = INK,
) -> Markup:
    """Return a text on a base line; it may be a stranger's, and is cut after so many letters."""
    weight = Markup(' font-weight="bold"') if bold else ""
    shape = '<text x="{}" y="{}" font-size="{}" text-anchor="{}" fill="{}"{}>{}</text>'
    return Markup(shape).format(_number(x), _number(y), size, anchor, color, weight, one_line(words, longest))


def joined(marks: Iterable[Markup]) -> Markup:
    """Return the marks, the first of them at the bottom."""
    return Markup("").join(marks)


def round_ticks(low: float, high: float) -> list[float]:
    """Return some five round values at equal distances, the first and the last of which enclose the range."""
    high = high if high > low else low + 1
    reach = high - low
    power = 10.0 ** math.floor(math.log10(reach / 5))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power * 5 >= reach)
    return [number * step for number in range(math.floor(low / step), math.ceil(high / step) + 1)]


def _dashes(dash: str) -> str:
    return Markup(' stroke-dasharray="{}"').format(dash) if dash else ""


def _places(points: Iterable[tuple[float, float]]) -> str:
    return "L".join(f"{_number(x)},{_number(y)}" for x, y in points)


def _number(pixels: float) -> str:
    return f"{pixels:.1f}".removesuffix(".0")
