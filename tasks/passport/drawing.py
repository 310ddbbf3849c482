"""The pictures of a passport, as PNG files: words, shapes, and rows of boxes with or without a fault.

Owns how they look. What is asked of them stands in `items`. Figures are 960 x 640 pixels: no endpoint that is known
here makes those smaller, unless it makes all pictures small.
"""

from functools import lru_cache
from io import BytesIO
from itertools import pairwise
from random import Random
from typing import NamedTuple

from PIL import Image

from tasks.synthetic.canvas import Area, Canvas
from tasks.synthetic.looks import PALETTES
from tasks.synthetic.shapes import extent, silhouette

FIGURE = 960, 640
SCENE = 480, 320
INK = "#23262d"
PAPERS = ("#ffffff", "#f4f2ee", "#eef2f6")
"""Light, so that dark ink and all colors stand out."""
BLANKS = ("#ffffff", "#d9d9d9", "#1b1d22", "#dfe8f2")
GAP = 18
"""Of a broken outline, in pixels."""
_LINE = 3
_BOXES = 4


_kept = lru_cache(maxsize=512)
"""The pictures of some passports, a third of a megabyte each: several questions are asked about one."""


class Thing(NamedTuple):
    """A shape on a scene; its centre in pixels, and its longer side."""

    shape: str
    x: float
    y: float
    size: float = 90
    color: str = INK


@_kept
def scene(things: tuple[Thing, ...], paper: str) -> bytes:
    """Shapes on a plain sheet."""
    sheet = Image.new("RGB", SCENE, paper)
    for thing in things:
        size = extent(thing.shape, thing.size)
        corner = round(thing.x - size[0] / 2), round(thing.y - size[1] / 2)
        sheet.paste(thing.color, corner, silhouette(thing.shape, size))
    return _png(sheet)


@_kept
def written(word: str, letters: float, seed: float) -> bytes:
    """A word in a box, in letters of so many pixels, somewhere on a figure."""
    random, canvas = Random(seed), Canvas(*FIGURE, PAPERS[0])
    tone = random.choice(random.choice(PALETTES).tones)
    left, top = random.randrange(40, FIGURE[0] - 340), random.randrange(40, FIGURE[1] - 140)
    box = Area(left, top, left + 300, top + 100)
    canvas.box(box, tone.fill, tone.edge, radius=10)
    canvas.text(box.center, word, letters, INK)
    return _png(canvas.finish())


def blank(color: str) -> bytes:
    """One color all over."""
    return _png(Image.new("RGB", SCENE, color))


@_kept
def linked_boxes(broken: bool, headless: bool, seed: float) -> bytes:
    """Boxes in a row that arrows link: one outline may have a gap, and one arrow no head."""
    random = Random(seed)
    canvas, top = Canvas(*FIGURE, PAPERS[0]), random.randrange(120, 400)
    boxes = [box._replace(top=top, bottom=top + 110) for box in Area(60, 0, FIGURE[0] - 60, 0).columns(_BOXES, 100)]
    gap, bare = random.randrange(_BOXES), random.randrange(_BOXES - 1)
    for box in boxes:
        canvas.box(box, None, INK, width=_LINE)
    if broken:
        _break(canvas, boxes[gap], random)
    for number, (one, other) in enumerate(pairwise(boxes)):
        start, end = (one.right, one.center[1]), (other.left - 2, other.center[1])
        if headless and number == bare:
            canvas.line((start, end), INK, _LINE)
        else:
            canvas.arrow(start, end, INK, _LINE)
    return _png(canvas.finish())


def _break(canvas: Canvas, box: Area, random: Random) -> None:
    """Paint the paper over a piece of the upper or lower side."""
    middle, y = random.uniform(box.left + 30, box.right - 30), random.choice((box.top, box.bottom))
    canvas.box(Area(middle - GAP / 2, y - 5, middle + GAP / 2, y + 5), PAPERS[0], None)


def _png(picture: Image.Image) -> bytes:
    buffer = BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()
