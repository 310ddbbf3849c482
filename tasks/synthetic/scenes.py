"""Drawn text-to-image samples: a few plain shapes on a light ground, as a prompt asks for them.

Owns where shapes stand and how they are drawn. The shapes themselves stand in `shapes`, what is put wrong in a scene
in `scene_defects`. Lengths are pixels of the finished picture.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from random import Random

from PIL import Image, ImageDraw, ImageOps

from tasks.records import Requirement
from tasks.synthetic.canvas import Point
from tasks.synthetic.grounds import Ground, random_ground
from tasks.synthetic.looks import mixed
from tasks.synthetic.shapes import extent, silhouette

Part = tuple[int, int, int, int]
"""Left, top, right and bottom."""

SIDE = 384
"""Width and height of a scene."""
PAINTS = {
    "red": "#d3303a",
    "orange": "#f0872b",
    "yellow": "#f4cf35",
    "green": "#3f9b4f",
    "blue": "#2f6fc4",
    "purple": "#7d4bb0",
    "pink": "#f08fb8",
    "brown": "#7b4a2b",
    "black": "#26282d",
    "white": "#fdfdfd",
}
EDGE = 2
"""Width of the darker line round a shape."""
SPLIT = 0.08
"""How far the quarters of a broken shape are moved, as a share of its size."""

_PLACES: dict[int, tuple[tuple[Point, ...], ...]] = {
    1: (((0.5, 0.5),),),
    2: (
        ((0.27, 0.5), (0.73, 0.5)),
        ((0.5, 0.27), (0.5, 0.73)),
        ((0.28, 0.3), (0.72, 0.7)),
        ((0.72, 0.3), (0.28, 0.7)),
    ),
    3: (
        ((0.5, 0.26), (0.25, 0.72), (0.75, 0.72)),
        ((0.25, 0.28), (0.75, 0.28), (0.5, 0.74)),
        ((0.2, 0.2), (0.5, 0.5), (0.8, 0.8)),
    ),
    4: (
        ((0.27, 0.27), (0.73, 0.27), (0.27, 0.73), (0.73, 0.73)),
        ((0.2, 0.32), (0.4, 0.7), (0.6, 0.3), (0.8, 0.68)),
    ),
    5: (((0.22, 0.22), (0.78, 0.22), (0.5, 0.5), (0.22, 0.78), (0.78, 0.78)),),
}
"""How many shapes there are -> arrangements of their centers, as shares of the picture. None touch."""
_SIZES = {1: 0.46, 2: 0.35, 3: 0.28, 4: 0.27, 5: 0.23}
"""How many shapes there are -> the longer side of the largest, as a share of the picture."""
_SIDES: dict[str, tuple[Point, Point]] = {
    "left of": ((0.73, 0.5), (0.27, 0.5)),
    "right of": ((0.27, 0.5), (0.73, 0.5)),
    "above": ((0.5, 0.73), (0.5, 0.27)),
    "below": ((0.5, 0.27), (0.5, 0.73)),
}
"""Relation -> where the object stands that is related to, and where the one that is placed."""
_JITTER = 7


@dataclass(frozen=True)
class Thing:
    """One shape in a scene."""

    shape: str
    color: str
    """Name of one of the paints."""
    center: Point = (0, 0)
    size: float = 0
    """Longer side."""
    faded: float = 0
    """Share of the ground's color in its own: 0 to 1."""
    broken: bool = False
    """In four quarters that lie apart."""
    covered: bool = False
    """With a blank card in front of most of it."""


@dataclass(frozen=True)
class Scene:
    """What one image shows, from the back to the front."""

    ground: Ground
    things: tuple[Thing, ...]

    def draw(self) -> Image.Image:
        """The picture, RGB."""
        sheet = self.ground.lay(SIDE)
        for thing in self.things:
            _draw(sheet, thing, self.ground.color)
            if thing.covered:
                _draw_card(sheet, thing, self.ground.color)
        return sheet


def random_scene(required: Sequence[Requirement], random: Random) -> Scene:
    """A scene that has what is required, with places, sizes and all other colors chosen by `random`."""
    free = [color for color in PAINTS if color not in {one.color for one in required}]
    random.shuffle(free)
    things: list[Thing] = []
    for one in required:
        things += [Thing(one.name, one.color or free.pop())] * one.count
    ground = random_ground(random, dark=any(thing.color == "white" for thing in things))
    relation = next((one.relation for one in required if one.relation), "")
    return arranged(Scene(ground, tuple(things)), relation, random)


def arranged(scene: Scene, relation: str, random: Random) -> Scene:
    """The scene with its shapes put in their places, none of which touch."""
    count = len(scene.things)
    centers = _SIDES[relation] if relation and count == 2 else random.choice(_PLACES[count])
    uniform = random.uniform(0.9, 1)
    things = [
        replace(
            thing,
            center=(x * SIDE + random.uniform(-_JITTER, _JITTER), y * SIDE + random.uniform(-_JITTER, _JITTER)),
            size=_SIZES[count] * SIDE * uniform * (random.uniform(0.85, 1) if count == 2 else 1),
        )
        for thing, (x, y) in zip(scene.things, centers, strict=True)
    ]
    return replace(scene, things=tuple(things))


def _draw(sheet: Image.Image, thing: Thing, ground: str) -> None:
    size = extent(thing.shape, thing.size)
    mask, figure = silhouette(thing.shape, size), _painted(thing, size, ground)
    left, top = round(thing.center[0] - size[0] / 2), round(thing.center[1] - size[1] / 2)
    for part, (x, y) in _quarters(size, SPLIT * thing.size) if thing.broken else [((0, 0, *size), (0, 0))]:
        sheet.paste(figure.crop(part), (left + part[0] + x, top + part[1] + y), mask.crop(part))


def _painted(thing: Thing, size: tuple[int, int], ground: str) -> Image.Image:
    color = mixed(PAINTS[thing.color], ground, thing.faded)
    light, edge = mixed(color, "#ffffff", 0.14 * (1 - thing.faded)), mixed(color, "#000000", 0.3 * (1 - thing.faded))
    figure = Image.new("RGB", size, edge)
    sheen = ImageOps.colorize(Image.linear_gradient("L").resize(size), light, color)
    figure.paste(sheen, mask=silhouette(thing.shape, size, EDGE))
    return figure


def _quarters(size: tuple[int, int], gap: float) -> Iterator[tuple[Part, tuple[int, int]]]:
    """Parts of a rectangle, and how far each is moved."""
    (width, height), (x, y) = size, (size[0] // 2, size[1] // 2)
    for right, lower in product((False, True), repeat=2):
        part = (x if right else 0, y if lower else 0, width if right else x, height if lower else y)
        # The halves also slip along each other, so that no cut runs through all four.
        moved = (
            (gap if right else -gap) + (gap / 2 if lower else 0),
            (gap if lower else -gap) + (gap / 2 if right else 0),
        )
        yield part, (round(moved[0]), round(moved[1]))


def _draw_card(sheet: Image.Image, thing: Thing, ground: str) -> None:
    (x, y), half = thing.center, thing.size / 2
    card = [round(value) for value in (x - 1.15 * half, y - 0.3 * half, x + 1.15 * half, y + 1.15 * half)]
    ImageDraw.Draw(sheet).rectangle(card, mixed(ground, "#000000", 0.22), mixed(ground, "#000000", 0.45), EDGE)
