"""Telling the drawn shapes by their outlines. No other object is known here."""

from functools import cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from tasks.synthetic.shapes import SHAPES, extent, silhouette

FIT = 0.82
"""Share of common area from which two outlines are the same. No two drawn shapes have more than 0.8 in common."""
MOST_STRETCHED = 1.2
"""An outline is not the same when it is so many times as wide or as tall."""
_SIDE = 24
"""Outlines are compared as masks of this width and height, in pixels."""


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
