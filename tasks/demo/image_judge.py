"""Answers of the embedded judge about drawn shapes: scores of a generated image, and questions of the judge exam.

It recognizes only separate areas (blobs) that are drawn shapes, by outline. Any other question gets a middling score.
"""

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageColor
from scipy import ndimage as untyped_ndimage  # pyright: ignore[reportMissingTypeStubs]

from tasks.demo.canvas import PAINTS, SHAPES, silhouette
from tasks.demo.scenes import read_prompt
from tasks.records import OVERALL_SCORE, AspectScore, Requirement, Seen, SeenObject

ndimage: Any = untyped_ndimage

SIDE = 256
"""Longest side, in pixels, at which blobs are looked for."""
LEAST_DIFFERENCE = 10
"""Levels of 255 beyond which a pixel differs from the ground."""
LEAST_AREA = 0.0007
"""Share of the picture below which an area is a speck."""
MOST_BLOBS = 12
"""Number of largest areas that are examined: a picture with more is no scene of a few plain shapes."""
FIT = 0.82
"""Share of common area from which two outlines are the same. No two drawn shapes have more than 0.8 in common."""
OUTLINE_SIDE = 24  # of the masks as which outlines are compared, in pixels

MARGIN = 0.1
"""Share of both sizes that the centers of objects beside each other must be apart, as in GenEval."""
MIDDLING = 5.0
"""Score of an aspect that pixels cannot show."""
CHECKS = {
    **dict.fromkeys(("object_completeness", "detectability", "individual_completeness"), "object"),
    **dict.fromkeys(("occlusion_handling", "separation_clarity", "occlusion_management"), "count"),
    **dict.fromkeys(("spatial_legibility", "count_accuracy"), "count"),
    **dict.fromkeys(("color_fidelity", "attribute_binding"), "color"),
    "position_accuracy": "position",
}
"""Aspect -> the checks that it is scored by. Objects that touch are one area, and counted as one."""


NAMES = (*PAINTS, "gray")
"""Color names by number. A color has the name of the paint that it differs from least."""
_COLORS = np.array([*map(ImageColor.getrgb, PAINTS.values()), (128, 128, 128)])


class Blob(NamedTuple):
    """One area. Its sides are shares of the picture's longest side."""

    left: float
    top: float
    right: float
    bottom: float
    color: str
    shape: str
    """Name of the drawn shape with this outline; empty: none."""

    @property
    def center(self) -> tuple[float, float]:
        """Middle of the bounding box."""
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2


Blobs = Sequence[Blob]


def find_blobs(picture: Image.Image) -> list[Blob]:
    """Return the areas of an RGB picture that differ from the usual color along the border, the largest first."""
    picture = picture.copy()
    picture.thumbnail((SIDE, SIDE), Image.Resampling.BOX)
    pixels = np.asarray(picture)
    ground = np.median(np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]]), axis=0)
    groups, _ = ndimage.label(np.abs(pixels - ground).max(axis=2) > LEAST_DIFFERENCE, np.ones((3, 3)))
    sizes = np.bincount(groups.ravel())
    large = [group for group in np.argsort(-sizes[1:]) + 1 if sizes[group] >= LEAST_AREA * groups.size]
    return [_blob(pixels, groups == group) for group in large[:MOST_BLOBS]]


def _blob(pixels: NDArray[np.uint8], mask: NDArray[np.bool_]) -> Blob:
    rows, columns = ndimage.find_objects(mask.astype(np.uint8))[0]
    names = ((pixels[mask][:, None] - _COLORS) ** 2).sum(axis=2).argmin(axis=1)
    sides = (side / max(mask.shape) for side in (columns.start, rows.start, columns.stop, rows.stop))
    at_border = mask[[0, -1]].any() or mask[:, [0, -1]].any()  # as in a photo
    shape = "" if at_border else _shape(mask[rows, columns])
    return Blob(*sides, color=NAMES[np.bincount(names).argmax()], shape=shape)


def _shape(box: NDArray[np.bool_]) -> str:
    """Return the drawn shape that fills its bounding box as this area does; empty: none."""
    small = Image.fromarray(box).convert("L").resize((OUTLINE_SIDE, OUTLINE_SIDE), Image.Resampling.BOX)
    mask = np.asarray(small)
    fits = {name: np.minimum(mask, other).sum() / np.maximum(mask, other).sum() for name, other in _masks().items()}
    best = max(fits, key=lambda name: fits[name])
    return best if fits[best] >= FIT else ""


@cache
def _masks() -> dict[str, NDArray[np.uint8]]:
    return {name: np.asarray(silhouette(name, (OUTLINE_SIDE, OUTLINE_SIDE))) for name in SHAPES}


def score(aspects: Sequence[str], prompt: str, blobs: Blobs) -> tuple[AspectScore, ...]:
    """Score these aspects, in their order, and last the image as a whole: by the lowest that pixels can show."""
    checks = _check(read_prompt(prompt), blobs)
    shares = {aspect: _share(checks, CHECKS.get(aspect, "")) for aspect in aspects}
    shares[OVERALL_SCORE] = min((share for share in shares.values() if share is not None), default=None)
    words = f"pixels show {name_blobs(blobs)}; nothing was recognized"
    return tuple(
        AspectScore(
            aspect=aspect,
            score=MIDDLING if share is None else round(10 * share, 1),
            explanation=f"{words}{': pixels cannot tell' if share is None else ''}.",
        )
        for aspect, share in shares.items()
    )


def look(names: Sequence[str], prompt: str, blobs: Blobs) -> Seen:
    """Return which of these objects are seen, and whether the relation that the prompt asks for holds.

    Objects that pixels cannot show are left out.
    """
    seen: list[SeenObject] = []
    for name in names:
        if (found := _find(name, blobs)) is not None:
            color = Counter(blob.color for blob in found).most_common(1)[0][0] if found else ""
            seen.append(SeenObject(name=name, present=bool(found), count=len(found), color=color))
    share = _share(_check(read_prompt(prompt), blobs), "position")
    return Seen(objects=tuple(seen), relation_holds=None if share is None else share == 1)


def _check(asked: Sequence[Requirement], blobs: Blobs) -> list[tuple[str, bool]]:
    """Return each check of the prompt that pixels can decide, with its result."""
    found = [_find(one.name, blobs) for one in asked]
    checks: list[tuple[str, bool]] = []
    for one, its in zip(asked, found, strict=True):
        if its is None:
            continue
        checks += [("object", bool(its)), ("count", len(its) == one.count)]
        if one.color:
            checks.append(("color", any(blob.color == one.color for blob in its)))
        target = None if one.target is None else found[one.target]
        if target is not None:
            checks.append(("position", bool(its and target) and _lies(its[0], one.relation, target[0])))
    return checks


def _share(checks: Sequence[tuple[str, bool]], group: str) -> float | None:
    right = [result for name, result in checks if name == group]
    return sum(right) / len(right) if right else None


def _find(name: str, blobs: Blobs) -> Blobs | None:
    """Return the blobs of an object; None: pixels cannot show it, since it or something else is no drawn shape.

    An area without an outline of a shape may be two shapes that touch.
    """
    known = name in SHAPES and all(blob.shape for blob in blobs)
    return [blob for blob in blobs if blob.shape == name] if known else None


def _lies(one: Blob, where: str, other: Blob) -> bool:
    axis, sign = (0 if where in ("left of", "right of") else 1), (-1 if where in ("left of", "above") else 1)
    sizes = [(blob.right - blob.left, blob.bottom - blob.top)[axis] for blob in (one, other)]
    return sign * (one.center[axis] - other.center[axis]) > MARGIN * sum(sizes)


def name_blobs(blobs: Blobs) -> str:
    """Return colors and shapes of the blobs in words."""
    return ", ".join(f"{blob.color} {blob.shape or 'area'}" for blob in blobs) or "one color all over"


def answer_exam(line: str, words: Sequence[str], seen: Sequence[Blobs]) -> str | int | list[str]:
    """Answer a question of the exam, in these words, by outlines, colors and places; "" if these cannot answer it."""
    shown = [blob for word in words for blob in seen[0] if blob.shape == word]
    largest = [blobs[0].shape if blobs else "nothing" for blobs in seen]
    holds = [any(blob.shape in words for blob in blobs) for blobs in seen]
    which = {(True, False): "first", (False, True): "second", (True, True): "both"}
    answers: dict[str, str | int | list[str]] = {
        "counting": len(seen[0]),
        "colors": shown[0].color if shown else "",
        "positions": _place(*shown) if len(shown) == 2 else "",
        "two_pictures": largest,
        "which_is_first": which.get((holds[0], holds[-1]), "neither"),
        "blank": largest[0],
        "order": [blob.shape for blob in sorted(seen[0], key=lambda blob: blob.left)],
    }
    return answers.get(line, "")


def _place(one: Blob, other: Blob) -> str:
    across, down = (here - there for here, there in zip(one.center, other.center, strict=True))
    if abs(across) > abs(down):
        return "right" if across > 0 else "left"
    return "below" if down > 0 else "above"
