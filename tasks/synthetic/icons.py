"""Small pictograms for the boxes of a diagram: layers, a feature map, a graph, a histogram.

They mean nothing in particular; they are there because published diagrams have them.
"""

from collections.abc import Callable
from itertools import combinations

from tasks.synthetic.canvas import Area, Canvas, Point
from tasks.synthetic.looks import Tone, mixed

SIDE = 26
"""Width and height of a pictogram."""


def draw_icon(canvas: Canvas, center: Point, number: int, tone: Tone) -> None:
    """Draw one of the pictograms, picked by `number`, in the colours of its box."""
    x, y = center
    area = Area(x - SIDE / 2, y - SIDE / 2, x + SIDE / 2, y + SIDE / 2)
    _ICONS[number % len(_ICONS)](canvas, area, tone)


def _layers(canvas: Canvas, area: Area, tone: Tone) -> None:
    for step in (8, 4, 0):
        sheet = Area(area.left + step, area.top + 8 - step, area.right - 8 + step, area.bottom - step)
        canvas.box(sheet, mixed(tone.fill, "#ffffff", 0.5), tone.edge, 2, 1)


def _feature_map(canvas: Canvas, area: Area, tone: Tone) -> None:
    cell = SIDE / 3
    for number in range(9):
        left, top = area.left + number % 3 * cell, area.top + number // 3 * cell
        fill = mixed(tone.edge, "#ffffff", (number * 5 % 9) / 10)
        canvas.box(Area(left, top, left + cell, top + cell), fill, "#ffffff", 0, 0.5)


def _graph(canvas: Canvas, area: Area, tone: Tone) -> None:
    places = ((0.15, 0.3), (0.55, 0.1), (0.9, 0.5), (0.4, 0.9))
    nodes = [(area.left + x * SIDE, area.top + y * SIDE) for x, y in places]
    for pair in combinations(nodes, 2):
        canvas.line(pair, tone.edge, 1)
    for node in nodes:
        canvas.dot(node, 3.5, tone.edge)


def _histogram(canvas: Canvas, area: Area, tone: Tone) -> None:
    for number, height in enumerate((0.4, 0.9, 0.65, 0.25)):
        left = area.left + number * SIDE / 4
        canvas.box(Area(left, area.bottom - height * SIDE, left + SIDE / 4 - 1, area.bottom), tone.edge, None)


_ICONS: tuple[Callable[[Canvas, Area, Tone], None], ...] = (_layers, _feature_map, _graph, _histogram)
