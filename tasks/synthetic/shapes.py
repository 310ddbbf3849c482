"""The plain shapes that the drawn text-to-image samples show, and that the embedded judge knows by their outlines.

Owns what a ball, a star or a ring looks like. Where they stand in an image is for `scenes`.
"""

import math
from collections.abc import Callable, Iterable
from functools import cache

from PIL import Image, ImageDraw

from tasks.synthetic.canvas import Point

FINENESS = 2
"""Pillow draws hard edges: shapes are drawn this many times larger and then averaged down."""
CURVE = 72
"""Corners that stand in for a whole curve."""

Outline = tuple[Point, ...]


def _turns(start: float = 0.0, end: float = 1.0, steps: int = CURVE) -> list[float]:
    return [math.tau * (start + (end - start) * step / steps) for step in range(steps + 1)]


def _arc(radius: float, turns: Iterable[float], x: float = 0.0, y: float = 0.0, squash: float = 1.0) -> list[Point]:
    # Turns are angles in radians, clockwise from the top.
    return [(x + radius * math.sin(turn), y - squash * radius * math.cos(turn)) for turn in turns]


def _ball() -> list[Point]:
    return _arc(1, _turns())


def _star() -> list[Point]:
    return [_arc(0.45 if number % 2 else 1, [math.tau * number / 10])[0] for number in range(10)]


def _heart() -> list[Point]:
    def height(t: float) -> float:
        return 13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t)

    return [(16 * math.sin(t) ** 3, -height(t)) for t in _turns()]


def _cross() -> list[Point]:
    arm, end = 0.34, 1.0
    quarter = [(arm, -end), (arm, -arm), (end, -arm)]
    turned = [quarter]
    while len(turned) < 4:
        turned.append([(-y, x) for x, y in turned[-1]])
    return [point for part in turned for point in part]


def _cone() -> list[Point]:
    return [(0, -2), *_arc(1, _turns(0.25, 0.75), squash=0.3)]


def _drop() -> list[Point]:
    return [(math.sin(t) * math.sin(t / 2) ** 1.6, -1.3 * math.cos(t)) for t in _turns()]


def _moon() -> list[Point]:
    # The second circle bites into the first; both go through the same two points, at 0.1 and 0.4 turns of the first.
    return [*_arc(1, _turns(0.4, 1.1)), *_arc(0.814, _turns(1.017, 0.483), x=0.5)]


_CORNERS: dict[str, list[Point]] = {
    "box": [(0, 0), (1, 0), (1, 1), (0, 1)],
    "diamond": [(1, 0), (2, 1.2), (1, 2.4), (0, 1.2)],
    "arrow": [(0, 0.3), (0.55, 0.3), (0.55, 0), (1, 0.5), (0.55, 1), (0.55, 0.7), (0, 0.7)],
    "house": [(0.5, 0), (1, 0.45), (0.86, 0.45), (0.86, 1), (0.14, 1), (0.14, 0.45), (0, 0.45)],
}
_CURVES: dict[str, Callable[[], list[Point]]] = {
    "ball": _ball,
    "ring": _ball,
    "star": _star,
    "heart": _heart,
    "cross": _cross,
    "cone": _cone,
    "drop": _drop,
    "moon": _moon,
}
SHAPES = (*_CURVES, *_CORNERS)
"""Names of the shapes, as prompts have them."""
_HOLE = {"ring": 0.5}
"""Shape -> width of the round hole in its middle, as a share of the whole."""


@cache
def _outlines(name: str) -> tuple[tuple[Outline, ...], float]:
    """The outline and its holes with both sides at most 1, and the width by the height."""
    points = _CURVES[name]() if name in _CURVES else _CORNERS[name]
    (left, top), (right, bottom) = (tuple(pick(axis) for axis in zip(*points, strict=True)) for pick in (min, max))
    scaled = tuple(((x - left) / (right - left), (y - top) / (bottom - top)) for x, y in points)
    holes = [tuple(_arc(_HOLE[name] / 2, _turns(), x=0.5, y=0.5))] if name in _HOLE else []
    return (scaled, *holes), (right - left) / (bottom - top)


def extent(name: str, size: float) -> tuple[int, int]:
    """Width and height of a shape whose longer side is `size`, in whole pixels."""
    _, ratio = _outlines(name)
    return max(1, round(size * min(1, ratio))), max(1, round(size * min(1, 1 / ratio)))


def silhouette(name: str, size: tuple[int, int], edge: float = 0) -> Image.Image:
    """Mask (mode L) that a shape fills, without a line of `edge` pixels along its outlines."""
    width, height = (side * FINENESS for side in size)
    mask = Image.new("L", (width, height))
    draw = ImageDraw.Draw(mask)
    for number, outline in enumerate(_outlines(name)[0]):
        corners = [(x * (width - 1), y * (height - 1)) for x, y in outline]
        draw.polygon(corners, 0 if number else 255)
        if edge:
            draw.line([*corners, *corners[:2]], 0, round(2 * edge * FINENESS), joint="curve")
    return mask.reduce(FINENESS)
