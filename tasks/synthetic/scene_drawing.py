"""How a text-to-image scene is drawn: the sheet, plain, graded or with a faint pattern, and the shapes on it.

The outlines of the shapes are in `shapes`; which shapes a scene has and where they stand is for `scenes`. Lengths are
pixels of the finished picture.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Literal, NamedTuple, get_args

from PIL import Image, ImageDraw, ImageOps

from tasks.synthetic.canvas import Point
from tasks.synthetic.looks import mixed
from tasks.synthetic.shapes import extent, silhouette

Pattern = Literal["plain", "graded", "striped", "dotted", "checked"]

LIGHT = ("#e8ecf0", "#efe9df", "#e4ede6", "#ebe6ef", "#e2e9f1", "#f0e8e6")
MIDDLE = ("#aeb7bf", "#b8b0a2", "#a6b3ab")
"""Darker sheets, from which white stands out."""
FAINT = 0.025
"""Share of black in a pattern: seen, but far from any shape's color."""
MESH = 24
"""Distance of a pattern's stripes or dots, in pixels."""

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
EDGE = 2
"""Width of the darker line round a shape."""
SPLIT = 0.08
"""How far the quarters of a broken shape are moved, as a share of its size."""

Part = tuple[int, int, int, int]
"""Left, top, right and bottom."""


class Ground(NamedTuple):
    """A sheet's color, as `#rrggbb`, and its pattern."""

    color: str
    pattern: Pattern

    def lay(self, side: int) -> Image.Image:
        """A square sheet, RGB."""
        dark = mixed(self.color, "#000000", FAINT)
        if self.pattern == "graded":
            slope = Image.linear_gradient("L").resize((side, side))
            return ImageOps.colorize(slope, mixed(self.color, "#ffffff", 4 * FAINT), dark)
        sheet = Image.new("RGB", (side, side), self.color)
        if self.pattern == "plain":
            return sheet
        tile = _TILES[self.pattern]
        ink = Image.new("L", (side, side))
        for number in range((side // MESH + 1) ** 2):
            row, column = divmod(number, side // MESH + 1)
            ink.paste(tile, (column * MESH, row * MESH))
        sheet.paste(dark, mask=ink)
        return sheet


@dataclass(frozen=True)
class Thing:
    """One shape in a scene."""

    shape: str
    color: str
    """Name of one of the paints."""
    center: Point = (0, 0)
    size: float = 0
    """Longer side."""
    faded: float = 0
    """Share of the ground's color in its own: 0 to 1."""
    broken: bool = False
    """In four quarters that lie apart."""
    covered: bool = False
    """With a blank card in front of most of it."""


def random_ground(random: Random, dark: bool) -> Ground:
    """A sheet chosen by `random`: a darker one for white shapes."""
    return Ground(random.choice(MIDDLE if dark else LIGHT), random.choice(get_args(Pattern)))


def draw_thing(sheet: Image.Image, thing: Thing, ground: str) -> None:
    """Draw a shape on the sheet, whose color is `ground`, and the card in front of it where it is covered."""
    size = extent(thing.shape, thing.size)
    mask, figure = silhouette(thing.shape, size), _painted(thing, size, ground)
    left, top = round(thing.center[0] - size[0] / 2), round(thing.center[1] - size[1] / 2)
    for part, (x, y) in _quarters(size, SPLIT * thing.size) if thing.broken else [((0, 0, *size), (0, 0))]:
        sheet.paste(figure.crop(part), (left + part[0] + x, top + part[1] + y), mask.crop(part))
    if thing.covered:
        _draw_card(sheet, thing, ground)


def _painted(thing: Thing, size: tuple[int, int], ground: str) -> Image.Image:
    color = mixed(PAINTS[thing.color], ground, thing.faded)
    light, edge = mixed(color, "#ffffff", 0.14 * (1 - thing.faded)), mixed(color, "#000000", 0.3 * (1 - thing.faded))
    figure = Image.new("RGB", size, edge)
    sheen = ImageOps.colorize(Image.linear_gradient("L").resize(size), light, color)
    figure.paste(sheen, mask=silhouette(thing.shape, size, EDGE))
    return figure


def _quarters(size: tuple[int, int], gap: float) -> Iterator[tuple[Part, tuple[int, int]]]:
    """Parts of a rectangle, and how far each is moved."""
    (width, height), (x, y) = size, (size[0] // 2, size[1] // 2)
    for right, lower in product((False, True), repeat=2):
        part = (x if right else 0, y if lower else 0, width if right else x, height if lower else y)
        # The halves also slip along each other, so that no cut runs through all four.
        moved = (
            (gap if right else -gap) + (gap / 2 if lower else 0),
            (gap if lower else -gap) + (gap / 2 if right else 0),
        )
        yield part, (round(moved[0]), round(moved[1]))


def _draw_card(sheet: Image.Image, thing: Thing, ground: str) -> None:
    (x, y), half = thing.center, thing.size / 2
    card = [round(value) for value in (x - 1.15 * half, y - 0.3 * half, x + 1.15 * half, y + 1.15 * half)]
    ImageDraw.Draw(sheet).rectangle(card, mixed(ground, "#000000", 0.22), mixed(ground, "#000000", 0.45), EDGE)


def _tile(pattern: Pattern) -> Image.Image:
    tile = Image.new("L", (2 * MESH, 2 * MESH))
    draw = ImageDraw.Draw(tile)
    if pattern == "dotted":
        draw.ellipse((MESH - 6, MESH - 6, MESH + 6, MESH + 6), 255)
    elif pattern == "checked":
        draw.rectangle((0, 0, MESH - 1, MESH - 1), 255)
        draw.rectangle((MESH, MESH, 2 * MESH - 1, 2 * MESH - 1), 255)
    else:
        draw.rectangle((0, 0, MESH - 1, 2 * MESH - 1), 255)
    return tile.reduce(2)


_TILES = {pattern: _tile(pattern) for pattern in get_args(Pattern)}
