"""Verdicts of the embedded judge on two figures, from measures of their pixels.

The limits are set so that figures of published papers pass and plain cases of the veto rules fail.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage as untyped_ndimage  # pyright: ignore[reportMissingTypeStubs]

from tasks.records import Verdict

ndimage: Any = untyped_ndimage

SIDE = 1000
"""Longest side, in pixels, at which figures are measured."""
LEAST_COLOR = 0.002
"""Share of colored pixels below which a picture counts as one without color."""
EMPTY_LINE = 0.004
"""Share of ink below which a row or column is empty; so many specks survive in the margins of a JPEG."""
LAYOUT_GRID = (32, 20)
"""Columns and rows of the map of where things are."""
STROKE_WIDTH, STROKE_DEPTH = 7, 40
"""Width below which strokes are of letters, and depth (of 255) by which they are darker than the gaps beside them."""
MUCH_LETTERING, LEAST_LETTERING = 0.03, 0.002
"""Share of strokes below which no figure is wordy, and below which letters may be too faint to be measured."""
WORDIER = 2.0
"""Ratio of lettering from which on a figure is the wordier one. Two drawings of one method differ by less."""
SAME_LAYOUT = {"diagram": 0.6, "plot": 0.8}
"""Flow -> agreement from which two figures count as the same. Any two plots agree in their frames and axes."""

Pixels = NDArray[np.uint8]
Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Measures:
    """Measures of one picture."""

    paper: float
    """Relative luminance of the paper: 0 black, 1 white."""
    content: float
    """Share of the area in the smallest rectangle around all that is drawn."""
    contrast: float
    """WCAG contrast ratio (1 to 21) that the sharpest hundredth of the content reaches."""
    lettering: float
    """Share of the area that narrow strokes cover, such as those of letters."""
    calm: float
    """Share of the picture's color that is not nearly as bright and saturated as a screen can make it."""
    layout: tuple[Numbers, Numbers]
    """Places of ink and of edges within the content, as two coarse maps."""


LIMITS = {
    # Dark themes go up to about #333333, which is 0.03; the darkest pure color, blue, is 0.07.
    "paper": ("black paper", 0.04),
    # WCAG 2 asks for 3:1 at the least, for large letters and for lines.
    "contrast": ("low contrast", 3.0),
    # Published figures are cropped: the drawing covers more than four fifths of the area.
    "content": ("wide margins", 0.6),
    # Published figures use neon colors for single marks, for less than a tenth of all their color.
    "calm": ("neon colors", 0.75),
}
"""Measure -> the fault of a figure that has less, and the limit. No good figure crosses one."""
VETOES = {
    "diagram_readability": ("paper", "contrast", "content"),
    "diagram_aesthetics": ("calm", "paper"),
    "plot_readability": ("contrast",),
    "plot_aesthetics": ("calm", "paper", "content"),
}
"""Question -> the vetoes of its prompt that pixels show. The plot prompts ask for a harmonious layout."""
QUESTIONS = ("diagram_faithfulness", "diagram_conciseness", "plot_faithfulness", "plot_conciseness", *VETOES)


class Finding(NamedTuple):
    """The measures of both figures in words, and the verdict."""

    human: str
    model: str
    conclusion: str
    verdict: Verdict


def compare(question: str, human: Measures, model: Measures) -> Finding:
    """Answer a question, `<flow>_<dimension>`, about two figures. Questions not in `QUESTIONS` go by all faults."""
    flow, _, dimension = question.partition("_")
    if question not in QUESTIONS:
        found = _compare_faults(tuple(LIMITS), human, model)
        return found._replace(conclusion=f"pixels do not show {dimension}, so all faults count; {found.conclusion}")
    if dimension == "faithfulness":
        return _compare_layout(SAME_LAYOUT[flow], human, model)
    if dimension == "conciseness":
        return _compare_lettering(human, model)
    return _compare_faults(VETOES[question], human, model)


def _compare_layout(limit: float, human: Measures, model: Measures) -> Finding:
    agreed = agreement(human, model)
    parts = "taken as the reference", f"agrees to {agreed:.2f} in where things are (below {limit}: another figure)"
    if agreed >= limit:
        return Finding(*parts, "things are in the same places", "Both are good")
    return Finding(*parts, "things are elsewhere, as they would be in a true drawing of another layout too", "Human")


def _compare_lettering(human: Measures, model: Measures) -> Finding:
    few, many = sorted((human.lettering, model.lettering))
    parts = f"narrow strokes on {human.lettering:.1%} of the area", f"on {model.lettering:.1%}"
    if few < LEAST_LETTERING or many < max(MUCH_LETTERING, WORDIER * few):
        return Finding(*parts, f"neither clearly has {WORDIER:g} times the other's strokes", "Both are good")
    winner, wordy = ("Human", "Model") if model.lettering == many else ("Model", "Human")
    return Finding(*parts, f"the {wordy} figure has at least {WORDIER:g} times the other's strokes", winner)


def _compare_faults(vetoes: Sequence[str], human: Measures, model: Measures) -> Finding:
    numbers = [{name: float(getattr(one, name)) for name in vetoes} for one in (human, model)]
    described = [
        ", ".join(f"{name} {n:.3f} (at least {LIMITS[name][1]:g})" for name, n in one.items()) for one in numbers
    ]
    bad_human, bad_model = ([LIMITS[name][0] for name, n in one.items() if n < LIMITS[name][1]] for one in numbers)
    blamed = [f"{who} has {' and '.join(bad)}" for who, bad in (("Human", bad_human), ("Model", bad_model)) if bad]
    verdict: Verdict = "Both are bad" if bad_model else "Model"
    if not bad_human:
        verdict = "Human" if bad_model else "Both are good"
    return Finding(described[0], described[1], "; ".join(blamed) or "no limit is crossed", verdict)


def measure(picture: Image.Image) -> Measures:
    """Measure one RGB picture."""
    picture = picture.copy()
    picture.thumbnail((SIDE, SIDE), Image.Resampling.BOX)
    pixels, gray = np.asarray(picture), np.asarray(picture.convert("L"))
    depth = max(2, min(gray.shape) // 50)
    sides = pixels[:depth], pixels[-depth:], pixels[:, :depth], pixels[:, -depth:]
    paper = np.median(np.concatenate([side.reshape(-1, 3) for side in sides]), axis=0)
    light = float(_luminance(paper) @ (0.2126, 0.7152, 0.0722))
    ink = _ink(pixels, paper)
    window = _content(ink)
    inner = gray[window]
    low, high = (_luminance(pick(inner, 5)[::2, ::2]) for pick in (ndimage.minimum_filter, ndimage.maximum_filter))
    return Measures(
        paper=light,
        content=inner.size / gray.size,
        contrast=float(np.percentile((high + 0.05) / (low + 0.05), 99)),
        # On paper of a higher luminance black letters have more contrast than white ones, so letters are dark.
        lettering=_lettering(gray if light > 0.18 else 255 - gray),
        calm=_calm(pixels[::2, ::2]),
        layout=(_map(ink[window]), _map(_edges(inner))),
    )


def agreement(one: Measures, other: Measures) -> float:
    """Return the agreement of two pictures on the places of things: 1 entirely, about 0 not at all.

    The better of both maps counts: margins, other colors, inversion and coarseness spoil one of them at most.
    """
    return max(_correlation(*maps) for maps in zip(one.layout, other.layout, strict=True))


def _correlation(one: Numbers, other: Numbers) -> float:
    a, b = one.ravel() - one.mean(), other.ravel() - other.mean()
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / size if size else float(np.allclose(one, other))


def _luminance(values: NDArray[Any]) -> Numbers:
    """Linearize levels of 0 to 255 by the sRGB curve, as in the WCAG definition of relative luminance."""
    value = values / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def _ink(pixels: Pixels, paper: NDArray[Any]) -> NDArray[np.bool_]:
    # Relative to the strongest ink there is, so that a pale figure has ink as well.
    distance = np.abs(pixels - paper.astype(np.int16)).max(axis=2)
    return distance > max(8.0, 0.1 * float(np.percentile(distance[::2, ::2], 99)))


def _content(ink: NDArray[np.bool_]) -> tuple["slice[int, int, None]", "slice[int, int, None]"]:
    rows, columns = (np.flatnonzero(ink.mean(axis=axis) > EMPTY_LINE) for axis in (1, 0))
    if not len(rows) or not len(columns):
        return slice(0, 1), slice(0, 1)
    return slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)


def _lettering(gray: Pixels) -> float:
    gaps_closed = ndimage.grey_closing(gray, (1, STROKE_WIDTH)).astype(np.int16)
    return float((gaps_closed - gray > STROKE_DEPTH).mean())


def _calm(pixels: Pixels) -> float:
    brightest = pixels.max(axis=2)
    chroma = brightest - pixels.min(axis=2)
    colored = chroma > 0.15 * 255
    if colored.mean() < LEAST_COLOR:
        return 1.0
    neon = (brightest > 0.9 * 255) & (chroma > 0.5 * 255)
    return 1 - float(chroma[neon].sum() / chroma[colored].sum())


def _edges(gray: Pixels) -> Numbers:
    steps = ndimage.maximum_filter(gray, 3) - ndimage.minimum_filter(gray, 3)
    # Cut off, so that a pale line counts like a dark one.
    return np.minimum(steps / max(8.0, 0.4 * float(np.percentile(steps[::2, ::2], 99))), 1)


def _map(values: NDArray[Any]) -> Numbers:
    # The filter reaches into the neighboring cells, so that a small move changes little.
    image = Image.fromarray(values.astype(np.float32))
    return np.asarray(image.resize(LAYOUT_GRID, Image.Resampling.BILINEAR), np.float64)
