"""What can be measured in a picture without understanding it.

Owns the way from pixels to numbers. Which number is bad, and for which dimension, is decided in `figure_rules`. Detail
is measured at `SIDE` pixels on the longer side at most, and color at half of that, which is enough for figures that are
printed a few inches wide; only the mosaic is measured in unscaled pixels, because scaling blurs it.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tasks.embedded_judge.textures import (
    Gray,
    Mask,
    contrast,
    count_strokes,
    find_strokes,
    luminance,
    mosaic,
    word_height,
)
from tasks.pictures.decoding import decode, on_white

SIDE = 1000
"""Longest side, in pixels, at which lettering and contrast are measured."""
MOSAIC_SIDE = 1024
"""Side, in pixels, of the square in the middle in which a mosaic is looked for."""
LARGEST_SQUARE, FEWEST_SQUARES = 12.0, 60
"""Squares of a mosaic are at most so many pixels large, or there are at least so many along the longest side."""
DARK_LETTERS = 0.18
"""On paper of a higher luminance black letters have more contrast than white ones, so letters are dark."""
LEAST_COLOR = 0.002
"""A picture with a smaller share of colored pixels counts as one without color."""
EMPTY_LINE = 0.004
"""A row or column with a smaller share of ink is empty; so many specks survive in the margins of a JPEG."""
LAYOUT_GRID = (32, 20)
"""Columns and rows of the maps of where things are."""

Colors: TypeAlias = NDArray[np.int16]
Map: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Measures:
    """The numbers of one picture."""

    paper: float
    """Relative luminance of the paper: 0 black, 1 white."""
    content: float
    """Share of the area in the smallest rectangle around all that is drawn."""
    contrast: float
    """WCAG contrast ratio (1 to 21) that the sharpest hundredth of the content reaches."""
    word_height: float
    """Usual height of words as a share of the picture's width; NaN where no words are found."""
    strokes: int
    """Upright strokes of letters, about two a letter."""
    mosaic: float
    """How well all edges fit one grid of small squares: 0 not at all, 1 all of them."""
    neon: float
    """Share of the picture's color that is nearly as bright and as saturated as a screen can make it."""
    layout: tuple[Map, Map]
    """Where ink is and where edges are, within the content, as two maps."""


def decode_rgb(data: bytes) -> Image.Image:
    """The picture in these bytes as RGB, with what is transparent laid on white.

    Raises:
        BadPicture: the bytes are no picture of at most 64 megapixels that can be read, or are damaged.
    """
    picture = decode(data).image
    return on_white(picture)[0] if picture.has_transparency_data else picture.convert("RGB")


def measure(picture: Image.Image) -> Measures:
    """Measure one RGB picture."""
    fit = mosaic(_middle(picture), max(LARGEST_SQUARE, max(picture.size) / FEWEST_SQUARES))
    picture = picture.copy()
    picture.thumbnail((SIDE, SIDE), Image.Resampling.BOX)
    pixels, gray = np.asarray(picture), np.asarray(picture.convert("L"))
    colors = pixels[::2, ::2].astype(np.int16)
    paper = _paper(pixels)
    ink = _ink(colors, paper)
    top, bottom, left, right = _content_box(ink)
    inner = gray[2 * top : 2 * bottom, 2 * left : 2 * right]
    light = luminance(paper)
    strokes = find_strokes(gray if light > DARK_LETTERS else 255 - gray)
    return Measures(
        paper=light,
        content=(bottom - top) * (right - left) / ink.size,
        contrast=contrast(inner),
        word_height=word_height(strokes) / picture.width,
        strokes=count_strokes(strokes),
        mosaic=fit,
        neon=_neon(colors),
        layout=(_mapped(ink[top:bottom, left:right].astype(np.float32)), _mapped(_edges(inner))),
    )


def agreement(one: Measures, other: Measures) -> float:
    """How far two pictures agree in where things are: 1 entirely, about 0 not at all.

    The better of the correlations of the ink maps and of the edge maps: margins, other colors, inversion and
    coarseness spoil one of them at most.
    """
    return max(_correlation(a, b) for a, b in zip(one.layout, other.layout, strict=True))


def _middle(picture: Image.Image) -> Gray:
    left, top = max(0, picture.width - MOSAIC_SIDE) // 2, max(0, picture.height - MOSAIC_SIDE) // 2
    right, bottom = min(picture.width, left + MOSAIC_SIDE), min(picture.height, top + MOSAIC_SIDE)
    return np.asarray(picture.crop((left, top, right, bottom)).convert("L"))


def _paper(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    # The paper is the most frequent color, in steps of 16, along the border.
    depth = max(2, min(pixels.shape[:2]) // 50)
    sides = pixels[:depth], pixels[-depth:], pixels[:, :depth], pixels[:, -depth:]
    border = np.concatenate([side.reshape(-1, 3) for side in sides])
    codes = (border >> 4).astype(np.int32) @ (256, 16, 1)
    return border[codes == np.bincount(codes).argmax()].mean(axis=0).round().astype(np.uint8)


def _ink(colors: Colors, paper: NDArray[np.uint8]) -> Mask:
    # Relative to the strongest ink there is, so that a pale figure has ink as well.
    distance = np.abs(colors - paper.astype(np.int16)).max(axis=2)
    return distance > max(8.0, 0.1 * float(np.percentile(distance[::2, ::2], 99)))


def _content_box(ink: Mask) -> tuple[int, int, int, int]:
    rows, columns = (np.flatnonzero(ink.mean(axis=axis) > EMPTY_LINE) for axis in (1, 0))
    if not len(rows) or not len(columns):
        return 0, 1, 0, 1
    return int(rows[0]), int(rows[-1]) + 1, int(columns[0]), int(columns[-1]) + 1


def _neon(colors: Colors) -> float:
    brightest = colors.max(axis=2)
    chroma = brightest - colors.min(axis=2)
    colored = chroma > 0.15 * 255
    if colored.mean() < LEAST_COLOR:
        return 0.0
    neon = (brightest > 0.9 * 255) & (chroma > 0.5 * 255)
    return float(chroma[neon].sum() / chroma[colored].sum())


def _edges(gray: Gray) -> Map:
    if min(gray.shape) < 2:
        return np.zeros((1, 1), np.float32)
    values = gray.astype(np.int16)
    steps = np.maximum(np.abs(np.diff(values, axis=1)[:-1]), np.abs(np.diff(values, axis=0)[:, :-1]))
    # Cut off, so that a pale line counts like a dark one.
    return np.minimum(steps / max(8.0, 0.4 * float(np.percentile(steps[::2, ::2], 99))), 1).astype(np.float32)


def _mapped(values: Map) -> Map:
    # The bilinear filter reaches into the neighboring cells: what moves a little still lies in the same place.
    return np.asarray(Image.fromarray(values).resize(LAYOUT_GRID, Image.Resampling.BILINEAR))


def _correlation(one: Map, other: Map) -> float:
    a, b = one.ravel() - one.mean(), other.ravel() - other.mean()
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / size if size else float(np.allclose(one, other))
