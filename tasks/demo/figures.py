"""Drawn figures, method diagrams and statistical plots, and the defects that are drawn into them on purpose."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

from PIL import Image, ImageOps

from tasks.demo.canvas import INK, LINE, NEON, PALETTES, Area, Canvas, Palette, Point

DIAGRAM_SIZE, PLOT_SIZE = (720, 400), (700, 420)
MARGIN = 16  # of a diagram
GRIDS = ((3, 2), (4, 2), (2, 3), (2, 4))
"""Columns and rows of the boxes of a diagram."""
FRAME = Area(60, 62, PLOT_SIZE[0] - 24, PLOT_SIZE[1] - 52)  # of the data in a plot
FADED = 0.8
"""Share of white in a picture of low contrast."""
SQUARE = 6
"""Side of the squares of a pixelated picture, in pixels."""

TOPICS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("topics.toml").read_text(encoding="utf-8"))
"""Words of all figures."""


@dataclass(frozen=True)
class Diagram:
    """Rows of boxes that a chain of arrows links."""

    category: str
    name: str
    task: str
    labels: tuple[str, ...]
    columns: int
    palette: Palette
    font_size: int

    def content(self) -> str:
        """Return a method section that describes the drawing, in Markdown."""
        return (
            f"## 3 Method\n\n{self.name} {self.task}. It consists of {', '.join(self.labels[:-1])} and "
            f"{self.labels[-1]}.\n\nEach module hands its result to the next, in the order given here."
        )

    def intent(self) -> str:
        """Return the caption."""
        return f"Overview of {self.name}, which {self.task}: from {self.labels[0]} to {self.labels[-1]}."

    def relabel(self, change: Callable[[str], str]) -> "Diagram":
        """Return the diagram with the label of every box changed."""
        return replace(self, labels=tuple(map(change, self.labels)))

    def misstate(self) -> "Diagram":
        """Return the diagram of the method that runs backwards."""
        return replace(self, labels=self.labels[::-1])

    def draw(self) -> Image.Image:
        """Return the picture."""
        canvas = Canvas(*DIAGRAM_SIZE, "#ffffff")
        boxes: list[Area] = []
        for row in Area(0, 0, *DIAGRAM_SIZE).shrink(MARGIN, MARGIN).rows(len(self.labels) // self.columns, gap=34):
            cells = row.columns(self.columns, gap=48)
            # Every second row runs backwards, so that the step to the next row is short.
            boxes += reversed(cells) if len(boxes) // self.columns % 2 else cells
        for one, other in pairwise(boxes):
            canvas.arrow(*_between(one, other), LINE)
        for number, (box, label) in enumerate(zip(boxes, self.labels, strict=True)):
            tone = self.palette[number // self.columns]
            canvas.box(box, tone.fill, tone.edge, radius=8)
            canvas.block(box.shrink(8, 4), label, self.font_size, INK)
        return canvas.finish()


def _between(start: Area, end: Area) -> tuple[Point, Point]:
    """Return the two ends of an arrow from box to box."""
    (x1, y1), (x2, y2) = start.center, end.center
    if abs(x1 - x2) > 1:
        return ((start.right, y1), (end.left, y2)) if x1 < x2 else ((start.left, y1), (end.right, y2))
    return ((x1, start.bottom), (x2, end.top)) if y1 < y2 else ((x1, start.top), (x2, end.bottom))


@dataclass(frozen=True)
class Plot:
    """Grouped bars of values from 0 to 100."""

    category: str
    """Label of the horizontal axis."""
    y_label: str
    categories: tuple[str, ...]
    series: dict[str, tuple[float, ...]]
    """Legend entry -> value for each category."""
    palette: Palette
    font_size: int

    def content(self) -> dict[str, object]:
        """Return the data drawn."""
        data = {name: dict(zip(self.categories, values, strict=True)) for name, values in self.series.items()}
        return {"x_axis": self.category, "y_axis": self.y_label, "data": data}

    def intent(self) -> str:
        """Return the brief description."""
        return f"A grouped bar chart of {self.y_label} by {self.category} for {', '.join(self.series)}."

    def relabel(self, change: Callable[[str], str]) -> "Plot":
        """Return the plot with legend, categories and axis labels changed."""
        series = {change(name): values for name, values in self.series.items()}
        categories = tuple(map(change, self.categories))
        labels = {"category": change(self.category), "y_label": change(self.y_label)}
        return replace(self, series=series, categories=categories, **labels)

    def misstate(self) -> "Plot":
        """Return the plot with the legend's names moved on by one: every series has the name of another."""
        first, *others = self.series
        return replace(self, series=dict(zip((*others, first), self.series.values(), strict=True)))

    def draw(self) -> Image.Image:
        """Return the picture."""
        canvas, rooms = Canvas(*PLOT_SIZE, "#ffffff"), FRAME.columns(len(self.categories))
        self._draw_axes(canvas, rooms)
        for number, values in enumerate(self.series.values()):
            color = self.palette[number].edge
            for room, value in zip(rooms, values, strict=True):
                bar = room.shrink((room.right - room.left) / 8, 0).columns(len(self.series), gap=3)[number]
                canvas.box(bar._replace(top=_y(value)), color, None)
        return canvas.finish()

    def _draw_axes(self, canvas: Canvas, rooms: list[Area]) -> None:
        size = self.font_size
        for value in (0, 25, 50, 75, 100):
            canvas.line(((FRAME.left, _y(value)), (FRAME.right, _y(value))), "#dce0e2", 1)
            canvas.text((FRAME.left - 8, _y(value)), str(value), size - 1, INK, "rm")
        for room, words in zip(rooms, self.categories, strict=True):
            canvas.block(Area(room.left, FRAME.bottom + 5, room.right, FRAME.bottom + 27), words, size - 1, INK)
        canvas.line(((FRAME.left, FRAME.top), (FRAME.left, FRAME.bottom), (FRAME.right, FRAME.bottom)), LINE)
        canvas.text((FRAME.center[0], FRAME.bottom + 40), self.category, size, INK)
        canvas.text((8, FRAME.top - 20), self.y_label, size, INK, "lm")
        legend = Area(FRAME.left, 11, FRAME.right, 21).columns(len(self.series))
        for number, (entry, name) in enumerate(zip(legend, self.series, strict=True)):
            canvas.box(entry._replace(right=entry.left + 14), self.palette[number].edge, None)
            canvas.text((entry.left + 20, entry.center[1]), name, size, INK, "lm")


def _y(value: float) -> float:
    return FRAME.bottom - value / 100 * (FRAME.bottom - FRAME.top)


Figure: TypeAlias = Diagram | Plot


def random_diagram(random: Random) -> Diagram:
    """Return a diagram of one of the invented methods, in a layout and look chosen by `random`."""
    method, (columns, rows) = random.choice(TOPICS["methods"]), random.choice(GRIDS)
    words = method["category"], method["name"], method["task"], tuple(method["modules"][: columns * rows])
    return Diagram(*words, columns, random.choice(PALETTES), random.choice((14, 15, 16)))


def random_plot(random: Random) -> Plot:
    """Return a plot of one of the invented experiments, with numbers and look chosen by `random`."""
    experiment = random.choice(TOPICS["experiments"])
    words = experiment["x_label"], experiment["y_label"], tuple(experiment["categories"])
    names = random.sample(TOPICS["series"], random.choice((2, 3, 4)))
    series = {
        name: tuple(round(35 + 14 * rank + random.uniform(-9, 9), 1) for _ in experiment["categories"])
        for rank, name in enumerate(names)
    }
    return Plot(*words, series, random.choice(PALETTES), random.choice((13, 14, 15)))


NEW_FIGURE: dict[str, Callable[[Random], Figure]] = {"diagram": random_diagram, "plot": random_plot}


def spoil(kind: str, figure: Figure, random: Random) -> Image.Image:
    """Draw the figure as one of the kinds in `labels`, named without its `human_`."""
    if kind in _RETOUCHED:
        return _RETOUCHED[kind](figure.draw())
    return _REDRAWN[kind](figure, random).draw()


def _restyle(figure: Figure, random: Random) -> Figure:
    return replace(figure, palette=random.choice([palette for palette in PALETTES if palette != figure.palette]))


def _other(figure: Figure, random: Random) -> Figure:
    maker = random_diagram if isinstance(figure, Diagram) else random_plot
    while (other := maker(random)).category == figure.category or _parts(other) == _parts(figure):
        pass
    return other


def _parts(figure: Figure) -> tuple[int, int]:
    """Return two numbers that distinguish figures of one kind at first sight."""
    return (figure.columns, len(figure.labels)) if isinstance(figure, Diagram) else (len(figure.categories), 0)


def _garble(figure: Figure, random: Random) -> Figure:
    return figure.relabel(lambda label: " ".join("".join(random.sample(w, len(w))) for w in label.split()))


def _overload(figure: Figure, random: Random) -> Figure:
    return figure.relabel(lambda label: random.choice(TOPICS["sentences"]).format(label))


def _fade(picture: Image.Image) -> Image.Image:
    return Image.blend(picture, Image.new("RGB", picture.size, "white"), FADED)


def _pixelate(picture: Image.Image) -> Image.Image:
    coarse = picture.resize((picture.width // SQUARE, picture.height // SQUARE), Image.Resampling.BOX)
    return coarse.resize(picture.size, Image.Resampling.NEAREST)


def _add_margin(picture: Image.Image) -> Image.Image:
    sheet = Image.new("RGB", picture.size, "white")
    sheet.paste(picture.resize((picture.width * 5 // 8, picture.height * 5 // 8), Image.Resampling.LANCZOS))
    return sheet


_REDRAWN: dict[str, Callable[[Figure, Random], Figure]] = {
    "copy": lambda figure, _: figure,
    "restyled": _restyle,
    "other": _other,
    "garbled": _garble,
    "reversed": lambda figure, _: figure.misstate(),
    "mislabeled": lambda figure, _: figure.misstate(),
    "overload": _overload,
    "tiny_text": lambda figure, _: replace(figure, font_size=5),
    "neon": lambda figure, _: replace(figure, palette=NEON),
}
_RETOUCHED: dict[str, Callable[[Image.Image], Image.Image]] = {
    "black": ImageOps.invert,
    "low_contrast": _fade,
    "pixelated": _pixelate,
    "margin": _add_margin,
}
