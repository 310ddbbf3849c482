"""What is put wrong in a drawn text-to-image sample on purpose, and in which category of prompts.

Owns the names of the kinds, as they stand in `labels.json`. Every kind spoils what some aspect of the category's rubric
asks about.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from random import Random

from tasks.synthetic.scene_drawing import PAINTS, Thing
from tasks.synthetic.scenes import Scene, arranged

CLEAN_SCENE = "clean"
KINDS: dict[str, tuple[str, ...]] = {
    "single_object": ("fragmented", "camouflaged", "hidden", "missing"),
    "two_object": ("missing", "overlapping", "uneven", "hidden", "fragmented"),
    "counting": ("wrong_count", "uneven", "overlapping"),
    "colors": ("wrong_color", "camouflaged"),
    "position": ("mirrored", "overlapping", "missing", "hidden"),
    "color_attr": ("swapped_colors", "wrong_color", "camouflaged", "missing"),
}
"""Tag -> kinds of its defects."""
SCENE_DEFECTS = frozenset(kind for kinds in KINDS.values() for kind in kinds)

_FADED = 0.92
_DWARFED = 0.24
_OVERLAP = 0.45
"""Distance of the nearest two overlapping shapes, as a share of their size."""


def spoilt_scene(scene: Scene, kind: str, random: Random) -> Scene:
    """The scene with the defect of this kind put in; as it is when the kind is `clean`."""
    return scene if kind == CLEAN_SCENE else _CHANGES[kind](scene, random)


def _first(scene: Scene, change: Callable[[Thing], Thing]) -> Scene:
    return replace(scene, things=(change(scene.things[0]), *scene.things[1:]))


def _wrong_count(scene: Scene, random: Random) -> Scene:
    fewer, more = scene.things[1:], (*scene.things, scene.things[0])
    return arranged(replace(scene, things=random.choice((fewer, more))), "", random)


def _wrong_color(scene: Scene, random: Random) -> Scene:
    # White hardly shows on the ground of colored shapes.
    free = [color for color in PAINTS if color not in ("white", *(thing.color for thing in scene.things))]
    return _first(scene, lambda thing: replace(thing, color=random.choice(free)))


def _swapped_colors(scene: Scene, _: Random) -> Scene:
    one, other = scene.things
    return replace(scene, things=(replace(one, color=other.color), replace(other, color=one.color)))


def _mirrored(scene: Scene, _: Random) -> Scene:
    one, other = scene.things
    return replace(scene, things=(replace(one, center=other.center), replace(other, center=one.center)))


def _overlapping(scene: Scene, _: Random) -> Scene:
    centers = [thing.center for thing in scene.things]
    middle = sum(x for x, _ in centers) / len(centers), sum(y for _, y in centers) / len(centers)
    pull = (
        _OVERLAP * min(thing.size for thing in scene.things) / min(math.dist(*two) for two in combinations(centers, 2))
    )
    pulled = [tuple(m + pull * (value - m) for value, m in zip(center, middle, strict=True)) for center in centers]
    things = zip(scene.things, pulled, strict=True)
    return replace(scene, things=tuple(replace(thing, center=center) for thing, center in things))


_CHANGES: dict[str, Callable[[Scene, Random], Scene]] = {
    "missing": lambda scene, _: replace(scene, things=scene.things[1:]),
    "hidden": lambda scene, _: _first(scene, lambda thing: replace(thing, covered=True)),
    "fragmented": lambda scene, _: _first(scene, lambda thing: replace(thing, broken=True)),
    "camouflaged": lambda scene, _: _first(scene, lambda thing: replace(thing, faded=_FADED)),
    "uneven": lambda scene, _: _first(scene, lambda thing: replace(thing, size=_DWARFED * thing.size)),
    "wrong_count": _wrong_count,
    "wrong_color": _wrong_color,
    "swapped_colors": _swapped_colors,
    "mirrored": _mirrored,
    "overlapping": _overlapping,
}
