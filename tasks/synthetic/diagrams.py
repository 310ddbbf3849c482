"""Method diagrams for the drawn samples: what they show, and the text that goes with them.

The words come from `topics`, the picture from `diagram_drawing`; which diagrams are spoilt, and how, is chosen in
`defects`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import pairwise, product
from random import Random

from PIL import Image

from tasks.synthetic.diagram_drawing import LAYOUTS, Layout, Panel, draw_diagram
from tasks.synthetic.looks import PALETTES, Look
from tasks.synthetic.topics import METHODS, Method

EASY_BOXES = 8
"""Diagrams with at most this many boxes count as easy."""


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
        """What the layout shows at first sight."""
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
        return draw_diagram(self.layout, self.panels, self.links, self.look)


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


def _listed(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
