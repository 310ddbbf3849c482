"""Statistical plots for the drawn samples: invented numbers, the plot drawn of them, and the text that goes with it.

The words come from `topics`, axes and legends from `axes`; which plots are spoilt, and how, is chosen in `defects`.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

from PIL import Image

from tasks.synthetic.axes import Entry, Scale, category_scale, draw_axes, draw_legend, number_scale
from tasks.synthetic.canvas import Area, Canvas, Point
from tasks.synthetic.looks import PALETTES, Look, mixed
from tasks.synthetic.topics import EXPERIMENTS, SERIES, Experiment

SIZE = (700, 420)
FRAME = Area(78, 46, SIZE[0] - 24, SIZE[1] - 62)
"""Where the data are."""
EASY_SERIES = 2
"""Plots with at most this many series count as easy."""
BAR_SHARE = 0.76
"""How much of a category's room its bars fill."""


class Series(NamedTuple):
    """A legend entry and its points, in the units of the axes."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Plot:
    """One plot. For bars, x is the number of the category."""

    experiment: Experiment
    x_label: str
    y_label: str
    categories: tuple[str, ...]
    series: tuple[Series, ...]
    look: Look
    boxed: bool
    grid: bool
    note: str = ""
    """Text written over the data. No plot needs one."""

    @property
    def category(self) -> str:
        """Chart type."""
        return self.experiment.chart

    @property
    def difficulty(self) -> str:
        """`easy` or `hard`, by the number of series."""
        return "easy" if len(self.series) <= EASY_SERIES else "hard"

    @property
    def arrangement(self) -> str:
        """What the plot shows at first sight: its chart type."""
        return self.experiment.chart

    def content(self) -> dict[str, object] | list[dict[str, object]]:
        """The data drawn: an object for bars, a list of points for lines and scatters."""
        if self.categories:
            bars = {one.name: {self.categories[int(x)]: y for x, y in one.points} for one in self.series}
            return {"x_axis": self.x_label, "y_axis": self.y_label, "data": bars}
        return [{"series": one.name, self.x_label: x, self.y_label: y} for one in self.series for x, y in one.points]

    def intent(self) -> str:
        """The brief description."""
        kind = {"bar": "grouped bar chart", "line": "line chart", "scatter": "scatter plot"}[self.experiment.chart]
        return f"A {kind} of {self.y_label} by {self.x_label} for {', '.join(one.name for one in self.series)}."

    def relabelled(self, change: Callable[[str], str]) -> "Plot":
        """The same plot with legend, categories and axis labels changed."""
        series = tuple(Series(change(one.name), one.points) for one in self.series)
        labels = {"x_label": change(self.x_label), "y_label": change(self.y_label)}
        return replace(self, series=series, categories=tuple(map(change, self.categories)), **labels)

    def wordy(self, sentence: Callable[[str], str]) -> "Plot":
        """The same plot with a paragraph written over the data."""
        names = [one.name for one in self.series] * 2
        return replace(self, note=". ".join(sentence(name) for name in names[:3]) + ".")

    def misstated(self) -> "Plot":
        """The same plot with the legend's names moved on by one: every series has the name of another."""
        names = [one.name for one in self.series]
        moved = zip([*names[1:], names[0]], self.series, strict=True)
        return replace(self, series=tuple(Series(name, one.points) for name, one in moved))

    def draw(self) -> Image.Image:
        """The plot as a picture."""
        canvas, palette = Canvas(*SIZE, self.look.palette.paper), self.look.palette
        x, y = self._scales()
        draw_axes(canvas, FRAME, x, y, self.look, self.boxed, self.grid)
        for number, one in enumerate(self.series):
            _MARKS[self.experiment.chart](canvas, self, number, [(x.place(px), y.place(py)) for px, py in one.points])
        entries = [Entry(one.name, palette.tone(number).edge) for number, one in enumerate(self.series)]
        draw_legend(canvas, (FRAME.center[0], 20), entries, self.look)
        if self.note:
            box = Area(FRAME.center[0] - 40, FRAME.top + 12, FRAME.right - 12, FRAME.bottom - 60)
            canvas.box(box, palette.paper, palette.line, 4, 1)
            canvas.block(box.shrunk(8, 6), self.note, self.look.font_size, palette.ink)
        return canvas.finish()

    def _scales(self) -> tuple[Scale, Scale]:
        xs, ys = zip(*(point for one in self.series for point in one.points), strict=True)
        across, up = (FRAME.left, FRAME.right), (FRAME.bottom, FRAME.top)
        if self.categories:
            return category_scale(self.x_label, self.categories, across), number_scale(self.y_label, [0.0, *ys], up)
        return number_scale(self.x_label, list(xs), across), number_scale(self.y_label, list(ys), up)


def random_plot(random: Random) -> Plot:
    """A plot of one of the invented experiments, with numbers, wording and look chosen by `random`."""
    experiment = random.choice(EXPERIMENTS)
    count = min(len(experiment.categories), random.choice((3, 4, 5)))
    categories = sorted(random.sample(experiment.categories, count), key=experiment.categories.index)
    names = random.sample(SERIES, random.choice((2, 3, 4)))
    points = _POINTS[experiment.chart]
    series = [Series(name, tuple(points(random, experiment, n / len(names), count))) for n, name in enumerate(names)]
    labels = random.choice(experiment.x_label), random.choice(experiment.y_label)
    look = Look(random.choice(PALETTES), random.choice((13, 14, 15)), 3, random.choice((2, 2.5)))
    boxed, grid = random.random() < 0.5, random.random() < 0.6
    return Plot(experiment, *labels, tuple(categories), tuple(series), look, boxed, grid)


def _value(of: Experiment, share: float, digits: int = 2) -> float:
    low, high = of.y_range
    return round(low + (high - low) * share, digits)


def _bar_points(random: Random, of: Experiment, rank: float, count: int) -> Iterator[Point]:
    for number in range(count):
        yield number, _value(of, 0.35 + 0.45 * rank + random.uniform(-0.15, 0.15), 1)


def _line_points(random: Random, of: Experiment, rank: float, _count: int) -> Iterator[Point]:
    speed, top = random.uniform(2, 5), 0.6 + 0.35 * rank
    for step in range(11):
        yield of.x_high * step / 10, _value(of, top * (1 - math.exp(-speed * step / 10)) + random.uniform(-0.02, 0.02))


def _scatter_points(random: Random, of: Experiment, rank: float, _count: int) -> Iterator[Point]:
    for _ in range(random.randint(14, 20)):
        x = random.uniform(0.05, 0.95)
        yield round(of.x_high * x, 2), _value(of, 0.1 + 0.4 * rank + 0.4 * x + random.gauss(0, 0.06))


def _bars(canvas: Canvas, plot: Plot, number: int, points: list[Point]) -> None:
    room = FRAME.width / len(plot.categories) * BAR_SHARE
    width, palette = room / len(plot.series), plot.look.palette
    for x, y in points:
        left = x - room / 2 + number * width
        fill = mixed(palette.tone(number).edge, palette.paper, 0.15)
        canvas.box(Area(left + 1.5, y, left + width - 1.5, FRAME.bottom), fill, None)


def _line(canvas: Canvas, plot: Plot, number: int, points: list[Point]) -> None:
    color = plot.look.palette.tone(number).edge
    canvas.line(points, color, plot.look.line_width)
    for point in points:
        canvas.dot(point, 3.2, color)


def _scatter(canvas: Canvas, plot: Plot, number: int, points: list[Point]) -> None:
    palette, color = plot.look.palette, plot.look.palette.tone(number).edge
    for point in points:
        canvas.dot(point, 5, mixed(color, palette.paper, 0.25), color)


_POINTS = {"bar": _bar_points, "line": _line_points, "scatter": _scatter_points}
_MARKS = {"bar": _bars, "line": _line, "scatter": _scatter}
