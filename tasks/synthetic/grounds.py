"""What the shapes of a drawn scene stand on: a light sheet, plain, graded or with a faint pattern."""

from random import Random
from typing import Literal, NamedTuple, get_args

from PIL import Image, ImageDraw, ImageOps

from tasks.synthetic.looks import mixed

Pattern = Literal["plain", "graded", "striped", "dotted", "checked"]

LIGHT = ("#e8ecf0", "#efe9df", "#e4ede6", "#ebe6ef", "#e2e9f1", "#f0e8e6")
MIDDLE = ("#aeb7bf", "#b8b0a2", "#a6b3ab")
"""Darker sheets, from which white stands out."""
FAINT = 0.025
"""Share of black in a pattern: seen, but far from any shape's color."""
MESH = 24
"""Distance of a pattern's stripes or dots, in pixels."""


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


def random_ground(random: Random, dark: bool) -> Ground:
    """A sheet chosen by `random`: a darker one for white shapes."""
    return Ground(random.choice(MIDDLE if dark else LIGHT), random.choice(get_args(Pattern)))


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
