"""What the drawn samples are drawn with: a canvas with smooth edges.

Owns how a line, a box, an arrow and a word get onto the picture; what is drawn stands in `diagrams` and `plots`.
Lengths are pixels of the finished picture, colors `#rrggbb`.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont

from tasks.errors import InputError

FINENESS = 2
"""Pillow draws lines with hard edges: everything is drawn this many times larger and then averaged down."""

LINE_SPACING = 1.2
"""Distance of two baselines, in font sizes."""

Point = tuple[float, float]


class Area(NamedTuple):
    """A rectangle: left, top, right, bottom."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def center(self) -> Point:
        """Where the diagonals meet."""
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2

    @property
    def width(self) -> float:
        """From left to right."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """From top to bottom."""
        return self.bottom - self.top

    def shrunk(self, x: float, y: float) -> "Area":
        """The same area without `x` at either side and `y` at top and bottom."""
        return Area(self.left + x, self.top + y, self.right - x, self.bottom - y)

    def columns(self, count: int, gap: float = 0) -> "list[Area]":
        """Equal parts side by side, left to right, with gaps between them."""
        step = (self.width + gap) / count
        lefts = [self.left + number * step for number in range(count)]
        return [self._replace(left=left, right=left + step - gap) for left in lefts]

    def rows(self, count: int, gap: float = 0) -> "list[Area]":
        """Equal parts one above the other, from the top, with gaps between them."""
        step = (self.height + gap) / count
        tops = [self.top + number * step for number in range(count)]
        return [self._replace(top=top, bottom=top + step - gap) for top in tops]


@lru_cache(maxsize=64)
def _font(size: float) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(size * FINENESS)
    if not isinstance(font, ImageFont.FreeTypeFont):
        raise InputError("Samples cannot be drawn: this Pillow was built without FreeType, which letters need.")
    return font


class Canvas:
    """An empty sheet that is drawn on and then finished into a picture."""

    def __init__(self, width: int, height: int, paper: str) -> None:
        self._sheet = Image.new("RGB", (width * FINENESS, height * FINENESS), paper)
        self._draw = ImageDraw.Draw(self._sheet)

    def finish(self) -> Image.Image:
        """The picture, RGB, in the size asked for."""
        return self._sheet.reduce(FINENESS)

    def box(self, area: Area, fill: str | None, edge: str | None, radius: float = 0, width: float = 1.5) -> None:
        """A rectangle with rounded corners."""
        corners = tuple(round(value * FINENESS) for value in area)
        self._draw.rounded_rectangle(corners, radius * FINENESS, fill, edge, round(width * FINENESS))

    def dot(self, center: Point, radius: float, fill: str, edge: str | None = None) -> None:
        """A filled circle."""
        x, y = center
        self._draw.ellipse([value * FINENESS for value in (x - radius, y - radius, x + radius, y + radius)], fill, edge)

    def line(self, points: Sequence[Point], color: str, width: float = 1.5) -> None:
        """A line through these points."""
        scaled = [(x * FINENESS, y * FINENESS) for x, y in points]
        self._draw.line(scaled, color, round(width * FINENESS), joint="curve")

    def arrow(self, start: Point, end: Point, color: str, width: float = 1.5) -> None:
        """A straight arrow whose tip is at `end`."""
        angle = math.atan2(end[1] - start[1], end[0] - start[0])
        length, half = 5 + 2 * width, 2.5 + width
        back = end[0] - length * math.cos(angle), end[1] - length * math.sin(angle)
        side = half * math.sin(angle), -half * math.cos(angle)
        self.line((start, back), color, width)
        tip = [end, (back[0] + side[0], back[1] + side[1]), (back[0] - side[0], back[1] - side[1])]
        self._draw.polygon([(x * FINENESS, y * FINENESS) for x, y in tip], color)

    def text(self, at: Point, words: str, size: float, color: str, anchor: str = "mm", heavy: bool = False) -> None:
        """One line of text; `anchor` in Pillow's two letters, `heavy` thickens the strokes."""
        place = at[0] * FINENESS, at[1] * FINENESS
        self._draw.text(place, words, color, _font(size), anchor, stroke_width=0.4 * FINENESS if heavy else 0)

    def turned_text(self, center: Point, words: str, size: float, color: str) -> None:
        """One line of text that is read from bottom to top."""
        font = _font(size)
        left, top, right, bottom = (round(value) for value in font.getbbox(words))
        mask = Image.new("L", (right + 4, bottom + 4))
        ImageDraw.Draw(mask).text((0, 0), words, 255, font)
        mask = mask.crop((left, top, right + 4, bottom + 4)).rotate(90, expand=True)
        corner = round(center[0] * FINENESS - mask.width / 2), round(center[1] * FINENESS - mask.height / 2)
        self._sheet.paste(color, (*corner, corner[0] + mask.width, corner[1] + mask.height), mask)

    def block(self, area: Area, words: str, size: float, color: str) -> None:
        """Text wrapped to the area's width and centred in it; the letters shrink until all of it fits."""
        lines = _wrapped(words, area.width, size)
        while size > 5 and len(lines) * size * LINE_SPACING > area.height:
            size -= 0.5
            lines = _wrapped(words, area.width, size)
        x, y = area.center
        first = y - (len(lines) - 1) / 2 * size * LINE_SPACING
        for number, line in enumerate(lines):
            self.text((x, first + number * size * LINE_SPACING), line, size, color)


def text_width(words: str, size: float) -> float:
    """Width of one line of text."""
    return _font(size).getlength(words) / FINENESS


def _wrapped(words: str, width: float, size: float) -> list[str]:
    lines = [""]
    for word in words.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and text_width(longer, size) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines
