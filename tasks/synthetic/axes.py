"""Axes and legends of the drawn plots."""

import math
from typing import NamedTuple

from tasks.synthetic.canvas import Area, Canvas, Point, text_width
from tasks.synthetic.looks import Look, mixed

MOST_TICKS = 6
"""A scale of numbers has about this many labelled values at most."""
SWATCH, SPACE = 20, 20
"""Widths of a legend entry's colored mark, and of the gap behind the entry."""


class Scale(NamedTuple):
    """An axis: its label, the values that are marked with their words, and which pixels its ends lie at."""

    label: str
    marks: tuple[tuple[float, str], ...]
    ends: tuple[float, float]
    """Values at both ends."""
    pixels: tuple[float, float]

    def place(self, value: float) -> float:
        """Pixel at which a value stands."""
        (first, last), (start, end) = self.ends, self.pixels
        return start + (value - first) / (last - first) * (end - start)


class Entry(NamedTuple):
    """A line of a legend."""

    name: str
    color: str


def number_scale(label: str, values: list[float], pixels: tuple[float, float]) -> Scale:
    """A scale with round numbers that covers these values."""
    low, high = min(values), max(values)
    power = 10 ** math.floor(math.log10((high - low) / MOST_TICKS))
    step = next(s * power for s in (1, 2, 2.5, 5, 10, 20) if (high - low) / (s * power) <= MOST_TICKS - 2)
    ticks = [round(n * step, 6) for n in range(math.floor(low / step), math.ceil(high / step) + 1)]
    return Scale(label, tuple((tick, f"{tick:g}") for tick in ticks), (ticks[0], ticks[-1]), pixels)


def category_scale(label: str, categories: tuple[str, ...], pixels: tuple[float, float]) -> Scale:
    """A scale with the categories at 0, 1, 2 …"""
    return Scale(label, tuple(enumerate(categories)), (-0.5, len(categories) - 0.5), pixels)


def draw_axes(canvas: Canvas, frame: Area, x: Scale, y: Scale, look: Look, boxed: bool, grid: bool) -> None:
    """Draw both axes at the frame's left and bottom with their labels, and what of a frame and a grid is wanted."""
    ink, line, size = look.palette.ink, look.palette.line, look.font_size
    for value, words in y.marks:
        at = y.place(value)
        if grid:
            canvas.line(((frame.left, at), (frame.right, at)), mixed(line, look.palette.paper, 0.8), 1)
        canvas.text((frame.left - 8, at), words, size - 1, ink, "rm")
    room = frame.width / len(x.marks) / 2
    for value, words in x.marks:
        at = x.place(value)
        canvas.line(((at, frame.bottom), (at, frame.bottom + 4)), line, 1)
        canvas.block(Area(at - room, frame.bottom + 5, at + room, frame.bottom + 27), words, size - 1, ink)
    if boxed:
        canvas.box(frame, None, line, 0, 1)
    canvas.line(((frame.left, frame.top), (frame.left, frame.bottom), (frame.right, frame.bottom)), line, 1.2)
    canvas.text((frame.center[0], frame.bottom + 44), x.label, size, ink)
    canvas.turned_text((22, frame.center[1]), y.label, size, ink)


def draw_legend(canvas: Canvas, center: Point, entries: list[Entry], look: Look) -> None:
    """Draw the entries in one row around `center`."""
    widths = [SWATCH + text_width(entry.name, look.font_size) + SPACE for entry in entries]
    x, y = center[0] - (sum(widths) - SPACE) / 2, center[1]
    for entry, width in zip(entries, widths, strict=True):
        canvas.box(Area(x, y - 5, x + SWATCH - 6, y + 5), entry.color, None, 2)
        canvas.text((x + SWATCH, y), entry.name, look.font_size, look.palette.ink, "lm")
        x += width
