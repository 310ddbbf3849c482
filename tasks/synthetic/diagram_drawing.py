"""How a method diagram is drawn: panels, boxes and arrows laid out in one of three ways, with small pictograms.

The pictograms (layers, a feature map, a graph, a histogram) mean nothing in particular; they are there because
published diagrams have them. What a diagram shows is in `diagrams`.
"""

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Literal, NamedTuple

from PIL import Image

from tasks.synthetic.canvas import Area, Canvas, Point
from tasks.synthetic.looks import Look, Tone, mixed

Layout = Literal["rows", "columns", "fan"]
LAYOUTS: tuple[Layout, ...] = ("rows", "columns", "fan")

SIZE = (720, 400)
MARGIN = 12
"""Paper left free around the drawing."""
TITLE_STRIP = 24
"""Height kept free above the boxes of a panel for its title."""
TALLEST_BOX = 96
LONGEST_WITH_ICON = 30
"""Labels of more letters leave no room for a pictogram."""
ICON_SIDE = 26
"""Width and height of a pictogram."""


class Panel(NamedTuple):
    """A phase of the method as drawn: its title, and the labels of its boxes in order."""

    title: str
    labels: tuple[str, ...]


def draw_diagram(
    layout: Layout, panels: tuple[Panel, ...], links: tuple[tuple[int, int], ...], look: Look
) -> Image.Image:
    """The picture of these panels. Boxes are numbered through all panels; links go from box to box."""
    canvas = Canvas(*SIZE, look.palette.paper)
    areas = list(_panel_areas(layout, panels))
    boxes = list(_box_areas(layout, panels, areas))
    for area, panel in zip(areas, panels, strict=True):
        _draw_panel(canvas, area, panel.title, look)
    for start, end in links:
        tail, tip = _between(boxes[start], boxes[end])
        canvas.arrow(tail, tip, look.palette.line, look.line_width)
    labels = [(phase, label) for phase, panel in enumerate(panels) for label in panel.labels]
    for number, (area, (phase, label)) in enumerate(zip(boxes, labels, strict=True)):
        _draw_box(canvas, area, label, phase, number, look)
    return canvas.finish()


def _panel_areas(layout: Layout, panels: tuple[Panel, ...]) -> Iterator[Area]:
    whole, count = Area(0, 0, *SIZE).shrunk(MARGIN, MARGIN), len(panels)
    if layout == "rows":
        yield from whole.rows(count, gap=16)
        return
    gap = 70 if layout == "fan" else 30
    for column, panel in zip(whole.columns(count, gap), panels, strict=True):
        yield column.shrunk(0, column.height / 4) if len(panel.labels) == 1 else column


def _box_areas(layout: Layout, panels: tuple[Panel, ...], areas: list[Area]) -> Iterator[Area]:
    for number, (area, panel) in enumerate(zip(areas, panels, strict=True)):
        inner = area._replace(top=area.top + TITLE_STRIP).shrunk(16, 10)
        if layout == "rows":
            cells = [cell.shrunk(18, 0) for cell in inner.columns(len(panel.labels))]
        else:
            cells = [cell.shrunk(0, 12) for cell in inner.rows(len(panel.labels))]
        # Every second phase of a chain runs backwards, so that the step to the next phase is short.
        turned = number % 2 and layout != "fan"
        for cell in reversed(cells) if turned else cells:
            yield cell.shrunk(0, max(0, (cell.height - TALLEST_BOX) / 2))


def _between(start: Area, end: Area) -> tuple[Point, Point]:
    (x1, y1), (x2, y2) = start.center, end.center
    if start.right < end.left or end.right < start.left:
        return ((start.right, y1), (end.left, y2)) if x1 < x2 else ((start.left, y1), (end.right, y2))
    return ((x1, start.bottom), (x2, end.top)) if y1 < y2 else ((x1, start.top), (x2, end.bottom))


def _draw_panel(canvas: Canvas, area: Area, title: str, look: Look) -> None:
    palette = look.palette
    canvas.box(area, palette.panel, mixed(palette.line, palette.paper, 0.4), look.radius, 1)
    canvas.text((area.left + 14, area.top + 16), title, look.font_size, palette.ink, "lm", heavy=True)


def _draw_box(canvas: Canvas, area: Area, label: str, phase: int, icon: int, look: Look) -> None:
    tone = look.palette.tone(phase)
    canvas.box(area, tone.fill, tone.edge, look.radius, look.line_width)
    room = area.shrunk(6, 3)
    if len(label) <= LONGEST_WITH_ICON and area.height > 2.3 * ICON_SIDE:
        _draw_icon(canvas, (area.center[0], area.top + 0.85 * ICON_SIDE), icon, tone)
        room = room._replace(top=area.top + 1.4 * ICON_SIDE)
    canvas.block(room, label, look.font_size, look.palette.ink)


def _draw_icon(canvas: Canvas, center: Point, number: int, tone: Tone) -> None:
    """Draw one of the pictograms, chosen by `number`, in the colors of its box."""
    x, y = center
    area = Area(x - ICON_SIDE / 2, y - ICON_SIDE / 2, x + ICON_SIDE / 2, y + ICON_SIDE / 2)
    _ICONS[number % len(_ICONS)](canvas, area, tone)


def _layers(canvas: Canvas, area: Area, tone: Tone) -> None:
    for step in (8, 4, 0):
        sheet = Area(area.left + step, area.top + 8 - step, area.right - 8 + step, area.bottom - step)
        canvas.box(sheet, mixed(tone.fill, "#ffffff", 0.5), tone.edge, 2, 1)


def _feature_map(canvas: Canvas, area: Area, tone: Tone) -> None:
    cell = ICON_SIDE / 3
    for number in range(9):
        left, top = area.left + number % 3 * cell, area.top + number // 3 * cell
        fill = mixed(tone.edge, "#ffffff", (number * 5 % 9) / 10)
        canvas.box(Area(left, top, left + cell, top + cell), fill, "#ffffff", 0, 0.5)


def _graph(canvas: Canvas, area: Area, tone: Tone) -> None:
    places = ((0.15, 0.3), (0.55, 0.1), (0.9, 0.5), (0.4, 0.9))
    nodes = [(area.left + x * ICON_SIDE, area.top + y * ICON_SIDE) for x, y in places]
    for pair in combinations(nodes, 2):
        canvas.line(pair, tone.edge, 1)
    for node in nodes:
        canvas.dot(node, 3.5, tone.edge)


def _histogram(canvas: Canvas, area: Area, tone: Tone) -> None:
    for number, height in enumerate((0.4, 0.9, 0.65, 0.25)):
        left = area.left + number * ICON_SIDE / 4
        canvas.box(Area(left, area.bottom - height * ICON_SIDE, left + ICON_SIDE / 4 - 1, area.bottom), tone.edge, None)


_ICONS: tuple[Callable[[Canvas, Area, Tone], None], ...] = (_layers, _feature_map, _graph, _histogram)
