"""The names that pixels give: which color this is, and which of the drawn shapes has this outline.

Owns which color counts as red or brown, how far two colors differ, and how alike two outlines must be. The color names
are those of GenEval's prompts, with gray for what has none of them; no object but the drawn shapes is known here.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tasks.synthetic.prompt_words import COLORS
from tasks.synthetic.shapes import SHAPES, extent, silhouette

Pixels = NDArray[np.uint8]
"""RGB in the last axis."""
Lab = NDArray[np.float64]
"""CIELAB in the last axis: lightness 0 to 100, green to red, blue to yellow."""

GRAY = "gray"
NAMES = ("", *COLORS, GRAY)
"""Color names by number; 0 stands for no color, which is the ground."""

_EXAMPLES = {
    "red": "e02020 c8202c a01e24 ff5a50",
    "orange": "ff8c00 f0872b e8701a ffa64d",
    "yellow": "ffe000 f4cf35 e0c840 fff176 ffd75a",
    "green": "2e8b3a 66bb6a 0a5a14 9acd32 90ee90 20c040 56704a",
    "blue": "1f5fbf 6fa8dc 101080 40c4ff 2040ff 5080d0 20c0c8 28406a",
    "purple": "7d3fb0 4b0082 b07fd0 9a30ff 5a3a78",
    "pink": "ff9ec4 ff69b4 f4b6cc e0559a ffc0cb",
    "brown": "7b4a2b 5a3418 a0703c 8a6448 4a3222",
    "black": "000000 1c1c1c 34353a",
    "white": "ffffff f4f4f4",
    "gray": "606060 808080 a0a0a0 c0c0c0 d8d8d8",
}
"""Colors that certainly have each name; any other color has the name of the one that it differs from least."""
_STEP = 8
"""Color names are looked up in a table with a step of so much of each of red, green and blue."""

FIT = 0.82
"""Share of common area from which two outlines are the same. No two drawn shapes have more than 0.8 in common."""
MOST_STRETCHED = 1.2
"""An outline is not the same when it is so many times as wide or as tall."""
_SIDE = 24
"""Outlines are compared as masks of this width and height, in pixels."""


def to_lab(colors: NDArray[Any]) -> Lab:
    """RGB of 0 to 255 in the coordinates in which equal distances look about equally large (CIE 1976, D65)."""
    value = colors / 255
    linear = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    xyz = linear @ _TO_XYZ
    x, y, z = np.moveaxis(np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116), -1, 0)
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)


def difference(one: NDArray[Any], other: NDArray[Any]) -> float:
    """How far two RGB colors lie apart (CIE 1976): about 2 is just seen, 100 is black and white."""
    return float(np.linalg.norm(to_lab(one) - to_lab(other)))


def name_numbers(pixels: Pixels) -> Pixels:
    """The number of each pixel's color name in `NAMES`, never 0."""
    red, green, blue = np.moveaxis(pixels // _STEP, -1, 0)
    return _TABLE[red, green, blue]


def same_shape(area: NDArray[np.bool_]) -> str:
    """The drawn shape that fills its bounding box as this area does, in rows and columns; empty: none."""
    small = Image.fromarray(area).convert("L").resize((_SIDE, _SIDE), Image.Resampling.BOX)
    mask = np.asarray(small)
    fits = {name: np.minimum(mask, other).sum() / np.maximum(mask, other).sum() for name, other in _masks().items()}
    best = max(fits, key=lambda name: fits[name])
    width, height = extent(best, 100)
    stretched = area.shape[1] / area.shape[0] * height / width
    return best if fits[best] >= FIT and 1 / MOST_STRETCHED <= stretched <= MOST_STRETCHED else ""


@cache
def _masks() -> dict[str, NDArray[np.uint8]]:
    return {name: np.asarray(silhouette(name, (_SIDE, _SIDE))) for name in SHAPES}


# Linear sRGB to XYZ, each by the white point's.
_TO_XYZ = np.array([[0.4339, 0.2126, 0.0177], [0.3762, 0.7152, 0.1095], [0.1899, 0.0722, 0.8728]])


def _table() -> Pixels:
    named = [(NAMES.index(name), example) for name, found in _EXAMPLES.items() for example in found.split()]
    numbers = np.array([number for number, _ in named], np.uint8)
    examples = to_lab(np.array([list(bytes.fromhex(example)) for _, example in named]))
    levels = np.arange(0, 256, _STEP) + _STEP / 2
    cells = to_lab(np.stack(np.meshgrid(levels, levels, levels, indexing="ij"), axis=-1))
    nearest = [np.linalg.norm(examples - row[..., None, :], axis=-1).argmin(axis=-1) for row in cells]
    return numbers[np.array(nearest)]


_TABLE = _table()
