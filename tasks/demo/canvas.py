"""Canvas, palettes and plain shapes of drawn pictures. Lengths are pixels of the finished picture."""

import io
import math
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont

FINENESS = 2
"""Factor by which everything is drawn larger and then averaged down, since Pillow draws hard edges."""
LINE_SPACING = 1.2
"""Distance of two baselines, in font sizes."""

Point = tuple[float, float]


class Tone(NamedTuple):
    """A light fill with the darker edge that belongs to it."""

    fill: str
    edge: str


Palette = tuple[Tone, ...]


def _palette(colors: str) -> Palette:
    return tuple(Tone(*tone.split("/")) for tone in colors.split())


INK, LINE = "#1f2933", "#52606d"
"""Colors of letters, and of lines and arrows."""
PALETTES = (
    _palette("#d6e6f5/#3b76af #fbe3d0/#c96f2e #dcefdc/#4a8f55 #e8e0f3/#7a5ea8"),
    _palette("#e3dcef/#6d5a94 #f3dcd8/#a8574d #dbe9e6/#3f7d74 #f5ebcf/#9c7c24"),
    _palette("#cfe8e5/#2a7f77 #f9e8c8/#b67d1b #dbe2f3/#4b64a8 #f6d9dd/#b04a5c"),
    _palette("#f3dfc4/#a9681f #d9e5ee/#42708f #e4e8cf/#6f7f2c #f1d7d2/#a3493b"),
    _palette("#dfe3e8/#59636f #d3e3f2/#2f6ea3 #fbe6cf/#bd7420 #dfeedd/#558b4e"),
)
"""Quiet fills as papers print them."""
NEON = _palette("#00ff00/#ff00aa #ff00ff/#00ee00 #00ffff/#ff2200 #ff0080/#00ccff")


class Area(NamedTuple):
    """A rectangle."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def center(self) -> Point:
        """Middle of the rectangle."""
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2

    def shrink(self, x: float, y: float) -> "Area":
        """Return the area without `x` at either side and `y` at top and bottom."""
        return Area(self.left + x, self.top + y, self.right - x, self.bottom - y)

    def columns(self, count: int, gap: float = 0) -> "list[Area]":
        """Return equal parts side by side, left to right, with gaps between them."""
        step = (self.right - self.left + gap) / count
        lefts = [self.left + number * step for number in range(count)]
        return [self._replace(left=left, right=left + step - gap) for left in lefts]

    def rows(self, count: int, gap: float = 0) -> "list[Area]":
        """Return equal parts one above the other, from the top, with gaps between them."""
        step = (self.bottom - self.top + gap) / count
        tops = [self.top + number * step for number in range(count)]
        return [self._replace(top=top, bottom=top + step - gap) for top in tops]


@lru_cache(maxsize=64)
def _font(size: float) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size * FINENESS)


class Canvas:
    """A sheet to draw on, with smooth edges once it is finished."""

    def __init__(self, width: int, height: int, paper: str) -> None:
        self._sheet = Image.new("RGB", (width * FINENESS, height * FINENESS), paper)
        self._draw = ImageDraw.Draw(self._sheet)

    def finish(self) -> Image.Image:
        """Return the picture, RGB, in the requested size."""
        return self._sheet.reduce(FINENESS)

    def box(self, area: Area, fill: str | None, edge: str | None, radius: float = 0, width: float = 1.5) -> None:
        """Draw a rectangle with rounded corners."""
        corners = tuple(round(value * FINENESS) for value in area)
        self._draw.rounded_rectangle(corners, radius * FINENESS, fill, edge, round(width * FINENESS))

    def line(self, points: Sequence[Point], color: str, width: float = 1.5) -> None:
        """Draw a line through these points."""
        scaled = [(x * FINENESS, y * FINENESS) for x, y in points]
        self._draw.line(scaled, color, round(width * FINENESS), joint="curve")

    def arrow(self, start: Point, end: Point, color: str, width: float = 1.5) -> None:
        """Draw a straight arrow with its tip at `end`."""
        angle = math.atan2(end[1] - start[1], end[0] - start[0])
        length, half = 5 + 2 * width, 2.5 + width
        back = end[0] - length * math.cos(angle), end[1] - length * math.sin(angle)
        side = half * math.sin(angle), -half * math.cos(angle)
        self.line((start, back), color, width)
        tip = [end, (back[0] + side[0], back[1] + side[1]), (back[0] - side[0], back[1] - side[1])]
        self._draw.polygon([(x * FINENESS, y * FINENESS) for x, y in tip], color)

    def text(self, at: Point, words: str, size: float, color: str, anchor: str = "mm") -> None:
        """Write one line of text; `anchor` in Pillow's two letters."""
        self._draw.text((at[0] * FINENESS, at[1] * FINENESS), words, color, _font(size), anchor)

    def block(self, area: Area, words: str, size: float) -> None:
        """Write wrapped text in the middle of the area; the letters shrink until all of it fits."""
        width, height = area.right - area.left, area.bottom - area.top
        while len(lines := _wrap(words, width, size)) * size * LINE_SPACING > height and size > 5:
            size -= 0.5
        x, y = area.center
        first = y - (len(lines) - 1) / 2 * size * LINE_SPACING
        for number, line in enumerate(lines):
            self.text((x, first + number * size * LINE_SPACING), line, size, INK)


def _wrap(words: str, width: float, size: float) -> list[str]:
    lines = [""]
    for word in words.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and _font(size).getlength(longer) / FINENESS > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


CURVE = 72
"""Number of corners that approximate a whole curve."""

PAINTS = {
    "red": "#d3303a",
    "orange": "#f0872b",
    "yellow": "#f4cf35",
    "green": "#3f9b4f",
    "blue": "#2f6fc4",
    "purple": "#7d4bb0",
    "pink": "#f08fb8",
    "brown": "#7b4a2b",
    "black": "#26282d",
    "white": "#fdfdfd",
}


def _turns(start: float = 0.0, end: float = 1.0) -> list[float]:
    return [math.tau * (start + (end - start) * step / CURVE) for step in range(CURVE + 1)]


def _arc(radius: float, turns: list[float], x: float = 0.0, y: float = 0.0) -> list[Point]:
    # Turns are angles in radians, clockwise from the top.
    return [(x + radius * math.sin(turn), y - radius * math.cos(turn)) for turn in turns]


def _star() -> list[Point]:
    return [_arc(0.45 if number % 2 else 1, [math.tau * number / 10])[0] for number in range(10)]


def _heart() -> list[Point]:
    heights = [13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t) for t in _turns()]
    return [(16 * math.sin(t) ** 3, -height) for t, height in zip(_turns(), heights, strict=True)]


def _moon() -> list[Point]:
    # The second circle bites into the first; both go through the same two points, at 0.1 and 0.4 turns of the first.
    return [*_arc(1, _turns(0.4, 1.1)), *_arc(0.814, _turns(1.017, 0.483), x=0.5)]


_CORNERS: dict[str, list[Point]] = {
    "ball": _arc(1, _turns()),
    "ring": _arc(1, _turns()),
    "star": _star(),
    "heart": _heart(),
    "cross": [
        *((0.33, 0), (0.67, 0), (0.67, 0.33), (1, 0.33), (1, 0.67), (0.67, 0.67)),
        *((0.67, 1), (0.33, 1), (0.33, 0.67), (0, 0.67), (0, 0.33), (0.33, 0.33)),
    ],
    "moon": _moon(),
    "box": [(0, 0), (1, 0), (1, 1), (0, 1)],
    "diamond": [(1, 0), (2, 1.2), (1, 2.4), (0, 1.2)],
    "arrow": [(0, 0.3), (0.55, 0.3), (0.55, 0), (1, 0.5), (0.55, 1), (0.55, 0.7), (0, 0.7)],
    "house": [(0.5, 0), (1, 0.45), (0.86, 0.45), (0.86, 1), (0.14, 1), (0.14, 0.45), (0, 0.45)],
}
SHAPES = tuple(_CORNERS)
_HOLE = {"ring": 0.5}
"""Shape -> width of the round hole in its middle, as a share of the whole."""


@cache
def _outlines(name: str) -> tuple[tuple[tuple[Point, ...], ...], float]:
    """Return the outline and its holes with both sides at most 1, and the width by the height."""
    points = _CORNERS[name]
    (left, top), (right, bottom) = (tuple(pick(axis) for axis in zip(*points, strict=True)) for pick in (min, max))
    scaled = tuple(((x - left) / (right - left), (y - top) / (bottom - top)) for x, y in points)
    holes = [tuple(_arc(_HOLE[name] / 2, _turns(), x=0.5, y=0.5))] if name in _HOLE else []
    return (scaled, *holes), (right - left) / (bottom - top)


def silhouette(name: str, size: tuple[int, int]) -> Image.Image:
    """Return the mask (mode L) that a shape of this width and height fills."""
    width, height = (side * FINENESS for side in size)
    mask = Image.new("L", (width, height))
    draw = ImageDraw.Draw(mask)
    for number, outline in enumerate(_outlines(name)[0]):
        draw.polygon([(x * (width - 1), y * (height - 1)) for x, y in outline], 0 if number else 255)
    return mask.reduce(FINENESS)


def paste_shape(sheet: Image.Image, name: str, center: Point, size: float, color: str) -> None:
    """Draw a shape whose longer side is `size` onto a sheet."""
    _, ratio = _outlines(name)
    sides = max(1, round(size * min(1, ratio))), max(1, round(size * min(1, 1 / ratio)))
    corner = round(center[0] - sides[0] / 2), round(center[1] - sides[1] / 2)
    sheet.paste(color, corner, silhouette(name, sides))


def encode(picture: Image.Image, name: str) -> bytes:
    """Return the picture as a file of this format."""
    buffer = io.BytesIO()
    picture.save(buffer, name, quality=95)
    return buffer.getvalue()
