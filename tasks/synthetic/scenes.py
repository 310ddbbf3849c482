"""Drawn text-to-image samples: a few plain shapes on a light ground, as a prompt asks for them.

Owns which shapes a scene has and where they stand. How they are drawn is in `scene_drawing`, what is put wrong in a
scene in `scene_defects`. Lengths are pixels of the finished picture.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from PIL import Image

from tasks.records import Requirement
from tasks.synthetic.canvas import Point
from tasks.synthetic.scene_drawing import PAINTS, Ground, Thing, draw_thing, random_ground

SIDE = 384
"""Width and height of a scene."""

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
class Scene:
    """What one image shows, from the back to the front."""

    ground: Ground
    things: tuple[Thing, ...]

    def draw(self) -> Image.Image:
        """The picture, RGB."""
        sheet = self.ground.lay(SIDE)
        for thing in self.things:
            draw_thing(sheet, thing, self.ground.color)
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
