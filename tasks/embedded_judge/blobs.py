"""What can be told of separate objects in an image without recognising any: areas, their colors, places and outlines.

Owns the way from pixels to blobs. What follows from them stands in `pixel_scores`. The ground is the usual color along
the border, and a blob is one area that differs from it; where areas of several plain colors, or with lines between
them, touch each other, each is a blob of its own. Only the outlines of the drawn samples have names.
"""

from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage  # pyright: ignore[reportMissingTypeStubs]

from tasks.embedded_judge.hues import NAMES, difference, name_numbers
from tasks.embedded_judge.outlines import same_shape

SIDE = 256
"""Longest side, in pixels, at which blobs are sought."""
LEAST_DIFFERENCE, SPREADS = 10, 2.0
"""A pixel differs from the ground from so many levels of 255, and from so many times what the border itself varies."""
LEAST_AREA = 0.0007
"""A smaller share of the picture is a speck."""
LEAST_PART = 0.025
"""A smaller share of what hangs together is a detail and no blob of its own."""
EDGE = 24
"""Gray levels of 255 within three pixels that make a line between two areas."""
OUTLINED = 3
"""An area that is so many times larger with its holes than without is an outline, and its holes belong to it."""
MOST_BLOBS = 12
"""Of more areas the picture is no scene of a few plain objects, and only the largest are looked at."""
UNEVEN = 20
"""A ground that varies by more levels of 255 is none."""

Mask = NDArray[np.bool_]
Labels = NDArray[np.int32]
Pixels = NDArray[np.uint8]
Color = NDArray[np.int16]
Window = tuple["slice[int, int, None]", "slice[int, int, None]"]


@dataclass(frozen=True)
class Blob:
    """One area. Lengths and places are shares of the picture's longest side, areas of the whole picture."""

    area: float
    left: float
    top: float
    right: float
    bottom: float
    hues: dict[str, float]
    """Color name -> share of the area, the most frequent first."""
    contrast: float
    """Difference of its usual color to the ground's, as `hues.difference` gives it."""
    filled: float
    """Share of its bounding box that it fills: 1 for an upright rectangle."""
    shape: str
    """Name of the drawn shape with this outline; empty: none, or it touches another blob."""
    group: int
    """Number shared by the blobs that touch each other."""

    @property
    def color(self) -> str:
        """Its most frequent color."""
        return next(iter(self.hues))

    @property
    def center(self) -> tuple[float, float]:
        """Middle of the bounding box."""
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2

    @property
    def length(self) -> float:
        """Longer side of the bounding box."""
        return max(self.right - self.left, self.bottom - self.top)


@dataclass(frozen=True)
class Survey:
    """The blobs of one picture, the largest first."""

    blobs: tuple[Blob, ...]
    found: int
    """How many areas there are, which may be more than blobs."""
    unevenness: float
    """Levels of 255 by which a quarter of the border differs from the ground at least."""

    @property
    def simple(self) -> bool:
        """Whether it is a scene of a few plain areas on an even ground, as hardly any photo is."""
        return self.found <= MOST_BLOBS and self.unevenness <= UNEVEN

    def touching(self) -> list[tuple[Blob, Blob]]:
        """Pairs of blobs that hang together."""
        return [(one, other) for one, other in combinations(self.blobs, 2) if one.group == other.group]


class _Sheet(NamedTuple):
    """What is known of each pixel."""

    pixels: Pixels
    ground: Color
    names: Pixels
    """Number of its color's name."""
    groups: Labels
    """Number of the area that differs from the ground; 0: it is ground."""
    parts: Labels
    """Number of the plain area within the group; 0: ground, a line or a texture."""


class _Area(NamedTuple):
    """The pixels of one blob to be."""

    mask: Mask
    window: Window
    group: int
    alone: bool
    """Whether it touches no other."""


def survey(picture: Image.Image) -> Survey:
    """Find the blobs of an RGB picture."""
    picture = picture.copy()
    picture.thumbnail((SIDE, SIDE), Image.Resampling.BOX)
    pixels = np.asarray(picture)
    ground, unevenness, differs = _foreground(pixels)
    names = name_numbers(pixels)
    plain = (
        differs
        & (_range(np.where(differs, names, 0).astype(np.uint8)) == 0)
        & (_range(np.asarray(picture.convert("L"))) < EDGE)
    )
    sheet = _Sheet(pixels, ground, names, _labelled(differs, _WITH_CORNERS), _labelled(plain, None))
    sizes = np.bincount(sheet.groups.ravel())[1:]
    large = 1 + np.flatnonzero(sizes >= LEAST_AREA * differs.size)
    windows = _windows(sheet.groups)
    wanted = sorted(large, key=lambda group: -int(sizes[group - 1]))[:MOST_BLOBS]
    areas = [area for group in wanted for area in _split(sheet, int(group), windows[group - 1])]
    blobs = sorted((_blob(sheet, area) for area in areas), key=lambda blob: -blob.area)
    return Survey(tuple(blobs[:MOST_BLOBS]), len(areas) + len(large) - len(wanted), unevenness)


def _foreground(pixels: Pixels) -> tuple[Color, float, Mask]:
    """The ground's color, how uneven it is, and where the picture differs from it."""
    border = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    ground = np.median(border, axis=0).astype(np.int16)
    unevenness = float(np.percentile(np.abs(border - ground).max(axis=1), 75))
    # On an uneven ground nothing may reach far beyond what the border varies, yet something is there.
    least = max(LEAST_DIFFERENCE, SPREADS * min(unevenness, UNEVEN))
    differs = np.abs(pixels - ground).max(axis=2) > least
    return ground, unevenness, differs


def _range(values: Pixels) -> Pixels:
    return ndimage.maximum_filter(values, 3) - ndimage.minimum_filter(values, 3)  # pyright: ignore


def _labelled(mask: Mask, neighbors: Mask | None) -> Labels:
    return ndimage.label(mask, neighbors)[0]  # pyright: ignore


def _filled(mask: Mask) -> Mask:
    """The mask with its holes."""
    outside = _labelled(~np.pad(mask, 1), None)
    return (outside != outside[0, 0])[1:-1, 1:-1]


def _windows(labels: Labels) -> list[Window]:
    return ndimage.find_objects(labels)  # pyright: ignore


def _split(sheet: _Sheet, group: int, window: Window) -> list[_Area]:
    """A group as one area, or as its plain parts where several are large enough to be areas of their own.

    A line round the ground's own color is an area with all that is in it.
    """
    parts, mask = sheet.parts[window], sheet.groups[window] == group
    outlined = _filled(mask)
    if outlined.sum() > OUTLINED * mask.sum():
        return [_Area(outlined, window, group, alone=True)]
    sizes = np.bincount(parts[mask])
    least = max(LEAST_PART * mask.sum(), LEAST_AREA * sheet.parts.size)
    large = [number for number in np.flatnonzero(sizes >= least) if number]
    if len(large) < 2:
        return [_Area(mask, window, group, alone=True)]
    return [_Area(parts == number, window, group, alone=False) for number in large]


def _blob(sheet: _Sheet, area: _Area) -> Blob:
    mask, side = area.mask, max(sheet.names.shape)
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    box = mask[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    top, left = area.window[0].start + int(rows[0]), area.window[1].start + int(columns[0])
    # Along its edges an area's color is mixed with others.
    plain = mask & (sheet.parts[area.window] > 0)
    inner = plain if plain.sum() > mask.sum() / OUTLINED else mask
    names = sheet.names[area.window][inner]
    shares = np.bincount(names, minlength=len(NAMES)) / len(names)
    usual = sheet.pixels[area.window][inner][names == shares.argmax()].mean(axis=0)
    return Blob(
        area=float(mask.sum() / sheet.names.size),
        left=left / side,
        top=top / side,
        right=(left + box.shape[1]) / side,
        bottom=(top + box.shape[0]) / side,
        hues={NAMES[number]: float(shares[number]) for number in np.argsort(-shares) if shares[number]},
        contrast=difference(usual, sheet.ground),
        filled=float(box.mean()),
        shape=same_shape(box) if area.alone else "",
        group=area.group,
    )


_WITH_CORNERS = np.ones((3, 3), np.bool_)
