"""What is measured in the fine detail of gray pixels: strokes of letters, contrast, mosaics.

Owns the measures that need every pixel. Colors, layout and the way from a file to pixels stand in `measures`. Gray is
an array of rows and columns, 0 black to 255 white.
"""

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage  # pyright: ignore[reportMissingTypeStubs]

STROKE_WIDTH = 6
"""Upright strokes of letters are at most this wide in a picture of a thousand pixels."""
STROKE_DEPTH = 40
"""How much darker (of 255) a stroke is than what is beside it; JPEG noise stays below."""
WORD_GAP = 9
"""Strokes no farther apart than this belong to one word."""
LETTER_HEIGHTS = range(3, 31)
"""Heights that letters can have. What is taller is a line or a drawing."""
FEWEST_WORDS = 3
"""From fewer words no usual height is taken."""

SMALLEST_SQUARE = 3.5
"""Side in pixels from which the squares of a mosaic differ measurably from single pixels."""
COARSE_GRIDS = 4.0
"""Grids are looked for up to this many times the largest square."""
FOURIER_LENGTH = 4096

Gray: TypeAlias = NDArray[np.uint8]
Mask: TypeAlias = NDArray[np.bool_]
Profile: TypeAlias = NDArray[np.float64]


def find_strokes(gray: Gray) -> Mask:
    """Pixels of dark strokes narrow enough for letters; for light letters on dark paper, pass the negative."""
    return _closed(gray, STROKE_WIDTH + 1) - gray > STROKE_DEPTH


def count_strokes(strokes: Mask) -> int:
    """Number of upright strokes as tall as letters: about two a letter."""
    steps = np.diff(np.pad(strokes, ((1, 1), (0, 0))).astype(np.int8), axis=0).T
    lengths = np.nonzero(steps == -1)[1] - np.nonzero(steps == 1)[1]
    return int(np.isin(lengths, LETTER_HEIGHTS).sum())


def word_height(strokes: Mask) -> float:
    """Usual height of words in pixels, NaN where hardly any are found.

    A word is a run of strokes that is wider than tall; long words count for more.
    """
    sizes = [(rows.stop - rows.start, columns.stop - columns.start) for rows, columns in _blobs(strokes)]
    words = [(height, width) for height, width in sizes if height in LETTER_HEIGHTS and width >= 1.3 * height]
    if len(words) < FEWEST_WORDS:
        return math.nan
    heights, widths = zip(*words, strict=True)
    return float(np.median(np.repeat(heights, widths)))


def luminance(color: NDArray[np.uint8]) -> float:
    """Relative luminance (WCAG) of one RGB color: 0 black, 1 white."""
    return float(_LINEAR[color] @ (0.2126, 0.7152, 0.0722))


def contrast(gray: Gray) -> float:
    """WCAG contrast ratio (1 to 21) between neighbors, as the sharpest hundredth of the pixels reaches it."""
    low, high = (_spread(_spread(gray, 5, 0, pick), 5, 1, pick)[::2, ::2] for pick in (np.minimum, np.maximum))
    return float(np.percentile((_LINEAR[high] + 0.05) / (_LINEAR[low] + 0.05), 99)) if low.size else 1.0


def mosaic(gray: Gray, largest_square: float) -> float:
    """How well all edges fit one grid of small squares: 0 not at all, 1 all of them.

    Coarser grids than the largest square (in pixels) belong to tables, bars and heat maps. Needs unscaled pixels.
    """
    steps = (np.abs(np.diff(gray.astype(np.int16), axis=axis)).sum(axis=1 - axis) for axis in (0, 1))
    return min(_grid_fit(profile, largest_square) for profile in steps)


def _spread(pixels: NDArray[Any], size: int, axis: int, pick: np.ufunc) -> NDArray[Any]:
    # Extreme value of a sliding window in log2(size) steps: on bytes much faster than a general rank filter.
    reach = 1
    while reach < size:
        step = min(reach, size - reach)
        ahead, behind = [slice(None)] * 2, [slice(None)] * 2
        ahead[axis], behind[axis] = slice(step, None), slice(None, -step)
        pixels = pick(pixels[tuple(ahead)], pixels[tuple(behind)])
        reach += step
    return pixels


def _closed(pixels: NDArray[Any], size: int) -> NDArray[Any]:
    # Fills what is darker than both sides along a row, or for masks a gap in it, and narrower than `size`.
    padded = np.pad(pixels, ((0, 0), (size - 1, size - 1)), mode="edge")
    return _spread(_spread(padded, size, 1, np.maximum), size, 1, np.minimum)


def _blobs(strokes: Mask) -> list[tuple["slice[int, int, None]", "slice[int, int, None]"]]:
    labels, _ = ndimage.label(_closed(strokes, WORD_GAP))  # pyright: ignore
    return ndimage.find_objects(labels)  # pyright: ignore


def _linear() -> Profile:
    # The sRGB curve, as in the WCAG definition of relative luminance.
    value = np.arange(256) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


_LINEAR = _linear()


def _grid_fit(steps: NDArray[Any], largest: float) -> float:
    # If all edges lie on lines at one distance, the spectrum of their profile is as high at that frequency as at zero.
    # It is then as high at its multiples too, so where a coarser grid fits as well, that is what is really there.
    above = np.clip(steps - np.median(steps), 0, None) if len(steps) else np.zeros(1)
    spectrum = np.abs(np.fft.rfft(above, FOURIER_LENGTH))
    if spectrum[0] <= 0:
        return 0.0
    frequency = np.arange(len(spectrum)) / FOURIER_LENGTH
    fine = (frequency >= 1 / largest) & (frequency <= 1 / SMALLEST_SQUARE)
    coarse = (frequency >= 1 / (COARSE_GRIDS * largest)) & (frequency < 1 / largest)
    fit, rival = (float(spectrum[band].max() / spectrum[0]) for band in (fine, coarse))
    return fit if fit > rival + 0.05 else 0.0
