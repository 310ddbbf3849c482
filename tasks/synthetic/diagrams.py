"""Method diagrams for the sample set: what they show, how they are laid out, and the text that goes with them.

The words come from `topics`; which diagrams are spoilt, and how, is chosen in `defects`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, product
from random import Random
from typing import Literal, NamedTuple

from PIL import Image

from tasks.synthetic.canvas import Area, Canvas, Point
from tasks.synthetic.icons import SIDE, draw_icon
from tasks.synthetic.looks import PALETTES, Look, mixed
from tasks.synthetic.topics import METHODS, Method

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
EASY_BOXES = 8
"""Diagrams with at most this many boxes count as easy."""


class Panel(NamedTuple):
    """A phase of the method as drawn: its title, and the labels of its boxes in order."""

    title: str
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Diagram:
    """One method diagram. Boxes are numbered through all panels; links go from box to box."""

    method: Method
    name: str
    layout: Layout
    panels: tuple[Panel, ...]
    links: tuple[tuple[int, int], ...]
    look: Look

    @property
    def category(self) -> str:
        """Category of the benchmark that the method falls in."""
        return self.method.category

    @property
    def difficulty(self) -> str:
        """`easy` or `hard`, by the number of boxes."""
        return "easy" if sum(len(panel.labels) for panel in self.panels) <= EASY_BOXES else "hard"

    @property
    def arrangement(self) -> str:
        """What the layout shows from afar."""
        return f"{self.layout} {len(self.panels)}"

    def content(self) -> str:
        """A method section that describes what is drawn, in Markdown."""
        opening = f"## 3 Method\n\n{self.name} {self.method.task}. It works in {len(self.panels)} phases."
        phases = [f"**{panel.title}** consists of {_listed(panel.labels)}." for panel in self.panels]
        closing = "Each module hands its result to the next, in the order given here."
        if self.layout == "fan":
            (first,), (last,), middle = self.panels[0].labels, self.panels[2].labels, self.panels[1].title
            closing = f"{first} feeds every module of {middle}, and {last} joins what they return."
        return "\n\n".join([opening, *phases, closing])

    def intent(self) -> str:
        """The caption."""
        return f"Overview of {self.name}, which {self.method.task}: {_listed([panel.title for panel in self.panels])}."

    def relabelled(self, change: Callable[[str], str]) -> "Diagram":
        """The same diagram with the label of every box changed."""
        return replace(self, panels=tuple(Panel(p.title, tuple(map(change, p.labels))) for p in self.panels))

    def wordy(self, sentence: Callable[[str], str]) -> "Diagram":
        """The same diagram with a whole sentence in every box."""
        return self.relabelled(sentence)

    def misstated(self) -> "Diagram":
        """The same diagram with every arrow turned round: the method runs backwards."""
        return replace(self, links=tuple((end, start) for start, end in self.links))

    def draw(self) -> Image.Image:
        """The diagram as a picture."""
        canvas = Canvas(*SIZE, self.look.palette.paper)
        areas = list(_panel_areas(self))
        boxes = list(_box_areas(self, areas))
        for area, panel in zip(areas, self.panels, strict=True):
            _draw_panel(canvas, area, panel.title, self.look)
        for start, end in self.links:
            tail, tip = _between(boxes[start], boxes[end])
            canvas.arrow(tail, tip, self.look.palette.line, self.look.line_width)
        labels = [(phase, label) for phase, panel in enumerate(self.panels) for label in panel.labels]
        for number, (area, (phase, label)) in enumerate(zip(boxes, labels, strict=True)):
            _draw_box(canvas, area, label, phase, number, self.look)
        return canvas.finish()


def random_diagram(random: Random) -> Diagram:
    """A diagram of one of the invented methods, in a layout, wording and look chosen by `random`."""
    method, layout = random.choice(METHODS), random.choice(LAYOUTS)
    boxes, phases = random.choice((3, 4)), random.choice((2, 3))
    counts = (1, boxes, 1) if layout == "fan" else (boxes,) * phases
    panels = tuple(
        Panel(phase.title, tuple(random.choice(wordings) for wordings in phase.modules[:count]))
        for phase, count in zip(method.phases, counts, strict=False)
    )
    look = Look(
        random.choice(PALETTES), random.choice((14, 15, 16)), random.choice((3, 8, 14)), random.choice((1.5, 2))
    )
    return Diagram(method, random.choice(method.name), layout, panels, tuple(_links(layout, counts)), look)


def _links(layout: Layout, counts: tuple[int, ...]) -> Iterable[tuple[int, int]]:
    if layout != "fan":
        return pairwise(range(sum(counts)))
    middle, last = range(1, 1 + counts[1]), 1 + counts[1]
    return [*product((0,), middle), *product(middle, (last,))]


def _panel_areas(diagram: Diagram) -> Iterator[Area]:
    whole, count = Area(0, 0, *SIZE).shrunk(MARGIN, MARGIN), len(diagram.panels)
    if diagram.layout == "rows":
        yield from whole.rows(count, gap=16)
        return
    gap = 70 if diagram.layout == "fan" else 30
    for column, panel in zip(whole.columns(count, gap), diagram.panels, strict=True):
        yield column.shrunk(0, column.height / 4) if len(panel.labels) == 1 else column


def _box_areas(diagram: Diagram, panels: list[Area]) -> Iterator[Area]:
    for number, (area, panel) in enumerate(zip(panels, diagram.panels, strict=True)):
        inner = area._replace(top=area.top + TITLE_STRIP).shrunk(16, 10)
        if diagram.layout == "rows":
            cells = [cell.shrunk(18, 0) for cell in inner.columns(len(panel.labels))]
        else:
            cells = [cell.shrunk(0, 12) for cell in inner.rows(len(panel.labels))]
        # Every second phase of a chain runs backwards, so that the step to the next phase is short.
        turned = number % 2 and diagram.layout != "fan"
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
    if len(label) <= LONGEST_WITH_ICON and area.height > 2.3 * SIDE:
        draw_icon(canvas, (area.center[0], area.top + 0.85 * SIDE), icon, tone)
        room = room._replace(top=area.top + 1.4 * SIDE)
    canvas.block(room, label, look.font_size, look.palette.ink)


def _listed(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
