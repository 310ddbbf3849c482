"""What is put wrong in a figure on purpose, and which verdict shows that a judge saw it.

Owns the names of the kinds, as they stand in `labels.json`. Every kind but the clean ones breaks one rule of one
dimension's prompt; one that begins with `human_` breaks it in the Human figure, so that the Model figure is the better.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import NamedTuple, TypeAlias

from PIL import Image, ImageOps

from tasks.records import Verdict
from tasks.synthetic.diagrams import Diagram, random_diagram
from tasks.synthetic.looks import NEON, PALETTES, Look
from tasks.synthetic.plots import Plot, random_plot

Figure: TypeAlias = Diagram | Plot

NEW_FIGURE: dict[str, Callable[[Random], Figure]] = {"diagram": random_diagram, "plot": random_plot}
"""Flow -> maker of a figure."""

CLEAN = ("copy", "restyled")
"""Pairs of equal worth: the same picture twice, and the same figure in another style."""
FORFEIT = ("null", "missing")
"""No Model figure at all: decided without a judge."""
IN_HUMAN = "human_"


class Defect(NamedTuple):
    """One thing put wrong."""

    dimensions: Mapping[str, str]
    """Flow -> dimension whose prompt forbids it; a flow that does not have this defect is not listed."""
    verdict: Verdict = "Human"
    """The verdict in that dimension that catches it."""


def _both(dimension: str) -> dict[str, str]:
    return {"diagram": dimension, "plot": dimension}


_FALSE = {
    "other": Defect(_both("faithfulness")),
    "garbled": Defect(_both("faithfulness")),
    "reversed": Defect({"diagram": "faithfulness"}),
    "mislabeled": Defect({"plot": "faithfulness"}),
}
"""Defects of the Model figure only: the Human figure is what faithfulness is measured against."""
_ILL_DRAWN = {
    "overload": Defect(_both("conciseness")),
    "low_contrast": Defect(_both("readability")),
    "tiny_text": Defect(_both("readability")),
    "black": Defect({"diagram": "readability", "plot": "aesthetics"}),
    "margin": Defect({"diagram": "readability", "plot": "aesthetics"}),
    "pixelated": Defect(_both("aesthetics")),
    "neon": Defect(_both("aesthetics")),
}

DEFECTS: dict[str, Defect] = {
    **_FALSE,
    **_ILL_DRAWN,
    **{IN_HUMAN + kind: defect._replace(verdict="Model") for kind, defect in _ILL_DRAWN.items()},
}
"""Kind -> defect. To see `garbled`, `reversed` and `mislabeled` one must read: measuring pixels does not do."""


def spoilt(kind: str, figure: Figure, random: Random) -> Image.Image:
    """The figure drawn with the defect, or in the clean way, of this kind, named without its `human_`."""
    if kind in _RETOUCHED:
        return _RETOUCHED[kind](figure.draw())
    return _REDRAWN[kind](figure, random).draw()


def _restyled(figure: Figure, random: Random) -> Figure:
    look = figure.look
    palette = random.choice([palette for palette in PALETTES if palette != look.palette])
    return replace(figure, look=Look(palette, look.font_size, 14 - look.radius, look.line_width + 0.5))


def _other(figure: Figure, random: Random) -> Figure:
    maker = NEW_FIGURE["diagram" if isinstance(figure, Diagram) else "plot"]
    while (other := maker(random)).arrangement == figure.arrangement or other.category == figure.category:
        pass
    return other


def _garbled(figure: Figure, random: Random) -> Figure:
    return figure.relabelled(lambda label: " ".join("".join(random.sample(w, len(w))) for w in label.split()))


_SENTENCES = (
    "{} receives every result of the step before it, brings it into the common form that is described in the text, and "
    "passes it on together with all states that were kept",
    "In this step {} compares the new features with those it has stored, weighs them by their age, and keeps the ones "
    "that lower the training loss the most",
    "{} is applied at each layer with its own parameters, then normalised, projected to the shared width, and added to "
    "the input as set out in the appendix",
)


def _overloaded(figure: Figure, random: Random) -> Figure:
    return figure.wordy(lambda label: random.choice(_SENTENCES).format(label))


def _tiny_text(figure: Figure, _: Random) -> Figure:
    return replace(figure, look=replace(figure.look, font_size=5))


def _neon(figure: Figure, _: Random) -> Figure:
    return replace(figure, look=replace(figure.look, palette=NEON))


def _low_contrast(figure: Figure, _: Random) -> Figure:
    return replace(figure, look=replace(figure.look, palette=figure.look.palette.faded(0.8)))


def _pixelated(picture: Image.Image) -> Image.Image:
    coarse = picture.resize((picture.width // 6, picture.height // 6), Image.Resampling.BOX)
    return coarse.resize(picture.size, Image.Resampling.NEAREST)


def _with_margin(picture: Image.Image) -> Image.Image:
    sheet = Image.new("RGB", picture.size, "white")
    sheet.paste(picture.resize((picture.width * 5 // 8, picture.height * 5 // 8), Image.Resampling.LANCZOS))
    return sheet


_REDRAWN: dict[str, Callable[[Figure, Random], Figure]] = {
    "copy": lambda figure, _: figure,
    "restyled": _restyled,
    "other": _other,
    "garbled": _garbled,
    "reversed": lambda figure, _: figure.misstated(),
    "mislabeled": lambda figure, _: figure.misstated(),
    "overload": _overloaded,
    "low_contrast": _low_contrast,
    "tiny_text": _tiny_text,
    "neon": _neon,
}
_RETOUCHED: dict[str, Callable[[Image.Image], Image.Image]] = {
    "black": ImageOps.invert,
    "pixelated": _pixelated,
    "margin": _with_margin,
}
