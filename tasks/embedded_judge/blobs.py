"""Finding the separate areas (blobs) of an image, without recognising any object.

Owns the way from pixels to blobs; what a blob is stands in `image_view`, what follows from them in `image_aspects`. The
ground is the usual color along the border, and a blob is one area that differs from it; where areas of several plain
colors, or with lines between them, touch each other, each counts as a separate blob.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage  # pyright: ignore[reportMissingTypeStubs]

from tasks.embedded_judge.image_view import MOST_BLOBS, UNEVEN, Blob, Survey
from tasks.embedded_judge.naming import NAMES, difference, name_numbers, same_shape

SIDE = 256
"""Longest side, in pixels, at which blobs are looked for."""
LEAST_DIFFERENCE, SPREADS = 10, 2.0
"""A pixel differs from the ground from so many levels of 255, and from so many times what the border itself varies."""
LEAST_AREA = 0.0007
"""A smaller share of the picture is a speck."""
LEAST_PART = 0.025
"""A smaller share of connected areas is a detail and not a separate blob."""
EDGE = 24
"""Gray levels of 255 within three pixels that make a line between two areas."""
OUTLINED = 3
"""An area that is so many times larger with its holes than without is an outline, and its holes belong to it."""

Mask = NDArray[np.bool_]
Labels = NDArray[np.int32]
Pixels = NDArray[np.uint8]
Color = NDArray[np.int16]
Window = tuple["slice[int, int, None]", "slice[int, int, None]"]


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
    """A group as one area, or as its plain parts where several are large enough to be separate areas.

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
